// Modules, launches and faults through the virtual GPU's driver API.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_kernels.hpp"

#include <thread>

using namespace cuapi;
using namespace wltest;
using namespace wltest::kernels;

TEST_CASE("driver: a kernel runs under every schedule and both ways to pass parameters",
          "[virtual]") {
  Scale s;
  for (const char* schedule : {"eager", "lazy", "random:3"}) {
    INFO(schedule);
    REQUIRE(s.d.set_option("schedule", schedule) == 0);
    REQUIRE(s.run(3, s.p, s.q) == CUDA_SUCCESS);
    REQUIRE(s.d.cu.CtxSynchronize() == CUDA_SUCCESS);
    CHECK(s.d.download<uint32_t>(s.q, 64) == s.expect(3, 5));
  }
  CUdeviceptr bias = 0;
  size_t bytes = 0;
  REQUIRE(s.d.cu.ModuleGetGlobal(&bias, &bytes, s.module, "bias") == CUDA_SUCCESS);
  CHECK(bytes == 4);
  CHECK(s.d.cu.ModuleGetGlobal(&bias, &bytes, s.module, "variance") == CUDA_ERROR_NOT_FOUND);
  const uint32_t nine = 9;
  CHECK(s.d.cu.MemcpyHtoD(bias, &nine, 4) == CUDA_SUCCESS);
  CHECK(s.d.cu.MemFree(bias) == CUDA_ERROR_INVALID_VALUE);

  using Plain = CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, CUstream, void**, void**);
  auto launch_kernel = s.d.symbol<Plain>("cuLaunchKernel");
  struct {
    uint64_t in;
    uint32_t factor, pad;
    uint64_t out;
  } block{s.p, 7, 0, s.q};
  size_t size = sizeof block;
  void* extra[] = {reinterpret_cast<void*>(1), &block, reinterpret_cast<void*>(2), &size, nullptr};
  REQUIRE(launch_kernel(s.f, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra) == CUDA_SUCCESS);
  CHECK(s.d.download<uint32_t>(s.q, 64) == s.expect(7, 9));
  size = 20;
  CHECK(launch_kernel(s.f, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_kernel(s.f, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(std::string(s.d.stats()), ContainsSubstring("\"launches\": 4"));
  s.d.reset_stats();
  CHECK_THAT(std::string(s.d.stats()), ContainsSubstring("\"launches\": 0"));

  size_t offset = 0;
  CHECK(s.d.cu.FuncGetParamInfo(s.f, 2, &offset, &size) == CUDA_SUCCESS);
  CHECK(offset == 16);
  CHECK(size == 8);
  CHECK(s.d.cu.FuncGetParamInfo(s.f, 3, &offset, &size) == CUDA_ERROR_INVALID_VALUE);
  CUfunction none = nullptr;
  CHECK(s.d.cu.ModuleGetFunction(&none, s.module, "scales") == CUDA_ERROR_NOT_FOUND);
  CHECK_THAT(std::string(s.d.message()), ContainsSubstring("shared_user"));
  REQUIRE(s.d.cu.ModuleUnload(s.module) == CUDA_SUCCESS);
  CHECK(s.run(1, s.p, s.q) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(s.d.cu.MemcpyHtoD(bias, &nine, 4) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("driver: launches that cannot be are refused before they run", "[virtual]") {
  Scale s;
  uint32_t factor = 1;
  auto refused = [&](Launch l) { return launch(s.d, s.f, l, {&s.p, &factor, &s.q}); };
  Launch l;
  l.grid = 0;
  CHECK(refused(l) == CUDA_ERROR_INVALID_VALUE);
  l.grid = 1;
  l.block = 1025;
  CHECK(refused(l) == CUDA_ERROR_INVALID_VALUE);
  l.block = 32;
  l.shared = 49153;
  CHECK(refused(l) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(std::string(s.d.message()), ContainsSubstring("232448"));
  l.shared = 0;
  l.grid = 6;
  l.attributes = {cluster(4)};
  CHECK(refused(l) == CUDA_ERROR_INVALID_VALUE);
  l.grid = 16;
  l.attributes = {cluster(16)};
  CHECK(refused(l) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  l.attributes = {cluster(0)};
  CHECK(refused(l) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK(s.d.cu.FuncSetAttribute(s.f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1) ==
        CUDA_SUCCESS);
  l.grid = 32;
  l.attributes = {cluster(32)};
  CHECK(refused(l) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  l.attributes.assign(1, CUlaunchAttribute{});
  l.attributes[0].id = CUlaunchAttributeID(7);
  CHECK(refused(l) == CUDA_ERROR_NOT_SUPPORTED);
  l.attributes.clear();
  l.stream = CUstream(0x1234);
  CHECK(refused(l) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(launch(s.d, s.f, {}, {&s.p, nullptr, &s.q}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(s.d.cu.LaunchKernelEx(nullptr, s.f, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(s.d.cu.CtxSynchronize() == CUDA_SUCCESS);
  CHECK(s.d.download<uint32_t>(s.q, 64) == std::vector<uint32_t>(64, 0xDDDDDDDD));
}

TEST_CASE("driver: clusters, dynamic shared memory, attributes and occupancy", "[virtual]") {
  Scale s;
  CUfunction f = entry_of(s.d, s.module, "cluster_user");
  Launch l;
  l.grid = 8;
  l.attributes = {cluster(4)};
  CUlaunchAttribute dependent{};
  dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  dependent.value.programmaticStreamSerializationAllowed = 1;
  l.attributes.push_back(dependent);
  REQUIRE(launch(s.d, f, l, {&s.q}) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.CtxSynchronize() == CUDA_SUCCESS);
  CHECK(s.d.download<uint32_t>(s.q, 8) == std::vector<uint32_t>{0, 1, 2, 3, 0, 1, 2, 3});
  l.block = 160; // .maxntid 128
  CHECK(launch(s.d, f, l, {&s.q}) == CUDA_ERROR_INVALID_VALUE);
  auto attribute = [&](CUfunction of, CUfunction_attribute which) {
    int value = -1;
    CHECK(s.d.cu.FuncGetAttribute(&value, which, of) == CUDA_SUCCESS);
    return value;
  };
  CHECK(attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);
  CHECK(attribute(f, CU_FUNC_ATTRIBUTE_PTX_VERSION) == 80);
  CHECK(attribute(f, CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 100);

  CUfunction g = entry_of(s.d, s.module, "shared_user");
  CHECK(attribute(g, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 49152);
  Launch big;
  big.shared = 100000;
  CHECK(launch(s.d, g, big, {&s.q}) == CUDA_ERROR_INVALID_VALUE);
  auto opt_in = [&](int bytes) {
    return s.d.cu.FuncSetAttribute(g, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  };
  CHECK(opt_in(232449) == CUDA_ERROR_INVALID_VALUE);
  CHECK(opt_in(-1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(opt_in(100000) == CUDA_SUCCESS);
  REQUIRE(launch(s.d, g, big, {&s.q}) == CUDA_SUCCESS);
  CHECK(s.d.download<uint32_t>(s.q, 1)[0] == 100000);
  CHECK(s.d.cu.FuncSetAttribute(g, CU_FUNC_ATTRIBUTE_NUM_REGS, 3) == CUDA_ERROR_INVALID_VALUE);

  int blocks = -1, clusters = -1;
  CHECK(s.d.cu.OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, g, 256, 100000) == CUDA_SUCCESS);
  CHECK(blocks == 2); // 233472 / (100000 + 1024)
  CHECK(s.d.cu.OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, g, 1024, 0) == CUDA_SUCCESS);
  CHECK(blocks == 2); // 2048 threads
  CHECK(s.d.cu.OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, g, 0, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CUlaunchConfig config{};
  config.gridDimX = 8;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 1024;
  CUlaunchAttribute two = cluster(2);
  config.attrs = &two;
  config.numAttrs = 1;
  CHECK(s.d.cu.OccupancyMaxActiveClusters(&clusters, g, &config) == CUDA_SUCCESS);
  CHECK(clusters == 148);
  size_t room = 0;
  auto available = s.d.symbol<CUresult(size_t*, CUfunction, int, int)>(
      "cuOccupancyAvailableDynamicSMemPerBlock");
  CHECK(available(&room, g, 2, 128) == CUDA_SUCCESS);
  CHECK(room == 233472 / 2 - 1024);

  Launch cooperative;
  REQUIRE(s.d.cu.OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, 0) == CUDA_SUCCESS);
  REQUIRE(blocks >= 1);
  cooperative.grid = 148 * unsigned(blocks);
  cooperative.block = 128;
  cooperative.attributes.assign(1, CUlaunchAttribute{});
  cooperative.attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.attributes[0].value.cooperative = 1;
  CUdeviceptr ranks = s.d.upload(std::vector<uint32_t>(cooperative.grid + 1));
  CHECK(launch(s.d, f, cooperative, {&ranks}) == CUDA_SUCCESS);
  CHECK(s.d.cu.CtxSynchronize() == CUDA_SUCCESS);
  cooperative.grid += 1;
  CHECK(launch(s.d, f, cooperative, {&ranks}) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_CASE("driver: a fault spoils its context and no other", "[virtual]") {
  Scale s;
  CUcontext first = nullptr, second = nullptr;
  REQUIRE(s.d.cu.CtxGetCurrent(&first) == CUDA_SUCCESS);
  TemporaryDirectory directory;
  const std::string file = directory / "report";
  REQUIRE(s.d.set_option("report", file.c_str()) == 0);
  CHECK(s.run(1, s.p, s.q + 4) == CUDA_SUCCESS); // the last thread writes past the end
  CHECK_THAT(std::string(s.d.report()), ContainsSubstring("scale"));
  CHECK_THAT(std::string(s.d.report()), ContainsSubstring("st.global.u32"));
  CHECK_THAT(read_text(file), ContainsSubstring("st.global.u32"));
  CHECK(s.d.cu.CtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(s.d.cu.StreamSynchronize(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
  uint32_t word = 0;
  CHECK(s.d.cu.MemcpyDtoH(&word, s.q, 4) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(s.run(1, s.p, s.q) == CUDA_ERROR_ILLEGAL_ADDRESS);

  second = s.d.open();
  JitResult r = jit(s.d, kScale);
  REQUIRE(r.result == CUDA_SUCCESS);
  CUdeviceptr p = s.d.upload(s.in), q = s.d.upload(s.in);
  uint32_t factor = 2;
  Launch l;
  l.block = 64;
  CHECK(launch(s.d, s.f, l, {&p, &factor, &q}) == CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE(launch(s.d, entry_of(s.d, r.module, "scale"), l, {&p, &factor, &q}) == CUDA_SUCCESS);
  CHECK(s.d.download<uint32_t>(q, 64) == s.expect(2, 5));
  auto destroy = s.d.symbol<CUresult(CUcontext)>("cuCtxDestroy_v2");
  CHECK(destroy(second) == CUDA_SUCCESS);
  CHECK(destroy(first) == CUDA_SUCCESS); // although spoiled
}

TEST_CASE("driver: the primary context recovers by release", "[virtual]") {
  VgpuDriver d;
  REQUIRE(d.cu.Init(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  for (int round = 0; round < 2; ++round) {
    REQUIRE(d.cu.DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(d.cu.CtxPushCurrent(context) == CUDA_SUCCESS);
    JitResult r = jit(d, tiny("8.0", "sm_90", "trap;").c_str());
    REQUIRE(r.result == CUDA_SUCCESS);
    CHECK(launch(d, entry_of(d, r.module, "k"), {}, {}) == CUDA_SUCCESS);
    CHECK(d.cu.CtxSynchronize() != CUDA_SUCCESS);
    REQUIRE(d.cu.CtxPopCurrent(nullptr) == CUDA_SUCCESS);
    REQUIRE(d.cu.DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  }
}

TEST_CASE("driver: images that cannot be loaded, with the compiler's log", "[virtual]") {
  VgpuDriver d;
  d.open();
  auto expect = [&](const std::string& image, CUresult result, const std::string& log) {
    INFO(image.substr(0, 200));
    JitResult r = jit(d, image.c_str());
    CHECK(r.result == result);
    CHECK_THAT(r.error, ContainsSubstring(log));
  };
  expect(tiny("8.0", "sm_90", "frobnicate.b32 1;"), CUDA_ERROR_INVALID_PTX, "line 6; error");
  expect(tiny("8.0", "sm_90", "frobnicate.b32 1;"), CUDA_ERROR_INVALID_PTX, "frobnicate");
  expect(tiny("8.0", "sm_90", "add.u32 %r1, %r2 %r3;"), CUDA_ERROR_INVALID_PTX, "line 6");
  expect(tiny("10.0", "sm_90"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "10.0");
  expect(tiny("9.4", "sm_90"), CUDA_SUCCESS, "");
  expect(tiny("x", "sm_90"), CUDA_ERROR_INVALID_PTX, "line 1");
  expect(tiny("8.0", "sm_9000"), CUDA_ERROR_INVALID_PTX,
         "unknown target 'sm_9000'; the nearest that is known is sm_121");
  expect(tiny("8.0", "sm_91"), CUDA_ERROR_INVALID_PTX, "nearest that is known is sm_90");
  expect(tiny("8.0", "sm_90z"), CUDA_ERROR_INVALID_PTX, "sm_90z");
  expect(".const .b8 a[1000000000];\n" + tiny("8.0", "sm_90"), CUDA_ERROR_INVALID_PTX,
         "1000000000 bytes of .const variables");
  expect(".shared .b8 a[99000000000];\n" + tiny("8.0", "sm_90"), CUDA_ERROR_INVALID_PTX,
         "the shared variable 'a' has 99000000000 bytes");
  expect(tiny("8.0", "sm_90", ".shared .b8 a[49153];"), CUDA_ERROR_INVALID_PTX,
         "more than the 49152 bytes");
  expect("#include \"x.ptx\"\n" + tiny("8.0", "sm_90"), CUDA_ERROR_INVALID_PTX,
         "'#include' is a preprocessor's");
  expect(tiny("8.7", "sm_100f"), CUDA_ERROR_INVALID_PTX, "8.8");
  expect("", CUDA_ERROR_INVALID_IMAGE, "neither PTX");
  expect("\177ELF and more", CUDA_ERROR_NO_BINARY_FOR_GPU, "cubin");
  expect("\x50\xED\x55\xBA", CUDA_ERROR_NO_BINARY_FOR_GPU, "fat binary");
  expect("\x50\xED\x55\xBA\x01", CUDA_ERROR_NO_BINARY_FOR_GPU, "fat binary of a version");
  expect("\x01\x02", CUDA_ERROR_INVALID_IMAGE, "neither PTX");
  expect("int main() {}", CUDA_ERROR_INVALID_PTX, "line 1");
  CUmodule module = nullptr;
  CHECK(d.cu.ModuleLoadDataEx(&module, nullptr, 0, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.ModuleLoadDataEx(nullptr, kScale, 0, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CUjit_option unknown = CUjit_option(900);
  void* value = nullptr;
  CHECK(d.cu.ModuleLoadDataEx(&module, kScale, 1, &unknown, &value) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.symbol<CUresult(CUmodule*, const char*)>("cuModuleLoad")(&module, "/nonexistent") ==
        CUDA_ERROR_FILE_NOT_FOUND);

  // The log fits the buffer, whatever its size.
  for (size_t bytes : {0, 1, 20}) {
    JitResult r = jit(d, tiny("8.0", "sm_90", "frobnicate.b32 1;").c_str(), bytes);
    CHECK(r.result == CUDA_ERROR_INVALID_PTX);
    if (bytes) CHECK(r.error.size() == bytes - 1);
  }
  JitResult good = jit(d, kScale);
  CHECK(good.result == CUDA_SUCCESS);
  CHECK(good.error.empty());
  CHECK_THAT(good.info, ContainsSubstring("entry 'scale'"));
}

TEST_CASE("driver: targets run on the devices that ptxas would build them for", "[virtual]") {
  struct Case {
    const char *profile, *target;
    bool runs;
  };
  for (const Case& c :
       {Case{"h200", "sm_90a", true}, Case{"h200", "sm_80", true}, Case{"h200", "sm_100", false},
        Case{"h200", "sm_100a", false}, Case{"b200", "sm_90", true}, Case{"b200", "sm_90a", false},
        Case{"b200", "sm_100a", true}, Case{"b200", "sm_100f", true},
        Case{"b200", "sm_103a", false}, Case{"b200", "sm_103f", false},
        Case{"b300", "sm_100", true}, Case{"b300", "sm_100a", false}, Case{"b300", "sm_100f", true},
        Case{"b300", "sm_103a", true}, Case{"b300", "sm_120f", false}}) {
    INFO(c.target << " on " << c.profile);
    VgpuDriver d(c.profile);
    d.open();
    JitResult r = jit(d, tiny("9.0", c.target).c_str());
    CHECK(r.result == (c.runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU));
    CHECK(r.error.empty() == c.runs);
  }
}

TEST_CASE("driver: libraries and links", "[virtual]") {
  VgpuDriver d("h200");
  d.open();
  using Library = struct L*;
  using Kernel = struct K*;
  using Load =
      CUresult(Library*, const void*, CUjit_option*, void**, unsigned, int*, void**, unsigned);
  Library library = nullptr;
  Kernel kernel = nullptr;
  CUfunction f = nullptr;
  CUmodule module = nullptr;
  unsigned count = 0;
  REQUIRE(d.symbol<Load>("cuLibraryLoadData")(&library, kScale, nullptr, nullptr, 0, nullptr,
                                              nullptr, 0) == CUDA_SUCCESS);
  CHECK(d.symbol<CUresult(unsigned*, Library)>("cuLibraryGetKernelCount")(&count, library) ==
        CUDA_SUCCESS);
  CHECK(count == 3);
  REQUIRE(d.symbol<CUresult(Kernel*, Library, const char*)>("cuLibraryGetKernel")(
              &kernel, library, "shared_user") == CUDA_SUCCESS);
  REQUIRE(d.symbol<CUresult(CUfunction*, Kernel)>("cuKernelGetFunction")(&f, kernel) ==
          CUDA_SUCCESS);
  CUdeviceptr out = d.upload(std::vector<uint32_t>(1));
  Launch l;
  l.shared = 64;
  CHECK(launch(d, f, l, {&out}) == CUDA_SUCCESS);
  CHECK(d.download<uint32_t>(out, 1)[0] == 64);
  CHECK(launch(d, reinterpret_cast<CUfunction>(kernel), l, {&out}) == CUDA_SUCCESS);
  CHECK(d.symbol<CUresult(CUmodule*, Library)>("cuLibraryGetModule")(&module, library) ==
        CUDA_SUCCESS);
  CHECK(d.cu.ModuleUnload(module) == CUDA_ERROR_NOT_PERMITTED);
  auto unload = d.symbol<CUresult(Library)>("cuLibraryUnload");
  CHECK(unload(library) == CUDA_SUCCESS);
  CHECK(unload(library) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(launch(d, f, l, {&out}) == CUDA_ERROR_INVALID_HANDLE);

  CUlinkState link = nullptr;
  void* image = nullptr;
  size_t bytes = 0;
  std::string text = kScale;
  REQUIRE(d.cu.LinkCreate(0, nullptr, nullptr, &link) == CUDA_SUCCESS);
  CHECK(d.cu.LinkComplete(link, &image, &bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.cu.LinkAddData(link, CU_JIT_INPUT_CUBIN, text.data(), text.size(), "scale", 0, nullptr,
                         nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(d.cu.LinkAddData(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "scale", 0,
                           nullptr, nullptr) == CUDA_SUCCESS);
  REQUIRE(d.cu.LinkComplete(link, &image, &bytes) == CUDA_SUCCESS);
  JitResult r = jit(d, image);
  CHECK(r.result == CUDA_SUCCESS);
  CHECK(d.cu.LinkDestroy(link) == CUDA_SUCCESS);
  CHECK(d.cu.LinkDestroy(link) == CUDA_ERROR_INVALID_HANDLE);

  // Linked for a device that is not here: it can be checked, and not loaded.
  CUjit_option option = CU_JIT_TARGET;
  void* target = reinterpret_cast<void*>(uintptr_t(0x10000 + 100));
  std::string blackwell = tiny("8.6", "sm_100a");
  REQUIRE(d.cu.LinkCreate(1, &option, &target, &link) == CUDA_SUCCESS);
  REQUIRE(d.cu.LinkAddData(link, CU_JIT_INPUT_PTX, blackwell.data(), blackwell.size(), "k", 0,
                           nullptr, nullptr) == CUDA_SUCCESS);
  REQUIRE(d.cu.LinkComplete(link, &image, &bytes) == CUDA_SUCCESS);
  CHECK(jit(d, image).result == CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_CASE("driver: threads launch and copy at the same time", "[virtual]") {
  Scale s;
  CUcontext context = nullptr;
  REQUIRE(s.d.cu.CtxGetCurrent(&context) == CUDA_SUCCESS);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, -1);
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      int bad = s.d.cu.CtxPushCurrent(context) != CUDA_SUCCESS;
      CUstream stream = nullptr;
      bad += s.d.cu.StreamCreate(&stream, 1) != CUDA_SUCCESS;
      for (uint32_t i = 0; i < 20 && !bad; ++i) {
        CUdeviceptr q = s.d.upload(s.in);
        bad += s.run(t * 100 + i, s.p, q, stream) != CUDA_SUCCESS;
        bad += s.d.cu.StreamSynchronize(stream) != CUDA_SUCCESS;
        bad += s.d.download<uint32_t>(q, 64) != s.expect(t * 100 + i, 5);
        bad += s.d.cu.MemFree(q) != CUDA_SUCCESS;
      }
      bad += s.d.cu.StreamDestroy(stream) != CUDA_SUCCESS;
      wrong[t] = bad;
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4, 0));
}
