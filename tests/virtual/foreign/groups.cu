// Cooperative groups: tiles, coalesced threads, block and cluster, reduce and scan.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int* in, int* sums, int* scans, int* ranks) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int v = in[block.thread_rank()];
  const int sum = cg::reduce(tile, v, cg::plus<int>());
  if (tile.thread_rank() == 0) sums[block.thread_rank() / 8] = sum;
  scans[block.thread_rank()] = cg::exclusive_scan(tile, v, cg::plus<int>());
  if (v & 1) {
    const cg::coalesced_group odd = cg::coalesced_threads();
    ranks[block.thread_rank()] = int(odd.thread_rank() * 100 + odd.size());
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbours(const int* in, int* out) {
  __shared__ int mine[64];
  const cg::cluster_group cluster = cg::this_cluster();
  mine[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  cluster.sync();
  const int* other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = other[threadIdx.x] * 10 + int(cluster.block_rank());
  cluster.sync();
}

extern "C" __global__ void copied(const int* in, int* out, int n) {
  extern __shared__ int room[];
  const cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, room, in, sizeof(int) * n);
  cg::wait(block);
  for (int i = block.thread_rank(); i < n; i += block.size()) out[i] = room[n - 1 - i];
}
