// A dual GEMM plan through the public ABI on the virtual GPU: misuse gets a status and a sentence,
// several threads and streams may run one plan.
#include "tests/support/catch.hpp"
#include "tests/support/virtual_context.hpp"

#include <thread>
#include <vector>

using wltest::ContainsSubstring;

namespace {

constexpr int64_t m = 130, n = 128, k = 256;

// Operands of one problem in device memory.
struct Problem {
  explicit Problem(wl_context* c) : context(c) {
    args.struct_size = sizeof args;
    args.m = m, args.n = n, args.k = k, args.l = 1;
    args.a = bytes(m * k / 2, 1), args.b1 = bytes(n * k / 2, 2), args.b2 = bytes(n * k / 2, 3);
    args.sfa = scales(m), args.sfb1 = scales(n), args.sfb2 = scales(n);
    args.d = bytes(m * n * 2, 4);
    args.d_type = WL_F16;
  }
  ~Problem() {
    for (void* p : memory) wl_free(context, p);
  }
  void* upload(const std::vector<uint8_t>& host) {
    void* device = nullptr;
    REQUIRE(wl_malloc(context, host.size(), &device) == WL_SUCCESS);
    REQUIRE(wl_upload(context, device, host.data(), host.size()) == WL_SUCCESS);
    memory.push_back(device);
    return device;
  }
  void* bytes(int64_t count, uint32_t seed) {
    std::vector<uint8_t> host(static_cast<size_t>(count));
    for (uint8_t& byte : host)
      byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
    return upload(host);
  }
  void* scales(int64_t rows) {
    return upload(std::vector<uint8_t>(wl_sf_bytes(WL_SF_128x4, rows, k), 0x28)); // 1/4
  }
  std::vector<uint8_t> result() const {
    std::vector<uint8_t> host(m * n * 2);
    CHECK(wl_download(context, host.data(), args.d, host.size()) == WL_SUCCESS);
    return host;
  }

  wl_context* context;
  wl_dual_gemm_args args{};
  std::vector<void*> memory;
};

void check_message(const char* text) {
  CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
}

} // namespace

TEST_CASE("plan: misuse gets a status and a sentence", "[virtual][plan]") {
  wl_context* context = wltest::virtual_context("b200");
  const Problem problem(context);
  wl_plan* plan = nullptr;

  CHECK(wl_dual_gemm_plan(context, nullptr, &plan) == WL_ERROR_INVALID_ARGUMENT);
  check_message("args is null");
  CHECK(wl_dual_gemm_plan(context, &problem.args, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  check_message("plan is null");
  CHECK(wl_dual_gemm_plan(nullptr, &problem.args, &plan) == WL_ERROR_INVALID_ARGUMENT);
  check_message("context");
  for (const size_t size : {size_t{0}, sizeof(wl_dual_gemm_args) - 8, size_t{4096}}) {
    wl_dual_gemm_args args = problem.args;
    args.struct_size = size;
    CHECK(wl_dual_gemm_check(context, &args) == WL_ERROR_ABI);
    check_message("wl_dual_gemm_args");
    CHECK(wl_dual_gemm_plan(context, &args, &plan) == WL_ERROR_ABI);
    CHECK(plan == nullptr);
  }
  CHECK(wl_plan_run(nullptr, nullptr, 0, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  check_message("plan: pointer is null");

  // What is refused is neither launched nor written.
  const std::vector<uint8_t> before = problem.result();
  wl_dual_gemm_args args = problem.args;
  args.k = 100;
  CHECK(wl_dual_gemm_plan(context, &args, &plan) == WL_ERROR_INVALID_ARGUMENT);
  check_message("nothing was launched");
  CHECK(problem.result() == before);

  REQUIRE(wl_dual_gemm_plan(context, &problem.args, &plan) == WL_SUCCESS);
  int dummy = 0; // an address that is no stream
  CHECK(wl_plan_run(plan, nullptr, 0, &dummy) == WL_ERROR_WRONG_DEVICE);
  CHECK(problem.result() == before);
  wl_plan_destroy(plan);
}

TEST_CASE("plan: two threads run one plan on streams of their own", "[virtual][plan]") {
  wl_context* context = wltest::virtual_context("b200");
  const Problem problem(context);
  wl_plan* plan = nullptr;
  REQUIRE(wl_dual_gemm_plan(context, &problem.args, &plan) == WL_SUCCESS);
  REQUIRE(wl_plan_run(plan, nullptr, 0, nullptr) == WL_SUCCESS);
  const std::vector<uint8_t> expected = problem.result();

  std::vector<wl_status> statuses(8, WL_ERROR_INTERNAL);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      wl_stream stream = nullptr;
      if (wl_stream_create(context, &stream) != WL_SUCCESS) return;
      for (size_t i = 0; i < 4; ++i) statuses[4 * t + i] = wl_plan_run(plan, nullptr, 0, stream);
      wl_stream_synchronize(context, stream);
      wl_stream_destroy(context, stream);
    });
  for (std::thread& thread : threads) thread.join();
  for (const wl_status status : statuses) CHECK(status == WL_SUCCESS);
  CHECK(problem.result() == expected);
  wl_plan_destroy(plan);
}
