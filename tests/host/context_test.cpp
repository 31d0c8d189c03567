#include "tests/support/fake_gpu.hpp"
#include "warpline/warpline.hpp"

#include <vector>

using wltest::ContainsSubstring;
using wltest::FakeGpu;

TEST_CASE("a context retains and releases the primary context", "[host][context]") {
  FakeGpu gpu;
  wl_context* context = nullptr;
  REQUIRE(wl_context_create(0, &context) == WL_SUCCESS);
  CHECK(gpu.fake->retained == 1);
  CHECK(context->limits.compute_major == 10);
  CHECK(context->limits.sm_count == 148);
  CHECK(context->limits.shared_bytes_per_block == 232448);
  wl_context_destroy(context);
  CHECK(gpu.fake->retained == 0);
  CHECK(gpu.fake->pushed == 0);
  wl_context_destroy(nullptr);
}

TEST_CASE("a device that does not exist is refused with the range", "[host][context]") {
  FakeGpu gpu;
  wl_context* context = nullptr;
  for (const int device : {-1, 1, 1 << 30}) {
    CHECK(wl_context_create(device, &context) == WL_ERROR_INVALID_ARGUMENT);
    CHECK(context == nullptr);
    CHECK_THAT(wl_last_error(), ContainsSubstring("device = " + std::to_string(device)) &&
                                    ContainsSubstring("from 0 to 0"));
  }
  CHECK(wl_context_create(0, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  gpu.fake->device_count = 0;
  CHECK(wl_context_create(0, &context) == WL_ERROR_NOT_SUPPORTED);
  CHECK(gpu.fake->retained == 0);
}

TEST_CASE("device information", "[host][context]") {
  FakeGpu gpu;
  const wl_device_info info = warpline::device_info(0);
  CHECK(info.name == std::string("Fake GPU"));
  CHECK(info.driver_version == 13000);
  CHECK(info.max_cluster == 8);
  CHECK(info.is_virtual == 0);
  CHECK(info.memory_bytes == uint64_t{1} << 34);

  wl_device_info small{};
  small.struct_size = sizeof(small) - 8;
  CHECK(wl_device_get_info(0, &small) == WL_ERROR_ABI);
  CHECK(wl_device_get_info(0, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  wl_device_info other{};
  other.struct_size = sizeof(other);
  CHECK(wl_device_get_info(7, &other) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(other.sm_count == 0);
}

TEST_CASE("memory through the C++ layer", "[host][context]") {
  FakeGpu gpu;
  {
    const warpline::Context context(0);
    const std::vector<int> values{1, 2, 3, 5, 8};
    warpline::Memory memory = warpline::to_device(context, values);
    warpline::Memory moved = std::move(memory);
    CHECK(memory.data() == nullptr);
    CHECK(warpline::to_host<int>(moved) == values);
    const warpline::Stream stream(context);
    stream.synchronize();
    CHECK(gpu.fake->live_allocations == 1);
  }
  CHECK(gpu.fake->live_allocations == 0);
  CHECK(gpu.fake->pushed == 0);
}

TEST_CASE("wrong memory calls get a status and a sentence", "[host][context]") {
  FakeGpu gpu;
  wl_context* context = &gpu.context();
  void* memory = nullptr;
  char byte = 0;
  CHECK(wl_malloc(nullptr, 16, &memory) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_malloc(context, 16, nullptr) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_malloc(context, 0, &memory) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_free(context, nullptr) == WL_SUCCESS);
  CHECK(wl_upload(context, nullptr, &byte, 1) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_upload(context, &byte, nullptr, 1) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_upload(context, nullptr, nullptr, 0) == WL_SUCCESS);
  CHECK(wl_download(nullptr, &byte, &byte, 1) == WL_ERROR_INVALID_ARGUMENT);
  gpu.fake->alloc_result = cuapi::CUDA_ERROR_OUT_OF_MEMORY;
  CHECK(wl_malloc(context, 1 << 20, &memory) == WL_ERROR_OUT_OF_MEMORY);
  CHECK(memory == nullptr);
  CHECK_THAT(wl_last_error(),
             ContainsSubstring("wl_malloc: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)") &&
                 ContainsSubstring("bytes = 1048576"));
  gpu.fake->copy_result = cuapi::CUDA_ERROR_LAUNCH_FAILED;
  CHECK(wl_download(context, &byte, &byte, 1) == WL_ERROR_LAUNCH);
  CHECK_THROWS_AS(warpline::check(wl_download(context, &byte, &byte, 1)), warpline::Error);
}

TEST_CASE("a bad address is named", "[host][context]") {
  FakeGpu gpu;
  wl_context* context = &gpu.context();
  char byte = 0;
  void* const bad = &byte;
  const std::string address = warpline::format("%p", bad);
  CHECK(wl_free(context, bad) == WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("wl_free: cuMemFree failed") &&
                                  ContainsSubstring("device_pointer = " + address +
                                                    " must be the start of memory of wl_malloc"));
  gpu.fake->copy_result = cuapi::CUDA_ERROR_INVALID_VALUE;
  char other = 0;
  const std::string host = warpline::format("%p", static_cast<void*>(&other));
  CHECK(wl_upload(context, bad, &other, 1) == WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("wl_upload: cuMemcpyHtoD failed") &&
                                  ContainsSubstring("device_destination = " + address) &&
                                  ContainsSubstring("host_source = " + host) &&
                                  ContainsSubstring("1 bytes"));
  CHECK(wl_download(context, &other, bad, 1) == WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("wl_download: cuMemcpyDtoH failed") &&
                                  ContainsSubstring("device_source = " + address) &&
                                  ContainsSubstring("host_destination = " + host));
}

TEST_CASE("a stream of another context is refused", "[host][context]") {
  FakeGpu gpu;
  wl_context* context = &gpu.context();
  wl_stream stream = nullptr;
  REQUIRE(wl_stream_create(context, &stream) == WL_SUCCESS);
  CHECK(wl_stream_synchronize(context, stream) == WL_SUCCESS);
  CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
  gpu.fake->foreign_streams = true;
  CHECK(wl_stream_synchronize(context, stream) == WL_ERROR_WRONG_DEVICE);
  CHECK_THAT(wl_last_error(), ContainsSubstring("belongs to another context"));
  gpu.fake->foreign_streams = false;
  CHECK(wl_stream_destroy(context, stream) == WL_SUCCESS);
}
