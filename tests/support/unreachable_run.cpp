#include "tests/support/unreachable_run.hpp"

#include "tests/support/plan_runs.hpp"

#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace wltest {

namespace {

// A call with one argument replaced, and that argument's name in the message.
template <class Args>
struct Swap {
  const char* name;
  std::function<void(Args&, void*)> put;
};

template <class Args>
void check_call(wl_context* context, const Args& legal, const std::vector<Swap<Args>>& swaps,
                wl_status (*check)(wl_context*, const Args*),
                wl_status (*make)(wl_context*, const Args*, wl_plan**), void* address, bool refused,
                const std::string& reason) {
  REQUIRE(check(context, &legal) == WL_SUCCESS);
  for (const Swap<Args>& swap : swaps) {
    INFO(swap.name << " at " << address);
    Args args = legal;
    swap.put(args, address);
    if (!refused) {
      CHECK(check(context, &args) == WL_SUCCESS);
      continue;
    }
    wl_plan* plan = nullptr;
    CHECK(make(context, &args, &plan) == WL_ERROR_WRONG_DEVICE);
    CHECK(plan == nullptr);
    CHECK(check(context, &args) == WL_ERROR_WRONG_DEVICE);
    CHECK_THAT(std::string(wl_last_error()),
               ContainsSubstring(std::string(": ") + swap.name + ": address ") &&
                   ContainsSubstring(reason + " must be memory that the device can reach") &&
                   ContainsSubstring("1 rule violated, nothing was launched"));
  }
}

#define SWAP(Args, name, field)                                                                    \
  {                                                                                                \
    name, [](Args& args, void* p) { args.field = static_cast<decltype(args.field)>(p); }           \
  }

} // namespace

OperandChecks::OperandChecks(wl_context* context)
    : problem_(context), x_(context, 64 * 2), d_(context, 64 / 2), sfd_(context, 512) {
  quantise_.struct_size = sizeof quantise_;
  quantise_.m = 1, quantise_.k = 64, quantise_.l = 1;
  quantise_.x = x_.pointer, quantise_.d = d_.pointer, quantise_.sfd = sfd_.pointer;
}

void OperandChecks::check(void* address, bool refused, const std::string& reason) const {
  using Gemm = wl_dual_gemm_args;
  check_call<Gemm>(problem_.context, problem_.args,
                   {SWAP(Gemm, "A", a), SWAP(Gemm, "B1", b1), SWAP(Gemm, "B2", b2),
                    SWAP(Gemm, "SFA", sfa), SWAP(Gemm, "SFB1", sfb1), SWAP(Gemm, "SFB2", sfb2),
                    SWAP(Gemm, "D", d), SWAP(Gemm, "SFD", sfd), SWAP(Gemm, "alpha1", alpha1),
                    SWAP(Gemm, "alpha2", alpha2), SWAP(Gemm, "d_scale", d_scale)},
                   wl_dual_gemm_check, wl_dual_gemm_plan, address, refused, reason);
  using Quantise = wl_quantize_args;
  check_call<Quantise>(problem_.context, quantise_,
                       {SWAP(Quantise, "X", x), SWAP(Quantise, "D", d), SWAP(Quantise, "SFD", sfd),
                        SWAP(Quantise, "d_scale", d_scale)},
                       wl_quantize_check, wl_quantize_plan, address, refused, reason);
}

void check_unreachable(wl_context* context) {
  const OperandChecks operands(context);
  const PlanProblem problem(context);
  PlanRuns runs(problem);
  void* const workspace = runs.workspace();
  const std::vector<uint8_t> expected = runs.result(workspace, nullptr);

  // Large enough to be a mapping of its own: what is freed is then unmapped.
  constexpr size_t bytes = 64 << 20;
  const std::unique_ptr<void, void (*)(void*)> host(std::aligned_alloc(4096, bytes), std::free);
  REQUIRE(host);
  const bool pages = context->limits.pageable_memory;
  operands.check(host.get(), !pages, "is the host's or was freed,");

  void* device = nullptr;
  REQUIRE(wl_malloc(context, bytes, &device) == WL_SUCCESS);
  operands.check(static_cast<uint8_t*>(device) + bytes / 2, false, "");
  REQUIRE(wl_free(context, device) == WL_SUCCESS);
  if (!pages) operands.check(device, true, "is the host's or was freed,");

  CHECK(runs.result(workspace, nullptr) == expected);
}

} // namespace wltest
