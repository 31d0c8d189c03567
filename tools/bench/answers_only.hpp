// A driver that only answers, in the place of the real one while an object of this lives: a run's
// cost is the library's own then, and its driver calls can be counted. One thread, one object.
#pragma once

#include "runtime/src/context.hpp"

namespace bench {

class AnswersOnly {
public:
  explicit AnswersOnly(wl_context* context)
      : driver_(const_cast<warpline::Driver*>(context->driver)), before_(driver_->cu) {
    using namespace cuapi;
    owner = context->handle;
    is_current = true;
    Functions& cu = driver_->cu;
    cu.CtxGetCurrent = [](CUcontext* c) { return answer(c, is_current ? owner : nullptr); };
    cu.CtxPushCurrent = [](CUcontext) { return answer(); };
    cu.CtxPopCurrent = [](CUcontext* c) { return answer(c, owner); };
    cu.StreamGetCtx = [](CUstream, CUcontext* c) { return answer(c, owner); };
    cu.StreamSynchronize = [](CUstream) { return answer(); };
    cu.StreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
      return answer(status, CU_STREAM_CAPTURE_STATUS_NONE);
    };
    cu.LaunchKernelEx = [](const CUlaunchConfig*, CUfunction, void**, void**) { return answer(); };
    cu.TensorMapEncodeTiled = [](CUtensorMap*, CUtensorMapDataType, uint32_t, void*,
                                 const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*,
                                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) { return answer(); };
    cu.TensorMapReplaceAddress = [](CUtensorMap*, void*) { return answer(); };
    cu.GraphLaunch = [](CUgraphExec, CUstream) { return answer(); };
  }
  ~AnswersOnly() { driver_->cu = before_; }
  AnswersOnly(const AnswersOnly&) = delete;
  AnswersOnly& operator=(const AnswersOnly&) = delete;

  static inline bool is_current = true; // the library's context, as under a framework
  static inline int calls = 0;

private:
  static inline cuapi::CUcontext owner = nullptr;
  static cuapi::CUresult answer() {
    ++calls;
    return cuapi::CUDA_SUCCESS;
  }
  template <class T>
  static cuapi::CUresult answer(T* result, T value) {
    *result = value;
    return answer();
  }
  warpline::Driver* driver_;
  cuapi::Functions before_;
};

} // namespace bench
