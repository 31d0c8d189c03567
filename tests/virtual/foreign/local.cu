// Local arrays, a switch, 64-bit division, double precision functions, globals and constants.
__constant__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ unsigned long long calls = 7;

extern "C" __global__ void sorted(const int* in, int* out) {
  int v[16];
  for (int i = 0; i < 16; ++i) v[i] = in[threadIdx.x * 16 + i];
#pragma unroll 1
  for (int i = 1; i < 16; ++i)
#pragma unroll 1
    for (int j = i; j > 0 && v[j - 1] > v[j]; --j) {
      const int t = v[j];
      v[j] = v[j - 1];
      v[j - 1] = t;
    }
#pragma unroll 1
  for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = v[i];
}

extern "C" __global__ void chosen(const int* op, const long long* a, long long* out) {
  const int i = threadIdx.x;
  const long long x = a[i];
  long long r = 0;
  switch (op[i]) {
  case 0: r = x / 7; break;
  case 1: r = x % 1000003; break;
  case 2: r = __popcll(x); break;
  case 3: r = __clzll(x); break;
  case 4: r = __mul64hi(x, x); break;
  case 5: r = __brevll(x); break;
  case 6: r = x << (i % 64); break;
  case 7: r = static_cast<unsigned long long>(x) / 10; break;
  default: r = -1;
  }
  out[i] = r;
  if (i == 0) atomicAdd(&calls, 1ull);
}

extern "C" __global__ void functions(const double* in, double* out, float* single) {
  const int i = threadIdx.x;
  const double x = in[i];
  out[4 * i] = exp(x) + sqrt(fabs(x));
  out[4 * i + 1] = sin(x) * cos(x);
  out[4 * i + 2] = log(fabs(x) + 1) / (x * x + 2);
  out[4 * i + 3] = fma(x, x, floor(x));
  single[i] = expf(float(x)) * weights[i % 8] + tanhf(float(x)) + __fdividef(1.0f, float(x) + 100);
}
