// Memory that the device cannot reach, through the entry points of both operations, on a driver
// that gives each of its answers.
#include "tests/support/fake_gpu.hpp"

#include <functional>

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

TEST_CASE("an operand lies in one allocation, all of it", "[host][rules]") {
  FakeGpu gpu;
  Calls calls(gpu.context());
  // 2 x 3 rows of 64 or 128 columns at strides, K 128: the sizes of all that the calls read and
  // write differ.
  calls.gemm.m = calls.quantise.m = 3, calls.gemm.l = calls.quantise.l = 2;
  calls.gemm.k = calls.quantise.k = 128;
  calls.gemm.d_type = WL_F16, calls.gemm.ldd = 72, calls.gemm.batch_stride_d = 256;
  calls.quantise.ldx = 136, calls.quantise.batch_stride_x = 512;
  calls.check_both(WL_SUCCESS);

  const struct Operand {
    const char* name;
    size_t bytes;
    std::function<void(Calls&, void*)> put;
  } operands[] = {
      {"A", 2 * 3 * 64, [](Calls& c, void* p) { c.gemm.a = p; }},
      {"B1", 2 * 64 * 64, [](Calls& c, void* p) { c.gemm.b1 = p; }},
      {"B2", 2 * 64 * 64, [](Calls& c, void* p) { c.gemm.b2 = p; }},
      {"SFA", 2 * 1024, [](Calls& c, void* p) { c.gemm.sfa = p; }},
      {"SFB1", 2 * 1024, [](Calls& c, void* p) { c.gemm.sfb1 = p; }},
      {"SFB2", 2 * 1024, [](Calls& c, void* p) { c.gemm.sfb2 = p; }},
      {"alpha1", 4, [](Calls& c, void* p) { c.gemm.alpha1 = static_cast<float*>(p); }},
      {"alpha2", 4, [](Calls& c, void* p) { c.gemm.alpha2 = static_cast<float*>(p); }},
      {"D", 2 * (256 + 2 * 72 + 64), [](Calls& c, void* p) { c.gemm.d = p; }},
      {"D", 2 * 3 * 32,
       [](Calls& c, void* p) {
         c.gemm.d_type = WL_NVFP4, c.gemm.ldd = c.gemm.batch_stride_d = 0;
         c.gemm.d = p;
       }},
      {"SFD", 2 * 512,
       [](Calls& c, void* p) {
         c.gemm.d_type = WL_NVFP4, c.gemm.ldd = c.gemm.batch_stride_d = 0;
         c.gemm.sfd = p;
       }},
      {"d_scale", 4, [](Calls& c, void* p) { c.gemm.d_scale = static_cast<float*>(p); }},
      {"X", 2 * (512 + 2 * 136 + 128), [](Calls& c, void* p) { c.quantise.x = p; }},
      {"D", 2 * 3 * 64, [](Calls& c, void* p) { c.quantise.d = p; }},
      {"SFD", 2 * 1024, [](Calls& c, void* p) { c.quantise.sfd = p; }},
      {"d_scale", 4, [](Calls& c, void* p) { c.quantise.d_scale = static_cast<float*>(p); }},
  };
  const wl_dual_gemm_args gemm = calls.gemm;
  const wl_quantize_args quantise = calls.quantise;
  for (size_t i = 0; i < std::size(operands); ++i) {
    const Operand& o = operands[i];
    INFO(i << " " << o.name);
    for (const size_t lacking : {0, 2}) {
      const size_t room = 16 + o.bytes - lacking;
      void* memory = nullptr;
      REQUIRE(wl_malloc(calls.context, room, &memory) == WL_SUCCESS);
      void* const place = static_cast<uint8_t*>(memory) + 16;
      calls.gemm = gemm, calls.quantise = quantise;
      o.put(calls, place);
      const bool quantises = i >= 12;
      const wl_status status = quantises ? wl_quantize_check(calls.context, &calls.quantise)
                                         : wl_dual_gemm_check(calls.context, &calls.gemm);
      CHECK(status == (lacking ? WL_ERROR_WRONG_DEVICE : WL_SUCCESS));
      if (lacking)
        CHECK_THAT(wl_last_error(),
                   ContainsSubstring(warpline::format(
                       ": %s: %zu bytes at %p end 2 bytes past their allocation, %zu bytes at %p, "
                       "must be memory that the device can reach (nearest: %zu bytes from this "
                       "address on); 1 rule violated",
                       o.name, o.bytes, place, room, memory, o.bytes)));
      REQUIRE(wl_free(calls.context, memory) == WL_SUCCESS);
    }
  }
}

TEST_CASE("an operand may span mappings of one reservation, but must be mapped to its end",
          "[host][rules]") {
  FakeGpu gpu;
  Calls calls(gpu.context());
  void* mapped = nullptr;
  REQUIRE(wl_malloc(calls.context, 4096, &mapped) == WL_SUCCESS);
  gpu.fake->reservation = 1 << 30;
  calls.gemm.b1 = mapped;
  calls.gemm.n = 128; // 128 x 32 bytes
  CHECK(wl_dual_gemm_check(calls.context, &calls.gemm) == WL_SUCCESS);
  calls.gemm.n = 192;
  CHECK(wl_dual_gemm_check(calls.context, &calls.gemm) == WL_ERROR_WRONG_DEVICE);
  CHECK_THAT(wl_last_error(),
             ContainsSubstring("B1: of 6144 bytes at") &&
                 ContainsSubstring("the last is not mapped, must be memory that the device can"));
  REQUIRE(wl_free(calls.context, mapped) == WL_SUCCESS);
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
