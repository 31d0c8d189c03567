// Tiles of a warp that meet by themselves, atomic_ref, and integer instructions of CUDA's headers.
#include <cooperative_groups.h>
#include <cuda/atomic>

namespace cg = cooperative_groups;

// Each tile of 8 reverses its values in shared memory, the tiles at their own pace.
extern "C" __global__ void reversed(const int* x, int* out) {
  __shared__ int box[256];
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int at = threadIdx.x, first = at - tile.thread_rank();
  int v = x[at];
  for (int i = 0; i < v % 3; ++i) v = v * 5 % 7919;
  box[at] = v;
  tile.sync();
  out[at] = box[first + 7 - tile.thread_rank()];
}

extern "C" __global__ void counted(const int* x, int* counts, float* sum) {
  const int v = x[blockIdx.x * blockDim.x + threadIdx.x];
  cuda::atomic_ref<int, cuda::thread_scope_device> total(counts[0]), most(counts[1]), seen(counts[2]);
  total.fetch_add(v, cuda::memory_order_relaxed);
  most.fetch_max(v);
  seen.fetch_or(1 << (v & 31), cuda::memory_order_acq_rel);
  cuda::atomic_ref<float, cuda::thread_scope_system>(*sum).fetch_add(0.25f);
}

extern "C" __global__ void packed(const unsigned* x, unsigned* out) {
  const unsigned a = x[threadIdx.x], b = x[threadIdx.x + 32];
  out[4 * threadIdx.x] = __vabsdiffu4(a, b);
  out[4 * threadIdx.x + 1] = __vsadu4(a, b);
  out[4 * threadIdx.x + 2] = __viaddmax_s32_relu(int(a), int(b), -5);
  out[4 * threadIdx.x + 3] = __vimax3_s16x2_relu(a, b, 0x00010001);
}

// Every block writes, the whole grid meets, every block reads what another wrote.
extern "C" __global__ void whole_grid(const int* x, int* box, int* out) {
  auto grid = cg::this_grid();
  const int at = grid.thread_rank(), other = grid.size() - 1 - at;
  box[at] = x[at];
  grid.sync();
  out[at] = box[other];
  grid.sync();
  box[at] = 2 * x[at];
  grid.sync();
  out[at] += box[other];
}
