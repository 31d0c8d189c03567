/* A layer of experts: every token goes to two of four experts with NVFP4 weights, whose outputs are
 * weighted and added up. Tokens are BF16; where the device multiplies them with NVFP4 they are
 * taken as they are, else quantised once.
 *
 *     cc moe.c $(pkg-config --cflags --libs warpline) -o moe && ./moe */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <warpline/warpline.h>

enum { TOKENS = 6, HIDDEN = 128, INTERMEDIATE = 64, EXPERTS = 4, TOP_K = 2 };

static void must(wl_status status) {
  if (status == WL_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", wl_status_string(status), wl_last_error());
  exit(1);
}

static void* to_device(wl_context* context, const void* host, size_t bytes) {
  void* device = NULL;
  must(wl_malloc(context, bytes, &device));
  must(wl_upload(context, device, host, bytes));
  return device;
}

/* Every byte of `bytes` is `byte`. */
static void* filled(wl_context* context, size_t bytes, int byte) {
  void* host = malloc(bytes);
  memset(host, byte, bytes);
  void* device = to_device(context, host, bytes);
  free(host);
  return device;
}

/* Of all experts: weights 0.5 (E2M1 code 1) with scales 1 (E4M3 0x38). */
static const void* weights(wl_context* context, int rows, int k) {
  return filled(context, (size_t)EXPERTS * rows * k / 2, 0x11);
}
static const void* scales(wl_context* context, int rows, int k) {
  return filled(context, EXPERTS * wl_sf_bytes(WL_SF_128x4, rows, k), 0x38);
}

int main(void) {
  wl_context* context = NULL;
  must(wl_context_create(0, &context));
  wl_device_info device = {.struct_size = sizeof device};
  must(wl_device_get_info(0, &device));

  /* Token t is t / 8 everywhere; it goes to experts t mod 4 and 3. An id of another device, 9, is
   * passed over. */
  static uint16_t x[TOKENS][HIDDEN];
  int32_t ids[TOKENS][TOP_K];
  float mixing[TOKENS][TOP_K];
  for (int t = 0; t < TOKENS; ++t) {
    const float value = (float)t / 8;
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < HIDDEN; ++i) x[t][i] = (uint16_t)(bits >> 16);
    ids[t][0] = t % 4, ids[t][1] = t == 5 ? 9 : 3;
    mixing[t][0] = 0.75f, mixing[t][1] = 0.25f;
  }

  wl_moe_args args = {.struct_size = sizeof args};
  args.tokens = TOKENS, args.hidden = HIDDEN, args.intermediate = INTERMEDIATE;
  args.experts = EXPERTS, args.top_k = TOP_K;
  args.x = to_device(context, x, sizeof x);
  args.x_type = WL_BF16;
  args.a_type = device.compute_major == 9 ? WL_OPERAND_BF16 : WL_OPERAND_NVFP4;
  args.ids = to_device(context, ids, sizeof ids);
  args.weights = to_device(context, mixing, sizeof mixing);
  args.w_gate = args.w_up = weights(context, INTERMEDIATE, HIDDEN);
  args.sf_gate = args.sf_up = scales(context, INTERMEDIATE, HIDDEN);
  args.w_down = weights(context, HIDDEN, INTERMEDIATE);
  args.sf_down = scales(context, HIDDEN, INTERMEDIATE);
  float alpha[EXPERTS];
  for (int e = 0; e < EXPERTS; ++e) alpha[e] = 1.0f / 64;
  args.alpha_gate = args.alpha_up = args.alpha_down = to_device(context, alpha, sizeof alpha);
  static float y[TOKENS][HIDDEN];
  args.y = filled(context, sizeof y, 0xFF);
  args.y_type = WL_F32;

  wl_plan* plan = NULL;
  must(wl_moe_plan(context, &args, &plan));
  wl_plan_info info = {.struct_size = sizeof info};
  must(wl_plan_get_info(plan, &info));
  void* workspace = NULL;
  must(wl_malloc(context, info.workspace_bytes, &workspace));
  must(wl_plan_run(plan, workspace, info.workspace_bytes, NULL));
  must(wl_stream_synchronize(context, NULL));
  must(wl_download(context, y, args.y, sizeof y));

  /* Gate and up are t / 8; an expert makes half of silu(t / 8) * t / 8, and token 5 gets three
   * quarters of that. NVFP4 has four bits. */
  const float expected[TOKENS] = {0, 0.0042f, 0.0176f, 0.0417f, 0.0778f, 0.0954f};
  int wrong = 0;
  for (int t = 0; t < TOKENS; ++t)
    for (int i = 0; i < HIDDEN; ++i) {
      const float error = y[t][i] - expected[t];
      wrong += !(error < 0.01f && error > -0.01f);
    }
  printf("%s, %d launches: %d of %d outputs wrong\n", device.name, info.launches, wrong,
         TOKENS * HIDDEN);
  wl_plan_destroy(plan);
  return wrong != 0;
}
