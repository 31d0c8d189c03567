#include "tests/support/capture_rules.hpp"

#include "runtime/src/context.hpp"
#include "runtime/src/driver.hpp"
#include "tests/support/catch.hpp"

#include <functional>

namespace wltest {

namespace {

// Streams, an executable graph and memory for one call under one capture.
class Stage {
public:
  explicit Stage(const cuapi::Functions& functions) : cu(functions) {
    REQUIRE(cu.StreamCreate(&captured, cuapi::CU_STREAM_NON_BLOCKING) == cuapi::CUDA_SUCCESS);
    REQUIRE(cu.StreamCreate(&other, cuapi::CU_STREAM_NON_BLOCKING) == cuapi::CUDA_SUCCESS);
    REQUIRE(cu.MemAlloc(&memory, 64) == cuapi::CUDA_SUCCESS);
    REQUIRE(cu.StreamBeginCapture(other, cuapi::CU_STREAM_CAPTURE_MODE_RELAXED) ==
            cuapi::CUDA_SUCCESS);
    REQUIRE(cu.MemsetD32Async(memory, 7, 16, other) == cuapi::CUDA_SUCCESS);
    REQUIRE(cu.StreamEndCapture(other, &graph) == cuapi::CUDA_SUCCESS);
    REQUIRE(cu.GraphInstantiate(&executable, graph, 0) == cuapi::CUDA_SUCCESS);
  }
  ~Stage() {
    if (executable) cu.GraphExecDestroy(executable);
    cu.GraphDestroy(graph);
    if (memory) cu.MemFree(memory);
    cu.StreamDestroy(other);
    cu.StreamDestroy(captured);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const cuapi::Functions& cu;
  cuapi::CUstream captured = nullptr, other = nullptr;
  cuapi::CUgraph graph = nullptr;
  cuapi::CUgraphExec executable = nullptr;
  cuapi::CUdeviceptr memory = 0;
};

struct Rule {
  const char* call;
  bool allowed;
  std::function<cuapi::CUresult(Stage&)> make;
  bool only_global = false; // of other modes nothing is known
};

// Frees what a call that was meant to free did not.
template <class Handle>
cuapi::CUresult taken(cuapi::CUresult result, Handle* handle) {
  if (result == cuapi::CUDA_SUCCESS) *handle = {};
  return result;
}

std::vector<Rule> rules() {
  return {
      {"cuMemAlloc", false,
       [](Stage& s) {
         cuapi::CUdeviceptr more = 0;
         const cuapi::CUresult result = s.cu.MemAlloc(&more, 64);
         if (more) s.cu.MemFree(more);
         return result;
       }},
      {"cuMemFree", false, [](Stage& s) { return taken(s.cu.MemFree(s.memory), &s.memory); }},
      {"cuStreamSynchronize of another", false,
       [](Stage& s) { return s.cu.StreamSynchronize(s.other); }},
      {"cuStreamQuery of another", false, [](Stage& s) { return s.cu.StreamQuery(s.other); }},
      {"cuCtxSynchronize", false, [](Stage& s) { return s.cu.CtxSynchronize(); }, true},
      {"cuGraphInstantiate", false,
       [](Stage& s) {
         cuapi::CUgraphExec more = nullptr;
         const cuapi::CUresult result = s.cu.GraphInstantiate(&more, s.graph, 0);
         if (more) s.cu.GraphExecDestroy(more);
         return result;
       }},
      {"cuGraphExecDestroy", false,
       [](Stage& s) { return taken(s.cu.GraphExecDestroy(s.executable), &s.executable); }},
      {"cuGraphLaunch in another", true,
       [](Stage& s) { return s.cu.GraphLaunch(s.executable, s.other); }},
      {"cuStreamCreate, cuStreamDestroy", true,
       [](Stage& s) {
         cuapi::CUstream more = nullptr;
         const cuapi::CUresult result = s.cu.StreamCreate(&more, cuapi::CU_STREAM_NON_BLOCKING);
         return result == cuapi::CUDA_SUCCESS ? s.cu.StreamDestroy(more) : result;
       }},
      {"cuPointerGetAttribute", true,
       [](Stage& s) {
         cuapi::CUdeviceptr mapped = 0;
         return s.cu.PointerGetAttribute(&mapped, cuapi::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                         s.memory);
       }},
      {"cuPointerGetAttribute of host memory", true,
       [](Stage& s) {
         cuapi::CUdeviceptr mapped = 0;
         const int local = 0;
         const cuapi::CUresult result =
             s.cu.PointerGetAttribute(&mapped, cuapi::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                      reinterpret_cast<uintptr_t>(&local));
         // Only what a capture forbids is asked here.
         return result == cuapi::CUDA_ERROR_INVALID_VALUE ? cuapi::CUDA_SUCCESS : result;
       }},
      {"cuMemcpyHtoD", true,
       [](Stage& s) {
         const uint32_t word = 1;
         return s.cu.MemcpyHtoD(s.memory, &word, sizeof word);
       }},
      {"cuModuleLoadDataEx", true,
       [](Stage& s) {
         cuapi::CUmodule loaded = nullptr;
         return s.cu.ModuleLoadDataEx(
             &loaded,
             ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n", 0,
             nullptr, nullptr);
       }},
  };
}

// The thread's mode for the life of this.
class ThreadMode {
public:
  ThreadMode(const cuapi::Functions& cu, cuapi::CUstreamCaptureMode mode) : cu_(cu), mode_(mode) {
    REQUIRE(cu_.ThreadExchangeStreamCaptureMode(&mode_) == cuapi::CUDA_SUCCESS);
  }
  ~ThreadMode() { cu_.ThreadExchangeStreamCaptureMode(&mode_); }
  ThreadMode(const ThreadMode&) = delete;
  ThreadMode& operator=(const ThreadMode&) = delete;

private:
  const cuapi::Functions& cu_;
  cuapi::CUstreamCaptureMode mode_;
};

void check(const cuapi::Functions& cu, const Rule& rule, cuapi::CUstreamCaptureMode capture,
           cuapi::CUstreamCaptureMode thread) {
  INFO(rule.call << ", capture mode " << capture << ", the thread's " << thread);
  const bool allowed = rule.allowed || capture == cuapi::CU_STREAM_CAPTURE_MODE_RELAXED ||
                       thread == cuapi::CU_STREAM_CAPTURE_MODE_RELAXED;
  Stage stage(cu);
  REQUIRE(cu.StreamBeginCapture(stage.captured, capture) == cuapi::CUDA_SUCCESS);
  {
    const ThreadMode mode(cu, thread);
    CHECK(rule.make(stage) ==
          (allowed ? cuapi::CUDA_SUCCESS : cuapi::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  }
  cuapi::CUgraph graph = nullptr;
  CHECK(cu.StreamEndCapture(stage.captured, &graph) ==
        (allowed ? cuapi::CUDA_SUCCESS : cuapi::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
  if (graph) cu.GraphDestroy(graph);
  cu.StreamSynchronize(stage.other);
}

} // namespace

void check_capture_rules(wl_context* context) {
  const warpline::ContextScope scope(*context);
  const cuapi::Functions& cu = context->driver->cu;
  const auto global = cuapi::CU_STREAM_CAPTURE_MODE_GLOBAL;
  const auto relaxed = cuapi::CU_STREAM_CAPTURE_MODE_RELAXED;
  for (const Rule& rule : rules()) {
    check(cu, rule, global, global);
    if (rule.only_global) continue;
    check(cu, rule, global, relaxed);
    check(cu, rule, relaxed, global);
  }
}

} // namespace wltest
