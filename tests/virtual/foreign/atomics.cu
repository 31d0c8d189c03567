// Atomics of every width on global and shared memory, scopes and a lock.
#include <cuda_fp16.h>

extern "C" __global__ void counters(int* i, unsigned long long* u, float* f, double* d, __half2* h) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&i[0], 1);
  atomicMin(&i[1], -t);
  atomicMax(&i[2], t);
  atomicInc(reinterpret_cast<unsigned*>(&i[3]), 99);
  atomicXor(&i[4], 1 << (t % 32));
  atomicAdd_block(&i[5], 2);
  atomicAdd(&u[0], 1ull << 33);
  atomicMax(&u[1], static_cast<unsigned long long>(t) << 40);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicAdd(h, __floats2half2_rn(1.0f, 2.0f));
}

extern "C" __global__ void histogram(const unsigned char* in, int n, unsigned* out) {
  __shared__ unsigned bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[in[i] % 16], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

// A lock that the first lane of each warp takes; the product of a compare-and-swap loop.
extern "C" __global__ void locked(int* lock, int* count, unsigned* product) {
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *reinterpret_cast<volatile int*>(count) = *reinterpret_cast<volatile int*>(count) + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
  unsigned seen = *product, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(product, assumed, assumed * 3);
  } while (seen != assumed);
}
