// Both sides of every rule of the dual GEMM: the last legal value passes, the first illegal one is
// refused with this sentence.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/stub_memory.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace warpline;
using namespace warpline::dual_gemm;
using wltest::ContainsSubstring;

namespace {

template <class T = void>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

// Operands far from each other, so that sizes may grow.
wl_dual_gemm_args legal() {
  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = 256, args.n = 4096, args.k = 7168, args.l = 1;
  args.a = at(0x010000000000), args.b1 = at(0x110000000000), args.b2 = at(0x210000000000);
  args.sfa = at(0x310000000000), args.sfb1 = at(0x410000000000), args.sfb2 = at(0x510000000000);
  args.alpha1 = at<float>(0x610000000000), args.alpha2 = at<float>(0x610000000004);
  args.d = at(0x710000000000);
  args.d_type = WL_F16;
  return args;
}

DeviceLimits b200() {
  DeviceLimits device;
  device.name = "B200";
  device.compute_major = 10;
  device.sm_count = 148;
  device.shared_bytes_per_block = 232448;
  device.max_cluster = 8;
  device.max_cluster_nonportable = 16;
  return device;
}

struct Case {
  wl_dual_gemm_args args = legal();
  DeviceLimits device = b200();
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
  Change refused;
  std::string sentence; // a part of it
};

#define SET(statement) [](Case& s) { s.args.statement; }

void nvfp4(Case& s) {
  s.args.d_type = WL_NVFP4;
  s.args.sfd = at(0x720000000000);
  s.args.d_scale = at<float>(0x730000000000);
}

Change and_nvfp4(const Change& change) {
  return [change](Case& s) { nvfp4(s), change(s); };
}

const int64_t extent = int64_t{1} << 30;

const std::vector<Sides>& sides() {
  static const std::vector<Sides> table = {
      {"device",
       {[](Case& s) { s.device.compute_minor = 3; }, [](Case& s) { s.device.compute_major = 9; }},
       [](Case& s) { s.device.compute_major = 8; },
       "device B200 has compute capability 8.0, which must run one of the library's targets "
       "(nearest: sm_100f, sm_90a)"},
      {"m_range",
       {SET(m = 1), [](Case& s) { s.args.m = extent, s.args.n = 8, s.args.k = 64; }},
       SET(m = 0),
       "M = 0 must be from 1 to 2^30 rows (nearest: 1)"},
      {"n_range", {SET(n = 8)}, SET(n = -8), "N = -8 must be from 8 to 2^30 columns (nearest: 8)"},
      {"n_multiple",
       {SET(n = 4104)},
       SET(n = 4100),
       "N = 4100 must be a multiple of 8 columns (nearest: 4096, 4104)"},
      {"k_range",
       {SET(k = 64)},
       SET(k = 0),
       "K = 0 must be from 64 to 2^30 elements (nearest: 64)"},
      {"k_multiple",
       {SET(k = 7104)},
       SET(k = 7000),
       "K = 7000 must be a multiple of 64 elements (nearest: 6976, 7040)"},
      {"l_range",
       {SET(l = 1024)},
       SET(l = 0),
       "L = 0 must be from 1 to 2^20 batch entries (nearest: 1)"},
      {"tiles",
       {[](Case& s) { s.args.m = 1 << 20, s.args.n = 1 << 20, s.args.k = 64; }},
       [](Case& s) { s.args.m = 1 << 20, s.args.n = 1 << 20, s.args.k = 64, s.args.l = 16; },
       "M, N, L = 1048576, 1048576, 16 must make fewer than 2^31 tiles"},
      {"sf_layout",
       {SET(sf_layout = WL_SF_128x4)},
       SET(sf_layout = static_cast<wl_sf_layout>(7)),
       "sf_layout = 7 must be WL_SF_128x4 (0)"},
      {"d_type",
       {SET(d_type = WL_BF16), nvfp4},
       SET(d_type = static_cast<wl_dtype>(3)),
       "d_type = 3 must be WL_F16 (0), WL_BF16 (1) or WL_NVFP4 (2)"},
      {"flags",
       {SET(flags = 0), SET(flags = WL_STATIC_WEIGHTS),
        SET(flags = WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH)},
       SET(flags = 7),
       "flags = 7 must be 0, WL_STATIC_WEIGHTS (1), WL_GRAPH_LAUNCH (2) or their sum (nearest: 3)"},
      {"nvfp4_columns",
       {and_nvfp4(SET(n = 4160))},
       and_nvfp4(SET(n = 4104)),
       "N = 4104 must be a multiple of 64 columns for WL_NVFP4 (nearest: 4096, 4160)"},
      {"sfd_null",
       {SET(sfd = nullptr)},
       and_nvfp4(SET(sfd = nullptr)),
       "SFD: address is null, must not be null for WL_NVFP4"},
      {"sfd_aligned",
       {and_nvfp4(SET(sfd = at(0x10010)))},
       and_nvfp4(SET(sfd = at(0x10008))),
       "SFD: address 0x10008 is 8 modulo 16, must be 16-byte aligned"},
      {"d_scale_aligned",
       {and_nvfp4(SET(d_scale = nullptr))},
       and_nvfp4(SET(d_scale = at<float>(0x10002))),
       "d_scale: address 0x10002 is 2 modulo 4, must be 4-byte aligned"},
      {"nvfp4_ldd",
       {and_nvfp4(SET(ldd = 4096))},
       and_nvfp4(SET(ldd = 4104)),
       "ldd = 4104 must be 0 or N for WL_NVFP4"},
      {"nvfp4_batch_stride",
       {and_nvfp4(SET(batch_stride_d = 256 * 4096))},
       and_nvfp4(SET(batch_stride_d = 256 * 4096 + 8)),
       "batch_stride_d = 1048584 must be 0 or M * N for WL_NVFP4"},
      {"d_overlaps_d_scale",
       {and_nvfp4(SET(d_scale = at<float>(0x710000000000 + 256 * 4096 / 2)))},
       and_nvfp4(SET(d_scale = at<float>(0x710000000004))),
       "overlap d_scale, 4 bytes at"},
      {"sfd_overlaps",
       {and_nvfp4(SET(sfd = at(0x710000000000 + 256 * 4096 / 2)))},
       and_nvfp4(SET(sfd = at(0x710000000000))),
       "must overlap neither D nor an input"},
      {"a_entry",
       {[](Case& s) { s.args.m = 1 << 20, s.args.k = (1 << 21) - 64, s.args.n = 8; }},
       [](Case& s) { s.args.m = 1 << 20, s.args.k = 1 << 21; },
       "A: an entry takes 1099511627776 bytes, must have entries (M * K/2) below 2^40 bytes"},
      {"b_entry",
       {[](Case& s) { s.args.n = 1 << 20, s.args.k = (1 << 21) - 64, s.args.m = 1; }},
       [](Case& s) { s.args.n = 1 << 20, s.args.k = 1 << 21; },
       "B1, B2: an entry takes 1099511627776 bytes, must have entries (N * K/2) below 2^40 bytes"},
      {"a_size",
       {[](Case& s) { s.args.m = 1 << 20, s.args.k = 1 << 20, s.args.n = 8; }},
       [](Case& s) { s.args.m = s.args.k = extent; },
       "must be below 2^47 bytes"},
      {"b_size",
       {[](Case& s) { s.args.n = 1 << 20, s.args.k = 1 << 20, s.args.m = 1; }},
       [](Case& s) { s.args.n = s.args.k = extent; },
       "must be below 2^47 bytes"},

      {"a_null", {}, SET(a = nullptr), "A: address is null, must not be null"},
      {"b1_null", {}, SET(b1 = nullptr), "B1: address is null, must not be null"},
      {"b2_null",
       {SET(b2 = s.args.b1)},
       SET(b2 = nullptr),
       "B2: address is null, must not be null"},
      {"sfa_null", {}, SET(sfa = nullptr), "SFA: address is null, must not be null"},
      {"sfb1_null", {}, SET(sfb1 = nullptr), "SFB1: address is null, must not be null"},
      {"sfb2_null", {}, SET(sfb2 = nullptr), "SFB2: address is null, must not be null"},
      {"d_null", {}, SET(d = nullptr), "D: address is null, must not be null"},

      {"a_aligned",
       {SET(a = at(0x10010))},
       SET(a = at(0x10008)),
       "A: address 0x10008 is 8 modulo 16, must be 16-byte aligned (nearest: 0x10000, 0x10010)"},
      {"b1_aligned",
       {SET(b1 = at(0x10010))},
       SET(b1 = at(0x10001)),
       "B1: address 0x10001 is 1 modulo 16, must be 16-byte aligned"},
      {"b2_aligned",
       {SET(b2 = at(0x10010))},
       SET(b2 = at(0x1000f)),
       "B2: address 0x1000f is 15 modulo 16, must be 16-byte aligned"},
      {"sfa_aligned",
       {SET(sfa = at(0x10010))},
       SET(sfa = at(0x10008)),
       "SFA: address 0x10008 is 8 modulo 16, must be 16-byte aligned"},
      {"sfb1_aligned",
       {SET(sfb1 = at(0x10010))},
       SET(sfb1 = at(0x10004)),
       "SFB1: address 0x10004 is 4 modulo 16, must be 16-byte aligned"},
      {"sfb2_aligned",
       {SET(sfb2 = at(0x10010))},
       SET(sfb2 = at(0x10002)),
       "SFB2: address 0x10002 is 2 modulo 16, must be 16-byte aligned"},
      {"d_aligned",
       {SET(d = at(0x10010))},
       SET(d = at(0x10002)),
       "D: address 0x10002 is 2 modulo 16, must be 16-byte aligned"},
      {"alpha1_aligned",
       {SET(alpha1 = at<float>(0x10004)), SET(alpha1 = nullptr)},
       SET(alpha1 = at<float>(0x10002)),
       "alpha1: address 0x10002 is 2 modulo 4, must be 4-byte aligned"},
      {"alpha2_aligned",
       {SET(alpha2 = at<float>(0x10004)), SET(alpha2 = nullptr)},
       SET(alpha2 = at<float>(0x10001)),
       "alpha2: address 0x10001 is 1 modulo 4, must be 4-byte aligned"},

      {"a_reachable",
       {SET(a = at(wltest::host_window - 16))},
       SET(a = at(wltest::host_window)),
       "A: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"b1_reachable",
       {SET(b1 = at(wltest::host_window - 16))},
       SET(b1 = at(wltest::host_window)),
       "B1: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"b2_reachable",
       {SET(b2 = at(wltest::host_window - 16))},
       SET(b2 = at(wltest::host_window)),
       "B2: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"sfa_reachable",
       {SET(sfa = at(wltest::host_window - 16))},
       SET(sfa = at(wltest::host_window)),
       "SFA: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"sfb1_reachable",
       {SET(sfb1 = at(wltest::host_window - 16))},
       SET(sfb1 = at(wltest::host_window)),
       "SFB1: address 0x7fff00000000 is the host's or was freed, must be memory that the device "
       "can reach (nearest: an upload to device 0, or registered memory)"},
      {"sfb2_reachable",
       {SET(sfb2 = at(wltest::host_window - 16))},
       SET(sfb2 = at(wltest::host_window)),
       "SFB2: address 0x7fff00000000 is the host's or was freed, must be memory that the device "
       "can reach (nearest: an upload to device 0, or registered memory)"},
      {"d_reachable",
       {SET(d = at(wltest::host_window - (1 << 24)))},
       SET(d = at(wltest::host_window)),
       "D: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"alpha1_reachable",
       {SET(alpha1 = at<float>(wltest::host_window - 16)), SET(alpha1 = nullptr)},
       SET(alpha1 = at<float>(wltest::host_window)),
       "alpha1: address 0x7fff00000000 is the host's or was freed, must be memory that the device "
       "can reach (nearest: an upload to device 0, or registered memory)"},
      {"alpha2_reachable",
       {SET(alpha2 = at<float>(wltest::host_window - 16)), SET(alpha2 = nullptr)},
       SET(alpha2 = at<float>(wltest::host_window)),
       "alpha2: address 0x7fff00000000 is the host's or was freed, must be memory that the device "
       "can reach (nearest: an upload to device 0, or registered memory)"},
      {"sfd_reachable",
       {SET(sfd = at(wltest::host_window - 16)), SET(sfd = nullptr)},
       SET(sfd = at(wltest::host_window)),
       "SFD: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"d_scale_reachable",
       {SET(d_scale = at<float>(wltest::host_window - 16)), SET(d_scale = nullptr)},
       SET(d_scale = at<float>(wltest::host_window)),
       "d_scale: address 0x7fff00000000 is the host's or was freed, must be memory that the device "
       "can reach (nearest: an upload to device 0, or registered memory)"},

      {"ldd_covers",
       {SET(ldd = 4096), SET(ldd = 0)},
       SET(ldd = 4088),
       "ldd = 4088 must be 0 or at least N elements (nearest: 0, 4096)"},
      {"ldd_multiple",
       {SET(ldd = 4104)},
       SET(ldd = 4100),
       "ldd = 4100 must be a multiple of 8 elements (nearest: 4096, 4104)"},
      {"batch_stride_covers",
       {[](Case& s) { s.args.l = 2, s.args.batch_stride_d = 256 * 4096; },
        SET(batch_stride_d = 256 * 4096), SET(batch_stride_d = 0)},
       [](Case& s) { s.args.l = 2, s.args.batch_stride_d = 255 * 4096; },
       "batch_stride_d = 1044480 must be 0 or at least (M - 1) * ldd + N elements (nearest: 0, "
       "1048576)"},
      {"batch_stride_multiple",
       {SET(batch_stride_d = 256 * 4096 + 8)},
       SET(batch_stride_d = 256 * 4096 + 4),
       "batch_stride_d = 1048580 must be a multiple of 8 elements (nearest: 1048576, 1048584)"},
      {"d_size",
       {SET(ldd = int64_t{1} << 30)},
       SET(ldd = int64_t{1} << 47),
       "D: D takes 2^47 bytes or more, must be below 2^47 bytes"},

      {"d_overlaps_a",
       {SET(d = at(0x010000000000 + 256 * 7168 / 2))},
       SET(d = at(0x010000000000 + 256 * 7168 / 2 - 16)),
       "overlap A, 917504 bytes at"},
      {"d_overlaps_b1",
       {SET(d = at(0x110000000000 + 4096 * 7168 / 2))},
       SET(d = at(0x110000000000)),
       "overlap B1, 14680064 bytes at"},
      {"d_overlaps_b2",
       {SET(d = at(0x210000000000 - 256 * 4096 * 2))},
       SET(d = at(0x210000000000 - 16)),
       "overlap B2, 14680064 bytes at"},
      {"d_overlaps_sfa",
       {SET(d = at(0x310000000000 + 256 * 7168 / 16))},
       SET(d = at(0x310000000000 + 16)),
       "overlap SFA, 114688 bytes at"},
      {"d_overlaps_sfb1",
       {SET(d = at(0x410000000000 + 4096 * 7168 / 16))},
       SET(d = at(0x410000000000)),
       "overlap SFB1, 1835008 bytes at"},
      {"d_overlaps_sfb2",
       {SET(d = at(0x510000000000 + 4096 * 7168 / 16))},
       SET(d = at(0x510000000000)),
       "overlap SFB2, 1835008 bytes at"},
      {"d_overlaps_alpha1",
       {SET(d = at(0x610000000010)), SET(alpha1 = nullptr)},
       SET(alpha1 = at<float>(0x710000000004)),
       "overlap alpha1, 4 bytes at"},
      {"d_overlaps_alpha2",
       {SET(d = at(0x610000000010)), SET(alpha2 = nullptr)},
       SET(alpha2 = at<float>(0x710000000000)),
       "overlap alpha2, 4 bytes at"},

      {"config_known",
       {SET(config = "dual_gemm_sm100_n64_f16"), SET(config = nullptr)},
       SET(config = "dual_gemm_sm100_n65_f16"),
       "config = \"dual_gemm_sm100_n65_f16\" must name a configuration (nearest: "
       "dual_gemm_sm100_n64_f16, "},
      {"config_runs",
       {SET(config = "dual_gemm_sm100_n128_f16")},
       SET(config = "dual_gemm_sm100_n128_bf16"),
       "config = \"dual_gemm_sm100_n128_bf16\", but it writes WL_BF16, must be a configuration for "
       "this device and output (nearest: dual_gemm_sm100_n128_f16, "},
  };
  return table;
}

} // namespace

TEST_CASE("each rule of the dual GEMM accepts the legal value at its limit", "[host][dual_gemm]") {
  for (const Sides& rule : sides())
    for (size_t i = 0; i <= rule.accepted.size(); ++i) {
      const Change change = i < rule.accepted.size() ? rule.accepted[i] : [](Case&) {};
      std::string sentences;
      for (const Violation& v : violations_of(change)) sentences += v.sentence() + "; ";
      INFO("rule " << rule.id << ", accepted value " << i);
      CHECK(sentences == "");
    }
}

TEST_CASE("each rule of the dual GEMM refuses with its sentence", "[host][dual_gemm]") {
  std::set<std::string> seen;
  for (const Sides& rule : sides()) {
    std::string sentence;
    for (const Violation& v : violations_of(rule.refused))
      if (v.rule.id == rule.id) sentence = v.sentence();
    INFO("rule " << rule.id);
    CHECK_THAT(sentence, ContainsSubstring(rule.sentence));
    seen.insert(rule.id);
  }
  for (const RuleRow& row : rules().rows()) {
    INFO("rule " << row.id << " has no case");
    CHECK(seen.count(row.id) == 1);
  }
}
