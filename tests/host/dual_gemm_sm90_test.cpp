// The Hopper configurations of the dual GEMM without a device: tables against the embedded PTX, and
// the choice.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/device_limits.hpp"

#include <string>
#include <vector>

WL_EMBEDDED_PTX(dual_gemm_sm90_decode);
WL_EMBEDDED_PTX(dual_gemm_sm90_permute);

using namespace warpline;
using namespace warpline::dual_gemm;

namespace {

DeviceLimits h200() { return wltest::h200_limits(); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("Hopper configurations agree with their PTX", "[host][dual_gemm]") {
  int count = 0;
  for (const Config& config : configs()) {
    if (std::string(config.target) != "sm_90a") continue;
    ++count;
    INFO(config.name);
    const Image image = config.image();
    CHECK(image.target == "sm_90a");
    const std::string text = image.text();
    CHECK(contains(text, ".visible .entry " + std::string(config.name) + "("));
    CHECK(contains(text, ".maxntid " + std::to_string(config.threads) + ", 1, 1"));
    CHECK(config.shared_bytes <= 232448);
    const std::string type = config.a_types == bit(WL_OPERAND_BF16) ? "bf16" : "f16";
    if (config.family == Family::sm90_native) {
      const int consumers = config.tile_n / 64;
      const int stage = sm90_native_stage_bytes(config.tile_m, consumers, 2);
      CHECK(stage % 1024 == 0); // 128-byte swizzle
      CHECK(contains(text, "stage_base, stage, " + std::to_string(stage) + ", shared_base;"));
      const int full = config.stages * stage + consumers * 2 * 8192;
      CHECK(contains(text, " + " + std::to_string(full) + "], "));
      const wl_operand a = config.first_types().a;
      const bool f8 = a == WL_OPERAND_E4M3;
      const std::string mma = ".m64n" + std::to_string(config.tile_m) +
                              (f8                     ? "k32.f32.e4m3.e4m3"
                               : a == WL_OPERAND_TF32 ? "k8.f32.tf32.tf32"
                               : a == WL_OPERAND_INT8 ? "k32.s32.s8.s8"
                                                      : "k16.f32." + type + "." + type);
      // What the tensor core makes of FP8 is added elsewhere, unless 14 bits of sums will do.
      const bool own_sums = !f8 || config.fast_sums;
      CHECK(contains(text, mma + " {acc0_0_0") == own_sums);
      CHECK(contains(text, mma + " {up0_0_0") == own_sums);
      CHECK(contains(text, mma + " {even0_0_0") != own_sums);
      continue;
    }
    CHECK(config.decodes());
    if (config.family == Family::sm90_stream) {
      CHECK(config.ctas * (config.shared_bytes + 1024) <= 233472);
      CHECK(contains(text, ".minnctapersm " + std::to_string(config.ctas)));
      const int stage = sm90_stream_stage_bytes(config.tile_m, config.first_types().a);
      CHECK(stage % 1024 == 0); // 128-byte swizzle
      const int full = config.stages * stage + sm90_stream_sum_bytes(config.tile_m);
      CHECK(contains(text, " + " + std::to_string(full) + "], "));
      CHECK(contains(text, ", " + std::to_string(stage) + ";"));
      CHECK(contains(text, "mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type + ".f32"));
      continue;
    }
    if (config.fused()) {
      CHECK(64 / config.tile_n * (config.shared_bytes + 1024) <= 233472); // CTAs of an SM
      CHECK(config.stages % 2 == 0);
      const int full = config.stages * sm90_small_stage_bytes(config.tile_n) +
                       sm90_small_token_stages(config.tile_m, config.decoders, config.grouped) *
                           sm90_small_token_bytes(config.tile_m) +
                       sm90_small_mma_columns(config.tile_m) * config.tile_n * 32;
      CHECK(contains(text, " + " + std::to_string(full) + "], "));
      CHECK(contains(text, ", " + std::to_string(sm90_small_stage_bytes(config.tile_n)) + ";"));
      CHECK(contains(text, config.tile_m == 1 ? "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
                                              : "mma.sync.aligned.m16n8k16.row.col.f32." + type +
                                                    "." + type + ".f32"));
      CHECK(contains(text, "st.async.shared::cluster"));
      continue;
    }
    // The stages, the outputs of each group of 32 columns, then the full barriers.
    const int stage = sm90_stage_bytes(config.tile_m, config.tile_n);
    CHECK(stage % 1024 == 0); // 128-byte swizzle
    const int full = config.stages * stage + config.tile_n / 32 * 2048 +
                     sm90_outputs_apart_bytes(config, config.b_tensors);
    CHECK(contains(text, " + " + std::to_string(full) + "], "));
    CHECK(contains(text, ".m64n" + std::to_string(config.tile_m) + "k16.f32." + type + "." + type));
    const int weights = stage - config.tile_m * 256;
    CHECK(contains(text, ", " + std::to_string(weights) + ";"));
    // Sums of other splits come into one stage, those of another set into half of all.
    if (config.split_k > 1) {
      CHECK(config.cluster[0] % config.split_k == 0);
      const int sums = config.tile_m * config.tile_n * 2 * 4;
      CHECK(stage >= sums / config.split_k * (config.split_k - 1));
      if (config.threads == 640) CHECK(config.stages / 2 * stage >= sums);
      CHECK(contains(text, "st.async.shared::cluster"));
    }
    // Two sets of consumers take stages in turn.
    if (config.threads == 640) CHECK(config.stages % 2 == 0);
  }
  CHECK(count >= 20);
  for (const Image& first : {WL_IMAGE(dual_gemm_sm90_decode), WL_IMAGE(dual_gemm_sm90_permute)}) {
    CHECK(first.target == "sm_90a");
    CHECK(contains(first.text(), "griddepcontrol.wait;"));
  }
}

TEST_CASE("the Hopper cost function chooses what was measured to be fastest", "[host][dual_gemm]") {
  const struct {
    int64_t m, n, k;
    const char* config;
  } shapes[] = {{1, 4096, 7168, "dual_gemm_sm90_small_t1_f16"},
                {2, 4096, 7168, "dual_gemm_sm90_small_t8_f16"},
                {8, 14336, 4096, "dual_gemm_sm90_small_t8_f16"},
                {16, 4096, 7168, "dual_gemm_sm90_small_t16_f16"},
                {32, 4096, 7168, "dual_gemm_sm90_t32_f16"},
                {48, 4096, 7168, "dual_gemm_sm90_t48_f16"},
                {64, 4096, 7168, "dual_gemm_sm90_t64_f16"},
                {40, 6144, 4096, "dual_gemm_sm90_t48x3_split_f16"},
                {40, 7168, 4096, "dual_gemm_sm90_t48_whole_f16"},
                {384, 3072, 4096, "dual_gemm_sm90_t96c96_f16"},
                {128, 4096, 7168, "dual_gemm_sm90_t128_split_f16"},
                {256, 4096, 7168, "dual_gemm_sm90_t128_f16"},
                {512, 4096, 7168, "dual_gemm_sm90_t256_f16"},
                {4096, 4096, 7168, "dual_gemm_sm90_t256_f16"},
                {256, 3072, 4096, "dual_gemm_sm90_t128c96_split_f16"},
                {512, 3072, 7168, "dual_gemm_sm90_t128c96_f16"}};
  for (const auto& shape : shapes) {
    const Config* config = choose_config({shape.m, shape.n, shape.k, 1, WL_F16}, h200());
    REQUIRE(config != nullptr);
    CHECK(std::string(config->name) == shape.config);
  }
  const Config* bf16 = choose_config({256, 4096, 7168, 1, WL_BF16}, h200());
  REQUIRE(bf16 != nullptr);
  CHECK(bf16->d_type == WL_BF16);
}

TEST_CASE("activations of 16 bits take Hopper's configurations of their type",
          "[host][dual_gemm]") {
  const struct {
    wl_operand a;
    wl_dtype d;
    int64_t m;
    const char* row; // null: there is none
  } cases[] = {{WL_OPERAND_F16, WL_F16, 1, "dual_gemm_sm90_small_af16_t8_f16"},
               {WL_OPERAND_F16, WL_F16, 16, "dual_gemm_sm90_stream_af16_t16_f16"},
               {WL_OPERAND_F16, WL_F16, 64, "dual_gemm_sm90_t64_f16"},
               {WL_OPERAND_F16, WL_F16, 128, "dual_gemm_sm90_t128_split_f16"},
               {WL_OPERAND_F16, WL_F16, 192, "dual_gemm_sm90_t256_split_f16"},
               {WL_OPERAND_F16, WL_F16, 256, "dual_gemm_sm90_direct_af16_t256_split_f16"},
               {WL_OPERAND_F16, WL_F16, 512, "dual_gemm_sm90_direct_af16_t256_f16"},
               {WL_OPERAND_F16, WL_BF16, 4096, "dual_gemm_sm90_t256_bf16"},
               {WL_OPERAND_BF16, WL_BF16, 8, "dual_gemm_sm90_small_abf16_t8_bf16"},
               {WL_OPERAND_BF16, WL_BF16, 64, "dual_gemm_sm90_abf16_t64_bf16"},
               {WL_OPERAND_BF16, WL_BF16, 128, "dual_gemm_sm90_abf16_t128_split_bf16"},
               {WL_OPERAND_BF16, WL_BF16, 192, "dual_gemm_sm90_abf16_t256_split_bf16"},
               {WL_OPERAND_BF16, WL_BF16, 256, "dual_gemm_sm90_direct_abf16_t256_split_bf16"},
               {WL_OPERAND_BF16, WL_BF16, 4096, "dual_gemm_sm90_direct_abf16_t256_bf16"},
               {WL_OPERAND_BF16, WL_F16, 64, nullptr},
               {WL_OPERAND_E4M3, WL_BF16, 64, nullptr}};
  for (const auto& c : cases) {
    Problem problem{c.m, 4096, 7168, 1, c.d};
    problem.types.a = c.a;
    INFO(c.m << " " << c.a);
    const Config* row = choose_config(problem, h200());
    CHECK((row == nullptr ? "" : std::string(row->name)) == (c.row == nullptr ? "" : c.row));
  }
}
