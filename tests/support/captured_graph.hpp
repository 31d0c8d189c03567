// Work of the C ABI captured in a CUDA graph once and launched as often as one likes.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/driver.hpp"
#include "warpline/warpline.h"

#include <functional>

namespace wltest {

class CapturedGraph {
public:
  explicit CapturedGraph(wl_context* context) : context_(context), cu_(context->driver->cu) {}
  ~CapturedGraph() {
    const warpline::ContextScope scope(*context_);
    if (executable_) cu_.GraphExecDestroy(executable_);
    if (stream_) cu_.StreamDestroy(stream_);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  bool captured() const { return executable_ != nullptr; }

  // enqueue(stream) runs under capture.
  wl_status capture(const std::function<wl_status(wl_stream)>& enqueue) {
    const warpline::ContextScope scope(*context_);
    if (cu_.StreamCreate(&stream_, cuapi::CU_STREAM_NON_BLOCKING) ||
        cu_.StreamBeginCapture(stream_, cuapi::CU_STREAM_CAPTURE_MODE_GLOBAL))
      return WL_ERROR_LAUNCH;
    const wl_status enqueued = enqueue(stream_);
    cuapi::CUgraph graph = nullptr;
    if (cu_.StreamEndCapture(stream_, &graph) || enqueued != WL_SUCCESS)
      return enqueued != WL_SUCCESS ? enqueued : WL_ERROR_LAUNCH;
    const int failed = cu_.GraphInstantiate(&executable_, graph, 0);
    cu_.GraphDestroy(graph);
    return failed ? WL_ERROR_LAUNCH : WL_SUCCESS;
  }

  // And waits for its end.
  wl_status launch() {
    {
      const warpline::ContextScope scope(*context_);
      if (cu_.GraphLaunch(executable_, stream_)) return WL_ERROR_LAUNCH;
    }
    return wl_stream_synchronize(context_, stream_);
  }

private:
  wl_context* context_;
  const cuapi::Functions& cu_;
  cuapi::CUstream stream_ = nullptr;
  cuapi::CUgraphExec executable_ = nullptr;
};

} // namespace wltest
