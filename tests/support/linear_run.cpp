#include "tests/support/linear_run.hpp"

#include "kernels/linear/linear.hpp"

#include <cstdio>

namespace wltest {

namespace {

constexpr float d_scale = 0.5f;

// Of operands that the forced configuration takes; where it has two launches for some, those.
warpline::gemm::Types types_of(const LinearCase& c) {
  for (const warpline::gemm::Config& config : warpline::linear::configs())
    if (c.config == config.name) {
      warpline::gemm::Types types = config.first_types();
      if (config.decodes_b) types.b = WL_OPERAND_NVFP4;
      if (c.a_type >= 0) types.a = static_cast<wl_operand>(c.a_type);
      if (c.mn_major != 0) {
        types.a_layout = (c.mn_major & 1) != 0 ? WL_MN_MAJOR : WL_K_MAJOR;
        types.b_layout = (c.mn_major & 2) != 0 ? WL_MN_MAJOR : WL_K_MAJOR;
      }
      return types;
    }
  return {};
}

Problem problem_of(const LinearCase& c) {
  // Other types than NVFP4 have a K that is not whole blocks of it, too.
  Problem p = make_problem(c.m, c.n, (c.k + 15) / 16 * 16, c.l, InputKind::exact, c.seed, 1);
  p.k = c.k;
  p.a = in_type(p.a, types_of(c).a, c.k);
  p.b1 = in_type(p.b1, types_of(c).b, c.k);
  return p;
}

LinearOperands operands_of(const LinearCase& c, float alpha) {
  LinearOperands operands{
      c.gelu ? WL_ACTIVATION_GELU_TANH : WL_ACTIVATION_NONE, alpha, {}, {}, {}, {}};
  const Random random(c.seed, 55);
  // Eighths, which all types of D hold.
  for (int64_t i = 0; c.residual && i < c.l * c.m * c.n; ++i)
    operands.residual.push_back(static_cast<float>((i * 7 + i / 5) % 61 - 30) / 8);
  // Of both signs, and products that FP32 rounds.
  const auto factors = [&](int64_t count, uint64_t stream) {
    const Random numbers(c.seed, stream);
    std::vector<float> all;
    for (int64_t i = 0; i < count; ++i)
      all.push_back(static_cast<float>(4 * numbers.uniform(static_cast<uint64_t>(i)) - 2));
    return all;
  };
  if (c.row) operands.row = factors(c.l * c.m, 56);
  if (c.col) operands.col = factors(c.n, 57);
  if (!c.bias) return operands;
  for (int64_t i = 0; i < c.n; ++i)
    operands.bias.push_back(static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i)) - 1));
  return operands;
}

size_t bytes_of_d(const LinearCase& c) {
  return static_cast<size_t>(c.l * c.m * c.n) * (c.d_type == WL_F32 ? 4 : 2);
}

} // namespace

LinearRun::LinearRun(wl_context* context, const LinearCase& c, const LinearRun* before)
    : context_(context), case_(c), before_(before), problem_(problem_of(c)),
      operands_(operands_of(c, problem_.alpha1)),
      a_(context, stored(problem_.a, types_of(c).a_layout)),
      b_(context, stored(problem_.b1, types_of(c).b_layout)),
      factors_(context, std::vector<float>{operands_.alpha, d_scale}),
      bias_(context, operands_.bias),
      residual_(context,
                c.residual ? rounded(operands_.residual, c.d_type) : std::vector<uint8_t>()),
      row_(context, operands_.row), col_(context, operands_.col), sfa_(context, problem_.a, true),
      sfb_(context, problem_.b1, true), d_(context, c.m, c.n, c.l),
      plain_(context, std::vector<uint8_t>(bytes_of_d(c), 0x7F)) {
  const bool nvfp4 = c.d_type == WL_NVFP4;
  wl_gemm_args args{};
  args.struct_size = sizeof args;
  args.m = c.m, args.n = c.n, args.k = c.k, args.l = c.l;
  const bool takes_codes = before != nullptr && before->case_.d_type == WL_NVFP4;
  args.a = takes_codes ? before->d_.d() : before != nullptr ? before->plain_.pointer : a_.pointer;
  args.sfa = takes_codes ? before->d_.sfd() : before != nullptr ? nullptr : sfa_.pointer;
  args.b = b_.pointer, args.sfb = sfb_.pointer;
  args.a_type = takes_codes         ? WL_OPERAND_NVFP4
                : before != nullptr ? WL_OPERAND_F16
                                    : problem_.a.type;
  args.b_type = problem_.b1.type;
  args.a_layout = types_of(c).a_layout, args.b_layout = types_of(c).b_layout;
  args.alpha = static_cast<const float*>(factors_.pointer);
  if (c.bias) args.bias = bias_.pointer;
  if (c.row) args.row = static_cast<const float*>(row_.pointer);
  if (c.col) args.col = static_cast<const float*>(col_.pointer);
  args.bias_type = WL_F32;
  if (c.residual) args.residual = residual_.pointer;
  args.activation = operands_.activation;
  if (c.static_weights) args.flags = WL_STATIC_WEIGHTS;
  args.d_type = c.d_type;
  args.d = nvfp4 ? d_.d() : plain_.pointer;
  if (nvfp4) args.sfd = d_.sfd(), args.d_scale = args.alpha + 1;
  args.config = c.config.empty() ? nullptr : c.config.c_str();
  if (wl_gemm_plan(context, &args, &plan_) != WL_SUCCESS) {
    message_ = wl_last_error();
    return;
  }
  wl_plan_info info{};
  info.struct_size = sizeof info;
  wl_plan_get_info(plan_, &info);
  workspace_bytes_ = info.workspace_bytes;
  workspace_ =
      std::make_unique<DeviceBuffer>(context, std::vector<uint8_t>(workspace_bytes_, 0xA5));
}

wl_status LinearRun::run(wl_stream stream) const {
  return wl_plan_run(plan_, workspace_->pointer, workspace_bytes_, stream);
}

std::vector<uint8_t> LinearRun::bytes() const { return plain_.read(bytes_of_d(case_)); }

std::vector<std::pair<void*, size_t>> LinearRun::memory() const {
  return {{a_.pointer, problem_.a.values.size()},
          {b_.pointer, case_.static_weights ? 0 : problem_.b1.values.size()},
          {residual_.pointer, case_.residual ? bytes_of_d(case_) : 0},
          {plain_.pointer, case_.d_type == WL_NVFP4 ? 0 : bytes_of_d(case_)}};
}

std::string LinearRun::check() const {
  Problem p = problem_;
  bool intact = true;
  if (before_ != nullptr) p.a = before_->d_.read(&intact);
  const Sums sums = accumulate(p);
  const std::vector<float> expected = linear_replayed(sums, operands_);
  int64_t unequal = 0;
  if (case_.d_type == WL_NVFP4) {
    unequal = count_unequal(d_.read(&intact), quantized(expected, sums, d_scale));
  } else {
    const std::vector<uint8_t> bytes = rounded(expected, case_.d_type);
    const std::vector<uint8_t> found = this->bytes();
    for (size_t i = 0; i < bytes.size(); ++i) unequal += found[i] != bytes[i];
  }
  if (!intact) return "memory around D was written to";
  return unequal == 0 ? "" : std::to_string(unequal) + " numbers or bytes of D are wrong";
}

} // namespace wltest
