// Blackwell's configurations of all operations on the engine against the embedded PTX: sizes,
// memory maps, barriers.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/linear/linear.hpp"
#include "ptx/layouts.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ledger_names.hpp"
#include "tools/vgpu/trace/head.hpp"

#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace warpline;
using namespace warpline::gemm;

namespace {

std::vector<Config> blackwell_configs() {
  std::vector<Config> all;
  for (const Table* table : {&dual_gemm::configs(), &linear::configs()}) {
    const size_t before = all.size();
    for (const Config& config : *table)
      if (config.family == Family::sm100) all.push_back(config);
    REQUIRE(all.size() >= before + 20);
  }
  return all;
}

// The constant of the instruction descriptor: types that are arguments come on top, and with
// swapped operands N.
uint32_t instruction_desc(const Config& config) {
  const auto m = static_cast<uint32_t>(config.swapped ? 128 : config.tile_m);
  const auto n = static_cast<uint32_t>(config.swapped     ? 0
                                       : config.one_mma() ? 2 * config.tile_n
                                                          : config.tile_n);
  switch (config.kind) {
  case Kind::nvfp4:
    return ptx::fp4_instruction_desc(ptx::ScaleType::ue4m3, m, n);
  case Kind::mx:
    return ptx::mxf8_instruction_desc(ptx::Fp8Type::e4m3, ptx::Fp8Type::e4m3, m, n);
  case Kind::i8:
    return ptx::dense_instruction_desc(ptx::DenseType::f16, ptx::DenseType::f16,
                                       ptx::AccumulatorType::s32, m, n);
  default:
    return ptx::dense_instruction_desc(ptx::DenseType::f16, ptx::DenseType::f16,
                                       ptx::AccumulatorType::f32, m, n);
  }
}

std::string text_of(const Config& config) {
  const Image image = config.image();
  return image.text();
}

} // namespace

TEST_CASE("Blackwell configurations agree with their PTX", "[host][configs]") {
  for (const Config& config : blackwell_configs()) {
    INFO(config.name);
    const Image image = config.image();
    CHECK(image.name == config.name);
    CHECK(image.target == config.target);
    CHECK(image.ptx_major == 8);
    CHECK(image.ptx_minor == 8);
    const std::string text = text_of(config);
    CHECK(text.find(".visible .entry " + std::string(config.name) + "(") != std::string::npos);
    CHECK(text.find(".maxntid " + std::to_string(config.threads) + ", 1, 1") != std::string::npos);

    // What must fit: shared memory, and tensor memory for accumulators and scale sets.
    CHECK(config.stages >= 4);
    CHECK(config.shared_bytes <= 232448);
    CHECK((config.scale_sets >= 1) == (sm100_sfa_bytes(config) != 0));
    CHECK(config.scale_sets <= config.stages);
    CHECK(sm100_tmem_columns(config, config.scale_sets) <= static_cast<int>(ptx::tmem_columns));
    // One stage more finds no room, or would leave the ring with fewer scale sets than stages.
    const int more_bytes = config.shared_bytes + sm100_stage_bytes(config);
    const int more_columns = sm100_tmem_columns(config, config.scale_sets + 1);
    const bool own_sets =
        config.scale_sets == config.stages && more_columns > static_cast<int>(ptx::tmem_columns);
    CHECK((more_bytes > 232448 || own_sets));
    // Slices of a cluster are whole: groups of 8 rows of A and B, scale atoms.
    CHECK(config.cluster[0] == config.cluster_m * config.cluster_n * config.split_k);
    CHECK(config.cluster_m % config.cta_group == 0);
    CHECK(config.rows() % (8 * config.cluster_n) == 0);
    CHECK(config.tile_n % (8 * config.cluster_m) == 0);
    CHECK(4 % config.cluster_m == 0);
    CHECK(4 % config.cluster_n == 0);
    if (config.cluster[0] > 1)
      CHECK(text.find(".reqnctapercluster " + std::to_string(config.cluster[0]) + ", 1, 1") !=
            std::string::npos);

    // The address of the tensor memory allocation is the last word of the memory map.
    const int tmem_slot = config.shared_bytes - 8;
    CHECK(text.find("[shared_base + " + std::to_string(tmem_slot) + "]") != std::string::npos);
    // A stage's bytes are those that the two producers expect, for both CTAs of a pair.
    const int of_a = config.rows() * 128;
    const int scales_a = sm100_sfa_bytes(config), scales_b = sm100_sfb_bytes(config);
    const int operands = (sm100_stage_bytes(config) - scales_a - scales_b) / 1024 * 1024;
    const auto expects = [&](const char* part, int bytes) {
      INFO(part << bytes);
      CHECK(text.find(part + std::to_string(config.cta_group * bytes)) != std::string::npos);
    };
    if (config.kind == Kind::mx) { // rows of as many bytes as the arguments say
      expects("mul.lo.u32 of_rows, of_rows, ", config.rows());
      expects("mul.lo.u32 of_columns, of_columns, ", (operands - of_a) / 128);
    } else {
      if (!config.swapped) expects("mov.u32 of_rows, ", of_a); // else of as many rows as M has
      expects("mov.u32 of_columns, ", operands - of_a);
    }
    if (scales_a != 0) {
      expects("mov.u32 of_rows, ", scales_a);
      expects("mov.u32 of_columns, ", scales_b);
      CHECK(text.find("mov.u32 scale_high, 0x00004008;") != std::string::npos);
    }
    // What the cost model says arrives is what the barriers expect.
    Problem tile{config.rows() * config.cluster_m, config.columns() * config.cluster_n,
                 config.tile_k, 1, config.d_type};
    tile.types = config.first_types();
    CHECK(traffic(config, tile).delivered ==
          config.cluster_m * config.cluster_n * (operands + scales_a + scales_b) * config.split_k);
    // The descriptors and the instruction descriptor are the builders'.
    const char* const start = config.kind == Kind::nvfp4 ? "mov.u32 idesc, " : "u32 idesc, idesc, ";
    CHECK(text.find(start + std::to_string(instruction_desc(config)) + ";") != std::string::npos);
    CHECK(text.find("mov.u32 operand_high, 0x40004040;") != std::string::npos);
  }
}

TEST_CASE("the barrier ledger is the barriers that are initialised", "[host][configs]") {
  for (const Config& config : blackwell_configs()) {
    INFO(config.name);
    const std::string text = text_of(config);
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    const auto ledger = vgpu::trace::ledger_of(lines);
    const auto names = wltest::ledger_names(config);
    REQUIRE(ledger.size() == (config.kind == Kind::mx ? 6 : config.one_mma() ? 7 : 10));
    // Offsets follow the ledger's order: each barrier array starts where the one before it ends.
    const int ring = sm100_tile_ring(config.grid), queries = sm100_queries(config.grid);
    int offset = config.stages * sm100_stage_bytes(config) + sm100_exchange_bytes(config) +
                 sm100_staging_bytes(config.tile_n, config.store) + sm100_bias_bytes(config) +
                 sm100_slot_bytes(config.grid) * ring + 16 * queries;
    int barriers = 0;
    for (const auto& cells : ledger) {
      REQUIRE(cells.size() == 7);
      const int length = int(vgpu::check::formula_value(cells[1], names));
      if (length == 0) continue;
      const auto count = vgpu::check::formula_value(cells[2], names);
      INFO(cells[0] << " at " << offset << ", count " << count);
      CHECK(text.find("mbarrier.init.shared::cta.b64 [barrier + " + std::to_string(offset) + "], " +
                      std::to_string(count) + ";") != std::string::npos);
      offset += 8 * length;
      barriers += length;
    }
    CHECK(offset + 8 == config.shared_bytes);
    CHECK(barriers == sm100_barriers(config));
  }
}
