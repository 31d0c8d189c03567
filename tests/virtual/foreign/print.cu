// Device printf and assert.
#include <cassert>
#include <cstdio>

extern "C" __global__ void print(int n, const char* words) {
  if (threadIdx.x == 1)
    printf("n = %d, x = %.3f, s = %s, %5u|%-4x|%c%% %lld\n", n, n * 0.5, words, threadIdx.x, 255u, 'z',
           1ll << 40);
  if (threadIdx.x == 2) printf("no arguments\n");
}

extern "C" __global__ void check(const int* in, int bound) {
  assert(in[threadIdx.x] < bound && "a value is out of bounds");
}

extern "C" __global__ void trapped(int* out) {
  if (threadIdx.x == 3) __trap();
  out[threadIdx.x] = 1;
}
