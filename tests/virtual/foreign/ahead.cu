// A last block that finishes, dependent launches, parameters by address, constants, vector atomics,
// matches and masks.
#include <cuda_fp16.h>

__constant__ int weights[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ unsigned arrived;
struct Big {
  int v[40];
};
__device__ __noinline__ int at(const int* p, int i) { return p[i]; }

extern "C" __global__ void last_block(const int* in, int n, int* part, int* out,
                                      const __grid_constant__ Big big) {
  __shared__ int sum;
  __shared__ bool last;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  int s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    s += in[i] * weights[i % 16] + at(big.v, i % 40);
  atomicAdd_block(&sum, s);
  __syncthreads();
  if (threadIdx.x == 0) {
    reinterpret_cast<volatile int*>(part)[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int all = 0;
    for (int b = 0; b < gridDim.x; ++b) all += reinterpret_cast<volatile int*>(part)[b];
    *out = all;
  }
}

extern "C" __global__ void dependent(const int* in, int* out) {
  cudaGridDependencySynchronize();
  out[threadIdx.x] = in[threadIdx.x] + 1;
  cudaTriggerProgrammaticLaunchCompletion();
}

extern "C" __global__ void vector_atomics(float4* v, float2* w, __half2* h) {
  atomicAdd(v, make_float4(1, 2, 3, 4));
  atomicAdd(w, make_float2(0.5f, 0.25f));
  atomicAdd(h, __floats2half2_rn(1, 2));
}

extern "C" __global__ void match(const int* in, unsigned* out) {
  const int t = threadIdx.x;
  int all;
  out[t] = __match_any_sync(~0u, in[t]);
  out[32 + t] = __match_all_sync(~0u, in[t] >= 0, &all);
  out[64 + t] = __reduce_xor_sync(~0u, in[t]) + all;
  out[96 + t] = t % 3 ? __ballot_sync(__activemask(), in[t] & 1) : 7;
}
