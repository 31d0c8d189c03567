// wl_moe without a device: both sides of every rule, the workspace's sections, and the reference of
// the order of experts and of the sum against plain definitions.
#include "kernels/moe/moe.hpp"
#include "runtime/src/configs.hpp"
#include "tests/reference/moe.hpp"
#include "tests/support/rule_sides.hpp"

#include <climits>
#include <cmath>

using namespace warpline;
using namespace warpline::moe;
using wltest::at;

namespace {

using Args = wl_moe_args;
using Case = wltest::RuleCase<Args>;
using Sides = wltest::RuleSides<Args>;

constexpr int64_t kTokens = 64, kHidden = 2048, kIntermediate = 768, kExperts = 128, kTopK = 8;

// Operands far from each other, so that sizes may grow.
Args legal() {
  Args a{};
  a.struct_size = sizeof a;
  a.tokens = kTokens, a.hidden = kHidden, a.intermediate = kIntermediate;
  a.experts = kExperts, a.top_k = kTopK;
  a.x = at(0x010000000000), a.x_type = WL_BF16;
  a.ids = at<int32_t>(0x020000000000), a.weights = at<float>(0x030000000000);
  a.w_gate = at(0x110000000000), a.w_up = at(0x120000000000), a.w_down = at(0x130000000000);
  a.sf_gate = at(0x210000000000), a.sf_up = at(0x220000000000), a.sf_down = at(0x230000000000);
  a.alpha_gate = at<float>(0x310000000000), a.alpha_up = at<float>(0x320000000000);
  a.alpha_down = at<float>(0x330000000000);
  a.bias_gate = at(0x410000000000), a.bias_up = at(0x420000000000);
  a.bias_down = at(0x430000000000), a.bias_type = WL_F32;
  a.x_scale = at<float>(0x510000000000), a.h_scale = at<float>(0x520000000000);
  a.shared = at(0x610000000000);
  a.y = at(0x710000000000), a.y_type = WL_BF16;
  return a;
}
constexpr uint64_t y_bytes = 2 * kTokens * kHidden;

#define SET(statement) [](Case& s) { s.args.statement; }

// The sides of an operand of `bytes`.
void add_operand(const char* name, void (*set)(Args&, void*), uint64_t alignment, uint64_t bytes,
                 bool optional, std::vector<Sides>* all) {
  const std::string id = name, unit = std::to_string(alignment);
  const auto to = [set](uint64_t address) {
    return wltest::RuleChange<Args>([=](Case& s) { set(s.args, at(address)); });
  };
  const auto beside_y = [set](uint64_t offset) {
    return wltest::RuleChange<Args>([=](Case& s) {
      set(s.args, static_cast<uint8_t*>(s.args.y) + static_cast<int64_t>(offset));
    });
  };
  if (!optional)
    all->push_back({id + "_null", {}, to(0), id + ": address is null, must not be null"});
  all->push_back({id + "_aligned",
                  {to(0x10000 + alignment)},
                  to(0x10000 + alignment - 1),
                  " modulo " + unit + ", must be " + unit + "-byte aligned"});
  all->push_back({id + "_reachable",
                  {to(wltest::host_window - 16)},
                  to(wltest::host_window),
                  id + ": address 0x7fff00000000 is the host's or was freed"});
  const uint64_t before = (bytes + alignment - 1) / alignment * alignment;
  all->push_back({"y_overlaps_" + id,
                  {beside_y(y_bytes), beside_y(0 - before)},
                  beside_y(y_bytes - alignment),
                  " overlap " + id});
}
#define OPERAND(field, alignment, bytes, optional)                                                 \
  add_operand(                                                                                     \
      #field,                                                                                      \
      [](Args& args, void* pointer) { args.field = static_cast<decltype(args.field)>(pointer); },  \
      alignment, bytes, optional, &all)

std::vector<Sides> make_sides() {
  constexpr int64_t w = kIntermediate * kHidden / 2, sf = kIntermediate * kHidden / 16;
  std::vector<Sides> all = {
      {"device",
       {[](Case& s) { s.device.compute_minor = 3; }, [](Case& s) { s.device.compute_major = 9; }},
       [](Case& s) { s.device.compute_major = 8; },
       "device B200 has compute capability 8.0, which must run one of the library's targets"},
      {"tokens_range", {SET(tokens = 1)}, SET(tokens = 0), "T = 0 must be from 1 to 2^30 tokens"},
      {"top_k_range",
       {SET(top_k = 1), SET(top_k = 32)},
       SET(top_k = 33),
       "top_k = 33 must be from 1 to 32 (nearest: 32)"},
      {"slots",
       {SET(tokens = (1 << 27) - 1)},
       SET(tokens = 1 << 27),
       "T, top_k = 134217728, 8 must make fewer than 2^30 rows (nearest: T = 134217727)"},
      {"hidden_range",
       {SET(hidden = 64), SET(hidden = 1 << 20)},
       SET(hidden = (1 << 20) + 64),
       "H = 1048640 must be from 64 to 2^20 elements (nearest: 1048576)"},
      {"hidden_multiple",
       {SET(hidden = 2880)},
       SET(hidden = 2000),
       "H = 2000 must be a multiple of 64 elements (nearest: 1984, 2048)"},
      {"intermediate_range",
       {SET(intermediate = 64)},
       SET(intermediate = 0),
       "I = 0 must be from 64 to 2^20 elements (nearest: 64)"},
      {"intermediate_multiple",
       {SET(intermediate = 2880)},
       SET(intermediate = 96),
       "I = 96 must be a multiple of 64 elements (nearest: 64, 128)"},
      {"experts_range",
       {SET(experts = 1), SET(experts = 512)},
       SET(experts = 513),
       "E = 513 must be from 1 to 512 experts (nearest: 512)"},
      {"first_expert",
       {SET(first_expert = (int64_t{1} << 31) - 128)},
       SET(first_expert = (int64_t{1} << 31) - 127),
       "first_expert = 2147483521 must be from 0 to 2^31 - E (nearest: 2147483520)"},
      {"x_type",
       {SET(x_type = WL_F16)},
       SET(x_type = WL_F32),
       "x_type = 3 must be WL_F16 (0) or WL_BF16 (1) (nearest: 1)"},
      {"a_type",
       {[](Case& s) { s.device.compute_major = 9, s.args.a_type = WL_OPERAND_BF16; }},
       SET(a_type = WL_OPERAND_F16),
       "a_type = 1 must be WL_OPERAND_NVFP4 (0) or what x_type is (nearest: 0, 2)"},
      {"a_type_runs",
       {},
       SET(a_type = WL_OPERAND_BF16),
       "a_type = 2 on compute capability 10.0 must be multiplied with NVFP4 by the device "
       "(nearest: 0)"},
      {"sf_layout",
       {},
       SET(sf_layout = static_cast<wl_sf_layout>(1)),
       "sf_layout = 1 must be WL_SF_128x4 (0), or on Hopper WL_SF_PLAIN (1) (nearest: 0)"},
      {"y_type",
       {SET(y_type = WL_F16), SET(y_type = WL_F32)},
       SET(y_type = WL_NVFP4),
       "y_type = 2 must be WL_F16 (0), WL_BF16 (1) or WL_F32 (3) (nearest: 0, 1, 3)"},
      {"bias_type",
       {SET(bias_type = WL_F16),
        [](Case& s) {
          s.args.bias_gate = s.args.bias_up = s.args.bias_down = nullptr;
          s.args.bias_type = static_cast<wl_dtype>(9);
        }},
       SET(bias_type = WL_NVFP4),
       "bias_type = 2 must be"},
      {"gate",
       {SET(gate = WL_GATE_GELU_TANH)},
       SET(gate = static_cast<wl_gate>(3)),
       "gate = 3 must be from WL_GATE_SILU (0) to WL_GATE_CLAMPED (2) (nearest: 2)"},
      {"gate_limit",
       {SET(gate_limit = 0.5f)},
       SET(gate_limit = -1),
       "gate_limit = -1 must be positive, or 0 for none (nearest: 0)"},
      {"clamped_limit",
       {[](Case& s) { s.args.gate = WL_GATE_CLAMPED, s.args.gate_limit = 7; }},
       SET(gate = WL_GATE_CLAMPED),
       "gate_limit = 0 must be positive for WL_GATE_CLAMPED (nearest: 7, as GPT-OSS has it)"},
      {"flags",
       {SET(flags = 3)},
       SET(flags = 4),
       "flags = 4 must be of WL_STATIC_WEIGHTS (1) and WL_GRAPH_LAUNCH (2)"},
      {"y_null", {}, SET(y = nullptr), "y: address is null, must not be null"},
      {"y_aligned", {SET(y = at(0x710000000010))}, SET(y = at(0x710000000008)), "modulo 16"},
      {"y_reachable",
       {SET(y = at(wltest::host_window - y_bytes))},
       SET(y = at(wltest::host_window)),
       "y: address 0x7fff00000000 is the host's or was freed"},
      {"shared_aligned",
       {SET(shared = nullptr)},
       SET(shared = at(0x610000000004)),
       "shared: address 0x610000000004 is 4 modulo 16"},
      {"shared_reachable",
       {},
       SET(shared = at(wltest::host_window)),
       "shared: address 0x7fff00000000 is the host's or was freed"},
      {"y_overlaps_shared",
       {SET(shared = s.args.y),
        [](Case& s) {
          s.args.shared = s.args.y, s.args.ldy = kHidden; // the default, said otherwise
        }},
       [](Case& s) { s.args.shared = s.args.y, s.args.ldy = kHidden + 8; },
       "must not overlap shared, unless it is shared, with its stride"},
      {"ld_shared_covers",
       {SET(ld_shared = kHidden), [](Case& s) { s.args.shared = nullptr, s.args.ld_shared = 8; }},
       SET(ld_shared = kHidden - 8),
       "ld_shared = 2040 must be 0 or at least H elements"},
      {"ld_shared_multiple",
       {SET(ld_shared = kHidden + 8)},
       SET(ld_shared = kHidden + 4),
       "ld_shared = 2052 must be a multiple of 8 elements"},
      {"ldy_covers",
       {SET(ldy = kHidden)},
       SET(ldy = 8),
       "ldy = 8 must be 0 or at least H elements"},
      {"ldy_multiple",
       {SET(ldy = kHidden + 8)},
       SET(ldy = kHidden + 1),
       "ldy = 2049 must be a multiple of 8 elements"},
      {"y_size", {}, SET(ldy = int64_t{1} << 45), "must be below 2^47 bytes"},
      {"shared_size", {}, SET(ld_shared = int64_t{1} << 45), "must be below 2^47 bytes"},
      {"config_up_known",
       {SET(config_up = "grouped_dual_gemm_sm100_n64_nvfp4")},
       SET(config_up = "fastest"),
       "config_up = \"fastest\" must name a configuration of wl_grouped_dual_gemm"},
      {"config_up_runs",
       {},
       SET(config_up = "grouped_dual_gemm_sm100_n64_f16"),
       "but it writes WL_F16, must be a configuration for this device and these types"},
      {"config_down_known",
       {SET(config_down = "grouped_gemm_sm100_n128_bf16")},
       SET(config_down = "grouped_dual_gemm_sm100_n64_nvfp4"),
       "must name a configuration of wl_grouped_gemm"},
      {"config_down_runs",
       {},
       SET(config_down = "grouped_gemm_sm100_n128_f16"),
       "but it writes WL_F16, must be a configuration for this device and these types"},
      {"w_stride_bytes_covers",
       {SET(w_stride_bytes = w)},
       SET(w_stride_bytes = w - 16),
       "w_stride_bytes = 786416 must be 0 or from a dense expert's to 2^40 - 16 bytes (nearest: "
       "786432)"},
      {"w_stride_bytes_multiple",
       {SET(w_stride_bytes = w + 16)},
       SET(w_stride_bytes = w + 8),
       "w_stride_bytes = 786440 must be a multiple of 16 bytes"},
      {"sf_stride_bytes_covers",
       {SET(sf_stride_bytes = sf)},
       SET(sf_stride_bytes = -16),
       "sf_stride_bytes = -16 must be 0 or from a dense expert's"},
      {"sf_stride_bytes_multiple",
       {},
       SET(sf_stride_bytes = sf + 4),
       "sf_stride_bytes = 98308 must be a multiple of 16 bytes"},
      {"w_down_stride_bytes_covers",
       {SET(w_down_stride_bytes = w)},
       SET(w_down_stride_bytes = int64_t{1} << 40),
       "w_down_stride_bytes = 1099511627776 must be 0 or from"},
      {"w_down_stride_bytes_multiple",
       {},
       SET(w_down_stride_bytes = w + 1),
       "must be a multiple of 16 bytes"},
      {"sf_down_stride_bytes_covers",
       {SET(sf_down_stride_bytes = sf)},
       SET(sf_down_stride_bytes = 16),
       "sf_down_stride_bytes = 16 must be 0 or from"},
      {"sf_down_stride_bytes_multiple",
       {},
       SET(sf_down_stride_bytes = sf + 8),
       "must be a multiple of 16 bytes"},
  };
#define SIZE(name, field)                                                                          \
  all.push_back({name "_size",                                                                     \
                 {},                                                                               \
                 [](Case& s) { s.args.experts = 512, s.args.field = (int64_t{1} << 40) - 16; },    \
                 "must keep all experts below 2^47 bytes"})
  SIZE("w_stride_bytes", w_stride_bytes);
  SIZE("sf_stride_bytes", sf_stride_bytes);
  SIZE("w_down_stride_bytes", w_down_stride_bytes);
  SIZE("sf_down_stride_bytes", sf_down_stride_bytes);
  constexpr uint64_t slots = 4 * kTokens * kTopK, of_experts = 4 * kExperts;
  OPERAND(x, 16, 2 * kTokens * kHidden, false);
  OPERAND(ids, 4, slots, false);
  OPERAND(weights, 4, slots, true);
  OPERAND(w_gate, 16, kExperts * w, false);
  OPERAND(w_up, 16, kExperts * w, false);
  OPERAND(w_down, 16, kExperts * w, false);
  OPERAND(sf_gate, 16, kExperts * sf, false);
  OPERAND(sf_up, 16, kExperts * sf, false);
  OPERAND(sf_down, 16, kExperts * sf, false);
  OPERAND(alpha_gate, 4, of_experts, true);
  OPERAND(alpha_up, 4, of_experts, true);
  OPERAND(alpha_down, 4, of_experts, true);
  OPERAND(bias_gate, 16, of_experts * kIntermediate, true);
  OPERAND(bias_up, 16, of_experts * kIntermediate, true);
  OPERAND(bias_down, 16, of_experts * kHidden, true);
  OPERAND(x_scale, 4, 4, true);
  OPERAND(h_scale, 4, 4, true);
  return all;
}

const wltest::RuleLimits<Args, Subject>& limits() {
  static const std::vector<Sides> sides = make_sides();
  static const wltest::RuleLimits<Args, Subject> all(rules(), legal(), sides);
  return all;
}

} // namespace

TEST_CASE("wl_moe accepts the last legal values", "[host][moe]") {
  limits().accepts_the_last_legal_values();
}

TEST_CASE("wl_moe refuses with its sentence", "[host][moe]") {
  limits().refuses_with_its_sentence();
}

TEST_CASE("a wrong number of wl_moe has one sentence", "[host][moe]") {
  const std::pair<const char*, wltest::RuleChange<Args>> wrong[] = {
      {"w_stride_bytes_covers", SET(w_stride_bytes = 16)},
      {"w_stride_bytes_covers", SET(w_stride_bytes = (int64_t{1} << 62) + 16)},
      {"sf_stride_bytes_covers", SET(sf_stride_bytes = -16)},
      {"w_down_stride_bytes_covers", SET(w_down_stride_bytes = int64_t{1} << 40)},
      {"sf_down_stride_bytes_covers", SET(sf_down_stride_bytes = INT64_MAX / 16 * 16)},
      {"sf_layout", SET(sf_layout = static_cast<wl_sf_layout>(7))}};
  for (const auto& [id, change] : wrong) {
    Case c{legal()};
    change(c);
    std::string ids;
    for (const Violation& v : rules().violations({c.args, c.device, wltest::stub_memory()}))
      ids += std::string(v.rule.id) + " ";
    CHECK(ids == id + std::string(" "));
  }
}

// A run of fewer tokens finds room in the workspace of a plan for more.
TEST_CASE("sections of a layer's workspace do not overlap, and grow with the tokens",
          "[host][moe]") {
  for (const int major : {9, 10})
    for (const wl_operand a_type : {WL_OPERAND_NVFP4, WL_OPERAND_BF16}) {
      DeviceLimits device = wltest::b200_limits();
      device.compute_major = major;
      Args a = legal();
      a.a_type = a_type;
      size_t before = 0;
      for (const int64_t tokens : {1, 2, 16, 127, 4096}) {
        INFO("compute capability " << major << ", a_type " << a_type << ", T " << tokens);
        a.tokens = tokens;
        const Tokens as = a_type == WL_OPERAND_NVFP4 ? Tokens::quantised : Tokens::gathered;
        const Space s = space_of(a, device, as);
        const auto slots = static_cast<size_t>(tokens * kTopK);
        CHECK(s.rows >= s.group_ends + 4 * kExperts);
        CHECK(s.positions >= s.rows + 4 * slots);
        const size_t h = a_type == WL_OPERAND_NVFP4 ? s.sfa : s.positions + 4 * slots;
        if (a_type == WL_OPERAND_NVFP4) {
          CHECK(s.a >= s.positions + 4 * slots);
          const auto placed = major == 9 ? static_cast<size_t>(tokens) : slots;
          CHECK(s.sfa >= s.a + placed * kHidden / 2);
        }
        CHECK(s.h > h - 1);
        const size_t h_bytes = major == 9 ? 2 * slots * kIntermediate : slots * kIntermediate / 2;
        CHECK(s.down >= s.h + h_bytes);
        CHECK(s.products >= s.down + 2 * slots * kHidden);
        for (const size_t section :
             {s.rows, s.positions, s.a, s.sfa, s.h, s.sfh, s.down, s.products})
          CHECK(section % 256 == 0);
        CHECK(s.products >= before);
        before = s.products;
      }
    }
}

// h in the order of the second product: whole blocks of 8 rows of each expert and of 128 columns.
TEST_CASE("the workspace of a layer whose first product leaves h in order", "[host][moe]") {
  DeviceLimits h200 = wltest::b200_limits();
  h200.compute_major = 9;
  Args a = legal();
  a.a_type = WL_OPERAND_BF16;
  const auto zeros = static_cast<size_t>(warpline::gemm::sm90_group_zero_bytes);
  for (const int64_t tokens : {1, 127, 4096}) {
    a.tokens = tokens;
    const Space apart = space_of(a, h200, Tokens::gathered);
    const Space s = space_of(a, h200, Tokens::gathered, true);
    const auto pairs = static_cast<size_t>(tokens * kTopK);
    CHECK(s.cleared == apart.cleared);
    CHECK(s.cleared % 256 == 0);
    CHECK(s.positions >= s.cleared + zeros + 8);
    CHECK(s.h >= s.positions + 4 * pairs);
    const size_t rows = 8 * ((pairs + 7) / 8 + kExperts - 1), blocks = (kIntermediate + 127) / 128;
    CHECK(s.down >= s.h + rows * blocks * 256);
    const warpline::moe::Parts parts = parts_of(a, h200, Tokens::gathered, nullptr, true);
    CHECK(parts.order.zero_bytes == static_cast<int64_t>(zeros));
    CHECK(up_problem(parts).groups.next_tile == parts.order.cleared + zeros / 4 + 1);
    CHECK(down_problem(parts).groups.next_tile == parts.order.cleared + zeros / 4);
    CHECK(up_problem(parts).operands.d == down_problem(parts).operands.a);
    for (const bool first : {true, false}) {
      const warpline::gemm::Problem problem = first ? up_problem(parts) : down_problem(parts);
      CHECK(problem.groups.in_order);
      for (const warpline::gemm::Config& config : first ? up_configs() : down_configs()) {
        const bool takes = config.takes(problem.types) && config.d_type == problem.d_type;
        const bool orders = first ? config.orders_d() : config.takes_ordered();
        std::string why;
        if (!takes || config.routed) continue;
        CHECK(warpline::gemm::can_run(config, problem, h200, &why) == orders);
        if (!orders) CHECK(why == "it multiplies rows as they lie");
      }
    }
  }
}

// NVFP4 tokens have one place each.
TEST_CASE("the workspace of a layer whose products count experts' rows", "[host][moe]") {
  DeviceLimits h200 = wltest::b200_limits();
  h200.compute_major = 9;
  Args a = legal();
  a.tokens = 5;
  for (const wl_operand a_type : {WL_OPERAND_NVFP4, WL_OPERAND_BF16}) {
    a.a_type = a_type;
    const auto pairs = static_cast<size_t>(a.tokens * kTopK);
    const Space s = space_of(a, h200, Tokens::counted);
    CHECK(s.rows >= s.group_ends + 4 * kExperts);
    CHECK(s.cleared >= s.rows + 4 * pairs);
    CHECK(s.positions >= s.cleared + 8);
    const size_t h = s.positions + 4 * pairs;
    CHECK(s.h >= h);
    if (a_type == WL_OPERAND_NVFP4) {
      CHECK(s.a >= h);
      CHECK(s.sfa >= s.a + static_cast<size_t>(a.tokens * kHidden / 2));
      CHECK(s.h >= s.sfa + 128 * (kHidden / 16));
    }
    const warpline::moe::Parts parts = parts_of(a, h200, Tokens::counted, nullptr);
    for (const bool first : {true, false}) {
      const warpline::gemm::Problem problem = first ? up_problem(parts) : down_problem(parts);
      CHECK(problem.groups.ids == a.ids);
      CHECK(problem.groups.counted);
      CHECK_FALSE(problem.groups.routed());
      CHECK(problem.groups.positions == nullptr);
      CHECK((problem.groups.rows == parts.order.rows) == first);
      CHECK(problem.groups.next_tile == parts.order.cleared + (first ? 1 : 0));
      for (const warpline::gemm::Config& config : first ? up_configs() : down_configs()) {
        std::string why;
        const bool runs = warpline::gemm::can_run(config, problem, h200, &why);
        const bool takes = config.takes(problem.types) && config.d_type == problem.d_type;
        CHECK(runs == (config.counts() && takes));
      }
    }
    CHECK(up_problem(parts).groups.known);
    wl_moe_args more = a;
    more.tokens = 1 + warpline::gemm::Groups::most_counted / kTopK;
    const warpline::gemm::Problem beyond =
        up_problem(parts_of(more, h200, Tokens::counted, nullptr));
    CHECK(warpline::gemm::choose(up_configs(), beyond, h200) == nullptr);
  }
}

TEST_CASE("the order of experts by its definition", "[host][moe]") {
  const std::vector<int32_t> ids = {3, 1, -1, 3, 2, INT_MAX, 1, 3};
  const wltest::ExpertOrder order = wltest::order_experts(ids, 2, 3, 1);
  CHECK(order.ends == std::vector<int32_t>{2, 3, 6});
  CHECK(order.rows == std::vector<int32_t>{0, 3, 2, 0, 1, 3});
  CHECK(order.positions == std::vector<int32_t>{3, 0, -1, 4, 2, -1, 1, 5});
}

TEST_CASE("the sum over experts by its definition", "[host][moe]") {
  const std::vector<float> rows = {1, 10, 2, 20, INFINITY, NAN};
  const std::vector<float> y =
      wltest::combined(rows, {1, 0, -1, 3, 0, -1}, {0.5f, 2, 1, 1, 3, 0}, {1, 1, 1, 1, 1, 1}, 2, 2);
  CHECK(y == std::vector<float>{0.5f * 2 + 2 * 1 + 1, 0.5f * 20 + 2 * 10 + 1, 1, 1, 3 + 1, 30 + 1});
  // A zero that a negative number left too small stays what it is.
  const std::vector<float> small = wltest::combined({-1e-30f, 1}, {0, 1}, {1e-30f, 0}, {}, 1, 1);
  CHECK(std::signbit(small[0]));
}

// An H200 took 22 us for the layer of Qwen3-30B-A3B and one token with an order, of which the
// products are 17; weights that several pairs want are read once with one.
TEST_CASE("few pairs of token and expert are not ordered, where they share few experts",
          "[host][moe]") {
  DeviceLimits h200 = wltest::b200_limits();
  h200.compute_major = 9, h200.sm_count = 132;
  const auto chosen = [&](int64_t tokens, int64_t hidden, int64_t intermediate, int64_t experts,
                          int64_t top_k) {
    Args a = legal();
    a.a_type = WL_OPERAND_BF16;
    a.tokens = tokens, a.hidden = hidden, a.intermediate = intermediate;
    a.experts = experts, a.top_k = top_k;
    return needs_no_order(a, h200);
  };
  CHECK(chosen(1, 2048, 768, 128, 8));
  CHECK(chosen(1, 7168, 2048, 32, 1));
  CHECK(chosen(1, 2880, 2880, 128, 4));
  // On that H200 six waves of GPT-OSS's gate and up, K in four, took 28.2 us; three CTAs an SM hold
  // all of Qwen3's, K in two. DeepSeek-V3's 64 clusters of four are two more than it holds with two
  // CTAs an SM: with three they crowd, and the layer took 14.9 us; K in two, 13.9.
  const auto up = [&](int64_t hidden, int64_t intermediate, int64_t experts, int64_t top_k) {
    Args a = legal();
    a.a_type = WL_OPERAND_BF16, a.x_type = WL_BF16;
    a.tokens = 1, a.hidden = hidden, a.intermediate = intermediate;
    a.experts = experts, a.top_k = top_k;
    const Parts parts = parts_of(a, h200, Tokens::routed, nullptr);
    return std::string(warpline::gemm::choose(up_configs(), up_problem(parts), h200)->name);
  };
  CHECK(up(2048, 768, 128, 8) == "moe_up_sm90_split2_bf16");
  CHECK(up(7168, 2048, 32, 1) == "moe_up_sm90_split2_bf16");
  CHECK(up(2880, 2880, 128, 4) == "moe_up_sm90_bf16");
  CHECK(chosen(2, 2048, 768, 128, 8));
  CHECK(chosen(3, 2048, 768, 128, 8)); // 23.9 us, with an order 29.1
  CHECK(chosen(4, 2048, 768, 128, 8)); // 30.5 and 35.2, of skewed routing 29.9 and 29.8
  CHECK_FALSE(chosen(6, 2048, 768, 128, 8));
  CHECK(chosen(3, 2880, 2880, 128, 4));       // 57.2 and 63.2, of skewed routing 56.3 and 55.7
  CHECK_FALSE(chosen(4, 2880, 2880, 128, 4)); // 73.6 and 77.6, of skewed routing 72.7 and 68.1
  CHECK_FALSE(chosen(5, 2880, 2880, 128, 4)); // 89.0 and 92.3, of skewed routing 87.3 and 74.0
  CHECK_FALSE(chosen(8, 2880, 2880, 128, 4)); // 135 and 132, of skewed routing 134 and 89
  CHECK(chosen(8, 7168, 2048, 32, 1));        // 59.4 and 63.2, of skewed routing 58.1 and 56.3
  CHECK_FALSE(chosen(16, 7168, 2048, 32, 1)); // 107 and 110, of skewed routing 106 and 73
  CHECK_FALSE(chosen(8, 7168, 2048, 1, 1));
  CHECK_FALSE(chosen(8, 2048, 768, 128, 8));
  Args quantised = legal();
  quantised.tokens = 1, quantised.a_type = WL_OPERAND_NVFP4;
  quantised.hidden = 2048, quantised.intermediate = 768;
  quantised.experts = 128, quantised.top_k = 8;
  CHECK(needs_no_order(quantised, h200));
  CHECK_FALSE(needs_no_order(quantised, wltest::b200_limits()));
  quantised.tokens = 8;
  CHECK_FALSE(needs_no_order(quantised, h200));
  Args forced = legal();
  forced.tokens = 1, forced.a_type = WL_OPERAND_BF16;
  forced.config_down = "grouped_gemm_sm90_small_abf16_t8_bf16";
  CHECK_FALSE(needs_no_order(forced, h200));
  forced.config_down = "moe_down_sm90_bf16";
  CHECK(asked_for(forced) == Tokens::routed);
  forced.config_down = "moe_down_sm90_sum_bf16";
  CHECK(asked_for(forced) == Tokens::summed);
}

// An H200 took for one token and the sum in the down product, and behind it: of GPT-OSS's
// layer 25.2 and 27.0 us, of DeepSeek-V3's, one expert a token, whose K is shared behind it, 14.9
// and 15.4.
TEST_CASE("rows of a token are added up in the down product where its CTAs fit in two waves",
          "[host][moe]") {
  DeviceLimits h200 = wltest::b200_limits();
  h200.compute_major = 9, h200.sm_count = 132;
  const auto summed = [&](int64_t tokens, int64_t hidden, int64_t intermediate, int64_t top_k) {
    Args a = legal();
    a.x_type = a.y_type = WL_BF16, a.a_type = WL_OPERAND_BF16;
    a.tokens = tokens, a.hidden = hidden, a.intermediate = intermediate;
    a.experts = 128, a.top_k = top_k;
    return sums_in_product(a, h200);
  };
  CHECK(summed(1, 2048, 768, 8)); // 64 clusters of 8, of which five CTAs an SM are 77
  CHECK(summed(1, 2880, 2880, 4));
  CHECK(summed(1, 7168, 2048, 1));
  CHECK(summed(2, 2048, 768, 8));       // 18.0 us, with a launch of its own 19.0
  CHECK(summed(2, 2880, 2880, 4));      // 39.8 and 41.2
  CHECK_FALSE(summed(3, 2048, 768, 8)); // 66 clusters of 8, five CTAs on some SMs: 24.8 us and 23.9
  CHECK(summed(4, 2048, 768, 8));       // 30.4 and 30.7
  CHECK_FALSE(summed(3, 2880, 2880, 4)); // 93 of 4, four CTAs on some SMs
  CHECK_FALSE(summed(8, 7168, 2048, 1)); // in three waves
  CHECK_FALSE(summed(1, 256, 768, 9));   // rows of a cluster
}

TEST_CASE("CTAs of rows that are not ordered make several tiles where one wave does not hold all",
          "[host][moe]") {
  DeviceLimits h200 = wltest::b200_limits();
  h200.compute_major = 9, h200.sm_count = 132;
  struct Clusters {
    int64_t up, shared_k, down;
  };
  const auto clusters = [&](int64_t tokens, int64_t hidden, int64_t intermediate, int64_t top_k) {
    Args a = legal();
    a.x_type = a.y_type = WL_BF16, a.a_type = WL_OPERAND_BF16;
    a.tokens = tokens, a.hidden = hidden, a.intermediate = intermediate;
    a.experts = 128, a.top_k = top_k;
    const Parts parts = parts_of(a, h200, Tokens::summed, nullptr);
    const warpline::gemm::Problem up = up_problem(parts), down = down_problem(parts);
    const auto of = [&](const warpline::gemm::Table& table, const char* name,
                        const warpline::gemm::Problem& problem) {
      return warpline::gemm::cost(*find_config(table, name), problem, h200).clusters;
    };
    return Clusters{of(up_configs(), "moe_up_sm90_bf16", up),
                    of(up_configs(), "moe_up_sm90_split2_bf16", up),
                    of(down_configs(), "moe_down_sm90_sum_bf16", down)};
  };
  const Clusters one = clusters(1, 2048, 768, 8);
  CHECK(one.up == 192);
  CHECK(one.shared_k == 192);
  CHECK(one.down == 64);
  const Clusters two = clusters(2, 2048, 768, 8);
  CHECK(two.up == 384);
  CHECK(two.shared_k == 384); // of three tiles an SM would get two CTAs, and it holds three
  CHECK(two.down == 2 * 22);  // K does not fill the stages: three tiles each
  const Clusters three = clusters(3, 2048, 768, 8);
  CHECK(three.up == 576);       // of two tiles an SM would get 6, evenly 4.4
  CHECK(three.shared_k == 192); // of three tiles 4.5
  const Clusters four = clusters(4, 2048, 768, 8);
  CHECK(four.up == 384);
  CHECK(four.down == 4 * 22);
  const Clusters long_k = clusters(4, 2880, 2880, 4);
  CHECK(long_k.up == 16 * 92);
  CHECK(long_k.down == 4 * 31); // of two tiles they would not fit in one wave
  // The drawn problems of CTAs that keep sums (tests/problems/moe.cpp): three of 44 tiles each.
  h200.sm_count = 10;
  CHECK(clusters(1, 1344, 1408, 1).shared_k == 15);
  CHECK(clusters(1, 64, 1408, 1).shared_k == 15);
}
