// The problem that each kernel's mutants run on.
#include "kernels/gemm/sm90_plan.hpp"
#include "kernels/norm/rows.hpp"
#include "kernels/quantize/quantize.hpp"
#include "runtime/src/configs.hpp"
#include "tests/problems/products.hpp"
#include "tests/support/ledger_names.hpp"
#include "tests/virtual/mutation/drawn.hpp"
#include "tests/virtual/mutation/judge.hpp"

#include <algorithm>
#include <stdexcept>

namespace wltest {

// The product behind the norm.
const char* product_of(const Kernel& kernel) {
  if (kernel.profile == "b200") return "gemm_sm100_pair_n64_h16_f32";
  return kernel.problem.out == OutputType::f16 ? "gemm_sm90_f16_t64c64_f32"
                                               : "gemm_sm90_bf16_t64c64_f32";
}

namespace {

// Of the ledger's names in kernels/norm/rows.inc, held.inc and held_units.inc; rows have a
// residual.
std::string names_of_rows(const Kernel& kernel, int tables) {
  warpline::DeviceLimits device;
  device.sm_count = kernel.sms;
  device.shared_bytes_per_block = 232448;
  const DualGemmCase& c = kernel.problem;
  const bool held = kernel.name.find("_held_") != std::string::npos;
  const warpline::quantize::Config* config =
      warpline::find_config(warpline::quantize::configs(), kernel.name.c_str());
  const bool units = config != nullptr && config->units;
  const warpline::norm::Work work =
      units  ? warpline::norm::share_out_units(c.m, c.k, c.l, true, config->norm, device)
      : held ? warpline::norm::share_out_held(c.m, c.k, c.l, true, device)
             : warpline::norm::share_out(c.m, c.k, c.l, true, tables, device);
  vgpu::check::LedgerNames names;
  if (kernel.run == Kernel::Run::norm_linear) {
    names = ledger_names(*find_config(product_of(kernel)));
    names["EDGES"] = "1";
  }
  names["TEAM"] = std::to_string(work.team_warps);
  names["S"] = std::to_string(units ? work.slots * work.teams : work.slots);
  names["F"] = std::to_string((work.slots + work.teams - 1) / work.teams * work.teams);
  names["ROW"] = std::to_string(4 * c.k);
  if (held) names["W"] = std::to_string(work.teams * work.team_warps);
  return names_text(names);
}

// A problem of a few tiles with an edge in every direction, on a device so small that each cluster
// makes several of them, and with more K tiles than stages or scale sets where one tile has to show
// it.
Kernel kernel_of(const warpline::Image& image) {
  Kernel r;
  r.name = r.config = image.name;
  r.text = image.text();
  DualGemmCase& c = r.problem;
  c.seed = 11;
  c.unwritten = true; // as users leave them
  if (r.name.rfind("quantize_", 0) == 0) {
    r.run = Kernel::Run::quantize;
    r.profile = r.name.find("sm100") != std::string::npos ? "b200" : "h200";
    c.m = 300;
    c.k = 1024;
    c.out = r.name.find("bf16") != std::string::npos ? OutputType::bf16 : OutputType::f16;
    c.config = r.config;
    r.short_k = 256;
    const bool rms = r.name.find("_rms_") != std::string::npos;
    if (rms || r.name.find("_layer_") != std::string::npos) {
      if (r.name.find("_held_") != std::string::npos) c.m = 40, c.k = 2304;
      if (r.name.find("_units_") != std::string::npos) c.m = 140, c.k = 2304; // 128, and the rest
      r.short_k = c.k; // its names are of one K
      r.names = names_of_rows(r, rms ? 1 : 2);
    }
    return r;
  }
  if (r.name.rfind("norm_linear_", 0) == 0) {
    r.run = Kernel::Run::norm_linear;
    r.profile = r.name.find("sm100") != std::string::npos ? "b200" : "h200";
    c.m = 24;
    c.n = c.k = 576; // the product behind it
    c.out = r.name.find("bf16") != std::string::npos ? OutputType::bf16 : OutputType::f16;
    const bool rms = r.name.find("_rms_") != std::string::npos;
    const bool factors = r.name.find("_rstd_") != std::string::npos;
    if (factors) c.m = 300; // more rows than slots, as those of quantisers
    const bool warps =
        r.name.find("_k1024_") != std::string::npos || r.name.find("_k4096_") != std::string::npos;
    // Each kernel where the library takes it.
    if (r.name.find("_k4096_") != std::string::npos) c.m = 40, c.n = c.k = 1088;
    if (factors && !warps && r.profile == "h200") c.m = 40, c.n = c.k = 4160;
    r.short_k = c.k; // its names are of one K
    if (r.name.find("_fold_") == std::string::npos)
      r.names = names_of_rows(r, factors ? 0 : rms ? 1 : 2);
    return r;
  }
  if (r.name.starts_with("moe_") || r.name.starts_with("grouped_") ||
      r.name == "gemm_sm100_decode" || r.name == "gemm_sm90_pack") {
    const Drawn drawn = drawn_for(r.name);
    if (drawn.operation == nullptr)
      throw std::runtime_error("no configuration of tests/problems launches " + r.name);
    r.run = Kernel::Run::drawn;
    r.profile = drawn.configuration->profile;
    r.sms = drawn.configuration->sms;
    r.ledger = !drawn.configuration->name.starts_with("moe_up_") &&
               !drawn.configuration->name.starts_with("moe_down_") &&
               r.name != "gemm_sm100_decode" && r.name != "gemm_sm90_pack";
    if (const warpline::gemm::Config* product = find_config(drawn.configuration->name)) {
      vgpu::check::LedgerNames names = ledger_names(*product);
      names["EDGES"] = "1";
      r.names = names_text(names);
    }
    r.short_k = c.k; // they have sizes of their own
    return r;
  }
  if (r.name == "dual_gemm_sm90_decode" || r.name == "dual_gemm_sm90_permute")
    r.config = "dual_gemm_sm90_t32_f16";
  if (r.name == "dual_gemm_sm90_permute") c.a_type = WL_OPERAND_F16;
  const warpline::gemm::Config* config = find_config(r.config);
  if (!config)
    throw std::runtime_error(r.name + " has no problem to run its mutants on: make_kernel in " +
                             __FILE__ + " must say what the kernel is run as");
  const int ctas = config->cluster[0];
  vgpu::check::LedgerNames names = ledger_names(*config);
  names["EDGES"] = "1";
  r.names = names_text(names);
  c.config = r.config;
  c.out = config->d_type == WL_BF16 ? OutputType::bf16 : OutputType::f16;
  r.d_type = config->d_type;
  if (config->b_tensors == 1)
    r.run = Kernel::Run::linear;
  else if (config->d_type == WL_NVFP4)
    r.run = Kernel::Run::dual_gemm_nvfp4;
  if (std::string(config->target).starts_with("sm_100")) {
    using warpline::gemm::Grid;
    r.profile = "b200";
    r.sms = config->grid == Grid::stream_k ? 3 * ctas : ctas; // of STREAM_K, clusters share tiles
    // Two or three row tiles; three where a CTA pair takes accumulator sets in turn, so that rows
    // beyond M meet both sets. Clusters of STREAM_K shall meet inside tiles: three share eight.
    const bool in_turn = config->cluster_m == 2 && config->acc_stages == 2;
    c.m = config->cluster_m == 4 || (in_turn && config->grid != Grid::stream_k) ? 520 : 300;
    // Of a CTA alone two, too: ranges of three rows of tiles would end where tiles do.
    if (config->grid == Grid::stream_k && config->cluster_m == 1) c.m = 200;
    // Two column tiles of the cluster, the last of them with an empty tile; or tiles that share a
    // scale atom.
    const int columns = config->columns() * config->cluster_n;
    c.n = columns > 128 ? 600 : config->cluster_n == 2 ? 168 : 200;
    if (config->d_type == WL_NVFP4) c.n = (c.n + 63) / 64 * 64;
    // Enough tiles for the ring of tile slots to wrap where clusters share them, and for a cluster
    // to meet again the accumulators of the tile that it began with.
    if (config->grid == Grid::stream_k &&
        (config->kind == warpline::gemm::Kind::mx || columns == 128 || config->tile_n == 128))
      c.n *= 2;
    // A row of tiles for whose last tile a CTA has no columns; another row meets that tile's
    // accumulators.
    if (config->cluster_n > 1 && config->acc_stages > 1) c.l = 2;
    // Swapped operands: few rows in the last tile, so that half of its epilogue warps have none.
    if (config->swapped) c.m = 140;
    c.k = config->swapped        ? config->tile_k * (2 * config->stages + 2) * config->split_k - 64
          : config->split_k == 2 ? 3648
          : config->grid == Grid::one_tile ? 2112
          : config->cta_group == 2         ? 1728
                                           : 1472;
    // One product's ring has more stages: a whole turn of it, and a stage behind.
    if (config->b_tensors == 1 && !config->swapped)
      c.k = std::max(c.k, int64_t{config->tile_k} * (config->stages + 2) * config->split_k - 64);
    return r;
  }
  r.profile = "h200";
  r.sms = 2;
  // These start while the grid ahead ends, which then has used the same workspace and D.
  c.in_a_row = 2;
  c.quantised = config->fused(); // and these read operands that the grids ahead write
  c.m = config->tile_m == 256 ? 264 : config->tile_m + config->tile_m / 8 + 4;
  // Two tiles of all tokens; those of fewer are problems of loops.
  if (warpline::gemm::fits_rows(*config)) c.m = 2 * config->tile_m - 12;
  c.n = config->b_tensors == 1 && !config->fused() ? config->columns() + 8 : 72;
  // Every stage a second time: each barrier is initialised by an instruction of its own, and
  // kernels for few tokens have code of its own for each stage of activations.
  const int stages = config->family == warpline::gemm::Family::sm90_small
                         ? warpline::gemm::sm90_small_token_stages(config->tile_m, config->decoders,
                                                                   config->grouped)
                         : config->stages;
  c.k = config->tile_k * (2 * stages + 1) * config->split_k - 64;
  if (config->spread) {
    // CTAs of two tiles, which are all on the device at once and poll each other's flags in memory:
    // stages come round once.
    c.n = config->columns() - 8;
    c.k = config->tile_k * (stages + 1) * config->split_k - 64;
    r.sms = 2 * config->split_k;
  }
  if (config->helped) {
    // Three tiles and a helper of all of them, whose stages come round.
    c.m = config->tile_m - 5;
    c.n = 2 * config->columns() + 8;
    c.k = config->tile_k * 28 - 64;
    r.sms = 4;
  }
  // It loads ahead of the work before it where all its CTAs are on the device at once; rings come
  // round in the problems of loops.
  if (config->family == warpline::gemm::Family::sm90_stream) r.sms = 12;
  // Of STREAM_K three clusters meet inside tiles.
  if (config->family == warpline::gemm::Family::sm90 &&
      config->grid == warpline::gemm::Grid::stream_k)
    r.sms = 3 * config->cluster[0];
  if (config->family == warpline::gemm::Family::sm90_native) {
    // A storer's places come round: a tile of 16 tokens has one piece, and tiles are one cluster's,
    // or of STREAM_K three clusters', which meet inside tiles.
    r.sms = config->cluster[0] * config->cluster[1] *
            (config->grid == warpline::gemm::Grid::stream_k ? 3 : 1);
    if (config->tile_m == 16) c.n = 3 * config->columns() + 8;
    // Each consumer's turn comes again.
    if (config->ping_pong) c.n = 3 * config->columns() + 8;
    if (config->mn_major) c.m = (c.m + 7) / 8 * 8; // rows of memory of A are whole 16 bytes
  }
  return r;
}

} // namespace

Kernel make_kernel(const warpline::Image& image) {
  Kernel r = kernel_of(image);
  const DualGemmCase& c = r.problem;
  // Six problems with all that they vary cost more than one of a few tiles.
  r.work = r.run == Kernel::Run::drawn
               ? 3e8
               : static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  return r;
}

} // namespace wltest
