// Half, bfloat16, FP8 and FP4 arithmetic through CUDA's own headers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const __half2* a, const __half2* b, __half2* out, float* sums) {
  const int i = threadIdx.x;
  const __half2 x = a[i], y = b[i];
  out[4 * i] = __hfma2(x, y, __floats2half2_rn(0.5f, -0.5f));
  out[4 * i + 1] = __hmax2(x, y);
  out[4 * i + 2] = __h2div(x, y);
  out[4 * i + 3] = h2sqrt(__habs2(x));
  sums[i] = __half2float(__hadd(__low2half(x), __high2half(y))) + (__hlt(__low2half(x), __low2half(y)) ? 1 : 0);
}

extern "C" __global__ void brains(const float* in, __nv_bfloat16* out, float* back) {
  const int i = threadIdx.x;
  const __nv_bfloat16 x = __float2bfloat16(in[i]);
  out[i] = __hmul(x, __float2bfloat16(1.5f));
  back[i] = __bfloat162float(out[i]) - in[i];
}

extern "C" __global__ void narrow(const float2* in, unsigned char* fp8, unsigned char* fp4, float2* back) {
  const int i = threadIdx.x;
  const float2 v = in[i];
  const __nv_fp8x2_e4m3 e = __nv_fp8x2_e4m3(v);
  reinterpret_cast<__nv_fp8x2_storage_t*>(fp8)[i] = e.__x;
  fp4[i] = __nv_cvt_float2_to_fp4x2(v, __NV_E2M1, cudaRoundNearest);
  const __half2_raw h = __nv_cvt_fp4x2_to_halfraw2(fp4[i], __NV_E2M1);
  back[i] = __half22float2(__half2(h));
}
