// Sum, maximum and a scan over n values: warp shuffles, votes, redux, shared memory, a grid-wide atomic.
extern "C" __global__ void sum(const int* in, int n, int* total) {
  __shared__ int part[32];
  int mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    mine += in[i];
  for (int d = 16; d; d >>= 1) mine += __shfl_xor_sync(0xffffffff, mine, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < 32) {
    int v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    v = __reduce_add_sync(0xffffffff, v);
    if (threadIdx.x == 0) atomicAdd(total, v);
  }
}

extern "C" __global__ void largest(const float* in, int n, float* out) {
  extern __shared__ float tree[];
  float m = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, in[i]);
  tree[threadIdx.x] = m;
  for (int d = blockDim.x / 2; d; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) tree[threadIdx.x] = fmaxf(tree[threadIdx.x], tree[threadIdx.x + d]);
  }
  if (threadIdx.x == 0) *out = tree[0];
}

// One block: out[i] = number of set flags in front of i.
extern "C" __global__ void scan_flags(const unsigned char* flags, int n, int* out) {
  __shared__ int warps[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool flag = threadIdx.x < n && flags[threadIdx.x];
  const unsigned votes = __ballot_sync(0xffffffff, flag);
  if (lane == 0) warps[warp] = __popc(votes);
  __syncthreads();
  int before = __popc(votes & ((1u << lane) - 1));
  for (unsigned w = 0; w < warp; ++w) before += warps[w];
  if (threadIdx.x < n) out[threadIdx.x] = before;
}
