/* D = silu(A.B1^T) * (A.B2^T) with constant operands: every output must be silu(2) * 4. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpline/warpline.h>

static void must(wl_status status) {
  if (status == WL_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", wl_status_string(status), wl_last_error());
  exit(1);
}

static void* filled(wl_context* context, int byte, size_t bytes) {
  void *device, *host = memset(malloc(bytes), byte, bytes);
  must(wl_malloc(context, bytes, &device));
  must(wl_upload(context, device, host, bytes));
  free(host);
  return device;
}

int main(void) {
  enum { M = 200, N = 512, K = 256 };
  static unsigned short d[M * N];
  wl_context* context;
  wl_plan* plan;
  must(wl_context_create(0, &context));
  wl_dual_gemm_args args = {.struct_size = sizeof args, .m = M, .n = N, .k = K, .l = 1};
  args.a = filled(context, 0x22, M * K / 2);  /* E2M1: 0x2 is 1.0, two values a byte */
  args.b1 = filled(context, 0x11, N * K / 2); /* 0x1 is 0.5 */
  args.b2 = filled(context, 0x22, N * K / 2);
  args.sfa = filled(context, 0x38, wl_sf_bytes(WL_SF_128x4, M, K));  /* E4M3: 0x38 is 1.0 */
  args.sfb1 = filled(context, 0x08, wl_sf_bytes(WL_SF_128x4, N, K)); /* 0x08 is 1/64 */
  args.sfb2 = filled(context, 0x08, wl_sf_bytes(WL_SF_128x4, N, K));
  args.d = filled(context, 0xff, sizeof d), args.d_type = WL_F16;
  must(wl_dual_gemm_plan(context, &args, &plan));
  wl_plan_info info = {.struct_size = sizeof info};
  must(wl_plan_get_info(plan, &info));
  size_t bytes = info.workspace_bytes; /* 0 for many plans */
  must(wl_plan_run(plan, bytes ? filled(context, 0, bytes) : NULL, bytes, NULL));
  must(wl_download(context, d, args.d, sizeof d));
  int wrong = 0; /* an FP16 number of this size is (1024 + fraction) * 2^(exponent - 25) */
  for (int i = 0; i < M * N; i++)
    wrong += fabs(ldexp(1024 + d[i] % 1024, d[i] / 1024 - 25) - 8 / (1 + exp(-2))) > 4e-3;
  printf("%d of %d outputs wrong\n", wrong, M * N);
  return wrong != 0;
}
