// With linked_part.cu: nvcc -rdc=true, whose device code the driver links. Prints "ok".
#include <cstdio>

extern __device__ int factor;
__device__ int twice(int x);
static __device__ int hidden = 1; // linked_part.cu has one of that name, too

__global__ void run(int* out) { out[threadIdx.x] = twice(int(threadIdx.x)) * factor + hidden; }

int main() {
  int *out = nullptr, host[32], seven = 7;
  if (cudaMalloc(&out, sizeof host) != cudaSuccess) return 1;
  if (cudaMemcpyToSymbol(factor, &seven, sizeof seven) != cudaSuccess) return 2;
  run<<<1, 32>>>(out);
  if (cudaGetLastError() != cudaSuccess) return 3;
  if (cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) return 4;
  for (int i = 0; i < 32; ++i)
    if (host[i] != (2 * i + 40) * 7 + 1) return 5;
  printf("ok\n");
}
