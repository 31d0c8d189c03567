#include "tests/support/dual_gemm_run.hpp"

#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/linear/linear.hpp"
#include "runtime/src/context.hpp"
#include "tests/reference/quantize.hpp"
#include "tests/support/captured_graph.hpp"
#include "tests/support/device_buffer.hpp"

#include <cstring>
#include <sstream>

namespace wltest {

namespace {

constexpr size_t kGuard = 256;     // elements before and after D
constexpr uint16_t kFill = 0x7FFF; // NaN in both output types

// A quantisation that writes an operand, if the case has one.
class Quantiser {
public:
  Quantiser(wl_context* context, const DualGemmCase& c, int64_t rows, const DeviceBuffer& values,
            const DeviceBuffer& scales)
      : x_(context, c.quantised ? matrix(c, rows).codes : std::vector<uint16_t>()) {
    if (!c.quantised || scales.pointer == nullptr) return;
    wl_quantize_args args{};
    args.struct_size = sizeof args;
    args.m = rows, args.k = c.k, args.l = c.l;
    args.x = x_.pointer, args.x_type = WL_F16;
    args.d = values.pointer, args.sfd = scales.pointer;
    status = wl_quantize_plan(context, &args, &plan_);
  }
  ~Quantiser() { wl_plan_destroy(plan_); }
  Quantiser(const Quantiser&) = delete;
  Quantiser& operator=(const Quantiser&) = delete;

  // E2M1 values with a 6 in every block of 16: their scales are 1, and sums of products are exact.
  static Matrix matrix(const DualGemmCase& c, int64_t rows) {
    static const uint16_t kCodes[] = {0x0000, 0x3800, 0x3C00, 0x3E00,
                                      0x4000, 0x4200, 0x4400, 0x4600};
    Matrix x = make_matrix(rows, c.k, c.l, OutputType::f16, c.seed + static_cast<uint64_t>(rows));
    for (size_t i = 0; i < x.codes.size(); ++i)
      x.codes[i] = (x.codes[i] & 0x8000) | kCodes[i % 16 == 0 ? 7 : x.codes[i] % 8];
    return x;
  }
  wl_status run(wl_stream stream) const {
    return plan_ ? wl_plan_run(plan_, nullptr, 0, stream) : WL_SUCCESS;
  }
  wl_status status = WL_SUCCESS;

private:
  DeviceBuffer x_;
  wl_plan* plan_ = nullptr;
};

std::vector<float> biases(const DualGemmCase& c, float unit, uint64_t stream) {
  const Random random(c.seed, stream);
  std::vector<float> values(unit != 0 ? static_cast<size_t>(c.n) : 0);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = unit * (static_cast<float>(random.below(i, 64)) - 32);
  return values;
}

wl_operand a_type_of(const DualGemmCase& c) {
  return c.a_type < 0 ? first_a_type(c.config) : static_cast<wl_operand>(c.a_type);
}

// Of a configuration of the dual GEMM; of wl_gemm's, which problems of this kind have no B2 for, B
// stays as it is.
wl_operand b_type_of(const DualGemmCase& c) {
  for (const warpline::gemm::Config& entry : warpline::dual_gemm::configs())
    if (c.config == entry.name) return entry.first_types().b;
  return WL_OPERAND_NVFP4;
}

} // namespace

wl_operand first_a_type(const std::string& config) {
  for (const auto* table : {&warpline::dual_gemm::configs(), &warpline::linear::configs()})
    for (const warpline::gemm::Config& entry : *table)
      if (config == entry.name) return entry.first_types().a;
  return WL_OPERAND_NVFP4;
}

std::string describe(const DualGemmCase& c) {
  std::ostringstream s;
  s << name_of(c.kind) << " m " << c.m << " n " << c.n << " k " << c.k << " l " << c.l << " out "
    << (c.out == OutputType::f16 ? "f16" : "bf16") << " config "
    << (c.config.empty() ? "auto" : c.config) << " ldd " << c.ldd << " gap " << c.entry_gap
    << " alphas " << c.alphas << " " << c.alpha1 << " " << c.alpha2 << " gate " << c.gate.kind
    << " limit " << c.gate.limit << " a_type " << a_type_of(c) << " biases " << c.bias1 << " "
    << c.bias2 << " of type " << c.bias_type << " seed " << c.seed
    << (c.quantised ? " quantised" : "");
  return s.str();
}

Problem problem_of(const DualGemmCase& c) {
  Problem p = make_problem(c.m, c.n, c.k, c.l, c.kind, c.seed);
  if (c.alpha1 != 0) p.alpha1 = c.alpha1;
  if (c.alpha2 != 0) p.alpha2 = c.alpha2;
  if (c.quantised) {
    p.a = quantize(Quantiser::matrix(c, c.m), 1);
    p.b1 = quantize(Quantiser::matrix(c, c.n), 1);
  }
  p.a = in_type(p.a, a_type_of(c));
  p.b1 = in_type(p.b1, b_type_of(c));
  p.b2 = in_type(p.b2, b_type_of(c));
  return p;
}

GatedOperands gated_operands(const DualGemmCase& c, const Problem& p) {
  return {c.gate, p.alpha1, p.alpha2, biases(c, c.bias1, 91), biases(c, c.bias2, 92)};
}

DualGemmResult run_dual_gemm(wl_context* context, const DualGemmCase& c) {
  const Problem p = problem_of(c);
  return run_dual_gemm(context, c, p, accumulate(p));
}

DualGemmResult run_dual_gemm(wl_context* context, const DualGemmCase& c, const Problem& p,
                             const Sums& sums) {
  DualGemmResult r;
  DeviceBuffer a(context, p.a.values), b1(context, p.b1.values), b2(context, p.b2.values);
  ScaleBuffer sfa(context, p.a, !c.unwritten), sfb1(context, p.b1, !c.unwritten),
      sfb2(context, p.b2, !c.unwritten);
  DeviceBuffer alpha(context, 8);
  float alphas[2] = {p.alpha1, p.alpha2};
  wl_upload(context, alpha.pointer, alphas, sizeof alphas);

  const GatedOperands operands = gated_operands(c, p);
  const DeviceBuffer bias1(context, rounded(operands.bias1, c.bias_type)),
      bias2(context, rounded(operands.bias2, c.bias_type));

  int64_t ldd = c.ldd ? c.ldd : c.n;
  int64_t batch_stride = c.m * ldd + c.entry_gap;
  size_t elements = static_cast<size_t>(c.l * batch_stride);
  std::vector<uint16_t> before(elements + 2 * kGuard, kFill);
  DeviceBuffer d(context, before.size() * 2);

  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = c.m;
  args.n = c.n;
  args.k = c.k;
  args.l = c.l;
  args.a = a.pointer;
  args.b1 = b1.pointer;
  args.b2 = b2.pointer;
  args.sfa = sfa.pointer;
  args.a_type = p.a.type, args.b_type = p.b1.type;
  args.sfb1 = sfb1.pointer;
  args.sfb2 = sfb2.pointer;
  args.sf_layout = WL_SF_128x4;
  if (c.alphas || p.alpha1 != 1) args.alpha1 = static_cast<float*>(alpha.pointer);
  if (c.alphas || p.alpha2 != 1) args.alpha2 = static_cast<float*>(alpha.pointer) + 1;
  if (c.bias1 != 0) args.bias1 = bias1.pointer;
  if (c.bias2 != 0) args.bias2 = bias2.pointer;
  args.bias_type = c.bias_type;
  args.gate = c.gate.kind;
  args.gate_limit = c.gate.limit;
  args.d = static_cast<uint16_t*>(d.pointer) + kGuard;
  args.d_type = c.out == OutputType::f16 ? WL_F16 : WL_BF16;
  args.ldd = c.ldd;
  args.batch_stride_d = batch_stride;
  args.config = c.config.empty() ? nullptr : c.config.c_str();

  auto failed = [&](wl_status s) {
    if (s == WL_SUCCESS) return false;
    r.status = s;
    r.message = wl_last_error();
    return true;
  };
  const Quantiser quantise_a(context, c, c.m, a, sfa), quantise_b1(context, c, c.n, b1, sfb1);
  if (failed(quantise_a.status) || failed(quantise_b1.status)) return r;
  wl_plan* plan = nullptr;
  if (failed(wl_dual_gemm_plan(context, &args, &plan))) return r;
  r.info.struct_size = sizeof r.info;
  wl_plan_get_info(plan, &r.info);
  r.config = r.info.config;
  // A workspace may hold anything before the first run, and what a run left before the next.
  const std::vector<uint8_t> junk(r.info.workspace_bytes ? r.info.workspace_bytes : 256, 0xFF);
  DeviceBuffer workspace(context, junk.size());
  if (!c.unwritten || polls_workspace(r.config))
    wl_upload(context, workspace.pointer, junk.data(), junk.size());
  const auto enqueue = [&](wl_stream stream) {
    wl_status status = quantise_b1.run(stream);
    if (status == WL_SUCCESS) status = quantise_a.run(stream);
    if (c.ahead)
      c.ahead({{a.pointer, p.a.values.size()},
               {b1.pointer, p.b1.values.size()},
               {bias1.pointer, c.bias1 != 0 ? rounded(operands.bias1, c.bias_type).size() : 0},
               {alpha.pointer, sizeof alphas},
               {d.pointer, 2 * before.size()}});
    for (int i = 0; i < c.in_a_row && status == WL_SUCCESS; ++i)
      status = wl_plan_run(plan, workspace.pointer, r.info.workspace_bytes, stream);
    return status;
  };
  CapturedGraph graph(context);
  if (c.graph) failed(graph.capture(enqueue));

  if (c.unwritten) wl_download(context, before.data(), d.pointer, before.size() * 2);
  std::vector<uint16_t> first, image(before.size());
  for (int run = 0; run < c.runs && r.status == WL_SUCCESS; ++run) {
    if (!c.unwritten) wl_upload(context, d.pointer, before.data(), before.size() * 2);
    if (failed(c.graph ? graph.launch() : enqueue(nullptr)) ||
        failed(wl_stream_synchronize(context, nullptr)) ||
        failed(wl_download(context, image.data(), d.pointer, image.size() * 2)))
      break;
    if (run == 0)
      first = image;
    else
      r.runs_agree &= first == image;
  }
  wl_plan_destroy(plan);
  if (r.status != WL_SUCCESS) return r;

  const uint16_t* out = first.data() + kGuard;
  for (ptrdiff_t i = 0; i < ptrdiff_t(kGuard); ++i)
    r.guards_intact &= first[i] == before[i] && first.rbegin()[i] == before.rbegin()[i];
  for (size_t i = 0; i < elements; ++i) {
    int64_t in_entry = static_cast<int64_t>(i) % batch_stride;
    bool inside = in_entry < c.m * ldd && in_entry % ldd < c.n;
    if (!inside) r.guards_intact &= out[i] == before[kGuard + i];
  }
  r.bound = compare(sums, gated(sums, operands), out, ldd, batch_stride, c.out);
  std::vector<uint16_t> replayed;
  for (const float value : gated_replayed(sums, operands))
    replayed.push_back(encode_output(c.out, double{value}));
  r.exact = compare_exact(sums, replayed, out, ldd, batch_stride, c.out);
  return r;
}

} // namespace wltest
