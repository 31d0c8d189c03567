// wl_norm_linear without a device: both sides of every rule.
#include "kernels/norm_linear/norm_linear.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/stub_memory.hpp"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace warpline;
using namespace warpline::norm_linear;
using wltest::ContainsSubstring;

namespace {

template <class T = void>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

struct Case {
  wl_norm_linear_args args{};
  DeviceLimits device;
  Case() {
    device.name = "H200";
    device.compute_major = 9;
    device.sm_count = 132;
    device.shared_bytes_per_block = 232448;
    device.max_cluster = 8;
    args.struct_size = sizeof args;
    args.m = 256, args.n = 512, args.k = 1024;
    args.x = at(0x010000000000), args.w = at(0x020000000000), args.d = at(0x030000000000);
    args.gamma = at(0x040000000000), args.beta = at(0x050000000000);
    args.residual = at(0x060000000000), args.sum = at(0x070000000000);
    args.bias = at(0x080000000000), args.alpha = at<float>(0x090000000000);
    args.x_type = WL_F16, args.w_type = WL_OPERAND_F16, args.d_type = WL_F16;
    args.norm = WL_NORM_LAYER, args.eps = 1e-5f;
  }
};
using Change = std::function<void(Case&)>;

void nvfp4(Case& c) {
  c.args.w_type = WL_OPERAND_NVFP4;
  c.args.sfw = at(0x0a0000000000), c.args.a_scale = at<float>(0x0b0000000000);
}
void folded(Case& c) {
  c.args.form = WL_NORM_FOLDED;
  c.args.gamma = c.args.beta = nullptr;
}

struct Sides {
  std::string id;
  std::vector<Change> accepted;
  struct Refusal {
    Change change;
    std::string sentence;
  };
  std::vector<Refusal> refused;
};

constexpr int64_t kHuge = int64_t{1} << 30;
const void* const host = reinterpret_cast<const void*>(wltest::host_window);
const void* const below_host = reinterpret_cast<const void*>(wltest::host_window - 16);

// The rules that every operand has: alignment, reach and, with D, overlap.
template <class Field>
std::vector<Sides> operand(
    const std::string& id, const std::string& name, Field field, uint64_t bytes,
    const Change& first = [](Case&) {}) {
  const auto set = [=](uint64_t address) -> Change {
    return [=](Case& c) {
      first(c);
      c.args.*field =
          at<std::remove_pointer_t<std::remove_reference_t<decltype(c.args.*field)>>>(address);
    };
  };
  return {{id + "_aligned", {set(0x0c0000000010)}, {{set(0x0c0000000002), name + ": address"}}},
          {id + "_reachable",
           {set(wltest::host_window - 16)},
           {{set(wltest::host_window), name + ": address 0x7fff"}}},
          {"d_overlaps_" + id,
           {set(0x030000000000 - bytes)},
           {{set(0x030000000000 - bytes + 16), "D: "}}}};
}

const std::vector<Sides>& sides() {
  static const std::vector<Sides> all = [] {
    std::vector<Sides> s = {
        {"device",
         {[](Case& c) { c.device.compute_major = 9; }},
         {{[](Case& c) { c.device.compute_major = 8; }, "compute capability 8.0"}}},
        {"m_range",
         {[](Case& c) { c.args.m = 1; }},
         {{[](Case& c) { c.args.m = 0; }, "M = 0 must be from 1"},
          {[](Case& c) { c.args.m = kHuge + 1; }, "M = 1073741825 must be from 1"}}},
        {"n_range",
         {[](Case& c) { c.args.n = 8; }},
         {{[](Case& c) { c.args.n = 0; }, "N = 0 must be from 8"},
          {[](Case& c) { c.args.n = kHuge + 8; }, "N = 1073741832 must be from 8"}}},
        {"n_multiple",
         {[](Case& c) { c.args.n = 16; }},
         {{[](Case& c) { c.args.n = 12; }, "N = 12 must be a multiple of 8 columns"}}},
        {"k_range",
         {[](Case& c) { c.args.k = 64; }, [](Case& c) { c.args.k = 32768; }},
         {{[](Case& c) { c.args.k = 0; }, "K = 0 must be from 64 to 32768"},
          {[](Case& c) { c.args.k = 32832; }, "K = 32832 must be from 64 to 32768"}}},
        {"k_multiple",
         {[](Case& c) { c.args.k = 128; }},
         {{[](Case& c) { c.args.k = 100; }, "K = 100 must be a multiple of 64"}}},
        {"tiles",
         {[](Case& c) { c.args.m = 1 << 20; }},
         {{[](Case& c) {
             c.args.m = c.args.n = 1 << 22, c.args.k = 64, c.args.residual = nullptr;
             c.args.sum = nullptr, c.args.d = at(0x100000000000);
           },
           "must make fewer than 2^31 tiles"}}},
        {"x_type",
         {[](Case& c) {
           c.args.x_type = c.args.d_type = WL_BF16, c.args.w_type = WL_OPERAND_BF16;
           c.args.gamma_type = WL_F32;
         }},
         {{[](Case& c) { c.args.x_type = WL_F32, c.args.gamma_type = WL_F32; },
           "x_type = 3 must be WL_F16"}}},
        {"w_type",
         {nvfp4},
         {{[](Case& c) { c.args.w_type = WL_OPERAND_BF16; },
           "w_type = 2 must be x_type's operand type or WL_OPERAND_NVFP4 (0) (nearest: 0, 1)"}}},
        {"d_type",
         {[](Case& c) { c.args.d_type = WL_F32; }},
         {{[](Case& c) { c.args.d_type = WL_BF16; },
           "d_type = WL_BF16 must be a type that the device makes of W's (nearest: WL_F16, "
           "WL_F32)"}}},
        {"norm",
         {[](Case& c) { c.args.norm = WL_NORM_RMS, c.args.beta = nullptr; }},
         {{[](Case& c) { c.args.norm = WL_NORM_NONE; }, "norm = 0 must be WL_NORM_RMS (1)"}}},
        {"form",
         {folded},
         {{[](Case& c) { c.args.form = static_cast<wl_norm_form>(2); }, "form = 2 must be"}}},
        {"activation",
         {[](Case& c) { c.args.activation = WL_ACTIVATION_GELU_ERF; }},
         {{[](Case& c) { c.args.activation = static_cast<wl_activation>(6); },
           "activation = 6 must be"}}},
        {"sf_layout",
         {[](Case& c) { nvfp4(c), c.args.sf_layout = WL_SF_PLAIN; }},
         {{[](Case& c) { c.args.sf_layout = static_cast<wl_sf_layout>(2); }, "sf_layout = 2"},
          {[](Case& c) { c.args.sf_layout = WL_SF_PLAIN, c.device.compute_major = 10; },
           "sf_layout = 1 must be WL_SF_128x4 (0), or on Hopper WL_SF_PLAIN (1)"}}},
        {"flags",
         {[](Case& c) { c.args.flags = WL_GRAPH_LAUNCH; }},
         {{[](Case& c) { c.args.flags = WL_STATIC_WEIGHTS; }, "flags = 1 must be 0 or"}}},
        {"eps",
         {[](Case& c) { c.args.eps = 1; }},
         {{[](Case& c) { c.args.eps = 0; }, "eps = 0 must be positive and finite"},
          {[](Case& c) { c.args.eps = NAN; }, "eps = nan"}}},
        {"gamma_type",
         {[](Case& c) { c.args.gamma_type = WL_F32; }},
         {{[](Case& c) { c.args.gamma_type = WL_BF16; },
           "gamma_type = 1 must be x_type or WL_F32 (3) (nearest: 0, 3)"}}},
        {"bias_type",
         {[](Case& c) { c.args.bias_type = WL_F32; }},
         {{[](Case& c) { c.args.bias_type = WL_NVFP4; }, "bias_type = 2 must be"}}},
        {"x_null", {}, {{[](Case& c) { c.args.x = nullptr; }, "X: address is null"}}},
        {"w_null", {}, {{[](Case& c) { c.args.w = nullptr; }, "W: address is null"}}},
        {"d_null", {}, {{[](Case& c) { c.args.d = nullptr; }, "D: address is null"}}},
        {"d_aligned",
         {[](Case& c) { c.args.d = at(0x030000000010); }},
         {{[](Case& c) { c.args.d = at(0x030000000008); }, "D: address"}}},
        {"d_reachable",
         {[](Case& c) { c.args.d = const_cast<void*>(below_host); }},
         {{[](Case& c) { c.args.d = const_cast<void*>(host); }, "D: address 0x7fff"}}},
        {"sfw_null",
         {nvfp4},
         {{[](Case& c) { nvfp4(c), c.args.sfw = nullptr; }, "SFW: address is null"}}},
        {"sfw_unused",
         {nvfp4},
         {{[](Case& c) { c.args.sfw = at(0x0a0000000000); },
           "SFW = 0xa0000000000 must be null for a type without block scales"}}},
        {"a_scale_unused",
         {nvfp4},
         {{[](Case& c) { c.args.a_scale = at<float>(0x0b0000000000); },
           "a_scale = 0xb0000000000 must be null for a type without block scales"}}},
        {"beta_layer",
         {[](Case&) {}},
         {{[](Case& c) { c.args.norm = WL_NORM_RMS; }, "beta = 0x50000000000 must be null"}}},
        {"sum_residual",
         {[](Case& c) { c.args.residual = c.args.sum = nullptr; }},
         {{[](Case& c) { c.args.residual = nullptr; }, "must be null without a residual"}}},
        {"sum_overlaps",
         {[](Case& c) { c.args.sum = const_cast<void*>(c.args.residual); }},
         {{[](Case& c) { c.args.sum = at(0x060000000010); }, "sum: "},
          {[](Case& c) { c.args.sum = at(0x010000000000); }, "sum: "},
          {[](Case& c) { c.args.sum = at(0x020000000000); }, "sum: "}}},
        {"folded_weights",
         {folded},
         {{[](Case& c) { nvfp4(c), folded(c); },
           "w_type = 0 must have no block scales in the folded form (nearest: 1)"}}},
        {"folded_gamma",
         {folded},
         {{[](Case& c) { folded(c), c.args.gamma = at(0x040000000000); },
           "gamma = 0x40000000000 must be null in the folded form"}}},
        {"folded_beta",
         {folded},
         {{[](Case& c) { folded(c), c.args.beta = at(0x050000000000); },
           "beta = 0x50000000000 must be null in the folded form"}}},
        {"folded_ldx",
         {[](Case& c) { folded(c), c.args.ldx = 1024; }, [](Case& c) { c.args.ldx = 1032; }},
         {{[](Case& c) { folded(c), c.args.ldx = 1032; },
           "ldx = 1032 must be 0 or K in the folded form (nearest: 0, 1024)"}}},
        {"folded_ldr",
         {[](Case& c) { folded(c), c.args.ldr = 1024; }, [](Case& c) { c.args.ldr = 1032; }},
         {{[](Case& c) { folded(c), c.args.ldr = 1032; },
           "ldr = 1032 must be 0 or K in the folded form (nearest: 0, 1024)"}}},
        {"folded_sum",
         {folded, [](Case& c) { c.args.sum = nullptr; }},
         {{[](Case& c) { folded(c), c.args.sum = nullptr; },
           "sum is null must not be null in the folded form with a residual"}}},
        {"ldx_covers",
         {[](Case& c) { c.args.ldx = 1024; }},
         {{[](Case& c) { c.args.ldx = 1016; }, "ldx = 1016 must be 0 or at least K"}}},
        {"ldx_multiple",
         {[](Case& c) { c.args.ldx = 1032; }},
         {{[](Case& c) { c.args.ldx = 1028; }, "ldx = 1028 must be a multiple of 8"}}},
        {"ldr_covers",
         {[](Case& c) { c.args.residual = c.args.sum = nullptr, c.args.ldr = 8; }},
         {{[](Case& c) { c.args.ldr = 1016; }, "ldr = 1016 must be 0 or at least K"}}},
        {"ldr_multiple",
         {[](Case& c) { c.args.ldr = 1032; }},
         {{[](Case& c) { c.args.ldr = 1028; }, "ldr = 1028 must be a multiple of 8"}}},
        {"ldd_covers",
         {[](Case& c) { c.args.ldd = 512; }},
         {{[](Case& c) { c.args.ldd = 504; }, "ldd = 504 must be 0 or at least N"}}},
        {"ldd_multiple",
         {[](Case& c) { c.args.ldd = 520; }},
         {{[](Case& c) { c.args.ldd = 516; }, "ldd = 516 must be a multiple of 8"}}},
        {"x_size",
         {},
         {{[](Case& c) { c.args.ldx = int64_t{1} << 40, c.args.x = at(0x1000000000000); },
           "X: X takes 2^47 bytes or more"}}},
        {"residual_size",
         {},
         {{[](Case& c) {
             c.args.ldr = int64_t{1} << 40, c.args.residual = at(0x1000000000000);
             c.args.sum = nullptr;
           },
           "residual: residual takes 2^47 bytes or more"}}},
        {"d_size",
         {},
         {{[](Case& c) { c.args.ldd = int64_t{1} << 40, c.args.d = at(0x1000000000000); },
           "D: D takes 2^47 bytes or more"}}},
        {"config_known",
         {[](Case& c) { c.args.config = "gemm_sm90_f16_t128_f16"; }},
         {{[](Case& c) { c.args.config = "gemm_sm90_f16_t129_f16"; },
           "must name a configuration of wl_gemm (nearest: gemm_sm90_f16_t128_f16"}}},
        {"config_runs",
         {[](Case& c) { c.args.config = "gemm_sm90_f16_t128_f16"; }},
         {{[](Case& c) { c.args.config = "gemm_sm90_bf16_t128_bf16"; },
           "but it multiplies other types, must be a configuration of wl_gemm for this device"}}},
    };
    using Args = wl_norm_linear_args;
    const auto add = [&](std::vector<Sides> more) { s.insert(s.end(), more.begin(), more.end()); };
    const uint64_t x = 2 * 256 * 1024;
    add(operand("x", "X", &Args::x, x));
    add(operand("w", "W", &Args::w, 2 * 512 * 1024));
    add(operand("sfw", "SFW", &Args::sfw, 512 * 1024 / 16, nvfp4));
    add(operand("a_scale", "a_scale", &Args::a_scale, 16, nvfp4));
    add(operand("alpha", "alpha", &Args::alpha, 16));
    add(operand("gamma", "gamma", &Args::gamma, 2 * 1024));
    add(operand("beta", "beta", &Args::beta, 2 * 1024));
    add(operand("bias", "bias", &Args::bias, 2 * 512));
    add(operand("residual", "residual", &Args::residual, x));
    add(operand("sum", "sum", &Args::sum, x));
    return s;
  }();
  return all;
}

std::vector<Violation> violations_of(const Change& change) {
  Case c;
  change(c);
  return rules().violations({c.args, c.device, wltest::stub_memory()});
}

} // namespace

TEST_CASE("both sides of every rule of wl_norm_linear", "[host][norm_linear]") {
  CHECK(violations_of([](Case&) {}).empty());
  std::set<std::string> tried;
  for (const Sides& rule : sides()) {
    INFO("rule " << rule.id);
    tried.insert(rule.id);
    for (const Change& change : rule.accepted)
      for (const Violation& v : violations_of(change)) {
        INFO(v.sentence());
        CHECK(v.rule.id != rule.id);
      }
    CHECK_FALSE(rule.refused.empty());
    for (const Sides::Refusal& refusal : rule.refused) {
      const std::vector<Violation> found = violations_of(refusal.change);
      std::string all;
      for (const Violation& v : found) all += v.sentence() + "; ";
      INFO(all);
      REQUIRE(found.size() == 1);
      CHECK(found[0].rule.id == rule.id);
      CHECK_THAT(found[0].sentence(), ContainsSubstring(refusal.sentence));
    }
  }
  for (const RuleRow& row : rules().rows()) {
    INFO("rule " << row.id << " has no cases");
    CHECK(tried.count(row.id) == 1);
  }
}
