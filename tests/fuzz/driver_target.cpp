// Driver calls about modules, streams, launches, contexts and links; and a whole sequence.
#include "tests/fuzz/driver_session.hpp"

namespace wlfuzz {

const char* const kImages[7] = {
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
