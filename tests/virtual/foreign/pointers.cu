// Indirect calls: a table of functions, virtual functions, recursion, functions that are not inlined.
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negate(int x) { return -x; }
using Operation = int (*)(int);
__device__ const Operation table[3] = {twice, square, negate};

extern "C" __global__ void through_table(const int* which, int* out) {
  const int i = threadIdx.x;
  out[i] = table[which[i]](i + 1);
}

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual float scaled(float by) const { return area() * by; }
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Box : Shape {
  float a, b;
  __device__ Box(float x, float y) : a(x), b(y) {}
  __device__ float area() const override { return a * b; }
  __device__ float scaled(float by) const override { return area() * by + 1; }
};
extern "C" __global__ void shapes(float* out, int odd) {
  Square s(float(threadIdx.x));
  Box b(float(threadIdx.x), 3.0f);
  const Shape* p = int(threadIdx.x) % 2 == odd ? static_cast<const Shape*>(&b) : &s;
  out[threadIdx.x] = p->scaled(2.0f);
}

__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursive(unsigned* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }

struct Big {
  int v[10];
};
__device__ __noinline__ Big rotate(Big b, int by) {
  Big r;
  for (int i = 0; i < 10; ++i) r.v[(i + by) % 10] = b.v[i];
  return r;
}
extern "C" __global__ void by_value(const Big in, int* out) {
  const Big r = rotate(in, threadIdx.x);
  for (int i = 0; i < 10; ++i) out[threadIdx.x * 10 + i] = r.v[i];
}
