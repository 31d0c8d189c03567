// What a real driver says of memory that a kernel can reach, and of memory that it cannot.
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/unreachable_run.hpp"

using namespace wltest;
using namespace cuapi;

namespace {

bool has_rows(const warpline::DeviceLimits& limits) {
  return limits.compute_major == 9 || limits.compute_major == 10;
}

template <class F>
F* symbol(const wl_context& context, const char* name) {
  F* function = reinterpret_cast<F*>(context.driver->symbol(name));
  INFO(name);
  REQUIRE(function);
  return function;
}

// CUmemAllocationProp and CUmemAccessDesc of cuda.h.
struct MappingProperties {
  int type = 1, handle_types = 0, location_type = 1, location = 0; // pinned, on a device
  void* handle_data = nullptr;
  unsigned char flags[8] = {};
};
struct MappingAccess {
  int location_type = 1, location = 0, flags = 3; // read and write
};

// As PyTorch's expandable segments: reserved addresses with a mapping of their own for each part.
void check_mapped(const wl_context& context, const OperandChecks& operands) {
  using Handle = unsigned long long;
  MappingProperties properties;
  MappingAccess access;
  properties.location = access.location = context.ordinal;
  size_t part = 0;
  REQUIRE(symbol<CUresult(size_t*, const MappingProperties*, int)>(
              context, "cuMemGetAllocationGranularity")(&part, &properties, 0) == CUDA_SUCCESS);
  CUdeviceptr start = 0;
  REQUIRE(symbol<CUresult(CUdeviceptr*, size_t, size_t, CUdeviceptr, Handle)>(
              context, "cuMemAddressReserve")(&start, 3 * part, 0, 0, 0) == CUDA_SUCCESS);
  Handle handles[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    REQUIRE(symbol<CUresult(Handle*, size_t, const MappingProperties*, Handle)>(
                context, "cuMemCreate")(&handles[i], part, &properties, 0) == CUDA_SUCCESS);
    REQUIRE(symbol<CUresult(CUdeviceptr, size_t, size_t, Handle, Handle)>(context, "cuMemMap")(
                start + i * part, part, 0, handles[i], 0) == CUDA_SUCCESS);
  }
  REQUIRE(symbol<CUresult(CUdeviceptr, size_t, const MappingAccess*, size_t)>(
              context, "cuMemSetAccess")(start, 2 * part, &access, 1) == CUDA_SUCCESS);
  operands.check(reinterpret_cast<void*>(start + part - 64), false, "");
  CHECK(symbol<CUresult(CUdeviceptr, size_t)>(context, "cuMemUnmap")(start, 2 * part) ==
        CUDA_SUCCESS);
  for (const Handle handle : handles)
    CHECK(symbol<CUresult(Handle)>(context, "cuMemRelease")(handle) == CUDA_SUCCESS);
  CHECK(symbol<CUresult(CUdeviceptr, size_t)>(context, "cuMemAddressFree")(start, 3 * part) ==
        CUDA_SUCCESS);
}

} // namespace

TEST_CASE("operands that the GPU cannot reach are refused, and it goes on",
          "[hardware][dual_gemm][quantize][runtime]") {
  const HardwareContext device(has_rows);
  if (!device.reason.empty()) WL_SKIP(device.reason);
  check_unreachable(device.context);
}

TEST_CASE("operands in memory of every kind that the GPU reaches pass the check",
          "[hardware][dual_gemm][quantize][runtime]") {
  const HardwareContext device(has_rows);
  if (!device.reason.empty()) WL_SKIP(device.reason);
  const wl_context& context = *device.context;
  const warpline::ContextScope scope(context);
  const OperandChecks operands(device.context);
  const Functions& cu = context.driver->cu;

  void* pinned = nullptr;
  REQUIRE(symbol<CUresult(void**, size_t, unsigned)>(context, "cuMemHostAlloc")(&pinned, 1 << 20,
                                                                                0) == CUDA_SUCCESS);
  operands.check(static_cast<uint8_t*>(pinned) + 4096, false, "");
  CHECK(symbol<CUresult(void*)>(context, "cuMemFreeHost")(pinned) == CUDA_SUCCESS);

  CUdeviceptr managed = 0;
  REQUIRE(symbol<CUresult(CUdeviceptr*, size_t, unsigned)>(context, "cuMemAllocManaged")(
              &managed, 1 << 20, 1) == CUDA_SUCCESS);
  operands.check(reinterpret_cast<void*>(managed + 4096), false, "");
  CHECK(cu.MemFree(managed) == CUDA_SUCCESS);

  CUdeviceptr pooled = 0;
  REQUIRE(symbol<CUresult(CUdeviceptr*, size_t, CUstream)>(context, "cuMemAllocAsync")(
              &pooled, 1 << 20, nullptr) == CUDA_SUCCESS);
  operands.check(reinterpret_cast<void*>(pooled + 4096), false, "");
  CHECK(symbol<CUresult(CUdeviceptr, CUstream)>(context, "cuMemFreeAsync")(pooled, nullptr) ==
        CUDA_SUCCESS);

  check_mapped(context, operands);
}
