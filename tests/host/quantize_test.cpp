// The quantiser without a device: both sides of every rule, shares of the work, configurations
// against their PTX, and the reference against the definition of NVFP4.
#include "kernels/norm/rows.hpp"
#include "kernels/quantize/quantize.hpp"
#include "tests/reference/quantize.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/stub_memory.hpp"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace warpline;
using namespace warpline::quantize;
using wltest::ContainsSubstring;

namespace {

template <class T = void>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

struct Case {
  wl_quantize_args args{};
  DeviceLimits device;
  Case() {
    device.name = "B200";
    device.compute_major = 10;
    device.sm_count = 148;
    device.shared_bytes_per_block = 232448;
    args.struct_size = sizeof args;
    args.m = 256, args.k = 7168, args.l = 1;
    args.x = at(0x010000000000), args.d = at(0x410000000000), args.sfd = at(0x510000000000);
    args.x_type = WL_F16;
    args.d_scale = at<float>(0x610000000000);
  }
};
using Change = std::function<void(Case&)>;

std::vector<Violation> violations_of(const Change& change) {
  Case c;
  change(c);
  return rules().violations({c.args, c.device, wltest::stub_memory()});
}

struct Sides {
  std::string id;
  std::vector<Change> accepted;
  struct Refusal {
    Change change;
    std::string sentence; // or how it starts
  };
  std::vector<Refusal> refused;
};

void rms(Case& c) {
  c.args.norm = WL_NORM_RMS, c.args.eps = 1e-6f, c.args.gamma = at(0x710000000000);
}
void layer(Case& c) {
  rms(c);
  c.args.norm = WL_NORM_LAYER, c.args.beta = at(0x720000000000);
}
void with_residual(Case& c) {
  layer(c);
  c.args.residual = at(0x730000000000), c.args.sum = at(0x740000000000);
}

constexpr int64_t kHuge = int64_t{1} << 30;

const std::vector<Sides>& sides() {
  static const std::vector<Sides> all = {
      {"device",
       {[](Case& c) { c.device.compute_minor = 3; }, [](Case& c) { c.device.compute_major = 9; }},
       {{[](Case& c) { c.device.compute_major = 8; },
         "device B200 has compute capability 8.0, which must run one of the library's targets "
         "(nearest: sm_100f, sm_90a)"}}},
      {"m_range",
       {[](Case& c) { c.args.m = 1; }, [](Case& c) { c.args.m = kHuge, c.args.k = 64; }},
       {{[](Case& c) { c.args.m = 0; }, "M = 0 must be from 1 to 2^30 rows (nearest: 1)"},
        {[](Case& c) { c.args.m = kHuge + 1; },
         "M = 1073741825 must be from 1 to 2^30 rows (nearest: 1073741824)"}}},
      {"k_range",
       {[](Case& c) { c.args.k = 64; }, [](Case& c) { c.args.k = kHuge; }},
       {{[](Case& c) { c.args.k = 0; }, "K = 0 must be from 64 to 2^30 elements (nearest: 64)"},
        {[](Case& c) { c.args.k = kHuge + 64; }, "K = 1073741888 must be from 64 to 2^30"}}},
      {"k_multiple",
       {[](Case& c) { c.args.k = 128; }},
       {{[](Case& c) { c.args.k = 7000; },
         "K = 7000 must be a multiple of 64 elements (nearest: 6976, 7040)"}}},
      {"l_range",
       {[](Case& c) { c.args.l = 1 << 20, c.args.m = 1, c.args.k = 64; }},
       {{[](Case& c) { c.args.l = 0; }, "L = 0 must be from 1 to 2^20 batch entries (nearest: 1)"},
        {[](Case& c) { c.args.l = (1 << 20) + 1; }, "L = 1048577 must be from 1 to 2^20"}}},
      {"x_type",
       {[](Case& c) { c.args.x_type = WL_BF16; }},
       {{[](Case& c) { c.args.x_type = WL_NVFP4; },
         "x_type = 2 must be WL_F16 (0) or WL_BF16 (1) (nearest: 1)"}}},
      {"sf_layout",
       {[](Case& c) { c.args.sf_layout = WL_SF_128x4; }},
       {{[](Case& c) { c.args.sf_layout = static_cast<wl_sf_layout>(1); },
         "sf_layout = 1 must be WL_SF_128x4 (0) (nearest: 0)"}}},
      {"flags",
       {[](Case& c) { c.args.flags = WL_GRAPH_LAUNCH; }},
       {{[](Case& c) { c.args.flags = WL_STATIC_WEIGHTS; },
         "flags = 1 must be 0 or WL_GRAPH_LAUNCH (2) (nearest: 0)"}}},
      {"x_null", {}, {{[](Case& c) { c.args.x = nullptr; }, "X: address is null, must not be"}}},
      {"d_null", {}, {{[](Case& c) { c.args.d = nullptr; }, "D: address is null, must not be"}}},
      {"sfd_null",
       {},
       {{[](Case& c) { c.args.sfd = nullptr; }, "SFD: address is null, must not be"}}},
      {"x_aligned",
       {[](Case& c) { c.args.x = at(0x010000000010); }},
       {{[](Case& c) { c.args.x = at(0x010000000008); },
         "X: address 0x10000000008 is 8 modulo 16, must be 16-byte aligned (nearest: "
         "0x10000000000, 0x10000000010)"}}},
      {"d_aligned",
       {[](Case& c) { c.args.d = at(0x410000000010); }},
       {{[](Case& c) { c.args.d = at(0x410000000004); }, "D: address 0x410000000004 is 4 modulo"}}},
      {"sfd_aligned",
       {[](Case& c) { c.args.sfd = at(0x510000000010); }},
       {{[](Case& c) { c.args.sfd = at(0x510000000001); }, "SFD: address 0x510000000001 is 1"}}},
      {"d_scale_aligned",
       {[](Case& c) { c.args.d_scale = nullptr; },
        [](Case& c) { c.args.d_scale = at<float>(0x610000000004); }},
       {{[](Case& c) { c.args.d_scale = at<float>(0x610000000002); },
         "d_scale: address 0x610000000002 is 2 modulo 4, must be 4-byte aligned"}}},
      {"x_reachable",
       {[](Case& c) { c.args.x = at(wltest::host_window - 16); }},
       {{[](Case& c) { c.args.x = at(wltest::host_window); },
         "X: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
         "reach (nearest: an upload to device 0, or registered memory)"}}},
      {"d_reachable",
       {[](Case& c) { c.args.d = at(wltest::host_window - 16); }},
       {{[](Case& c) { c.args.d = at(wltest::host_window); },
         "D: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
         "reach (nearest: an upload to device 0, or registered memory)"}}},
      {"sfd_reachable",
       {[](Case& c) { c.args.sfd = at(wltest::host_window - 16); }},
       {{[](Case& c) { c.args.sfd = at(wltest::host_window); },
         "SFD: address 0x7fff00000000 is the host's or was freed, must be memory that the device "
         "can reach (nearest: an upload to device 0, or registered memory)"}}},
      {"d_scale_reachable",
       {[](Case& c) { c.args.d_scale = at<float>(wltest::host_window - 16); }},
       {{[](Case& c) { c.args.d_scale = at<float>(wltest::host_window); },
         "d_scale: address 0x7fff00000000 is the host's or was freed, must be memory that the "
         "device can reach (nearest: an upload to device 0, or registered memory)"}}},
      {"ldx_covers",
       {[](Case& c) { c.args.ldx = 7168; }, [](Case& c) { c.args.ldx = 0; }},
       {{[](Case& c) { c.args.ldx = 7160; },
         "ldx = 7160 must be 0 or at least K elements (nearest: 0, 7168)"},
        {[](Case& c) { c.args.ldx = -8; }, "ldx = -8 must be 0 or at least K elements"}}},
      {"ldx_multiple",
       {[](Case& c) { c.args.ldx = 7176; }},
       {{[](Case& c) { c.args.ldx = 7172; },
         "ldx = 7172 must be a multiple of 8 elements (nearest: 7168, 7176)"}}},
      {"batch_stride_covers",
       {[](Case& c) { c.args.l = 2, c.args.ldx = 7176, c.args.batch_stride_x = 255 * 7176 + 7168; },
        [](Case& c) { c.args.batch_stride_x = 256 * 7168; }},
       {{[](Case& c) { c.args.batch_stride_x = 8; }, "batch_stride_x = 8 must be 0 or at least"},
        {[](Case& c) { c.args.l = 2, c.args.batch_stride_x = 256 * 7168 - 8; },
         "batch_stride_x = 1835000 must be 0 or at least (M - 1) * ldx + K elements (nearest: 0, "
         "1835008)"}}},
      {"batch_stride_multiple",
       {[](Case& c) { c.args.batch_stride_x = 256 * 7168 + 8; }},
       {{[](Case& c) { c.args.batch_stride_x = 256 * 7168 + 4; },
         "batch_stride_x = 1835012 must be a multiple of 8 elements"}}},
      {"x_size",
       {[](Case& c) { c.args.ldx = int64_t{1} << 38, c.args.x = at(0x1000000000000); }},
       {{[](Case& c) { c.args.ldx = int64_t{1} << 39, c.args.x = at(0x1000000000000); },
         "X: X takes 2^47 bytes or more, must be below 2^47 bytes"}}},
      {"sfd_size",
       {[](Case& c) {
         c.args.m = 1, c.args.l = 1 << 18, c.args.k = 1 << 25, c.args.x = at(0x100000000000),
         c.args.d = at(0x400000000000), c.args.sfd = at(0x1000000000000);
       }},
       {{[](Case& c) {
           c.args.m = 1, c.args.l = 1 << 20, c.args.k = 1 << 24, c.args.x = at(0x100000000000),
           c.args.d = at(0x400000000000), c.args.sfd = at(0x1000000000000);
         },
         "SFD: the batch takes 140737488355328 bytes, must be below 2^47 bytes"}}},
      {"d_overlaps_x",
       {[](Case& c) { c.args.d = at(0x010000000000 + 2 * 256 * 7168); },
        [](Case& c) { c.args.d = at(0x010000000000 - 256 * 7168 / 2); }},
       {{[](Case& c) { c.args.d = at(0x010000000000 + 2 * 256 * 7168 - 16); },
         "D: 917504 bytes at 0x1000037fff0 overlap X, 3670016 bytes at 0x10000000000, must not "
         "overlap X"},
        {[](Case& c) { c.args.d = at(0x010000000000 - 256 * 7168 / 2 + 16); }, "D: 917504 bytes"}}},
      {"d_overlaps_d_scale",
       {[](Case& c) { c.args.d_scale = at<float>(0x410000000000 + 256 * 7168 / 2); }},
       {{[](Case& c) { c.args.d_scale = at<float>(0x410000000000); }, "D: 917504 bytes at"}}},
      {"sfd_overlaps",
       {[](Case& c) { c.args.sfd = at(0x410000000000 + 256 * 7168 / 2); },
        [](Case& c) { c.args.sfd = at(0x010000000000 - 256 * 7168 / 16); }},
       {{[](Case& c) { c.args.sfd = at(0x410000000000 + 256 * 7168 / 2 - 16); }, "SFD: 114688"},
        {[](Case& c) { c.args.sfd = at(0x010000000000); }, "SFD: 114688 bytes at"},
        {[](Case& c) { c.args.d_scale = at<float>(0x510000000000); }, "SFD: 114688 bytes at"},
        {[](Case& c) { layer(c), c.args.beta = at(0x510000000000); }, "SFD: 114688 bytes at"}}},
      {"config_known",
       {[](Case& c) { c.args.config = "quantize_sm100_f16"; }},
       {{[](Case& c) { c.args.config = "fastest"; },
         "config = \"fastest\" must name a configuration (nearest: quantize_sm100_f16)"}}},
      {"config_runs",
       {[](Case& c) { c.args.config = "quantize_sm100_bf16", c.args.x_type = WL_BF16; }},
       {{[](Case& c) { c.args.config = "quantize_sm100_bf16"; },
         "config = \"quantize_sm100_bf16\", but it reads WL_BF16, must be a configuration for this "
         "device, input, norm and K (nearest: quantize_sm100_f16)"},
        {[](Case& c) { c.args.config = "quantize_sm90_f16"; },
         "config = \"quantize_sm90_f16\", but its target sm_90a does not run on compute "
         "capability 10.0, must be a configuration"},
        {[](Case& c) { c.args.config = "quantize_rms_sm100_f16"; },
         "config = \"quantize_rms_sm100_f16\", but its norm is WL_NORM_RMS, must be"}}},
      {"norm",
       {rms, layer},
       {{[](Case& c) { c.args.norm = static_cast<wl_norm>(3); },
         "norm = 3 must be from WL_NORM_NONE (0) to WL_NORM_LAYER (2) (nearest: 2)"}}},
      {"norm_k",
       {[](Case& c) { rms(c), c.args.k = 32768; }, [](Case& c) { c.args.k = 32832; }},
       {{[](Case& c) { rms(c), c.args.k = 32832; },
         "K = 32832 must be at most 32768 elements with a norm (nearest: 32768)"}}},
      {"eps",
       {[](Case& c) { layer(c), c.args.eps = 0x1p-126f; }, [](Case& c) { c.args.eps = -1; }},
       {{[](Case& c) { layer(c), c.args.eps = 0; },
         "eps = 0 must be positive and finite with a norm (nearest: 1e-06)"},
        {[](Case& c) { layer(c), c.args.eps = NAN; }, "eps = nan must be positive"},
        {[](Case& c) { rms(c), c.args.eps = INFINITY; }, "eps = inf must be positive"}}},
      {"gamma_type",
       {[](Case& c) { rms(c), c.args.gamma_type = WL_F32; },
        [](Case& c) { rms(c), c.args.gamma_type = WL_BF16, c.args.gamma = nullptr; }},
       {{[](Case& c) { rms(c), c.args.gamma_type = WL_BF16; },
         "gamma_type = 1 must be x_type or WL_F32 (3) (nearest: 0, 3)"}}},
      {"gamma_unused",
       {rms},
       {{[](Case& c) { c.args.gamma = at(0x710000000000); },
         "gamma = 0x710000000000 must be null without a norm (nearest: null)"}}},
      {"beta_unused",
       {layer},
       {{[](Case& c) { c.args.beta = at(0x710000000000); }, "beta = 0x710000000000 must be null"}}},
      {"beta_layer",
       {layer},
       {{[](Case& c) { rms(c), c.args.beta = at(0x720000000000); },
         "beta = 0x720000000000 must be null for WL_NORM_RMS (nearest: null)"}}},
      {"residual_unused",
       {with_residual},
       {{[](Case& c) { c.args.residual = at(0x710000000000); },
         "residual = 0x710000000000 must be null without a norm"}}},
      {"sum_unused",
       {with_residual},
       {{[](Case& c) { c.args.sum = at(0x710000000000); },
         "sum = 0x710000000000 must be null without a norm"}}},
      {"sum_residual",
       {with_residual},
       {{[](Case& c) { rms(c), c.args.sum = at(0x740000000000); },
         "sum = 0x740000000000 without a residual must be null without a residual"}}},
      {"gamma_aligned",
       {[](Case& c) { rms(c), c.args.gamma = at(0x710000000010); }},
       {{[](Case& c) { rms(c), c.args.gamma = at(0x710000000008); }, "gamma: address 0x71000000"}}},
      {"gamma_reachable",
       {[](Case& c) { rms(c), c.args.gamma = at(wltest::host_window - 16); }},
       {{[](Case& c) { rms(c), c.args.gamma = at(wltest::host_window); },
         "gamma: address 0x7fff"}}},
      {"d_overlaps_gamma",
       {[](Case& c) { rms(c), c.args.gamma = at(0x410000000000 - 2 * 7168); }},
       {{[](Case& c) { rms(c), c.args.gamma = at(0x410000000000 - 2 * 7168 + 16); }, "D: 917504"}}},
      {"beta_aligned",
       {[](Case& c) { layer(c), c.args.beta = at(0x710000000010); }},
       {{[](Case& c) { layer(c), c.args.beta = at(0x710000000008); }, "beta: address 0x71000000"}}},
      {"beta_reachable",
       {[](Case& c) { layer(c), c.args.beta = at(wltest::host_window - 16); }},
       {{[](Case& c) { layer(c), c.args.beta = at(wltest::host_window); },
         "beta: address 0x7fff"}}},
      {"d_overlaps_beta",
       {[](Case& c) { layer(c), c.args.beta = at(0x410000000000 - 4 * 7168); }},
       {{[](Case& c) {
           layer(c), c.args.gamma_type = WL_F32, c.args.beta = at(0x410000000000 - 4 * 7168 + 16);
         },
         "D: 917504"}}},
      {"residual_aligned",
       {[](Case& c) { with_residual(c), c.args.residual = at(0x730000000010); }},
       {{[](Case& c) { with_residual(c), c.args.residual = at(0x730000000008); },
         "residual: address 0x73"}}},
      {"residual_reachable",
       {[](Case& c) { with_residual(c), c.args.residual = at(wltest::host_window - 16); }},
       {{[](Case& c) { with_residual(c), c.args.residual = at(wltest::host_window); },
         "residual: address 0x7fff"}}},
      {"d_overlaps_residual",
       {[](Case& c) { with_residual(c), c.args.residual = at(0x410000000000 - 2 * 256 * 7168); }},
       {{[](Case& c) {
           with_residual(c), c.args.residual = at(0x410000000000 - 2 * 256 * 7168 + 16);
         },
         "D: 917504"}}},
      {"sum_aligned",
       {[](Case& c) { with_residual(c), c.args.sum = at(0x740000000010); }},
       {{[](Case& c) { with_residual(c), c.args.sum = at(0x740000000008); }, "sum: address 0x74"}}},
      {"sum_reachable",
       {[](Case& c) { with_residual(c), c.args.sum = at(wltest::host_window - 16); }},
       {{[](Case& c) { with_residual(c), c.args.sum = at(wltest::host_window); },
         "sum: address 0x7fff"}}},
      {"ldr_covers",
       {[](Case& c) { with_residual(c), c.args.ldr = 7168; }, [](Case& c) { c.args.ldr = 8; }},
       {{[](Case& c) { with_residual(c), c.args.ldr = 7160; },
         "ldr = 7160 must be 0 or at least K elements (nearest: 0, 7168)"}}},
      {"ldr_multiple",
       {[](Case& c) { with_residual(c), c.args.ldr = 7176; }},
       {{[](Case& c) { with_residual(c), c.args.ldr = 7172; }, "ldr = 7172 must be a multiple"}}},
      {"batch_stride_r_covers",
       {[](Case& c) { with_residual(c), c.args.batch_stride_r = 256 * 7168; }},
       {{[](Case& c) { with_residual(c), c.args.batch_stride_r = 8; }, "batch_stride_r = 8 must"}}},
      {"batch_stride_r_multiple",
       {[](Case& c) { with_residual(c), c.args.batch_stride_r = 256 * 7168 + 8; }},
       {{[](Case& c) { with_residual(c), c.args.batch_stride_r = 256 * 7168 + 4; },
         "batch_stride_r = 1835012 must be a multiple of 8 elements"}}},
      {"residual_size",
       {[](Case& c) {
         with_residual(c), c.args.ldr = int64_t{1} << 38, c.args.residual = at(0x1000000000000);
         c.args.sum = nullptr;
       }},
       {{[](Case& c) {
           with_residual(c), c.args.ldr = int64_t{1} << 39, c.args.residual = at(0x1000000000000);
           c.args.sum = nullptr;
         },
         "residual: residual takes 2^47 bytes or more, must be below 2^47 bytes"}}},
      {"sum_overlaps",
       {[](Case& c) { with_residual(c), c.args.sum = const_cast<void*>(c.args.residual); }},
       {{[](Case& c) { with_residual(c), c.args.sum = at(0x730000000010); }, "sum: 3670016 bytes"},
        {[](Case& c) { with_residual(c), c.args.sum = at(0x010000000000); }, "sum: 3670016 bytes"},
        {[](Case& c) { with_residual(c), c.args.sum = at(0x410000000000); }, "sum: 3670016 bytes"},
        {[](Case& c) { with_residual(c), c.args.sum = at(0x720000000000 - 16); }, "sum: 367"}}},
  };
  return all;
}

} // namespace

TEST_CASE("both sides of every rule of the quantiser", "[host][quantize]") {
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

// Every size and stride at its extremes, under a sanitizer too: refused where it must be.
TEST_CASE("extreme sizes of a quantisation overflow nothing", "[host][quantize]") {
  const int64_t values[] = {INT64_MIN, -8, 0, 1, 64, kHuge, kHuge * 2, INT64_MAX - 63, INT64_MAX};
  for (const int64_t m : values)
    for (const int64_t k : values)
      for (const int64_t l : values)
        for (const int64_t stride : values) {
          Case c;
          c.args.m = m, c.args.k = k, c.args.l = l;
          c.args.ldx = c.args.batch_stride_x = stride;
          const std::vector<Violation> found =
              rules().violations({c.args, c.device, wltest::stub_memory()});
          const bool sizes =
              m >= 1 && m <= kHuge && k >= 64 && k <= kHuge && l >= 1 && l <= 1 << 20;
          if (sizes && found.empty() && m > 1) CHECK((stride == 0 || stride >= k));
          if (!sizes && found.empty()) {
            INFO("m " << m << " k " << k << " l " << l << " stride " << stride);
            CHECK(sizes);
          }
        }
}

// The units that the warps of a grid take, counted as the kernel counts.
TEST_CASE("every unit of a quantisation is taken once", "[host][quantize]") {
  DeviceLimits device;
  const struct {
    int64_t m, k, l;
    int sms;
  } problems[] = {{1, 64, 1, 148},   {1, 7168, 1, 148}, {130, 192, 3, 4},  {97, 64, 50, 1},
                  {257, 320, 2, 1},  {33, 1088, 7, 2},  {128, 64, 1, 1},   {2048, 64, 1, 1},
                  {31, 128, 100, 3}, {5, 64, 5000, 4},  {257, 320, 20, 1}, {300, 64, 3, 1}};
  bool seen[2] = {};
  for (const auto& p : problems) {
    INFO("m " << p.m << " k " << p.k << " l " << p.l << " sms " << p.sms);
    device.sm_count = p.sms;
    const Work work = share_out(p.m, p.k, p.l, device);
    const int64_t warps = work.launch.grid[0] * (work.launch.block[0] / 32);
    CHECK(work.launch.block[0] <= 256);
    CHECK(work.launch.grid[0] <= 5u * static_cast<unsigned>(p.sms));
    CHECK(work.row_units == (work.two_atoms ? (work.atoms + 1) / 2 : work.atoms));
    seen[work.two_atoms ? 1 : 0] = true;
    CHECK(work.step_units < work.row_units);
    CHECK(work.step_groups < work.groups);
    std::vector<int> taken(static_cast<size_t>(work.units), 0);
    for (int64_t warp = 0; warp < warps; ++warp) {
      int64_t group = warp / work.row_units, unit = warp % work.row_units;
      int64_t entry = group / work.groups;
      group %= work.groups;
      while (entry < p.l) {
        ++taken[static_cast<size_t>((entry * work.groups + group) * work.row_units + unit)];
        unit += work.step_units, group += work.step_groups, entry += work.step_entries;
        if (unit >= work.row_units) unit -= work.row_units, ++group;
        if (group >= work.groups) group -= work.groups, ++entry;
      }
    }
    CHECK(std::set<int>(taken.begin(), taken.end()) == std::set<int>{1});
    // Every row is in one group, and no group is empty.
    std::set<int64_t> rows;
    for (int64_t group = 0; group < work.groups; ++group) {
      size_t before = rows.size();
      for (int64_t quarter = 0; quarter < 4; ++quarter)
        for (int64_t odd = 0; odd < 2; ++odd) {
          const int64_t row = group / 16 * 128 + group % 16 * 2 + odd + 32 * quarter;
          if (row < p.m) CHECK(rows.insert(row).second);
        }
      CHECK(rows.size() > before);
    }
    CHECK(static_cast<int64_t>(rows.size()) == p.m);
  }
  CHECK(seen[0]);
  CHECK(seen[1]);
}

// Teams and slots as rows.inc wants them, for all that a device may be asked.
TEST_CASE("rows of a norm are shared out", "[host][quantize]") {
  DeviceLimits device;
  device.shared_bytes_per_block = 232448;
  for (const int sms : {1, 132})
    for (const int64_t k : {64, 512, 576, 2048, 7168, 8192, 8256, 16384, 32768})
      for (const int64_t m : {1, 2, 5, 17, 132, 4096, 100000})
        for (const int kind : {0, 1, 2, 3, 4, 5}) {
          device.sm_count = sms;
          const bool residual = kind % 2 != 0;
          const int tables = kind / 2;
          const norm::Work work = norm::share_out(m, k, 3, residual, tables, device);
          const int64_t numbers = work.numbers_at == 0 ? 0 : 4 * k * tables;
          INFO("m " << m << " k " << k << " sms " << sms << " residual " << residual << ": "
                    << work.teams << " teams of " << work.team_warps << ", " << work.slots
                    << " slots");
          CHECK((work.team_warps & (work.team_warps - 1)) == 0);
          CHECK(work.teams >= 1);
          CHECK(work.teams * work.team_warps <= 16);
          CHECK(work.slots >= work.teams);
          CHECK(work.slots <= 32);
          CHECK((work.slots + work.teams - 1) / work.teams * work.teams <= 48);
          CHECK(work.slots_at % 128 == 0);
          CHECK(work.slots_at >= 1024 + work.teams * k / 2 + numbers);
          if (numbers != 0) CHECK(work.numbers_at >= 1024 + work.teams * k / 2);
          CHECK(work.numbers_at % 128 == 0);
          CHECK(work.launch.dynamic_shared_bytes ==
                work.slots_at + work.slots * k * (residual ? 4 : 2));
          CHECK(work.launch.dynamic_shared_bytes <= 232448);
          CHECK(work.launch.grid[0] == std::min<int64_t>(3 * m, sms));
          CHECK(work.step_rows + m * work.step_entries == work.launch.grid[0]);
          CHECK(work.step_rows < m);
        }
  // Few rows are spread over the warps; many are prefetched while teams work.
  device.sm_count = 132;
  CHECK(norm::share_out(1, 7168, 1, false, 1, device).team_warps == 16);
  const norm::Work many = norm::share_out(4096, 7168, 1, false, 1, device);
  CHECK(2 * many.slots >= 3 * many.teams);
  CHECK(many.teams * many.team_warps == 16);
}

// The same of held.inc: a team's lanes cover a row, and all teams fit a CTA.
TEST_CASE("rows that are held are shared out", "[host][quantize]") {
  DeviceLimits device;
  device.shared_bytes_per_block = 232448;
  for (const int sms : {1, 132})
    for (int64_t k = norm::least_held; k <= norm::most_held; k += 64)
      for (const int64_t m : {1, 2, 5, 17, 132, 4096, 100000})
        for (const bool residual : {false, true}) {
          device.sm_count = sms;
          const norm::Work work = norm::share_out_held(m, k, 3, residual, device);
          INFO("m " << m << " k " << k << " sms " << sms << " residual " << residual << ": "
                    << work.teams << " teams of " << work.team_warps << ", " << work.slots
                    << " slots");
          CHECK(1024 * work.team_warps >= k);
          CHECK(1024 * (work.team_warps - 1) < k);
          CHECK(work.teams >= 1);
          CHECK(2 * work.teams + 1 <= 15); // named barriers beside the CTA's
          CHECK(work.launch.block[0] == 32 * (work.teams * work.team_warps + 1));
          CHECK(work.launch.block[0] <= 1024);
          CHECK(work.slots >= work.teams);
          CHECK(work.slots <= 32);
          CHECK((work.slots + work.teams - 1) / work.teams * work.teams <= 48);
          CHECK(work.numbers_at == 2560 + 2048 * work.teams);
          CHECK(work.slots_at == work.numbers_at + 32768);
          CHECK(work.slots_at % 128 == 0);
          CHECK(work.launch.dynamic_shared_bytes ==
                work.slots_at + work.slots * k * (residual ? 4 : 2));
          CHECK(work.launch.dynamic_shared_bytes <= 232448);
          CHECK(work.launch.grid[0] == std::min<int64_t>(3 * m, sms));
          CHECK(work.step_rows + m * work.step_entries == work.launch.grid[0]);
        }
}

// The same of held_units.inc: slots are a team's, and every unit has a team.
TEST_CASE("rows in units are shared out", "[host][quantize]") {
  DeviceLimits device;
  device.shared_bytes_per_block = 232448;
  for (const int sms : {1, 132})
    for (int64_t k = norm::least_held; k <= norm::most_held; k += 64)
      for (const int64_t m : {1, 2, 5, 17, 132, 4096, 100000})
        for (const int kind : {0, 1, 2, 3}) {
          const bool residual = kind % 2 != 0;
          const wl_norm norm = kind < 2 ? WL_NORM_RMS : WL_NORM_LAYER;
          device.sm_count = sms;
          const norm::Work work = norm::share_out_units(m, k, 3, residual, norm, device);
          const int64_t units = (3 * m + 3) / 4;
          const int64_t teams = work.teams * work.launch.grid[0];
          INFO("m " << m << " k " << k << " sms " << sms << " kind " << kind << ": " << work.teams
                    << " teams of " << work.team_warps << ", " << work.slots << " slots each");
          CHECK(1024 * work.team_warps >= k);
          CHECK(1024 * (work.team_warps - 1) < k);
          CHECK(work.teams >= 1);
          CHECK(2 * work.teams <= 16); // named barriers
          CHECK(work.launch.block[0] == 32 * work.teams * work.team_warps);
          CHECK(work.launch.block[0] <= 1024);
          CHECK(work.slots >= 1);
          CHECK(work.slots * work.teams <= 32);
          // None that never comes.
          CHECK(work.slots <= 3 * m);
          CHECK(work.slots <= (units + teams - 1) / teams * 4);
          CHECK(work.numbers_at == 512 + 2048 * work.teams);
          CHECK(work.slots_at == work.numbers_at + (kind < 2 ? 32768 : 65536));
          CHECK(work.slots_at % 128 == 0);
          CHECK(work.launch.dynamic_shared_bytes ==
                work.slots_at + work.slots * work.teams * k * (residual ? 4 : 2));
          CHECK(work.launch.dynamic_shared_bytes <= 232448);
          CHECK(work.launch.grid[0] == std::min<int64_t>(units, sms));
        }
}

// What an H200 showed: of RMSNorm units from 68000 values an SM on, of rows of 3072 and more,
// single rows in registers below; of LayerNorm units from six rows an SM on; other rows of other
// lengths.
TEST_CASE("rows are taken in units where there are many", "[host][quantize]") {
  DeviceLimits h200;
  h200.compute_major = 9;
  h200.sm_count = 132;
  const struct {
    int64_t k, least;
  } limits[] = {{2048, 0},    {2112, 0},    {3008, 0},    {3072, 2922},
                {4096, 2192}, {7168, 1253}, {8192, 1096}, {8256, 0}};
  for (const wl_dtype type : {WL_F16, WL_BF16})
    for (const auto& limit : limits)
      for (const int64_t m : {int64_t{1}, limit.least - 1, limit.least, int64_t{100000}})
        for (const int64_t l : {1, 2}) {
          if (m < 1) continue;
          wl_quantize_args args{};
          args.m = m, args.k = limit.k, args.l = l, args.x_type = type;
          INFO("m " << m << " k " << limit.k << " l " << l);
          const auto config = [&](wl_norm norm) -> const Config& {
            args.norm = norm;
            const Config* found = chosen(args, h200);
            REQUIRE(found != nullptr);
            CHECK(found->x_type == type);
            CHECK(found->norm == norm);
            return *found;
          };
          const bool held = limit.k >= 2112 && limit.k <= 8192;
          CHECK(config(WL_NORM_RMS).held == held);
          CHECK(config(WL_NORM_RMS).units == (limit.least != 0 && m * l >= limit.least));
          CHECK(config(WL_NORM_LAYER).units == (held && m * l >= 792));
          CHECK_FALSE(config(WL_NORM_NONE).held);
        }
}

// Against the definition in double precision: what is quantised is the normalised row up to a few
// last places of FP32, also where the mean is far larger than what the row varies by.
TEST_CASE("the statistics of the reference are the definition's", "[host][quantize]") {
  for (const wltest::Norm::Kind kind : {wltest::Norm::Kind::rms, wltest::Norm::Kind::layer})
    for (const double mean : {0.0, 3.0, 200.0}) {
      const int64_t k = 7168;
      std::vector<float> row(static_cast<size_t>(k));
      const wltest::Random random(11, 3);
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = static_cast<float>(
            wltest::decode_bf16(wltest::encode_bf16(mean + 2 * random.uniform(i) - 1)));
      wltest::Norm norm;
      norm.kind = kind;
      double sum = 0, squares = 0;
      for (const float x : row) sum += double{x};
      const double centre = kind == wltest::Norm::Kind::layer ? sum / k : 0;
      for (const float x : row) squares += (double{x} - centre) * (double{x} - centre);
      const double rstd = 1 / std::sqrt(squares / k + double{norm.eps});
      const wltest::RowStatistics found = wltest::statistics(row.data(), k, norm);
      INFO("mean " << mean << ", seed 11");
      CHECK(std::fabs(found.mean - centre) <= 1e-5 * (std::fabs(centre) + 1));
      CHECK(std::fabs(found.rstd - rstd) <= 1e-5 * rstd);
    }
}

TEST_CASE("configurations of the quantiser agree with their PTX", "[host][quantize]") {
  REQUIRE(configs().size() == 18);
  for (const Config& config : configs()) {
    INFO(config.name);
    const bool normalises = config.norm != WL_NORM_NONE;
    const Image image = config.image();
    CHECK(image.name == config.name);
    CHECK(image.target == config.target);
    CHECK(image.params == (normalises ? 25 : 14));
    const std::string text = image.text();
    CHECK_THAT(text, ContainsSubstring(".visible .entry " + std::string(config.name) + "("));
    CHECK_THAT(text, ContainsSubstring(config.held  ? ".maxntid 1024, 1, 1"
                                       : normalises ? ".maxntid 544, 1, 1"
                                                    : ".maxntid 256, 1, 1"));
    CHECK_THAT(text, ContainsSubstring(normalises ? ".minnctapersm 1" : ".minnctapersm 5"));
    const bool converts = text.find("e2m1x2") != std::string::npos;
    CHECK(converts == (std::string(config.target) == "sm_100f"));
    for (const char* heading : {"// CONTRACT", "// ROLES", "// MEMORY MAP", "// BARRIER LEDGER",
                                normalises ? "| normaliser |" : "| encoder |"})
      CHECK_THAT(text, ContainsSubstring(heading));
  }
}

// The definition in real numbers: the scale is the E4M3 number nearest to largest / (6 d_scale), a
// code the E2M1 number nearest to x / (scale d_scale). FP32 moves each quotient by a few last
// places, which matters only where two numbers are as near.
TEST_CASE("the quantiser's reference is NVFP4 by its definition", "[host][quantize]") {
  for (const wltest::OutputType type : {wltest::OutputType::f16, wltest::OutputType::bf16})
    for (const float d_scale : {1.0f, 0.3f, 700.0f}) {
      const wltest::Matrix x = wltest::make_matrix(40, 1024, 1, type, 5);
      const wltest::Operand q = wltest::quantize(x, d_scale);
      const double slack = 0x1p-21;
      const auto nearest = [&](uint8_t code, double value, auto encode) {
        return code == encode(value) || code == encode(value * (1 + slack)) ||
               code == encode(value * (1 - slack));
      };
      int64_t wrong = 0, ordinary = 0;
      for (size_t block = 0; block < q.scales.size(); ++block) {
        double largest = 0;
        for (size_t i = 0; i < 16; ++i) {
          const double value = wltest::decode_output(type, x.codes[16 * block + i]);
          if (!std::isnan(value)) largest = std::fmax(largest, std::fabs(value));
        }
        wrong += !nearest(q.scales[block], largest / (6.0 * d_scale), wltest::encode_e4m3);
        const double step = wltest::decode_ue4m3(q.scales[block]) * d_scale;
        for (size_t i = 0; i < 16; ++i) {
          const size_t at = 16 * block + i;
          const double value = wltest::decode_output(type, x.codes[at]);
          const uint8_t code = wltest::nibble(q.values.data(), static_cast<int64_t>(at));
          if (std::isnan(value)) {
            wrong += code != 7;
          } else if (step == 0) {
            wrong += code != (std::signbit(value) ? 8 : 0);
          } else {
            wrong += !nearest(code, value / step, wltest::encode_e2m1);
            ++ordinary;
          }
        }
      }
      INFO(wltest::name_of(type) << ", d_scale " << d_scale << ", seed 5");
      CHECK(wrong == 0);
      CHECK(ordinary > 10000);
    }
}
