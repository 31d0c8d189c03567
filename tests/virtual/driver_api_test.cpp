// The driver API of the virtual GPU: initialisation, devices, contexts, memory, handles, control.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_driver.hpp"

#include <cstring>
#include <thread>

using namespace cuapi;
using namespace wltest;

TEST_CASE("driver: nothing works before cuInit, and devices after it", "[virtual]") {
  VgpuDriver d("b300");
  int n = -1;
  CHECK(d.cu.DeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED);
  CUdeviceptr p = 0;
  CHECK(d.cu.MemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(d.cu.Init(1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(d.cu.Init(0) == CUDA_SUCCESS);
  REQUIRE(d.cu.Init(0) == CUDA_SUCCESS);
  CHECK(d.cu.DeviceGetCount(&n) == CUDA_SUCCESS);
  CHECK(n == 1);
  CHECK(d.cu.DriverGetVersion(&n) == CUDA_SUCCESS);
  CHECK(n == 13000);

  CUdevice device = -1;
  CHECK(d.cu.DeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(d.cu.DeviceGet(&device, -1) == CUDA_ERROR_INVALID_DEVICE);
  REQUIRE(d.cu.DeviceGet(&device, 0) == CUDA_SUCCESS);
  char name[64], small[5];
  CHECK(d.cu.DeviceGetName(name, sizeof name, device) == CUDA_SUCCESS);
  CHECK_THAT(std::string(name), ContainsSubstring("B300"));
  CHECK(d.cu.DeviceGetName(small, sizeof small, device) == CUDA_SUCCESS);
  CHECK(std::strlen(small) == 4);
  auto attribute = [&](CUdevice_attribute which) {
    int value = -1;
    CHECK(d.cu.DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS);
    return value;
  };
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 10);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 3);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 148);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) == 49152);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 232448);
  CHECK(attribute(CUdevice_attribute(83)) == 1); // managed memory
  CHECK(d.cu.DeviceGetAttribute(&n, CUdevice_attribute(0), device) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.DeviceGetAttribute(&n, CUdevice_attribute(900), device) == CUDA_ERROR_INVALID_VALUE);
  CUuuid a{}, b{};
  CHECK(d.cu.DeviceGetUuid(&a, device) == CUDA_SUCCESS);
  CHECK(d.cu.DeviceGetUuid(&b, device) == CUDA_SUCCESS);
  CHECK(std::memcmp(&a, &b, sizeof a) == 0);
}

TEST_CASE("driver: contexts are current by thread and end with their resources", "[virtual]") {
  VgpuDriver d;
  REQUIRE(d.cu.Init(0) == CUDA_SUCCESS);
  CUdeviceptr p = 0;
  CHECK(d.cu.MemAlloc(&p, 16) == CUDA_ERROR_INVALID_CONTEXT);

  CUcontext primary = nullptr, again = nullptr, current = nullptr;
  REQUIRE(d.cu.DevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  REQUIRE(d.cu.DevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
  CHECK(primary == again);
  REQUIRE(d.cu.CtxPushCurrent(primary) == CUDA_SUCCESS);
  REQUIRE(d.cu.MemAlloc(&p, 16) == CUDA_SUCCESS);
  std::thread([&] {
    CUcontext none = primary;
    CHECK(d.cu.CtxGetCurrent(&none) == CUDA_SUCCESS);
    CHECK(none == nullptr);
  }).join();
  CHECK(d.cu.DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(d.cu.CtxSynchronize() == CUDA_SUCCESS);
  CHECK(d.cu.DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(d.cu.CtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(d.cu.DevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
  // The memory of the first life is gone.
  REQUIRE(d.cu.DevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS);
  CHECK(d.cu.MemFree(p) == CUDA_ERROR_INVALID_VALUE);

  CUcontext own = d.open();
  CHECK(own != primary);
  REQUIRE(d.cu.CtxPopCurrent(&current) == CUDA_SUCCESS);
  CHECK(current == own);
  auto destroy = d.symbol<CUresult(CUcontext)>("cuCtxDestroy_v2");
  CHECK(destroy(primary) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(destroy(own) == CUDA_SUCCESS);
  CHECK(destroy(own) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(d.cu.CtxPushCurrent(own) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(d.cu.CtxPopCurrent(&current) == CUDA_SUCCESS);
  CHECK(d.cu.CtxPopCurrent(&current) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("driver: copies and fills stay inside live allocations", "[virtual]") {
  VgpuDriver d;
  d.open();
  std::vector<uint32_t> data(100);
  for (size_t i = 0; i < data.size(); ++i) data[i] = uint32_t(i * 2654435761u);
  CUdeviceptr p = d.upload(data), q = 0;
  CHECK(d.download<uint32_t>(p, 100) == data);
  REQUIRE(d.cu.MemAlloc(&q, 400) == CUDA_SUCCESS);
  CHECK(q % 256 == 0);
  CHECK(d.cu.MemcpyDtoDAsync(q, p, 400, nullptr) == CUDA_SUCCESS);
  CHECK(d.download<uint32_t>(q, 100) == data);
  auto unified = d.symbol<CUresult(CUdeviceptr, CUdeviceptr, size_t)>("cuMemcpy");
  std::vector<uint32_t> back(100);
  CHECK(unified(CUdeviceptr(back.data()), p, 400) == CUDA_SUCCESS);
  CHECK(back == data);

  CHECK(d.cu.MemsetD32Async(q + 4, 0xABCD1234, 2, nullptr) == CUDA_SUCCESS);
  CHECK(d.cu.MemsetD8(q + 399, 0x11, 1) == CUDA_SUCCESS);
  back = d.download<uint32_t>(q, 100);
  CHECK(back[0] == data[0]);
  CHECK(back[1] == 0xABCD1234);
  CHECK(back[2] == 0xABCD1234);
  CHECK(back[3] == data[3]);
  CHECK(back[99] >> 24 == 0x11);
  auto fill2d =
      d.symbol<CUresult(CUdeviceptr, size_t, unsigned short, size_t, size_t)>("cuMemsetD2D16_v2");
  CHECK(fill2d(q, 100, 0x7777, 3, 4) == CUDA_SUCCESS);
  auto half = d.download<uint16_t>(q, 200);
  for (size_t i : {0, 2, 50, 150, 152}) CHECK(half[i] == 0x7777);
  CHECK(half[3] == uint16_t(0xABCD)); // of the second word

  CHECK(d.cu.MemcpyHtoD(p, data.data(), 401) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(std::string(d.message()), ContainsSubstring("dstDevice"));
  CHECK(d.cu.MemcpyHtoD(p + 400, data.data(), 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemcpyHtoD(p, nullptr, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemcpyHtoD(p, reinterpret_cast<void*>(q), 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemcpyDtoH(back.data(), CUdeviceptr(data.data()), 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemsetD32Async(q + 2, 0, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemsetD8(q, 0, SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fill2d(q, 4, 0, 3, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fill2d(q, SIZE_MAX - 1, 0, 3, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemAlloc(&q, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemAlloc(nullptr, 4) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr huge = 0;
  CHECK(d.cu.MemAlloc(&huge, size_t(1) << 50) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(d.cu.MemAlloc(&huge, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);

  size_t before = 0, after = 0, total = 0;
  CHECK(d.cu.MemGetInfo(&before, &total) == CUDA_SUCCESS);
  CHECK(d.cu.MemFree(p + 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemFree(p) == CUDA_SUCCESS);
  CHECK(d.cu.MemGetInfo(&after, &total) == CUDA_SUCCESS);
  CHECK(after - before == 400);
  CHECK(d.cu.MemFree(p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.MemFree(0) == CUDA_SUCCESS);
  CHECK(d.cu.MemcpyDtoH(back.data(), p, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(std::string(d.message()), ContainsSubstring("freed"));
}

TEST_CASE("driver: pitched copies", "[virtual]") {
  VgpuDriver d;
  d.open();
  struct Copy2D { // CUDA_MEMCPY2D
    size_t src_x, src_y;
    CUmemorytype src_type;
    const void* src_host;
    CUdeviceptr src_device;
    void* src_array;
    size_t src_pitch, dst_x, dst_y;
    CUmemorytype dst_type;
    void* dst_host;
    CUdeviceptr dst_device;
    void* dst_array;
    size_t dst_pitch, width, height;
  };
  auto copy = d.symbol<CUresult(const Copy2D*)>("cuMemcpy2D_v2");
  std::vector<uint8_t> source(20 * 10), target(16 * 8, 0xEE);
  for (size_t i = 0; i < source.size(); ++i) source[i] = uint8_t(i);
  CUdeviceptr p = d.upload(target);
  Copy2D c{};
  c.src_x = 3;
  c.src_y = 2;
  c.src_type = CU_MEMORYTYPE_HOST;
  c.src_host = source.data();
  c.src_pitch = 20;
  c.dst_x = 1;
  c.dst_y = 4;
  c.dst_type = CU_MEMORYTYPE_DEVICE;
  c.dst_device = p;
  c.dst_pitch = 16;
  c.width = 5;
  c.height = 4;
  REQUIRE(copy(&c) == CUDA_SUCCESS);
  for (size_t y = 0; y < 4; ++y)
    for (size_t x = 0; x < 5; ++x) target[(y + 4) * 16 + x + 1] = source[(y + 2) * 20 + x + 3];
  CHECK(d.download<uint8_t>(p, target.size()) == target);
  c.height = 5;
  CHECK(copy(&c) == CUDA_ERROR_INVALID_VALUE);
  c.height = 4;
  c.dst_pitch = 5;
  CHECK(copy(&c) == CUDA_ERROR_INVALID_VALUE);
  c.dst_pitch = 16;
  c.dst_type = CU_MEMORYTYPE_ARRAY;
  CHECK(copy(&c) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("driver: pointers tell where they point", "[virtual]") {
  VgpuDriver d;
  CUcontext context = d.open();
  CUdeviceptr p = 0, base = 0;
  REQUIRE(d.cu.MemAlloc(&p, 1000) == CUDA_SUCCESS);
  auto get = [&](CUpointer_attribute which, auto value) {
    CHECK(d.cu.PointerGetAttribute(&value, which, p + 10) == CUDA_SUCCESS);
    return value;
  };
  CHECK(get(CU_POINTER_ATTRIBUTE_CONTEXT, CUcontext()) == context);
  CHECK(get(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0u) == CU_MEMORYTYPE_DEVICE);
  CHECK(get(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CUdeviceptr()) == p + 10);
  CHECK(get(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, -1) == 0);
  CHECK(get(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CUdeviceptr()) == p);
  CHECK(get(CU_POINTER_ATTRIBUTE_RANGE_SIZE, size_t()) == 1000);
  size_t bytes = 0;
  auto range = d.symbol<CUresult(CUdeviceptr*, size_t*, CUdeviceptr)>("cuMemGetAddressRange_v2");
  CHECK(range(&base, &bytes, p + 999) == CUDA_SUCCESS);
  CHECK(base == p);
  CHECK(range(&base, &bytes, p + 1000) == CUDA_ERROR_INVALID_VALUE);
  int local = 0;
  unsigned type = 7;
  CHECK(d.cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(&local)) ==
        CUDA_ERROR_INVALID_VALUE);

  void* pinned = nullptr;
  auto host_alloc = d.symbol<CUresult(void**, size_t, unsigned)>("cuMemHostAlloc");
  auto host_free = d.symbol<CUresult(void*)>("cuMemFreeHost");
  REQUIRE(host_alloc(&pinned, 100, 0) == CUDA_SUCCESS);
  CHECK(d.cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(pinned)) ==
        CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_HOST);
  const auto mapped = [&](CUdeviceptr pointer) {
    CUdeviceptr value = 0;
    return d.cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer);
  };
  // Pinned memory has one address on both sides.
  for (const CUdeviceptr both : {p + 999, CUdeviceptr(pinned)}) CHECK(mapped(both) == CUDA_SUCCESS);
  for (const CUdeviceptr none : {CUdeviceptr(&local), p + 1000})
    CHECK(mapped(none) == CUDA_ERROR_INVALID_VALUE);
  CUcontext popped = nullptr;
  REQUIRE(d.cu.CtxPopCurrent(&popped) == CUDA_SUCCESS);
  CHECK(mapped(p) == CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE(d.cu.CtxPushCurrent(popped) == CUDA_SUCCESS);
  REQUIRE(d.cu.MemFree(p) == CUDA_SUCCESS);
  CHECK(mapped(p) == CUDA_ERROR_INVALID_VALUE);
  CHECK(host_free(pinned) == CUDA_SUCCESS);
  CHECK(host_free(pinned) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("driver: bad handles are recognised, never followed", "[virtual]") {
  VgpuDriver d;
  CUcontext context = d.open();
  CUstream stream = nullptr;
  CUevent event = nullptr;
  REQUIRE(d.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(d.cu.EventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  CHECK(d.cu.StreamCreate(&stream, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.StreamCreate(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  for (uint64_t bad : {uint64_t(3), uint64_t(event), uint64_t(context), uint64_t(&stream),
                       uint64_t(stream) + 16, ~uint64_t(0)}) {
    INFO("handle " << bad);
    int value = 0;
    CHECK(d.cu.StreamSynchronize(CUstream(bad)) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(d.cu.StreamDestroy(CUstream(bad)) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(d.cu.ModuleUnload(CUmodule(bad)) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(d.cu.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, CUfunction(bad)) ==
          CUDA_ERROR_INVALID_HANDLE);
    CHECK(d.cu.GraphDestroy(CUgraph(bad)) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(d.cu.LinkDestroy(CUlinkState(bad)) == CUDA_ERROR_INVALID_HANDLE);
    if (bad != uint64_t(event))
      CHECK(d.cu.EventRecord(CUevent(bad), stream) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(d.cu.StreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(d.cu.StreamQuery(stream) == CUDA_SUCCESS);
  CUcontext of_stream = nullptr;
  CHECK(d.cu.StreamGetCtx(stream, &of_stream) == CUDA_SUCCESS);
  CHECK(of_stream == context);
  CHECK(d.cu.StreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(d.cu.StreamDestroy(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(d.cu.EventDestroy(event) == CUDA_SUCCESS);
  CHECK(d.cu.EventDestroy(event) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("driver: events carry the time of their stream", "[virtual]") {
  VgpuDriver d;
  d.open();
  CUevent a = nullptr, b = nullptr, untimed = nullptr;
  REQUIRE(d.cu.EventCreate(&a, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(d.cu.EventCreate(&b, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(d.cu.EventCreate(&untimed, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  float ms = -1;
  CHECK(d.cu.EventElapsedTime(&ms, a, b) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(d.cu.EventRecord(a, nullptr) == CUDA_SUCCESS);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(d.cu.EventRecord(b, nullptr) == CUDA_SUCCESS);
  CHECK(d.cu.EventSynchronize(b) == CUDA_SUCCESS);
  REQUIRE(d.cu.EventElapsedTime(&ms, a, b) == CUDA_SUCCESS);
  CHECK(ms >= 4.9f);
  CHECK(d.cu.EventRecord(untimed, nullptr) == CUDA_SUCCESS);
  CHECK(d.cu.EventElapsedTime(&ms, a, untimed) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("driver: options, profiles and statistics", "[virtual]") {
  VgpuDriver d;
  CHECK(d.set_option("schedule", "eager") == 0);
  CHECK(d.set_option("schedule", "random:7") == 0);
  CHECK(d.set_option("schedule", "soon") != 0);
  CHECK(std::strlen(d.message()) > 10);
  CHECK(d.set_option("threads", "2") == 0);
  CHECK(d.set_option("threads", "-1") != 0);
  CHECK(d.set_option("threads", "2x") != 0);
  CHECK(d.set_option("wgmma_accumulation", "hopper") == 0);
  CHECK(d.set_option("wgmma_accumulation", "exact") == 0);
  CHECK(d.set_option("wgmma_accumulation", "blackwell") != 0);
  CHECK(d.set_option("colour", "red") != 0);
  CHECK_THAT(std::string(d.message()), ContainsSubstring("instruction_limit"));
  CHECK(d.set_option(nullptr, "1") != 0);
  CHECK_THAT(std::string(d.stats()), ContainsSubstring("\"schedule\": \"random:7\""));

  CHECK(d.set_option("profile", "b9000") == CUDA_ERROR_NO_DEVICE);
  CHECK_THAT(std::string(d.message()), ContainsSubstring("h200"));
  d.open();
  CHECK(d.set_option("profile", "h200") == CUDA_ERROR_NOT_PERMITTED);
  CHECK(d.set_option("profile", "b200") == 0); // it is that one
  CUcontext context = nullptr;
  REQUIRE(d.cu.CtxGetCurrent(&context) == CUDA_SUCCESS);
  REQUIRE(d.symbol<CUresult(CUcontext)>("cuCtxDestroy_v2")(context) == CUDA_SUCCESS);
  CHECK(d.set_option("profile", "h200") == 0);
  int major = 0;
  CHECK(d.cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) ==
        CUDA_SUCCESS);
  CHECK(major == 9);
}

TEST_CASE("driver: functions by name, and those that it does not have", "[virtual]") {
  VgpuDriver d;
  using Get = CUresult(const char*, void**, int, uint64_t, int*);
  auto get = d.symbol<Get>("cuGetProcAddress_v2");
  auto address = [&](const char* name, int version, uint64_t flags, int expected_status) {
    void* p = nullptr;
    int status = -1;
    INFO(name << " at " << version);
    CHECK(get(name, &p, version, flags, &status) == CUDA_SUCCESS);
    CHECK(status == expected_status);
    return p;
  };
  auto exported = [&](const char* name) {
    return reinterpret_cast<void*>(d.symbol<CUresult()>(name));
  };
  CHECK(address("cuMemAlloc", 12000, 0, 0) == exported("cuMemAlloc_v2"));
  CHECK(address("cuMemAlloc", 2000, 0, 0) == exported("cuMemAlloc"));
  CHECK(address("cuMemAlloc", 1000, 0, 2) == nullptr);
  CHECK(address("cuInit", 12000, 0, 0) == exported("cuInit"));
  CHECK(address("cuLaunchKernel", 12000, 2, 0) == exported("cuLaunchKernel_ptsz"));
  CHECK(address("cuMemcpyHtoD", 12000, 2, 0) == exported("cuMemcpyHtoD_v2_ptds"));
  CHECK(address("cuGraphInstantiate", 12000, 0, 0) == exported("cuGraphInstantiateWithFlags"));
  CHECK(address("cuNoSuchThing", 12000, 0, 1) == nullptr);
  CHECK(address("malloc", 12000, 0, 1) == nullptr);
  void* p = nullptr;
  CHECK(get("cuNoSuchThing", &p, 12000, 0, nullptr) == CUDA_ERROR_NOT_FOUND);
  CHECK(get(nullptr, &p, 12000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);

  CHECK(d.symbol<CUresult(void*, int)>("cuArrayCreate_v2")(nullptr, 1) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK_THAT(std::string(d.message()), ContainsSubstring("cuArrayCreate_v2"));

  const char* text = nullptr;
  CHECK(d.cu.GetErrorName(CUDA_ERROR_INVALID_PTX, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_INVALID_PTX");
  CHECK(d.cu.GetErrorString(CUDA_ERROR_INVALID_CLUSTER_SIZE, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "cluster misconfiguration");
  CHECK(d.cu.GetErrorName(CUresult(12345), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

TEST_CASE("driver: tensor maps are checked", "[virtual]") {
  VgpuDriver d;
  d.open();
  CUdeviceptr p = 0;
  REQUIRE(d.cu.MemAlloc(&p, 128 * 64) == CUDA_SUCCESS);
  CUtensorMap map;
  const uint64_t dims[] = {64, 128}, strides[] = {64};
  uint32_t box[] = {64, 128}, steps[] = {1, 1};
  auto encode = [&](CUtensorMap* to, uint64_t address, CUtensorMapSwizzle swizzle) {
    return d.cu.TensorMapEncodeTiled(
        to, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, reinterpret_cast<void*>(address), dims, strides, box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CHECK(encode(&map, p, CU_TENSOR_MAP_SWIZZLE_64B) == CUDA_SUCCESS);
  CHECK(encode(nullptr, p, CU_TENSOR_MAP_SWIZZLE_64B) == CUDA_ERROR_INVALID_VALUE);
  alignas(128) char room[256];
  CHECK(encode(reinterpret_cast<CUtensorMap*>(room + 32), p, CU_TENSOR_MAP_SWIZZLE_64B) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(encode(&map, p + 8, CU_TENSOR_MAP_SWIZZLE_64B) == CUDA_ERROR_INVALID_VALUE);
  CHECK(std::strlen(d.message()) > 20);
  CHECK(encode(&map, p, CU_TENSOR_MAP_SWIZZLE_32B) == CUDA_ERROR_INVALID_VALUE); // 64-byte rows
  auto replace = d.symbol<CUresult(CUtensorMap*, void*)>("cuTensorMapReplaceAddress");
  CHECK(replace(&map, reinterpret_cast<void*>(p + 64)) == CUDA_SUCCESS);
  CHECK(replace(&map, reinterpret_cast<void*>(p + 4)) == CUDA_ERROR_INVALID_VALUE);
  map.opaque[3] ^= 1;
  CHECK(replace(&map, reinterpret_cast<void*>(p)) == CUDA_ERROR_INVALID_VALUE);
}
