// Tiles through padded shared memory, vector loads, a two-dimensional grid.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += blockDim.y)
    if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += blockDim.y)
    if (x < rows && y + j < columns) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void gather4(const float4* in, const int* index, float4* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 v = __ldg(&in[index[i]]);
  v.x *= 2;
  v.w = -v.w;
  out[i] = v;
}
