// Device-side malloc through the driver API: the limit, what the host may not reach, the end of the
// context, runs that start from the same memory.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_kernels.hpp"
#include "tests/virtual/foreign_text.hpp"

using namespace cuapi;
using namespace wltest;
using kernels::entry_of;

namespace {

constexpr int kHeapLimit = 2; // CU_LIMIT_MALLOC_HEAP_SIZE

struct Heap {
  Heap() {
    context = d.open();
    const std::string text = foreign_text("heap");
    REQUIRE(d.cu.ModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr) == CUDA_SUCCESS);
    REQUIRE(d.cu.MemAlloc(&words, 4096) == CUDA_SUCCESS);
  }
  CUresult run(const char* entry, const std::vector<void*>& parameters, unsigned block = 1) {
    kernels::Launch l;
    l.block = block;
    const CUresult r = launch(d, entry_of(d, module, entry), l, parameters);
    return r == CUDA_SUCCESS ? d.cu.CtxSynchronize() : r;
  }
  int greedy(uint64_t bytes) {
    REQUIRE(run("greedy", {&bytes, &words}) == CUDA_SUCCESS);
    return d.download<int>(words, 1)[0];
  }
  VgpuDriver d{"h200"};
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUdeviceptr words = 0;
};

} // namespace

TEST_CASE("driver: the heap of device-side malloc has a limit", "[virtual][driver]") {
  Heap h;
  auto set = h.d.symbol<CUresult(int, size_t)>("cuCtxSetLimit");
  auto get = h.d.symbol<CUresult(size_t*, int)>("cuCtxGetLimit");
  size_t limit = 0;
  CHECK(get(&limit, kHeapLimit) == CUDA_SUCCESS);
  CHECK(limit == 8 << 20);
  CHECK(h.greedy(1 << 20) == 8);
  CHECK(h.greedy(1 << 20) == 0); // blocks outlive the kernel
  CHECK(set(kHeapLimit, 16 << 20) == CUDA_SUCCESS);
  CHECK(h.greedy(1 << 20) == 8);
}

TEST_CASE("driver: the host reaches no memory of malloc", "[virtual][driver]") {
  Heap h;
  int value = 5, got = 0;
  REQUIRE(h.run("keep", {&h.words, &value}) == CUDA_SUCCESS);
  CUdeviceptr block = h.d.download<CUdeviceptr>(h.words, 1)[0];
  CHECK(h.d.cu.MemcpyDtoH(&got, block, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(std::string(h.d.message()), ContainsSubstring("which only kernels can reach"));
  CHECK(h.d.cu.MemcpyHtoD(block, &got, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(h.d.cu.MemFree(block) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr out = h.words + 64;
  int once = 1;
  REQUIRE(h.run("give_back", {&h.words, &out, &once}) == CUDA_SUCCESS);
  CHECK(h.d.download<int>(out, 1)[0] == 5);
}

TEST_CASE("driver: the heap ends with its context", "[virtual][driver]") {
  Heap h;
  size_t before = 0, after = 0, total = 0;
  auto info = h.d.symbol<CUresult(size_t*, size_t*)>("cuMemGetInfo_v2");
  auto destroy = h.d.symbol<CUresult(CUcontext)>("cuCtxDestroy_v2");
  const CUcontext first = h.context, second = h.d.open();
  REQUIRE(info(&before, &total) == CUDA_SUCCESS);
  auto current = h.d.symbol<CUresult(CUcontext)>("cuCtxSetCurrent");
  REQUIRE(current(first) == CUDA_SUCCESS);
  CHECK(h.greedy(1 << 20) == 8);
  REQUIRE(current(second) == CUDA_SUCCESS);
  REQUIRE(info(&after, &total) == CUDA_SUCCESS);
  CHECK(after + (8 << 20) == before);
  REQUIRE(destroy(first) == CUDA_SUCCESS);
  REQUIRE(info(&after, &total) == CUDA_SUCCESS);
  CHECK(after >= before);
}

TEST_CASE("driver: explored runs start from the same heap", "[virtual][driver]") {
  Heap h;
  int value = 9, once = 1;
  REQUIRE(h.run("keep", {&h.words, &value}) == CUDA_SUCCESS);
  REQUIRE(h.d.set_option("schedule", "explore:6") == 0);
  REQUIRE(h.d.set_option("check", "all,advice") == 0);
  // The block that one run gives back is there for the next.
  CUdeviceptr out = h.words + 64;
  CHECK(h.run("give_back", {&h.words, &out, &once}) == CUDA_SUCCESS);
  CHECK(h.d.download<int>(out, 1)[0] == 9);
  // And what one run takes is not missing in the next: 8 of 8 blocks each time.
  CHECK(h.greedy(1 << 20) == 8);
}
