__device__ int factor = 3;
static __device__ int hidden = 40;
__device__ int twice(int x) { return 2 * x + hidden; }
