// Driver calls from bytes. Device addresses, handles, sizes and dimensions are any; host pointers
// are null or point to room enough, as no driver can check them.
#include "tests/fuzz/targets.hpp"

#include "tools/vgpu/driver/api_types.hpp"

#include <array>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace wlfuzz {

namespace {

using namespace vgpu::driver;

constexpr size_t kRoom = 256 << 10; // host bytes behind every host pointer

const char* const kImages[] = {
    R"(.version 8.0
.target sm_90
.address_size 64
.global .u32 bias = 5;
.visible .entry scale(.param .u64 out, .param .u32 factor)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [factor];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry cluster_user() .reqnctapercluster 2 .maxntid 64
{
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
.visible .entry none() { ret; }
)",
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry loop() { A: bra A; }\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { add.u32; }\n",
    ".version 9.9\n.target sm_90\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.global .b8 big[100000000000];\n"
    ".visible .entry k(.param .align 64 .b8 m[4000]) { ret; }\n",
    "\x7f"
    "ELF",
    "",
};

struct Session {
  Reader c;
  const Find& find;
  std::vector<void*> handles;
  std::vector<CUdeviceptr> pointers;
  std::vector<uint8_t> room = std::vector<uint8_t>(kRoom), other = room;
  std::string text;
  std::array<void*, 300> parameters{};
  std::array<CUlaunchAttribute, 8> attributes{};

  Session(const uint8_t* data, size_t size, const Find& f) : c(data, size), find(f) {}

  template <class... A>
  CUresult call(const char* name, A... arguments) {
    void* p = find(name);
    if (!p) throw std::logic_error(std::string("no export ") + name);
    return reinterpret_cast<CUresult (*)(A...)>(p)(arguments...);
  }

  template <class H>
  H handle() {
    const size_t i = c.below(24);
    if (i == 0) return nullptr;
    if (i <= 2) return reinterpret_cast<H>(uintptr_t(i));
    if (i == 3) return reinterpret_cast<H>(room.data());
    if (i == 4 || handles.empty()) return reinterpret_cast<H>(uintptr_t(c.word()) << 40 | c.word());
    return static_cast<H>(handles[c.below(handles.size())]);
  }
  template <class H>
  void keep(CUresult result, H handle) {
    if (result == CUDA_SUCCESS && handle) handles.push_back(reinterpret_cast<void*>(handle));
  }
  CUdeviceptr pointer(bool garbage = true) {
    const size_t i = c.below(16);
    if (i == 0 || pointers.empty()) return 0;
    CUdeviceptr p = pointers[c.below(pointers.size())];
    if (i < 4) p += c.word();
    if (i == 4 && garbage) p = CUdeviceptr(c.word()) << 48 | c.word();
    return p;
  }
  size_t bytes() {
    const size_t list[] = {
        0, 1, 4, 64, 4096, 4097, 65536, SIZE_MAX, SIZE_MAX - 4094, size_t(1) << 45};
    return c.below(2) ? c.word() : list[c.below(10)];
  }
  // Of a copy to or from the host: what does not fit there is more than any device has.
  size_t host_size() {
    const size_t n = bytes();
    return n > kRoom && n < size_t(1) << 44 ? kRoom : n;
  }
  void* host() { return c.below(8) ? room.data() : nullptr; }
  unsigned integer() {
    const unsigned list[] = {0,   1,    2,    3,     4,     8,          32,         64,
                             100, 1024, 1025, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    return c.below(2) ? c.byte() : list[c.below(16)];
  }
  const char* name() {
    const char* list[] = {nullptr, "scale", "cluster_user", "none", "bias", "", "k", "no"};
    return list[c.below(8)];
  }
  const char* image() {
    const size_t i = c.below(10);
    if (i < 7) return kImages[i];
    if (i == 7) return nullptr;
    text = c.text(c.byte());
    return text.c_str();
  }
  // Valid launches are small: a large one is no fault, only slow.
  std::array<unsigned, 3> grid() {
    std::array<unsigned, 3> g{};
    for (unsigned& v : g) v = integer();
    if (uint64_t(g[0]) * g[1] > 16 || uint64_t(g[0]) * g[1] * g[2] > 16)
      if (g[0] <= 0x7FFFFFFF && g[1] <= 65535 && g[2] <= 65535) return {g[0] % 9, 1, 1};
    return g;
  }
  void** values(size_t n) {
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i] = i < n ? static_cast<void*>(room.data()) : nullptr;
    if (!pointers.empty()) std::memcpy(room.data(), pointers.data(), sizeof(CUdeviceptr));
    return c.below(8) ? parameters.data() : nullptr;
  }

  void module_call();
  void memory_call();
  void stream_call();
  void launch_call();
  void context_call();
  void tensor_call();
  void link_call();
  CUDA_MEMCPY2D area();
};

void Session::module_call() {
  CUmodule m = nullptr;
  CUlibrary l = nullptr;
  CUfunction f = nullptr;
  size_t n = 0, n2 = 0;
  int v = 0;
  CUdeviceptr p = 0;
  switch (c.below(16)) {
  case 0: {
    const char* i = image();
    return keep(call("cuModuleLoadData", &m, static_cast<const void*>(i)), m);
  }
  case 1: {
    CUjit_option options[6];
    void* given[6];
    const unsigned count = unsigned(c.below(6));
    bool sized[2] = {};
    for (unsigned i = 0; i < count; ++i) {
      options[i] = CUjit_option(int(c.below(48)) - 2);
      given[i] = reinterpret_cast<void*>(uintptr_t(integer()));
      const bool info = options[i] == CU_JIT_INFO_LOG_BUFFER;
      if (info || options[i] == CU_JIT_ERROR_LOG_BUFFER) given[i] = host();
      const bool size = options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
                        options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
      if (size) given[i] = reinterpret_cast<void*>(uintptr_t(c.word()));
      (void)sized;
    }
    const char* text_ = image();
    return keep(call("cuModuleLoadDataEx", c.below(16) ? &m : nullptr,
                     static_cast<const void*>(text_), count, c.below(8) ? options : nullptr,
                     static_cast<void**>(given)),
                m);
  }
  case 2: {
    int keys[2] = {int(c.below(3)), int(c.below(3))};
    const char* text_ = image();
    return keep(call("cuLibraryLoadData", &l, static_cast<const void*>(text_),
                     static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr), 0u, keys,
                     static_cast<void**>(nullptr), unsigned(c.below(3))),
                l);
  }
  case 3:
    call("cuModuleUnload", handle<CUmodule>());
    return;
  case 4:
    call("cuLibraryUnload", handle<CUlibrary>());
    return;
  case 5:
  case 6:
    m = handle<CUmodule>();
    return keep(call("cuModuleGetFunction", &f, m, name()), f);
  case 7:
    l = handle<CUlibrary>();
    return keep(call("cuLibraryGetKernel", &f, l, name()), f);
  case 8:
    m = handle<CUmodule>();
    if (call("cuModuleGetGlobal_v2", &p, &n, m, name()) == CUDA_SUCCESS) pointers.push_back(p);
    return;
  case 9:
    f = handle<CUfunction>();
    call("cuFuncGetAttribute", &v, int(integer()), f);
    return;
  case 10: {
    f = handle<CUfunction>();
    const int which = int(c.below(20)) - 1;
    call("cuFuncSetAttribute", f, which, int(integer()));
    return;
  }
  case 11:
    f = handle<CUfunction>();
    call("cuFuncGetParamInfo", f, size_t(integer()), &n, c.below(2) ? &n2 : nullptr);
    return;
  case 12: {
    const unsigned count = unsigned(c.below(9));
    m = handle<CUmodule>();
    CUfunction list[8] = {};
    call("cuModuleEnumerateFunctions", c.below(4) ? list : nullptr, count % 9, m);
    return;
  }
  case 13: {
    f = handle<CUfunction>();
    const int threads = int(integer());
    const size_t shared = bytes();
    call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &v, f, threads, shared);
    int block = 0;
    call("cuOccupancyMaxPotentialBlockSize", &v, &block, f,
         static_cast<CUoccupancyB2DSize>(nullptr), shared, threads);
    call("cuOccupancyAvailableDynamicSMemPerBlock", &n, f, int(integer()), threads);
    return;
  }
  case 14:
    l = handle<CUlibrary>();
    return keep(call("cuLibraryGetModule", &m, l), m);
  default: {
    const char* symbol = nullptr;
    f = handle<CUfunction>();
    call("cuFuncGetName", &symbol, f);
    call("cuFuncGetModule", &m, f);
    call("cuKernelGetLibrary", &l, f);
  }
  }
}

// Both ends have room for what is not refused.
CUDA_MEMCPY2D Session::area() {
  CUDA_MEMCPY2D a{};
  a.srcMemoryType = CUmemorytype(c.below(6));
  a.dstMemoryType = CUmemorytype(c.below(6));
  a.srcHost = room.data();
  a.dstHost = other.data();
  a.srcDevice = pointer(false);
  a.dstDevice = pointer(false);
  a.srcPitch = c.below(512);
  a.dstPitch = c.below(512);
  a.WidthInBytes = c.below(300);
  a.Height = c.below(64);
  a.srcXInBytes = c.below(64);
  a.dstXInBytes = c.below(64);
  a.srcY = c.below(8);
  a.dstY = c.below(8);
  const bool checked =
      a.dstMemoryType == CU_MEMORYTYPE_DEVICE || a.srcMemoryType == CU_MEMORYTYPE_DEVICE;
  if (checked && c.below(4) == 0) {
    size_t* fields[] = {&a.srcPitch, &a.dstPitch, &a.WidthInBytes, &a.Height, &a.srcY, &a.dstY};
    *fields[c.below(6)] = SIZE_MAX - c.below(300);
  }
  return a;
}

void Session::memory_call() {
  CUdeviceptr p = 0;
  void* h = nullptr;
  size_t n = 0, n2 = 0;
  CUstream s = handle<CUstream>();
  switch (c.below(16)) {
  case 0:
  case 1:
  case 2:
    if (call("cuMemAlloc_v2", c.below(16) ? &p : nullptr, bytes()) == CUDA_SUCCESS && p)
      pointers.push_back(p);
    return;
  case 3:
    call("cuMemFree_v2", pointer());
    return;
  case 4: {
    const size_t width = bytes(), height = c.word();
    if (width < 1 << 20 && width * height > 1 << 22) return;
    if (call("cuMemAllocPitch_v2", &p, &n, width, height, integer()) == CUDA_SUCCESS)
      pointers.push_back(p);
    return;
  }
  case 5:
    p = pointer(), h = host();
    call("cuMemcpyHtoD_v2", p, static_cast<const void*>(h), host_size());
    return;
  case 6:
    p = pointer(), h = host();
    call("cuMemcpyDtoHAsync_v2", h, p, host_size(), s);
    return;
  case 7: {
    p = pointer();
    const CUdeviceptr q = pointer();
    call("cuMemcpyDtoDAsync_v2", p, q, bytes(), s);
    return;
  }
  case 8: {
    const CUDA_MEMCPY2D a = area();
    call("cuMemcpy2DAsync_v2", &a, s);
    return;
  }
  case 9:
    p = pointer();
    call("cuMemsetD32Async", p, integer(), bytes(), s);
    return;
  case 10: {
    p = pointer();
    const size_t pitch = bytes(), width = bytes();
    call("cuMemsetD2D16_v2", p, pitch, static_cast<unsigned short>(7), width, bytes());
    return;
  }
  case 11: {
    uint64_t value[8] = {};
    p = pointer();
    call("cuPointerGetAttribute", static_cast<void*>(value), int(integer()), p);
    return;
  }
  case 12:
    p = pointer();
    call("cuMemGetAddressRange_v2", &p, &n, p);
    call("cuMemGetInfo_v2", &n, c.below(4) ? &n2 : nullptr);
    return;
  case 13:
    n = bytes();
    if (call("cuMemHostAlloc", &h, n > kRoom && n < size_t(1) << 40 ? kRoom : n, integer()) ==
        CUDA_SUCCESS)
      handles.push_back(h);
    return;
  case 14:
    call("cuMemFreeHost", handle<void*>());
    return;
  default:
    h = room.data() + c.word();
    call("cuMemHostRegister_v2", h, size_t(c.word()), integer());
    call("cuMemHostUnregister", c.below(2) ? h : handle<void*>());
  }
}

void Session::stream_call() {
  CUstream s = handle<CUstream>();
  CUevent e = nullptr;
  CUgraph g = nullptr;
  CUgraphExec x = nullptr;
  float ms = 0;
  int v = 0;
  switch (c.below(18)) {
  case 0:
    call("cuStreamCreate", &s, integer());
    return keep(CUDA_SUCCESS, s);
  case 1:
    call("cuStreamDestroy_v2", s);
    return;
  case 2:
    call("cuStreamSynchronize", s);
    call("cuStreamQuery", s);
    return;
  case 3:
    return keep(call("cuEventCreate", &e, integer()), e);
  case 4:
    e = handle<CUevent>();
    call("cuEventRecord", e, s);
    return;
  case 5:
    call("cuEventDestroy_v2", handle<CUevent>());
    return;
  case 6:
    e = handle<CUevent>();
    call("cuStreamWaitEvent", s, e, integer());
    return;
  case 7: {
    e = handle<CUevent>();
    const CUevent end = handle<CUevent>();
    call("cuEventElapsedTime", &ms, e, end);
    return;
  }
  case 8:
  case 9:
    call("cuStreamBeginCapture_v2", s, CUstreamCaptureMode(c.below(4)));
    return;
  case 10:
  case 11:
    return keep(call("cuStreamEndCapture", s, c.below(8) ? &g : nullptr), g);
  case 12:
    g = handle<CUgraph>();
    return keep(call("cuGraphInstantiateWithFlags", &x, g, 0ull + integer()), x);
  case 13:
    x = handle<CUgraphExec>();
    call("cuGraphLaunch", x, s);
    return;
  case 14:
    call("cuGraphDestroy", handle<CUgraph>());
    return;
  case 15:
    call("cuGraphExecDestroy", handle<CUgraphExec>());
    return;
  case 16: {
    CUhostFn none = [](void*) {};
    call("cuLaunchHostFunc", s, c.below(4) ? none : nullptr, static_cast<void*>(nullptr));
    return;
  }
  default: {
    CUstreamCaptureMode mode = CUstreamCaptureMode(c.below(5));
    call("cuThreadExchangeStreamCaptureMode", &mode);
    call("cuStreamIsCapturing", s, &v);
    mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    call("cuThreadExchangeStreamCaptureMode", &mode);
  }
  }
}

void Session::launch_call() {
  CUlaunchConfig k{};
  const auto g = grid();
  k.gridDimX = g[0], k.gridDimY = g[1], k.gridDimZ = g[2];
  k.blockDimX = integer(), k.blockDimY = c.below(4) ? 1 : integer(),
  k.blockDimZ = c.below(4) ? 1 : integer();
  k.sharedMemBytes = c.below(2) ? 0 : integer();
  k.hStream = c.below(4) ? nullptr : handle<CUstream>();
  const CUfunction f = handle<CUfunction>();
  void** p = values(c.below(8) ? 300 : 1);
  void* extra[8] = {};
  size_t size = c.below(2) ? 12 : c.word();
  size_t n = 0;
  if (c.below(8) == 0) {
    extra[n++] = reinterpret_cast<void*>(uintptr_t(1 + c.below(4)));
    extra[n++] = room.data();
    extra[n++] = reinterpret_cast<void*>(uintptr_t(2));
    extra[n++] = &size;
    if (extra[0] == reinterpret_cast<void*>(uintptr_t(2))) extra[1] = &size;
    if (c.below(2)) p = nullptr;
  }
  if (c.below(2)) {
    call("cuLaunchKernel", f, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY,
         k.blockDimZ, k.sharedMemBytes, k.hStream, p, n ? extra : nullptr);
    return;
  }
  k.numAttrs = unsigned(c.below(4));
  for (unsigned i = 0; i < k.numAttrs; ++i) {
    attributes[i].id = CUlaunchAttributeID(c.below(20));
    attributes[i].value = {};
    attributes[i].value.clusterDim.x = integer();
    attributes[i].value.clusterDim.y = c.below(4) ? 1 : integer();
    attributes[i].value.clusterDim.z = c.below(4) ? 1 : integer();
  }
  k.attrs = c.below(16) ? attributes.data() : nullptr;
  int clusters = 0;
  call("cuOccupancyMaxActiveClusters", &clusters, f, &k);
  call("cuOccupancyMaxPotentialClusterSize", &clusters, f, &k);
  call("cuLaunchKernelEx", c.below(32) ? &k : nullptr, f, p, n ? extra : nullptr);
}

void Session::context_call() {
  CUcontext x = nullptr;
  size_t n = 0;
  int v = 0;
  switch (c.below(13)) {
  case 0:
    return keep(call("cuCtxCreate_v2", &x, integer(), int(c.below(3)) - 1), x);
  case 1:
    call("cuCtxDestroy_v2", handle<CUcontext>());
    return;
  case 2:
    call("cuCtxPushCurrent_v2", handle<CUcontext>());
    return;
  case 3:
    call("cuCtxPopCurrent_v2", &x);
    return;
  case 4:
    call("cuCtxSetCurrent", handle<CUcontext>());
    return;
  case 5:
    return keep(call("cuDevicePrimaryCtxRetain", &x, int(c.below(2))), x);
  case 6:
    call("cuDevicePrimaryCtxRelease_v2", int(c.below(2)));
    return;
  case 7:
    call("cuDevicePrimaryCtxReset_v2", 0);
    return;
  case 8:
    call("cuCtxSynchronize");
    return;
  case 9:
    v = int(integer());
    call("cuCtxSetLimit", v, bytes());
    call("cuCtxGetLimit", &n, v);
    return;
  case 10:
    call("cuDeviceGetAttribute", &v, int(integer()), 0);
    return;
  case 11: {
    char room_[16];
    call("cuDeviceGetName", room_, int(c.below(18)) - 1, 0);
    return;
  }
  default: {
    void* p = nullptr;
    int status = 0;
    const char* names[] = {"cuMemAlloc", "cuCtxCreate", "cuNothing",     "",
                           nullptr,      "malloc",      "cuLaunchKernel"};
    const char* which = names[c.below(7)];
    call("cuGetProcAddress_v2", which, &p, int(integer()), uint64_t(c.below(4)),
         c.below(2) ? &status : nullptr);
  }
  }
}

void Session::tensor_call() {
  alignas(128) CUtensorMap map{};
  uint64_t dims[5], strides[5];
  uint32_t box[5], steps[5];
  int lower[3], upper[3];
  for (int i = 0; i < 5; ++i) {
    dims[i] = c.below(4) ? integer() : bytes();
    strides[i] = c.below(4) ? 16 * c.byte() : bytes();
    box[i] = integer();
    steps[i] = c.below(4) ? 1 : integer();
  }
  for (int i = 0; i < 3; ++i) lower[i] = int(integer()), upper[i] = int(integer());
  const int type = int(c.below(18)) - 1;
  const uint32_t rank = uint32_t(c.below(8));
  void* address = reinterpret_cast<void*>(pointer());
  auto pick = [&](auto* p) { return c.below(32) ? p : nullptr; };
  CUtensorMap* to =
      c.below(16) ? &map : reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(&map) + 8);
  const int interleave = int(c.below(4)), swizzle = int(c.below(8)), promotion = int(c.below(5)),
            fill = int(c.below(3));
  if (c.below(2))
    call("cuTensorMapEncodeTiled", to, type, rank, address,
         static_cast<const uint64_t*>(pick(dims)), static_cast<const uint64_t*>(pick(strides)),
         static_cast<const uint32_t*>(pick(box)), static_cast<const uint32_t*>(pick(steps)),
         interleave, swizzle, promotion, fill);
  else
    call("cuTensorMapEncodeIm2col", to, type, rank, address,
         static_cast<const uint64_t*>(pick(dims)), static_cast<const uint64_t*>(pick(strides)),
         static_cast<const int*>(pick(lower)), static_cast<const int*>(pick(upper)), box[0], box[1],
         static_cast<const uint32_t*>(pick(steps)), interleave, swizzle, promotion, fill);
  call("cuTensorMapReplaceAddress", &map, address);
}

void Session::link_call() {
  CUlinkState s = nullptr;
  void* out = nullptr;
  size_t n = 0;
  switch (c.below(4)) {
  case 0:
    return keep(call("cuLinkCreate_v2", 0u, static_cast<CUjit_option*>(nullptr),
                     static_cast<void**>(nullptr), &s),
                s);
  case 1: {
    s = handle<CUlinkState>();
    const char* i = image();
    call("cuLinkAddData_v2", s, int(c.below(6)), const_cast<char*>(i),
         i ? std::strlen(i) + c.below(2) : 0, static_cast<const char*>(nullptr), 0u,
         static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr));
    return;
  }
  case 2:
    s = handle<CUlinkState>();
    if (call("cuLinkComplete", s, &out, &n) == CUDA_SUCCESS) {
      CUmodule m = nullptr;
      keep(call("cuModuleLoadData", &m, static_cast<const void*>(out)), m);
    }
    return;
  default:
    call("cuLinkDestroy", handle<CUlinkState>());
  }
}

} // namespace

void driver(const uint8_t* data, size_t size, const Find& find) {
  Session s(data, size, find);
  auto option = [&](const char* key, const char* value) {
    reinterpret_cast<int (*)(const char*, const char*)>(find("vgpuSetOption"))(key, value);
  };
  option("report", "none");
  option("threads", "1");
  option("instruction_limit", "2000");
  option("check", s.c.below(2) ? "all" : "off");
  if (s.c.below(16)) {
    s.call("cuInit", 0u);
    // Another device and back: memory and its list of freed pieces start anew.
    option("profile", "h200");
    option("profile", s.c.below(2) ? "b200" : "h200");
  }
  if (s.c.below(8)) {
    CUcontext x = nullptr;
    s.keep(s.call("cuCtxCreate_v2", &x, 0u, 0), x);
  }
  for (int i = 0; i < 200 && !s.c.empty(); ++i) switch (s.c.below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
      s.module_call();
      break;
    case 4:
    case 5:
    case 6:
      s.memory_call();
      break;
    case 7:
    case 8:
    case 9:
      s.stream_call();
      break;
    case 10:
    case 11:
      s.launch_call();
      break;
    case 12:
    case 13:
      s.context_call();
      break;
    case 14:
      s.tensor_call();
      break;
    default:
      s.link_call();
    }
  // Nothing may be left for the next sequence.
  for (void* h : s.handles) s.call("cuCtxDestroy_v2", static_cast<CUcontext>(h));
  s.call("cuDevicePrimaryCtxReset_v2", 0);
  CUcontext x = nullptr;
  while (s.call("cuCtxPopCurrent_v2", &x) == CUDA_SUCCESS) {
  }
}

} // namespace wlfuzz
