// The constraint table of wl_moe: the one source of its check, documentation and tests.
#include "kernels/gemm/rules.hpp"
#include "kernels/moe/moe.hpp"
#include "runtime/src/configs.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>

namespace warpline::moe {

namespace {

using Args = wl_moe_args;
using gemm::element_bytes;

constexpr int64_t most_ids = int64_t{1} << 31;

bool in(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

// Of one expert.
int64_t w_entry(int64_t rows, int64_t k) { return rows * (k / 2); }
int64_t sf_entry(const Args& a, int64_t rows, int64_t k) {
  return static_cast<int64_t>(wl_sf_bytes(a.sf_layout, rows, k));
}
// From the first byte of the first expert's to the last of the last one's; 0 where another rule
// speaks of a size.
uint64_t of_all_experts(const Args& a, int64_t entry, int64_t stride) {
  if (stride == 0) stride = entry;
  if (entry <= 0 || stride < entry || stride >= gemm::stride_limit) return 0;
  return static_cast<uint64_t>((a.experts - 1) * stride + entry);
}
uint64_t matrix_bytes(const Args& a, int64_t rows, int64_t k, int64_t stride) {
  return sized(a) ? of_all_experts(a, w_entry(rows, k), stride) : 0;
}
uint64_t scale_bytes(const Args& a, int64_t rows, int64_t k, int64_t stride) {
  return sized(a) ? of_all_experts(a, sf_entry(a, rows, k), stride) : 0;
}
uint64_t of_slots(const Args& a) { return sized(a) ? 4 * static_cast<uint64_t>(slots_of(a)) : 0; }
uint64_t of_experts(const Args& a, int64_t each) {
  return sized(a) ? static_cast<uint64_t>(a.experts * each) : 0;
}

// What the arguments point to.
Extent x_of(const Args& a) {
  return {"x", a.x, sized(a) ? 2 * static_cast<uint64_t>(a.tokens * a.hidden) : 0};
}
Extent ids_of(const Args& a) { return {"ids", a.ids, of_slots(a)}; }
Extent weights_of(const Args& a) { return {"weights", a.weights, of_slots(a)}; }
Extent w_gate_of(const Args& a) {
  return {"w_gate", a.w_gate, matrix_bytes(a, a.intermediate, a.hidden, a.w_stride_bytes)};
}
Extent w_up_of(const Args& a) {
  return {"w_up", a.w_up, matrix_bytes(a, a.intermediate, a.hidden, a.w_stride_bytes)};
}
Extent w_down_of(const Args& a) {
  return {"w_down", a.w_down, matrix_bytes(a, a.hidden, a.intermediate, a.w_down_stride_bytes)};
}
Extent sf_gate_of(const Args& a) {
  return {"sf_gate", a.sf_gate, scale_bytes(a, a.intermediate, a.hidden, a.sf_stride_bytes)};
}
Extent sf_up_of(const Args& a) {
  return {"sf_up", a.sf_up, scale_bytes(a, a.intermediate, a.hidden, a.sf_stride_bytes)};
}
Extent sf_down_of(const Args& a) {
  return {"sf_down", a.sf_down, scale_bytes(a, a.hidden, a.intermediate, a.sf_down_stride_bytes)};
}
Extent alpha_gate_of(const Args& a) { return {"alpha_gate", a.alpha_gate, of_experts(a, 4)}; }
Extent alpha_up_of(const Args& a) { return {"alpha_up", a.alpha_up, of_experts(a, 4)}; }
Extent alpha_down_of(const Args& a) { return {"alpha_down", a.alpha_down, of_experts(a, 4)}; }
Extent bias_gate_of(const Args& a) {
  return {"bias_gate", a.bias_gate, of_experts(a, a.intermediate * element_bytes(a.bias_type))};
}
Extent bias_up_of(const Args& a) {
  return {"bias_up", a.bias_up, of_experts(a, a.intermediate * element_bytes(a.bias_type))};
}
Extent bias_down_of(const Args& a) {
  return {"bias_down", a.bias_down, of_experts(a, a.hidden * element_bytes(a.bias_type))};
}
Extent x_scale_of(const Args& a) { return {"x_scale", a.x_scale, sizeof(float)}; }
Extent h_scale_of(const Args& a) { return {"h_scale", a.h_scale, sizeof(float)}; }
Extent shared_extent(const Args& a) {
  return {"shared", a.shared,
          static_cast<uint64_t>(shared_of(a).extent() * element_bytes(a.y_type))};
}
// The macros of operands speak of what is written as D.
Extent d_of(const Args& a) {
  return {"y", a.y, static_cast<uint64_t>(y_of(a).extent() * element_bytes(a.y_type))};
}

// ---- evaluators

Verdict slots_fit(const Args& a) {
  if (!in(a.tokens, 1, most_slots) || !in(a.top_k, 1, most_top_k) || slots_of(a) < most_slots)
    return holds();
  return violated(format(" = %" PRId64 ", %" PRId64, a.tokens, a.top_k),
                  format("T = %" PRId64, (most_slots - 1) / a.top_k));
}
Verdict ids_fit(const Args& a) {
  if (!in(a.experts, 1, most_local_experts)) return holds();
  return in_range(a.first_expert, 0, most_ids - a.experts);
}
wl_operand operand_of(wl_dtype type) { return type == WL_F16 ? WL_OPERAND_F16 : WL_OPERAND_BF16; }
bool x_known(const Args& a) { return a.x_type == WL_F16 || a.x_type == WL_BF16; }
Verdict a_type(const Args& a) {
  if (!x_known(a) || a.a_type == WL_OPERAND_NVFP4 || a.a_type == operand_of(a.x_type))
    return holds();
  return violated(format(" = %d", static_cast<int>(a.a_type)),
                  format("%d, %d", WL_OPERAND_NVFP4, operand_of(a.x_type)));
}
// Blackwell has no products of 16-bit activations and NVFP4 weights.
Verdict a_type_runs(const Args& a, const DeviceLimits& device) {
  if (!x_known(a) || a.a_type != operand_of(a.x_type) || device.compute_major == 9) return holds();
  return violated(format(" = %d on compute capability %d.%d", static_cast<int>(a.a_type),
                         device.compute_major, device.compute_minor),
                  format("%d", WL_OPERAND_NVFP4));
}
Verdict y_type(wl_dtype type) {
  const int number = static_cast<int>(type);
  if (number == WL_F16 || number == WL_BF16 || number == WL_F32) return holds();
  return violated(format(" = %d", number), "0, 1, 3");
}
Verdict stride_covers(const Args& a, int64_t stride, int64_t least) {
  if (!sized(a) || stride == 0) return holds();
  return in_range(stride, least, gemm::stride_limit - 16, least);
}
Verdict experts_fit(uint64_t bytes) {
  return bytes != 0 ? batch_fits_address_space(bytes) : holds();
}
Verdict stride_multiple_of_16(int64_t stride) {
  return stride > 0 ? multiple_of(stride, 16) : holds();
}
Verdict limit_of_any(const Args& a) {
  if (a.gate == WL_GATE_CLAMPED || a.gate_limit >= 0) return holds();
  return violated(format(" = %g", double{a.gate_limit}), "0");
}
Verdict limit_of_clamped(const Args& a) {
  if (a.gate != WL_GATE_CLAMPED || a.gate_limit > 0) return holds();
  return violated(format(" = %g", double{a.gate_limit}), "7, as GPT-OSS has it");
}
Verdict shared_apart(const Args& a) {
  if (a.shared == a.y && shared_of(a).row_stride() == y_of(a).row_stride()) return holds();
  return disjoint(d_of(a), shared_extent(a));
}
Verdict of_shared(const Args& a, Verdict (*rule)(const Strided&)) {
  return a.shared == nullptr ? holds() : rule(shared_of(a));
}
Verdict fits(const Args& a, const Strided& tensor, const char* name) {
  return fits_address_space(tensor, element_bytes(a.y_type), name);
}
// Of the products: a configuration's name, and whether it runs.
template <class Table>
Verdict known(const Table& table, const char* name, const Subject& s) {
  return config_known(table, name, [&](const gemm::Config& config, std::string* reason) {
    const std::string why = target_mismatch(config, s.device);
    if (reason != nullptr) *reason = why;
    return why.empty();
  });
}
template <class Problem>
Verdict runs(const gemm::Table& table, const char* name, const Subject& s, const Problem& of) {
  if (!sized(s.args)) return holds();
  const Tokens as = asked_for(s.args);
  return config_runs(table, name, [&](const gemm::Config& config, std::string* reason) {
    return gemm::can_run(config, of(parts_of(s.args, s.device, as, nullptr)), s.device, reason);
  });
}
} // namespace

bool sized(const Args& a) {
  return in(a.tokens, 1, most_slots) && in(a.top_k, 1, most_top_k) && slots_of(a) < most_slots &&
         in(a.hidden, 64, largest_width) && in(a.intermediate, 64, largest_width) &&
         in(a.experts, 1, most_local_experts);
}

Strided y_of(const Args& a) { return {a.tokens, a.hidden, 1, a.ldy, 0, sized(a)}; }
Strided shared_of(const Args& a) { return {a.tokens, a.hidden, 1, a.ld_shared, 0, sized(a)}; }

bool quantised(const Args& args) { return args.a_type == WL_OPERAND_NVFP4; }
wl_dtype h_type(const Args& args, const DeviceLimits& device) {
  return device.compute_major == 9 ? args.x_type : WL_NVFP4;
}
wl_dtype rows_type(const Args& args, const DeviceLimits& device) {
  if (device.compute_major != 9) return args.y_type;
  return args.y_type == WL_BF16 ? WL_BF16 : h_type(args, device);
}

std::vector<Extent> operands(const Args& a) {
  return {d_of(a),          x_of(a),        ids_of(a),        weights_of(a),   w_gate_of(a),
          w_up_of(a),       w_down_of(a),   sf_gate_of(a),    sf_up_of(a),     sf_down_of(a),
          alpha_gate_of(a), alpha_up_of(a), alpha_down_of(a), bias_gate_of(a), bias_up_of(a),
          bias_down_of(a),  x_scale_of(a),  h_scale_of(a),    shared_extent(a)};
}

// WL_OPTIONAL_OPERAND names what it overlaps D.
#define OPTIONAL(id, field, extent, bytes)                                                         \
  WL_RULE(id "_aligned", id, "must be " #bytes "-byte aligned", alignment,                         \
          aligned(s.args.field, bytes)),                                                           \
      WL_RULE(id "_reachable", id, reachable_text, memory, reachable(s.context, extent(s.args))),  \
      WL_RULE("y_overlaps_" id, "y", "must not overlap " id, overlap,                              \
              disjoint(d_of(s.args), extent(s.args)))
#define GIVEN(id, field, extent, bytes)                                                            \
  WL_RULE(id "_null", id, "must not be null", pointer, not_null(s.args.field)),                    \
      OPTIONAL(id, field, extent, bytes)
#define STRIDE(id, field, least, extent)                                                           \
  WL_RULE(id "_covers", id, "must be 0 or from a dense expert's to 2^40 - 16 bytes", range,        \
          stride_covers(s.args, s.args.field, least)),                                             \
      WL_RULE(id "_multiple", id, "must be a multiple of 16 bytes", multiple,                      \
              stride_multiple_of_16(s.args.field)),                                                \
      WL_RULE(id "_size", id, "must keep all experts below 2^47 bytes", range,                     \
              experts_fit(extent(s.args).bytes))

const RuleTable<Subject>& rules() {
  static const RuleTable<Subject> table{
      "wl_moe",
      {
          WL_RULE("device", "device", "must run one of the library's targets", support,
                  device_supported(configs(), s.device)),
          WL_RULE("tokens_range", "T", "must be from 1 to 2^30 tokens", range,
                  in_range(s.args.tokens, 1, most_slots)),
          WL_RULE("top_k_range", "top_k", "must be from 1 to 32", range,
                  in_range(s.args.top_k, 1, most_top_k)),
          WL_RULE("slots", "T, top_k", "must make fewer than 2^30 rows", range, slots_fit(s.args)),
          WL_RULE("hidden_range", "H", "must be from 64 to 2^20 elements", range,
                  in_range(s.args.hidden, 64, largest_width)),
          WL_RULE("hidden_multiple", "H", "must be a multiple of 64 elements", multiple,
                  multiple_of(s.args.hidden, 64, 64, largest_width)),
          WL_RULE("intermediate_range", "I", "must be from 64 to 2^20 elements", range,
                  in_range(s.args.intermediate, 64, largest_width)),
          WL_RULE("intermediate_multiple", "I", "must be a multiple of 64 elements", multiple,
                  multiple_of(s.args.intermediate, 64, 64, largest_width)),
          WL_RULE("experts_range", "E", "must be from 1 to 512 experts", range,
                  in_range(s.args.experts, 1, most_local_experts)),
          WL_RULE("first_expert", "first_expert", "must be from 0 to 2^31 - E", range,
                  ids_fit(s.args)),
          WL_RULE("x_type", "x_type", "must be WL_F16 (0) or WL_BF16 (1)", range,
                  enumerator(s.args.x_type, WL_F16, WL_BF16)),
          WL_RULE("a_type", "a_type", "must be WL_OPERAND_NVFP4 (0) or what x_type is", range,
                  a_type(s.args)),
          WL_RULE("a_type_runs", "a_type", "must be multiplied with NVFP4 by the device", support,
                  a_type_runs(s.args, s.device)),
          WL_RULE("sf_layout", "sf_layout", gemm::scale_layout_text, range,
                  gemm::scale_layout(s.args.sf_layout, s.device)),
          WL_RULE("y_type", "y_type", "must be WL_F16 (0), WL_BF16 (1) or WL_F32 (3)", range,
                  y_type(s.args.y_type)),
          WL_RULE("bias_type", "bias_type", gemm::bias_type_text, range,
                  gemm::bias_type(s.args.bias_type,
                                  s.args.bias_gate || s.args.bias_up || s.args.bias_down)),
          WL_RULE("gate", "gate", "must be from WL_GATE_SILU (0) to WL_GATE_CLAMPED (2)", range,
                  enumerator(s.args.gate, WL_GATE_SILU, WL_GATE_CLAMPED)),
          WL_RULE("gate_limit", "gate_limit", "must be positive, or 0 for none", range,
                  limit_of_any(s.args)),
          WL_RULE("clamped_limit", "gate_limit", "must be positive for WL_GATE_CLAMPED", range,
                  limit_of_clamped(s.args)),
          WL_RULE("flags", "flags", "must be of WL_STATIC_WEIGHTS (1) and WL_GRAPH_LAUNCH (2)",
                  range, flags_among(s.args.flags, WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH)),

          WL_RULE("y_null", "y", "must not be null", pointer, not_null(s.args.y)),
          WL_RULE("y_aligned", "y", "must be 16-byte aligned", alignment, aligned(s.args.y, 16)),
          WL_RULE("y_reachable", "y", reachable_text, memory, reachable(s.context, d_of(s.args))),
          GIVEN("x", x, x_of, 16),
          GIVEN("ids", ids, ids_of, 4),
          OPTIONAL("weights", weights, weights_of, 4),
          GIVEN("w_gate", w_gate, w_gate_of, 16),
          GIVEN("w_up", w_up, w_up_of, 16),
          GIVEN("w_down", w_down, w_down_of, 16),
          GIVEN("sf_gate", sf_gate, sf_gate_of, 16),
          GIVEN("sf_up", sf_up, sf_up_of, 16),
          GIVEN("sf_down", sf_down, sf_down_of, 16),
          OPTIONAL("alpha_gate", alpha_gate, alpha_gate_of, 4),
          OPTIONAL("alpha_up", alpha_up, alpha_up_of, 4),
          OPTIONAL("alpha_down", alpha_down, alpha_down_of, 4),
          OPTIONAL("bias_gate", bias_gate, bias_gate_of, 16),
          OPTIONAL("bias_up", bias_up, bias_up_of, 16),
          OPTIONAL("bias_down", bias_down, bias_down_of, 16),
          OPTIONAL("x_scale", x_scale, x_scale_of, 4),
          OPTIONAL("h_scale", h_scale, h_scale_of, 4),
          STRIDE("w_stride_bytes", w_stride_bytes, w_entry(s.args.intermediate, s.args.hidden),
                 w_gate_of),
          STRIDE("sf_stride_bytes", sf_stride_bytes,
                 sf_entry(s.args, s.args.intermediate, s.args.hidden), sf_gate_of),
          STRIDE("w_down_stride_bytes", w_down_stride_bytes,
                 w_entry(s.args.hidden, s.args.intermediate), w_down_of),
          STRIDE("sf_down_stride_bytes", sf_down_stride_bytes,
                 sf_entry(s.args, s.args.hidden, s.args.intermediate), sf_down_of),

          WL_RULE("shared_aligned", "shared", "must be 16-byte aligned", alignment,
                  aligned(s.args.shared, 16)),
          WL_RULE("shared_reachable", "shared", reachable_text, memory,
                  reachable(s.context, shared_extent(s.args))),
          WL_RULE("y_overlaps_shared", "y",
                  "must not overlap shared, unless it is shared, with its stride", overlap,
                  shared_apart(s.args)),
          WL_RULE("ld_shared_covers", "ld_shared", "must be 0 or at least H elements", range,
                  of_shared(s.args, ld_covers)),
          WL_RULE("ld_shared_multiple", "ld_shared", "must be a multiple of 8 elements", multiple,
                  of_shared(s.args, ld_multiple)),
          WL_RULE("ldy_covers", "ldy", "must be 0 or at least H elements", range,
                  ld_covers(y_of(s.args))),
          WL_RULE("ldy_multiple", "ldy", "must be a multiple of 8 elements", multiple,
                  ld_multiple(y_of(s.args))),
          WL_RULE("y_size", "y", "must be below 2^47 bytes", range,
                  fits(s.args, y_of(s.args), "y")),
          WL_RULE("shared_size", "shared", "must be below 2^47 bytes", range,
                  s.args.shared == nullptr ? holds() : fits(s.args, shared_of(s.args), "shared")),

          WL_RULE("config_up_known", "config_up",
                  "must name a configuration of wl_grouped_dual_gemm or moe_up_*", range,
                  known(up_configs(), s.args.config_up, s)),
          WL_RULE("config_up_runs", "config_up",
                  "must be a configuration for this device and these types", support,
                  runs(up_configs(), s.args.config_up, s, up_problem)),
          WL_RULE("config_down_known", "config_down",
                  "must name a configuration of wl_grouped_gemm or moe_down_*", range,
                  known(down_configs(), s.args.config_down, s)),
          WL_RULE("config_down_runs", "config_down",
                  "must be a configuration for this device and these types", support,
                  runs(down_configs(), s.args.config_down, s, down_problem)),
      }};
  return table;
}

} // namespace warpline::moe
