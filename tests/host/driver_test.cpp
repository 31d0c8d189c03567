#include "runtime/src/driver.hpp"
#include "runtime/src/module.hpp"
#include "tests/support/fake_gpu.hpp"

#include <thread>
#include <vector>

using namespace warpline;
using wltest::ContainsSubstring;
using wltest::FakeGpu;
using wltest::ScopedEnv;

TEST_CASE("a missing driver is named with the reason", "[host][driver]") {
  const ScopedEnv variable("WARPLINE_DRIVER", "/nonexistent/libcuda.so.1");
  int count = -1;
  CHECK(wl_device_count(&count) == WL_ERROR_INSUFFICIENT_DRIVER);
  CHECK(count == 0);
  CHECK_THAT(wl_last_error(),
             ContainsSubstring("wl_device_count: no CUDA driver could be opened") &&
                 ContainsSubstring("/nonexistent/libcuda.so.1 (") &&
                 ContainsSubstring("No such file"));
  wl_context* context = nullptr;
  CHECK(wl_context_create(0, &context) == WL_ERROR_INSUFFICIENT_DRIVER);
  CHECK(context == nullptr);
  CHECK(driver_symbol("vgpuReport") == nullptr);
}

TEST_CASE("without a driver both library names are listed", "[host][driver]") {
  if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    dlclose(library);
    WL_SKIP("this machine has a CUDA driver");
  }
  const ScopedEnv variable("WARPLINE_DRIVER", "");
  int count = 0;
  CHECK(wl_device_count(&count) == WL_ERROR_INSUFFICIENT_DRIVER);
  CHECK_THAT(wl_last_error(), ContainsSubstring("libcuda.so.1 (") &&
                                  ContainsSubstring("libcuda.so (") &&
                                  ContainsSubstring("WARPLINE_DRIVER=virtual"));
}

TEST_CASE("a library that is no driver is refused", "[host][driver]") {
  const ScopedEnv variable("WARPLINE_DRIVER", "libm.so.6");
  int count = 0;
  CHECK(wl_device_count(&count) == WL_ERROR_INSUFFICIENT_DRIVER);
  CHECK_THAT(wl_last_error(), ContainsSubstring("libm.so.6 is no CUDA driver"));
}

TEST_CASE("an unknown profile of the virtual GPU is refused", "[host][driver]") {
  for (const char* request : {"virtual:", "virtual:b100", "virtual:B200"}) {
    const ScopedEnv variable("WARPLINE_DRIVER", request);
    int count = 0;
    CHECK(wl_device_count(&count) == WL_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(wl_last_error(), ContainsSubstring("b200, b300 or h200"));
  }
}

TEST_CASE("a driver that cannot start says why, and may start later", "[host][driver]") {
  FakeGpu gpu;
  gpu.fake->init_result = cuapi::CUDA_ERROR_NO_DEVICE;
  int count = 0;
  CHECK(wl_device_count(&count) == WL_ERROR_INSUFFICIENT_DRIVER);
  CHECK_THAT(wl_last_error(), ContainsSubstring("cuInit failed: CUDA_ERROR_NO_DEVICE (100)") &&
                                  ContainsSubstring("version 13.0"));
  gpu.fake->init_result = cuapi::CUDA_SUCCESS;
  CHECK(wl_device_count(&count) == WL_SUCCESS);
  CHECK(count == 1);
}

TEST_CASE("a driver is opened once, by many threads at once", "[host][driver]") {
  FakeGpu gpu;
  std::vector<const Driver*> drivers(8, nullptr);
  std::vector<std::thread> threads;
  for (const Driver*& driver : drivers) threads.emplace_back([&] { open_driver(&driver); });
  for (std::thread& thread : threads) thread.join();
  for (const Driver* driver : drivers) CHECK(driver == drivers[0]);
  REQUIRE(drivers[0]);
  CHECK_FALSE(drivers[0]->is_virtual);
  CHECK(drivers[0]->cu.EventCreate == nullptr);
  CHECK(driver_symbol("fakeReset") != nullptr);
  CHECK(driver_symbol("noSuchSymbol") == nullptr);
}

TEST_CASE("driver and PTX versions", "[host][driver]") {
  CHECK(version_text(13000) == "13.0");
  CHECK(version_text(12090) == "12.9");
  CHECK(ptx_version_of_driver(13000) == 90);
  CHECK(ptx_version_of_driver(12090) == 88);
  CHECK(ptx_version_of_driver(12080) == 87);
  CHECK(ptx_version_of_driver(12070) == 86);
  CHECK(ptx_version_of_driver(12060) == 85);
  CHECK(ptx_version_of_driver(99000) >= 92);
  CHECK(ptx_version_of_driver(10020) == 0);
  CHECK(driver_of_ptx_version(88) == 12090);
  CHECK(driver_of_ptx_version(86) == 12070);
  CHECK(driver_of_ptx_version(990) == 0);
}
