// The Hopper rows of the dual GEMM without a device: tables against the embedded PTX, and the
// choice.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <vector>

WL_EMBEDDED_PTX(dual_gemm_sm90_decode);

using namespace warpline;
using namespace warpline::dual_gemm;

namespace {

DeviceLimits h200() {
  DeviceLimits device;
  device.name = "H200";
  device.compute_major = 9;
  device.compute_minor = 0;
  device.sm_count = 132;
  device.shared_bytes_per_block = 232448;
  device.max_cluster = 8;
  device.max_cluster_nonportable = 16;
  return device;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("Hopper rows agree with their PTX", "[host][dual_gemm]") {
  int count = 0;
  for (const Config& row : configs()) {
    if (std::string(row.target) != "sm_90a") continue;
    ++count;
    INFO(row.name);
    const Image image = row.image();
    CHECK(image.target == "sm_90a");
    const std::string text = image.text();
    CHECK(contains(text, ".visible .entry " + std::string(row.name) + "("));
    CHECK(contains(text, ".maxntid " + std::to_string(row.threads) + ", 1, 1"));
    CHECK(row.shared_bytes <= 232448);
    CHECK(row.decodes());
    if (row.fused()) {
      CHECK(64 / row.tile_n * (row.shared_bytes + 1024) <= 233472); // CTAs of an SM
      CHECK(row.stages % 2 == 0);
      const int full =
          row.stages * sm90_small_stage_bytes(row.tile_n) +
          sm90_small_token_stages(row.tile_m, row.decoders) * sm90_small_token_bytes(row.tile_m) +
          sm90_small_mma_columns(row.tile_m) * row.tile_n * 32;
      CHECK(contains(text, " + " + std::to_string(full) + "], "));
      CHECK(contains(text, ", " + std::to_string(sm90_small_stage_bytes(row.tile_n)) + ";"));
      CHECK(contains(text, row.tile_m == 1 ? "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
                                           : "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
      CHECK(contains(text, "st.async.shared::cluster"));
      continue;
    }
    // The stages, the outputs of each group of 32 columns, then the full barriers.
    const int stage = sm90_stage_bytes(row.tile_m, row.tile_n);
    CHECK(stage % 1024 == 0); // 128-byte swizzle
    const int full = row.stages * stage + row.tile_n / 32 * 2048;
    CHECK(contains(text, " + " + std::to_string(full) + "], "));
    CHECK(contains(text, ".m64n" + std::to_string(row.tile_m) + "k16.f32.f16.f16"));
    const int weights = stage - row.tile_m * 256;
    CHECK(contains(text, ", " + std::to_string(weights) + ";"));
    // Sums of other splits need room where stages were.
    if (row.split_k > 1) {
      CHECK(row.cluster[0] % row.split_k == 0);
      CHECK(row.stages * stage >= 65536 + row.tile_m * 512);
      CHECK(contains(text, "st.async.shared::cluster"));
    }
    // Two sets of consumers take stages in turn.
    if (row.threads == 640) CHECK(row.stages % 2 == 0);
  }
  CHECK(count >= 20);
  const Image decoder = WL_IMAGE(dual_gemm_sm90_decode);
  CHECK(decoder.target == "sm_90a");
  CHECK(contains(decoder.text(), "griddepcontrol.wait;"));
}

TEST_CASE("the Hopper cost function chooses what was measured to be fastest", "[host][dual_gemm]") {
  const struct {
    int64_t m, n, k;
    const char* row;
  } shapes[] = {{1, 4096, 7168, "dual_gemm_sm90_small_t1_f16"},
                {2, 4096, 7168, "dual_gemm_sm90_small_t8_f16"},
                {8, 14336, 4096, "dual_gemm_sm90_small_t8_f16"},
                {16, 4096, 7168, "dual_gemm_sm90_small_t16_f16"},
                {32, 4096, 7168, "dual_gemm_sm90_t32_f16"},
                {64, 4096, 7168, "dual_gemm_sm90_t64_f16"},
                {128, 4096, 7168, "dual_gemm_sm90_t128_split_f16"},
                {256, 4096, 7168, "dual_gemm_sm90_t128_f16"},
                {512, 4096, 7168, "dual_gemm_sm90_t256_f16"},
                {4096, 4096, 7168, "dual_gemm_sm90_t256_f16"},
                {256, 3072, 4096, "dual_gemm_sm90_t128c96_split_f16"},
                {512, 3072, 7168, "dual_gemm_sm90_t128c96_f16"}};
  for (const auto& shape : shapes) {
    const Config* row = choose_config({shape.m, shape.n, shape.k, 1, WL_F16}, h200());
    REQUIRE(row != nullptr);
    CHECK(std::string(row->name) == shape.row);
  }
  const Config* bf16 = choose_config({256, 4096, 7168, 1, WL_BF16}, h200());
  REQUIRE(bf16 != nullptr);
  CHECK(bf16->d_type == WL_BF16);
}
