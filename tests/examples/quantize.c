/* A gated layer from BF16 matrices: the library quantises x, b1 and b2 to NVFP4 and multiplies. The
 * matrices hold nothing but E2M1 numbers, with a 6 in every block, so quantisation is exact and D
 * is silu(x.b1^T / 64) * (x.b2^T / 64) but for FP16's rounding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpline/warpline.h>

enum { M = 130, N = 136, K = 256 };

static void must(wl_status status) {
  if (status == WL_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", wl_status_string(status), wl_last_error());
  exit(1);
}

static void* device(wl_context* context, const void* host, size_t bytes) {
  void* pointer;
  must(wl_malloc(context, bytes, &pointer));
  if (host) must(wl_upload(context, pointer, host, bytes));
  return pointer;
}

/* Element k of row r of matrix `which`. */
static float element(int which, int r, int k) {
  static const float levels[8] = {6, 0, 0.5f, 1, 1.5f, 2, 3, 4};
  const float magnitude = levels[(k + r * (which + 1)) % 8];
  return (r + k / 8 + which) % 3 ? magnitude : -magnitude;
}

static void* bf16_matrix(wl_context* context, int which, int rows) {
  unsigned short* host = malloc((size_t)rows * K * sizeof *host);
  for (int i = 0; i < rows * K; i++) {
    const float value = element(which, i / K, i % K);
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    host[i] = (unsigned short)(bits >> 16); /* these values end in 16 zero bits */
  }
  void* pointer = device(context, host, (size_t)rows * K * sizeof *host);
  free(host);
  return pointer;
}

/* Enqueues the quantisation of x; *values and *scales are its outputs. */
static void quantize(wl_context* context, void* x, int rows, const void** values,
                     const void** scales) {
  void* d = device(context, NULL, (size_t)rows * K / 2);
  void* sfd = device(context, NULL, wl_sf_bytes(WL_SF_128x4, rows, K));
  wl_quantize_args args = {.struct_size = sizeof args, .m = rows, .k = K, .l = 1, .x = x};
  wl_plan* plan;
  args.x_type = WL_BF16, args.d = d, args.sfd = sfd; /* d_scale null: 1 */
  must(wl_quantize_plan(context, &args, &plan));
  must(wl_plan_run(plan, NULL, 0, NULL));
  must(wl_stream_synchronize(context, NULL)); /* before the plan goes */
  wl_plan_destroy(plan);
  *values = d, *scales = sfd;
}

int main(void) {
  static unsigned short d[M * N];
  const float alpha = 1.0f / 64;
  wl_context* context;
  wl_plan* plan;
  must(wl_context_create(0, &context));
  wl_dual_gemm_args args = {.struct_size = sizeof args, .m = M, .n = N, .k = K, .l = 1};
  quantize(context, bf16_matrix(context, 0, M), M, &args.a, &args.sfa);
  quantize(context, bf16_matrix(context, 1, N), N, &args.b1, &args.sfb1);
  quantize(context, bf16_matrix(context, 2, N), N, &args.b2, &args.sfb2);
  args.alpha1 = args.alpha2 = device(context, &alpha, sizeof alpha);
  args.d = device(context, NULL, sizeof d), args.d_type = WL_F16;
  must(wl_dual_gemm_plan(context, &args, &plan));
  wl_plan_info info = {.struct_size = sizeof info};
  must(wl_plan_get_info(plan, &info));
  const size_t bytes = info.workspace_bytes;
  must(wl_plan_run(plan, bytes ? device(context, NULL, bytes) : NULL, bytes, NULL));
  must(wl_download(context, d, args.d, sizeof d));
  int wrong = 0;
  for (int i = 0; i < M * N; i++) {
    double gate = 0, up = 0;
    for (int k = 0; k < K; k++) {
      gate += (double)element(0, i / N, k) * element(1, i % N, k) / 64;
      up += (double)element(0, i / N, k) * element(2, i % N, k) / 64;
    }
    const double right = gate / (1 + exp(-gate)) * up;
    const int exponent = d[i] >> 10 & 31, fraction = d[i] & 1023; /* of an FP16 number */
    const double found = (d[i] & 0x8000 ? -1 : 1) * ldexp(exponent ? 1024 + fraction : fraction,
                                                          (exponent ? exponent : 1) - 25);
    wrong += !(exponent < 31 && fabs(found - right) <= 1e-3 + 1e-3 * fabs(right));
  }
  printf("%d of %d outputs wrong\n", wrong, M * N);
  wl_plan_destroy(plan);
  return wrong != 0;
}
