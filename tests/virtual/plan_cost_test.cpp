// What wl_plan_run costs on the host: no allocation, and as few driver calls as there can be.
#include "runtime/src/context.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/plan_problem.hpp"
#include "tests/support/virtual_context.hpp"

#include <cstddef>
#include <string>
#include <vector>

// Allocations are counted by standing in for the C library's functions, which operator new calls as
// well. A sanitizer stands there itself.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
int driver_calls = 0;
} // namespace

#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  allocations += counting;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations += counting;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  allocations += counting;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations += counting;
  return __libc_memalign(alignment, bytes);
}
}
#pragma GCC visibility pop

namespace {

// The driver's share is not the library's: calls of a run are answered here.
class StubbedRun {
public:
  explicit StubbedRun(wl_context* context)
      : driver_(const_cast<warpline::Driver*>(context->driver)), before_(driver_->cu) {
    owner = context->handle;
    driver_->cu.CtxGetCurrent = [](cuapi::CUcontext* current) {
      *current = is_current ? owner : nullptr;
      return answer();
    };
    driver_->cu.CtxPushCurrent = [](cuapi::CUcontext) { return answer(); };
    driver_->cu.CtxPopCurrent = [](cuapi::CUcontext* popped) {
      *popped = owner;
      return answer();
    };
    driver_->cu.StreamGetCtx = [](cuapi::CUstream, cuapi::CUcontext* context_of_stream) {
      *context_of_stream = owner;
      return answer();
    };
    driver_->cu.LaunchKernelEx = [](const cuapi::CUlaunchConfig*, cuapi::CUfunction, void**,
                                    void**) { return answer(); };
  }
  ~StubbedRun() { driver_->cu = before_; }
  StubbedRun(const StubbedRun&) = delete;
  StubbedRun& operator=(const StubbedRun&) = delete;

  static inline bool is_current = true; // the library's context, as under a framework

private:
  static cuapi::CUresult answer() {
    ++driver_calls;
    return cuapi::CUDA_SUCCESS;
  }
  static inline cuapi::CUcontext owner = nullptr;
  warpline::Driver* driver_;
  cuapi::Functions before_;
};

template <class Body>
int allocations_of(const Body& body) {
  allocations = 0;
  counting = true;
  body();
  counting = false;
  return allocations;
}

} // namespace

TEST_CASE("plan: a run allocates nothing", "[virtual][plan]") {
  wl_context* context = wltest::virtual_context("b200");
  wltest::PlanProblem problem(context);
  wl_quantize_args quantisation{};
  quantisation.struct_size = sizeof quantisation;
  quantisation.m = 8, quantisation.k = 64, quantisation.l = 1;
  quantisation.x = problem.bytes(8 * 64 * 2, 1);
  quantisation.d = problem.bytes(8 * 64 / 2, 2);
  quantisation.sfd = problem.scales(8);
  wl_plan* plans[2] = {};
  REQUIRE(wl_dual_gemm_plan(context, &problem.args, &plans[0]) == WL_SUCCESS);
  REQUIRE(wl_quantize_plan(context, &quantisation, &plans[1]) == WL_SUCCESS);
  wl_stream stream = nullptr;
  REQUIRE(wl_stream_create(context, &stream) == WL_SUCCESS);
  for (wl_plan* plan : plans) {
    const StubbedRun stubbed(context);
    StubbedRun::is_current = true;
    CHECK(allocations_of([] { std::vector<std::string> seen(3, std::string(100, 'x')); }) == 5);
    wl_status status = WL_ERROR_INTERNAL;
    driver_calls = 0;
    CHECK(allocations_of([&] { status = wl_plan_run(plan, nullptr, 0, stream); }) == 0);
    CHECK(status == WL_SUCCESS);
    CHECK(driver_calls == 3); // current context, stream's context, launch
    driver_calls = 0;
    CHECK(allocations_of([&] { status = wl_plan_run(plan, nullptr, 0, nullptr); }) == 0);
    CHECK(status == WL_SUCCESS);
    CHECK(driver_calls == 2);
    StubbedRun::is_current = false;
    driver_calls = 0;
    CHECK(allocations_of([&] { status = wl_plan_run(plan, nullptr, 0, nullptr); }) == 0);
    CHECK(status == WL_SUCCESS);
    CHECK(driver_calls == 4); // pushed and popped too
  }
  CHECK(wl_stream_destroy(context, stream) == WL_SUCCESS);
  for (wl_plan* plan : plans) wl_plan_destroy(plan);
}

#endif
