// CUB: a sort, a scan and a reduction of a block in shared memory.
#include <cub/cub.cuh>

struct Larger {
  __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

extern "C" __global__ void blocks(const int* in, int* out, int* prefix, int* largest) {
  using Sort = cub::BlockRadixSort<int, 64, 2>;
  using Scan = cub::BlockScan<int, 64>;
  using Reduce = cub::BlockReduce<int, 64>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Scan::TempStorage scan;
    typename Reduce::TempStorage reduce;
  } s;
  int v[2] = {in[threadIdx.x * 2], in[threadIdx.x * 2 + 1]}, p[2];
  Sort(s.sort).Sort(v);
  __syncthreads();
  Scan(s.scan).ExclusiveSum(v, p);
  __syncthreads();
  const int most = Reduce(s.reduce).Reduce(v, Larger{});
  for (int i = 0; i < 2; ++i) {
    out[threadIdx.x * 2 + i] = v[i];
    prefix[threadIdx.x * 2 + i] = p[i];
  }
  if (threadIdx.x == 0) *largest = most;
}
