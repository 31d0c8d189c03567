// Memory that the device cannot reach, through the entry points of both operations, on a driver
// that gives each of its answers.
#include "tests/support/fake_gpu.hpp"

using namespace wltest;

namespace {

// Legal arguments in memory of the fake device, 64 KiB for each tensor.
struct Calls {
  explicit Calls(wl_context& c) : context(&c) {
    REQUIRE(wl_malloc(context, 16 * room, &memory) == WL_SUCCESS);
    const auto tensor = [&](size_t i) { return static_cast<uint8_t*>(memory) + i * room; };
    gemm.struct_size = sizeof gemm;
    gemm.m = 8, gemm.n = 64, gemm.k = 64, gemm.l = 1;
    gemm.a = tensor(0), gemm.b1 = tensor(1), gemm.b2 = tensor(2);
    gemm.sfa = tensor(3), gemm.sfb1 = tensor(4), gemm.sfb2 = tensor(5);
    gemm.d = tensor(6), gemm.sfd = tensor(7), gemm.d_type = WL_NVFP4;
    gemm.alpha1 = gemm.alpha2 = gemm.d_scale = reinterpret_cast<float*>(tensor(8));
    quantise.struct_size = sizeof quantise;
    quantise.m = 8, quantise.k = 64, quantise.l = 1;
    quantise.x = tensor(9), quantise.d = tensor(10), quantise.sfd = tensor(11);
    quantise.d_scale = reinterpret_cast<float*>(tensor(12));
  }
  ~Calls() { wl_free(context, memory); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void check_both(wl_status expected, const std::string& sentence = "") const {
    CHECK(wl_dual_gemm_check(context, &gemm) == expected);
    if (!sentence.empty()) CHECK_THAT(wl_last_error(), ContainsSubstring(sentence));
    CHECK(wl_quantize_check(context, &quantise) == expected);
    if (!sentence.empty()) CHECK_THAT(wl_last_error(), ContainsSubstring(sentence));
  }

  static constexpr size_t room = 1 << 16;
  wl_context* context;
  void* memory = nullptr;
  wl_dual_gemm_args gemm{};
  wl_quantize_args quantise{};
};

alignas(16) float host_memory[1024];

} // namespace

TEST_CASE("host memory is refused by name, and nothing else", "[host][rules]") {
  FakeGpu gpu;
  Calls calls(gpu.context());
  calls.check_both(WL_SUCCESS);
  CHECK(gpu.fake->pushed == 0);

  const std::string rule = warpline::format(": address 0x%llx is the host's or was freed, must be "
                                            "memory that the device can reach (nearest: an upload "
                                            "to device 0, or registered memory); ",
                                            reinterpret_cast<unsigned long long>(host_memory));
  calls.gemm.alpha2 = calls.quantise.d_scale = host_memory;
  CHECK(wl_dual_gemm_check(calls.context, &calls.gemm) == WL_ERROR_WRONG_DEVICE);
  CHECK(wl_last_error() ==
        "wl_dual_gemm_check: alpha2" + rule + "1 rule violated, nothing was launched");
  CHECK(wl_quantize_check(calls.context, &calls.quantise) == WL_ERROR_WRONG_DEVICE);
  CHECK(wl_last_error() ==
        "wl_quantize_check: d_scale" + rule + "1 rule violated, nothing was launched");
  wl_plan* plan = nullptr;
  CHECK(wl_dual_gemm_plan(calls.context, &calls.gemm, &plan) == WL_ERROR_WRONG_DEVICE);
  CHECK(wl_quantize_plan(calls.context, &calls.quantise, &plan) == WL_ERROR_WRONG_DEVICE);
  CHECK(gpu.fake->loads == 0);

  calls.gemm.k = 63; // with a rule of another kind the status is the general one
  CHECK(wl_dual_gemm_check(calls.context, &calls.gemm) == WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("alpha2" + rule));
}

TEST_CASE("freed memory and memory of another device are refused", "[host][rules]") {
  FakeGpu gpu;
  Calls calls(gpu.context());
  void* short_lived = nullptr;
  REQUIRE(wl_malloc(calls.context, Calls::room, &short_lived) == WL_SUCCESS);
  calls.gemm.a = calls.quantise.x = short_lived;
  calls.check_both(WL_SUCCESS);
  REQUIRE(wl_free(calls.context, short_lived) == WL_SUCCESS);
  calls.check_both(WL_ERROR_WRONG_DEVICE, "is the host's or was freed, must be memory that");

  calls.gemm.a = calls.quantise.x = calls.memory;
  gpu.fake->memory_owner = 3;
  calls.check_both(WL_ERROR_WRONG_DEVICE,
                   " is memory of device 3, must be memory that the device can reach (nearest: a "
                   "copy on device 0, or peer access to device 3)");
}

TEST_CASE("host memory passes where the device pages it in, other devices' memory does not",
          "[host][rules]") {
  FakeGpu gpu;
  gpu.fake->pageable_memory = true;
  Calls calls(gpu.context());
  calls.gemm.a = calls.quantise.x = host_memory;
  calls.check_both(WL_SUCCESS);
  gpu.fake->memory_owner = 1;
  calls.check_both(WL_ERROR_WRONG_DEVICE, "is memory of device 1");
}

TEST_CASE("a driver that gives no clear answer about memory is not believed", "[host][rules]") {
  FakeGpu gpu;
  Calls calls(gpu.context());
  calls.gemm.a = calls.quantise.x = host_memory;
  calls.check_both(WL_ERROR_WRONG_DEVICE);
  for (const cuapi::CUresult result :
       {cuapi::CUDA_ERROR_NOT_SUPPORTED, cuapi::CUDA_ERROR_UNKNOWN, cuapi::CUDA_ERROR_NOT_PERMITTED,
        cuapi::CUDA_ERROR_ILLEGAL_ADDRESS}) {
    gpu.fake->pointer_result = result;
    calls.check_both(WL_SUCCESS);
  }
  gpu.fake->pointer_result = cuapi::CUDA_SUCCESS;

  const warpline::Driver* complete = gpu.context().driver;
  warpline::Driver without = *complete;
  without.cu.PointerGetAttribute = nullptr;
  gpu.context().driver = &without;
  calls.check_both(WL_SUCCESS);
  gpu.context().driver = complete;
}
