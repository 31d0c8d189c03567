// Bulk and tensor copies, mbarriers and pipelines through cuda::ptx and libcu++.
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#pragma nv_diag_suppress static_var_with_dynamic_init // by init() below
namespace ptx = cuda::ptx;

// One tile of a tensor map in, each value plus one, out again.
extern "C" __global__ void tile(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
                                int x, int y) {
  __shared__ alignas(128) int room[8][32];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    const int where[2] = {x, y};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, room, &from, where, &full);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof room);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
  }
  for (int i = threadIdx.x; i < 256; i += blockDim.x) room[i / 32][i % 32] += 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    const int where[2] = {x, y};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &to, where, room);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}

// A block-wide barrier of libcu++ and a bulk copy that counts on it.
extern "C" __global__ void bulk(const int* in, int* out) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(16) int room[256];
  __shared__ barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::experimental::cp_async_bulk_global_to_shared(room, in, sizeof room, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof room);
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < 256; i += blockDim.x) out[i] = room[i] * 2;
}

// Two stages of cp.async.
extern "C" __global__ void staged(const int4* in, int4* out, int n) {
  __shared__ int4 room[2][64];
  auto pipe = cuda::make_pipeline();
  auto fetch = [&](int s) {
    pipe.producer_acquire();
    if (s < n)
      cuda::memcpy_async(&room[s % 2][threadIdx.x], &in[s * 64 + threadIdx.x],
                         cuda::aligned_size_t<16>(sizeof(int4)), pipe);
    pipe.producer_commit();
  };
  fetch(0);
  for (int s = 0; s < n; ++s) {
    fetch(s + 1);
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    int4 v = room[s % 2][threadIdx.x];
    v.x += s;
    out[s * 64 + threadIdx.x] = v;
    pipe.consumer_release();
  }
}
