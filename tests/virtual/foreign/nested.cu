// Recursion of functions with local arrays, to which pointers are handed down. With debug information.
__device__ __noinline__ int permutations(int* a, int n, int k, unsigned* sum) {
  int copy[8];
  for (int i = 0; i < n; ++i) copy[i] = a[i];
  if (k == n) {
    unsigned v = 0;
    for (int i = 0; i < n; ++i) v = v * 10 + a[i];
    *sum = *sum * 31 + v;
    return 1;
  }
  int found = 0;
  for (int i = k; i < n; ++i) {
    const int t = copy[k];
    copy[k] = copy[i];
    copy[i] = t;
    found += permutations(copy, n, k + 1, sum);
  }
  return found;
}
extern "C" __global__ void permute(int* out, unsigned* sums) {
  int a[8];
  const int n = 2 + threadIdx.x % 4;
  for (int i = 0; i < n; ++i) a[i] = (i + threadIdx.x) % 10;
  unsigned sum = 0;
  out[threadIdx.x] = permutations(a, n, 0, &sum);
  sums[threadIdx.x] = sum;
}

// Pointers into every activation below.
struct Chain {
  const Chain* next;
  int value;
};
__device__ __noinline__ int deep(const Chain* up, int n) {
  const Chain here{up, n};
  if (n > 0) return deep(&here, n - 1);
  int s = 0;
  for (const Chain* c = &here; c; c = c->next) s = s * 3 + c->value;
  return s;
}
extern "C" __global__ void chain(int* out) { out[threadIdx.x] = deep(nullptr, threadIdx.x); }

// Two functions in turn.
__device__ void sort(int* a, int n);
__device__ __noinline__ void merge(int* a, int n) {
  int t[32];
  const int h = n / 2;
  sort(a, h);
  sort(a + h, n - h);
  for (int i = 0, j = h, k = 0; k < n; ++k) t[k] = j == n || (i < h && a[i] <= a[j]) ? a[i++] : a[j++];
  for (int k = 0; k < n; ++k) a[k] = t[k];
}
__device__ __noinline__ void sort(int* a, int n) {
  if (n > 1) merge(a, n);
}
extern "C" __global__ void merge_sort(const int* in, int* out) {
  int a[32];
  for (int i = 0; i < 32; ++i) a[i] = in[threadIdx.x * 32 + i];
  sort(a, 32);
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = a[i];
}
