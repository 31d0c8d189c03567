// The wmma API: a tiled product of half matrices, and bytes in column-major order.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// c = a b, of m x k and k x n halves, a warp for each 16 x 16 of c.
extern "C" __global__ void product(const half* a, const half* b, float* c, int n, int k) {
  const int row = 16 * blockIdx.y, column = 16 * (blockIdx.x * blockDim.y + threadIdx.y);
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(x, a + row * k + i, k);
    wmma::load_matrix_sync(y, b + i * n + column, n);
    wmma::mma_sync(sum, x, y, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] < 0 ? 0 : 2 * sum.x[i];
  wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

// d = a b + c of bytes, 8 x 32 x 16, all in column-major order.
extern "C" __global__ void bytes(const signed char* a, const signed char* b, int* d) {
  wmma::fragment<wmma::matrix_a, 8, 32, 16, signed char, wmma::col_major> x;
  wmma::fragment<wmma::matrix_b, 8, 32, 16, signed char, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 8, 32, 16, int> sum;
  wmma::load_matrix_sync(x, a, 16);
  wmma::load_matrix_sync(y, b, 16);
  wmma::load_matrix_sync(sum, d, 8, wmma::mem_col_major);
  wmma::mma_sync(sum, x, y, sum);
  wmma::store_matrix_sync(d, sum, 8, wmma::mem_col_major);
}
