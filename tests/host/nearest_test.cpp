// "nearest" in a message: the value put in the place of the refused one violates no rule of that
// argument. For arguments drawn at random, most of them at or beyond some rule's limit.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/quantize/quantize.hpp"
#include "tests/reference/inputs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/rule_sides.hpp"

#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace warpline;

namespace {

class Draws {
public:
  explicit Draws(uint64_t seed) : random_(seed, 0) {}
  uint64_t below(uint64_t bound) { return random_.below(index_++, bound); }
  bool one_in(uint64_t n) { return below(n) == 0; }

  int64_t integer() {
    static const int64_t edges[] = {0,         1,         2,         7,         8,
                                    63,        64,        65,        100,       4096,
                                    1 << 20,   1 << 25,   1 << 30,   1ll << 31, 1 << 21,
                                    1ll << 40, 1ll << 46, 1ll << 47, 1ll << 62, INT64_MAX};
    const int64_t edge = edges[below(std::size(edges))];
    const auto off = static_cast<int64_t>(below(17)) - 8;
    switch (below(6)) {
    case 0:
      return edge < INT64_MAX - 8 ? edge + off : edge - 8 + off;
    case 1:
      return -edge;
    case 2:
      return INT64_MIN + static_cast<int64_t>(below(9));
    case 3:
      return 64 * static_cast<int64_t>(below(64));
    case 4:
      return static_cast<int64_t>(below(5000));
    default:
      return edge;
    }
  }
  // An operand's place, 2^44 bytes from the next one's, or near an end of the addresses.
  void* address(uint64_t number) {
    if (one_in(20)) return nullptr;
    if (one_in(20)) return reinterpret_cast<void*>(below(32));
    if (one_in(20)) return reinterpret_cast<void*>(UINT64_MAX - below(32));
    return reinterpret_cast<void*>((number << 44 | 1ull << 40) + (one_in(2) ? below(32) : 0));
  }

private:
  wltest::Random random_;
  uint64_t index_ = 0;
};

// How a test writes the argument of an operation that a message names.
template <class Args>
using Setter = std::function<void(Args&, int64_t)>;

#define INTEGER(name, field)                                                                       \
  {                                                                                                \
    name, [](auto& args, int64_t value) {                                                          \
      args.field = static_cast<std::remove_reference_t<decltype(args.field)>>(value);              \
    }                                                                                              \
  }
#define POINTER(name, field)                                                                       \
  {                                                                                                \
    name, [](auto& args, int64_t value) {                                                          \
      args.field = reinterpret_cast<decltype(args.field)>(value);                                  \
    }                                                                                              \
  }

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> values;
  std::istringstream in(list);
  for (std::string value; std::getline(in >> std::ws, value, ',');) values.push_back(value);
  return values;
}

template <class Args, class Subject>
class Nearest {
public:
  Nearest(const RuleTable<Subject>& rules, std::map<std::string, Setter<Args>> integers,
          std::map<std::string, Setter<Args>> pointers)
      : rules_(rules), integers_(std::move(integers)), pointers_(std::move(pointers)) {}

  void check(const Args& args) {
    for (const Violation& v : violations(args)) {
      if (v.verdict.nearest.empty()) continue;
      INFO(v.rule.id << ": " << v.sentence());
      const auto integer = integers_.find(v.rule.argument);
      const auto pointer = pointers_.find(v.rule.argument);
      if (v.rule.argument == "config") {
        for (const std::string& name : split(v.verdict.nearest)) {
          Args changed = args;
          changed.config = name.c_str();
          accepts(changed, v.rule.argument, {});
        }
      } else if (integer != integers_.end()) {
        for (const std::string& value : split(v.verdict.nearest)) {
          Args changed = args;
          integer->second(changed, std::stoll(value));
          accepts(changed, v.rule.argument, {});
        }
      } else if (v.rule.kind == RuleKind::range) { // of a tensor: the extent that makes it
        const size_t equals = v.verdict.nearest.find(" = ");
        REQUIRE(equals != std::string::npos);
        const std::string name = v.verdict.nearest.substr(0, equals);
        Args changed = args;
        integers_.at(name)(changed, std::stoll(v.verdict.nearest.substr(equals + 3)));
        accepts(changed, name, {});
        for (const Violation& left : violations(changed)) CHECK(left.rule.id != v.rule.id);
      } else if (v.rule.kind == RuleKind::alignment || v.rule.kind == RuleKind::pointer) {
        REQUIRE(pointer != pointers_.end());
        // What another argument makes too large stays so, and what lies beside it no rule of the
        // argument alone can know.
        std::set<std::string> before;
        for (const Violation& other : violations(args))
          if (other.rule.id != v.rule.id) before.insert(other.rule.id);
        for (const RuleRow& row : rules_.rows())
          if (row.kind == RuleKind::overlap) before.insert(row.id);
        for (const std::string& value : split(v.verdict.nearest)) {
          Args changed = args;
          pointer->second(
              changed, value == "null" ? 0 : static_cast<int64_t>(std::stoull(value, nullptr, 16)));
          accepts(changed, v.rule.argument, before);
        }
      } else {
        // A remedy in words: a copy, an allocation, other targets.
        CHECK((v.rule.kind == RuleKind::memory || v.rule.kind == RuleKind::support));
        continue;
      }
      tried_.insert(v.rule.id);
    }
  }

  // Rules whose nearest was put to the test.
  const std::set<std::string>& tried() const { return tried_; }

private:
  std::vector<Violation> violations(const Args& args) {
    return rules_.violations({args, device_, wltest::stub_memory()});
  }
  void accepts(const Args& args, const std::string& argument, const std::set<std::string>& but) {
    for (const Violation& v : violations(args)) {
      if (v.rule.argument != argument || but.count(v.rule.id) != 0) continue;
      INFO("nearest: " << v.sentence());
      FAIL_CHECK("the nearest value violates " << v.rule.id);
    }
  }

  const RuleTable<Subject>& rules_;
  std::map<std::string, Setter<Args>> integers_, pointers_;
  DeviceLimits device_ = wltest::b200_limits();
  std::set<std::string> tried_;
};

// Each field is legal in two calls of three, so that rules are met one at a time and together.
template <class Args>
void draw(Draws& draws, Args* args, const std::map<std::string, Setter<Args>>& integers,
          const std::map<std::string, Setter<Args>>& pointers) {
  for (const auto& [name, set] : integers)
    if (draws.one_in(3)) set(*args, draws.integer());
  uint64_t number = 0;
  for (const auto& [name, set] : pointers) {
    ++number;
    set(*args, static_cast<int64_t>(number << 44 | 1ull << 40));
    if (draws.one_in(3)) set(*args, reinterpret_cast<int64_t>(draws.address(number)));
  }
}

constexpr uint64_t seeds = 4000;

} // namespace

TEST_CASE("the nearest value of each rule of the dual GEMM is legal", "[host][rules][nearest]") {
  using Args = wl_dual_gemm_args;
  const std::map<std::string, Setter<Args>> integers = {
      INTEGER("M", m),           INTEGER("N", n),
      INTEGER("K", k),           INTEGER("L", l),
      INTEGER("ldd", ldd),       INTEGER("batch_stride_d", batch_stride_d),
      INTEGER("d_type", d_type), INTEGER("sf_layout", sf_layout),
      INTEGER("flags", flags),   INTEGER("a_type", a_type),
      INTEGER("b_type", b_type)};
  const std::map<std::string, Setter<Args>> pointers = {
      POINTER("A", a),           POINTER("B1", b1),          POINTER("B2", b2),
      POINTER("SFA", sfa),       POINTER("SFB1", sfb1),      POINTER("SFB2", sfb2),
      POINTER("D", d),           POINTER("SFD", sfd),        POINTER("alpha1", alpha1),
      POINTER("alpha2", alpha2), POINTER("d_scale", d_scale)};
  Nearest<Args, dual_gemm::Subject> nearest(dual_gemm::rules(), integers, pointers);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    Draws draws(seed);
    Args args{};
    args.struct_size = sizeof args;
    args.m = 256, args.n = 4096, args.k = 7168, args.l = 1 + static_cast<int64_t>(draws.below(3));
    args.d_type = static_cast<wl_dtype>(draws.below(3));
    draw(draws, &args, integers, pointers);
    if (draws.one_in(8)) args.b_type = WL_OPERAND_MXFP4; // which few draws make
    if (draws.one_in(4)) args.config = draws.one_in(2) ? "fastest" : "dual_gemm_sm100_n64_bf16";
    if (draws.one_in(8) && !gemm::unpacked(args.a_type))
      args.a_type = WL_OPERAND_F16, args.b_type = WL_OPERAND_NVFP4;
    nearest.check(args);
  }
  const std::set<std::string> expected = {"m_range",
                                          "n_range",
                                          "n_multiple",
                                          "k_range",
                                          "k_multiple",
                                          "l_range",
                                          "sf_layout",
                                          "d_type",
                                          "flags",
                                          "a_type",
                                          "b_type",
                                          "type_k_range",
                                          "type_k_multiple",
                                          "sfa_unused",
                                          "sfb1_unused",
                                          "sfb2_unused",
                                          "nvfp4_columns",
                                          "a_entry",
                                          "b_entry",
                                          "b_decoded",
                                          "a_aligned",
                                          "b1_aligned",
                                          "b2_aligned",
                                          "a_unpacked",
                                          "b1_unpacked",
                                          "b2_unpacked",
                                          "sfa_aligned",
                                          "sfb1_aligned",
                                          "sfb2_aligned",
                                          "d_aligned",
                                          "alpha1_aligned",
                                          "alpha2_aligned",
                                          "sfd_aligned",
                                          "d_scale_aligned",
                                          "ldd_covers",
                                          "ldd_multiple",
                                          "batch_stride_covers",
                                          "batch_stride_multiple",
                                          "nvfp4_ldd",
                                          "nvfp4_batch_stride",
                                          "config_known",
                                          "config_runs"};
  CHECK(nearest.tried() == expected);
}

TEST_CASE("the nearest value of each rule of wl_gemm is legal", "[host][rules][nearest]") {
  using Args = wl_gemm_args;
  const std::map<std::string, Setter<Args>> integers = {INTEGER("M", m),
                                                        INTEGER("N", n),
                                                        INTEGER("K", k),
                                                        INTEGER("L", l),
                                                        INTEGER("ldd", ldd),
                                                        INTEGER("batch_stride_d", batch_stride_d),
                                                        INTEGER("ldr", ldr),
                                                        INTEGER("batch_stride_r", batch_stride_r),
                                                        INTEGER("d_type", d_type),
                                                        INTEGER("bias_type", bias_type),
                                                        INTEGER("activation", activation),
                                                        INTEGER("sf_layout", sf_layout),
                                                        INTEGER("flags", flags),
                                                        INTEGER("a_type", a_type),
                                                        INTEGER("b_type", b_type),
                                                        INTEGER("a_layout", a_layout),
                                                        INTEGER("b_layout", b_layout)};
  const std::map<std::string, Setter<Args>> pointers = {POINTER("A", a),
                                                        POINTER("B", b),
                                                        POINTER("SFA", sfa),
                                                        POINTER("SFB", sfb),
                                                        POINTER("D", d),
                                                        POINTER("SFD", sfd),
                                                        POINTER("alpha", alpha),
                                                        POINTER("row", row),
                                                        POINTER("col", col),
                                                        POINTER("bias", bias),
                                                        POINTER("residual", residual),
                                                        POINTER("d_scale", d_scale)};
  Nearest<Args, linear::Subject> nearest(linear::rules(), integers, pointers);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    Draws draws(seed);
    Args args{};
    args.struct_size = sizeof args;
    args.m = 256, args.n = 4096, args.k = 7168, args.l = 1 + static_cast<int64_t>(draws.below(3));
    args.d_type = static_cast<wl_dtype>(draws.below(4));
    draw(draws, &args, integers, pointers);
    if (draws.one_in(2)) args.residual = nullptr;
    if (draws.one_in(4)) args.config = draws.one_in(2) ? "fastest" : "gemm_sm100_n64_bf16";
    if (draws.one_in(8) && !gemm::unpacked(args.a_type))
      args.a_type = WL_OPERAND_F16, args.b_type = WL_OPERAND_NVFP4;
    nearest.check(args);
  }
  // Every rule that names a nearest value, but those of sizes, pointers, memory and overlap.
  std::set<std::string> expected;
  for (const RuleRow& row : linear::rules().rows())
    if (row.kind == RuleKind::range || row.kind == RuleKind::multiple ||
        row.kind == RuleKind::alignment || row.id == "config_runs" || row.id == "nvfp4_residual" ||
        row.id.ends_with("_unused"))
      expected.insert(row.id);
  for (const char* none : {"tiles", "a_size", "b_size", "d_size", "residual_size"})
    expected.erase(none);
  CHECK(nearest.tried() == expected);
}

TEST_CASE("the nearest value of each rule of the quantiser is legal", "[host][rules][nearest]") {
  using Args = wl_quantize_args;
  const std::map<std::string, Setter<Args>> integers = {
      INTEGER("M", m),           INTEGER("K", k),
      INTEGER("L", l),           INTEGER("ldx", ldx),
      INTEGER("x_type", x_type), INTEGER("batch_stride_x", batch_stride_x),
      INTEGER("flags", flags),   INTEGER("sf_layout", sf_layout)};
  const std::map<std::string, Setter<Args>> pointers = {
      POINTER("X", x), POINTER("D", d), POINTER("SFD", sfd), POINTER("d_scale", d_scale)};
  Nearest<Args, quantize::Subject> nearest(quantize::rules(), integers, pointers);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    Draws draws(seed);
    Args args{};
    args.struct_size = sizeof args;
    args.m = 256, args.k = 7168, args.l = 1 + static_cast<int64_t>(draws.below(3));
    args.x_type = draws.one_in(2) ? WL_F16 : WL_BF16;
    draw(draws, &args, integers, pointers);
    if (draws.one_in(4)) args.config = draws.one_in(2) ? "fastest" : "quantize_sm90_f16";
    nearest.check(args);
  }
  const std::set<std::string> expected = {"m_range",
                                          "k_range",
                                          "k_multiple",
                                          "l_range",
                                          "x_type",
                                          "sf_layout",
                                          "flags",
                                          "x_aligned",
                                          "d_aligned",
                                          "sfd_aligned",
                                          "d_scale_aligned",
                                          "ldx_covers",
                                          "ldx_multiple",
                                          "batch_stride_covers",
                                          "batch_stride_multiple",
                                          "config_known",
                                          "config_runs"};
  CHECK(nearest.tried() == expected);
}

TEST_CASE("an enumerator of -1 is printed as it was written", "[host][rules]") {
  wl_dual_gemm_args args{};
  args.d_type = static_cast<wl_dtype>(-1);
  args.sf_layout = static_cast<wl_sf_layout>(-1);
  int seen = 0;
  for (const Violation& v : dual_gemm::rules().violations({args, wltest::b200_limits()})) {
    if (v.rule.id != "d_type" && v.rule.id != "sf_layout") continue;
    ++seen;
    CHECK(v.verdict.finding == " = -1");
    CHECK(v.verdict.nearest == "0");
  }
  CHECK(seen == 2);
  wl_quantize_args quantise{};
  quantise.x_type = static_cast<wl_dtype>(-1);
  for (const Violation& v : quantize::rules().violations({quantise, wltest::b200_limits()}))
    if (v.rule.id == "x_type") CHECK(v.verdict.finding == " = -1");
}
