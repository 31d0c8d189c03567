// cuRAND's Philox generator.
#include <curand_kernel.h>
extern "C" __global__ void numbers(uint4* out, unsigned long long seed) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, threadIdx.x, 4, &state);
  out[threadIdx.x] = curand4(&state);
}
