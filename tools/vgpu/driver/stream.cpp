// Streams and their callbacks. Work runs at the time of the call, in the order of the calls: one of
// the orders that CUDA permits, so events and waits between streams have nothing to wait for.
#include "tools/vgpu/driver/stream.hpp"

#include <algorithm>
#include <utility>

namespace vgpu::driver {

namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

constexpr int kLowestPriority = 0, kHighestPriority = -5;

bool is_default(CUstream handle) { return reinterpret_cast<uintptr_t>(handle) <= kPerThreadStream; }

CUresult create(const char* name, CUstream* result, unsigned flags, int priority) {
  return entry(name, Need::Context, [&](Call& c) {
    c.require(result, "phStream is null");
    c.require(flags <= CU_STREAM_NON_BLOCKING,
              "flags = " + std::to_string(flags) + " must be 0 or 1");
    auto stream = std::make_shared<Stream>();
    stream->context = c.context->handle;
    stream->flags = flags;
    stream->priority = std::clamp(priority, kHighestPriority, kLowestPriority);
    stream->id = c.s.next_id++;
    stream->handle = c.s.streams.add(stream);
    *result = stream->handle;
  });
}

// Calls that wait for a stream end its capture, if it has one.
void forbid_while_capturing(Call& c, Stream& stream, const char* what) {
  if (!stream.capture) return;
  stream.capture->invalidated = true;
  c.refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           std::string("the stream is being captured and cannot be ") + what);
}

void wait_for_all(Call& c) {
  c.execute([] {});
  if (c.context->sticky != CUDA_SUCCESS) c.refuse(c.context->sticky, "");
}

} // namespace

CUstreamCaptureMode exchange_thread_capture_mode(CUstreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

std::shared_ptr<Stream> find_stream(Call& c, CUstream handle) {
  if (is_default(handle)) {
    auto stream = std::make_shared<Stream>();
    stream->handle = handle;
    stream->context = c.context ? c.context->handle : nullptr;
    stream->id = reinterpret_cast<uintptr_t>(handle) == kPerThreadStream ? 2 : 1;
    return stream;
  }
  auto stream = c.s.streams.find(handle);
  c.require(stream != nullptr,
            "hStream = " + hex(reinterpret_cast<uint64_t>(handle)) + " is no live stream",
            CUDA_ERROR_INVALID_HANDLE);
  return stream;
}

std::shared_ptr<Capture> active_capture(Call& c, const Stream& stream) {
  if (stream.capture && stream.capture->invalidated)
    c.refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call invalidated the capture");
  return stream.capture;
}

void end_capture(State& s, const std::shared_ptr<Capture>& capture) {
  s.streams.for_each([&](Stream& stream) {
    if (stream.capture == capture) stream.capture = nullptr;
  });
  std::erase(s.captures, capture);
}

void forbid_in_capture(Call& c) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool found = false;
  for (const auto& capture : c.s.captures) {
    bool own = capture->thread == std::this_thread::get_id();
    bool counts = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                      : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                            thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!counts) continue;
    capture->invalidated = true;
    found = true;
  }
  c.require(!found, "not permitted while a stream is being captured",
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void forbid_implicit(Call& c, bool question) {
  bool found = false;
  c.s.streams.for_each([&](Stream& stream) {
    if (!stream.capture || stream.context != c.context->handle ||
        stream.flags & CU_STREAM_NON_BLOCKING)
      return;
    if (!question) stream.capture->invalidated = true;
    found = true;
  });
  c.require(!found, "the default stream would be ordered with a stream that is being captured",
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void run_work(Call& c, const Work& work) {
  if (work.host)
    c.unlocked(work.run);
  else
    c.execute(work.run);
}

void enqueue(Call& c, CUstream handle, Work work) {
  auto stream = find_stream(c, handle);
  c.require(stream->context == c.context->handle, "the stream belongs to another context",
            CUDA_ERROR_INVALID_HANDLE);
  if (auto capture = active_capture(c, *stream)) {
    capture->work.push_back(std::move(work));
    ++capture->clocks[handle][handle];
    return;
  }
  if (is_default(handle)) forbid_implicit(c);
  run_work(c, work);
}

VGPU_API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return create("cuStreamCreate", stream, flags, 0);
}
VGPU_API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return create("cuStreamCreateWithPriority", stream, flags, priority);
}

VGPU_API CUresult cuStreamDestroy_v2(CUstream handle) {
  return entry("cuStreamDestroy_v2", Need::Context, [&](Call& c) {
    c.require(!is_default(handle), "the default stream cannot be destroyed",
              CUDA_ERROR_INVALID_HANDLE);
    auto stream = find_stream(c, handle);
    if (stream->capture) {
      stream->capture->invalidated = true;
      if (stream->capture->origin == handle) end_capture(c.s, stream->capture);
    }
    c.s.streams.remove(handle);
  });
}

VGPU_API CUresult cuStreamSynchronize(CUstream handle) {
  return entry("cuStreamSynchronize", Need::Context, [&](Call& c) {
    auto stream = find_stream(c, handle);
    forbid_while_capturing(c, *stream, "waited for");
    forbid_in_capture(c);
    if (is_default(handle)) forbid_implicit(c);
    wait_for_all(c);
  });
}
VGPU_ALIAS(cuStreamSynchronize, cuStreamSynchronize_ptsz)

VGPU_API CUresult cuStreamQuery(CUstream handle) {
  return entry("cuStreamQuery", Need::Context, [&](Call& c) {
    auto stream = find_stream(c, handle);
    forbid_while_capturing(c, *stream, "queried");
    forbid_in_capture(c);
    if (is_default(handle)) forbid_implicit(c);
    // Work is complete when its call returns; another thread's may still run.
    c.unlocked([&] {
      std::unique_lock idle(c.s.execution, std::try_to_lock);
      if (!idle) throw Refusal{CUDA_ERROR_NOT_READY, "", false};
    });
  });
}
VGPU_ALIAS(cuStreamQuery, cuStreamQuery_ptsz)

VGPU_API CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return entry("cuStreamGetCtx", Need::Context, [&](Call& c) {
    c.require(context, "pctx is null");
    *context = find_stream(c, handle)->context;
  });
}
VGPU_ALIAS(cuStreamGetCtx, cuStreamGetCtx_ptsz)

VGPU_API CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return entry("cuStreamGetFlags", Need::Context, [&](Call& c) {
    c.require(flags, "flags is null");
    *flags = find_stream(c, handle)->flags;
  });
}
VGPU_ALIAS(cuStreamGetFlags, cuStreamGetFlags_ptsz)

VGPU_API CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return entry("cuStreamGetPriority", Need::Context, [&](Call& c) {
    c.require(priority, "priority is null");
    *priority = find_stream(c, handle)->priority;
  });
}
VGPU_ALIAS(cuStreamGetPriority, cuStreamGetPriority_ptsz)

VGPU_API CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return entry("cuStreamGetDevice", Need::Context, [&](Call& c) {
    c.require(device, "device is null");
    find_stream(c, handle);
    *device = 0;
  });
}
VGPU_ALIAS(cuStreamGetDevice, cuStreamGetDevice_ptsz)

VGPU_API CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return entry("cuStreamGetId", Need::Context, [&](Call& c) {
    c.require(id, "streamId is null");
    *id = find_stream(c, handle)->id;
  });
}
VGPU_ALIAS(cuStreamGetId, cuStreamGetId_ptsz)

VGPU_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return entry("cuLaunchHostFunc", Need::Context, [&](Call& c) {
    c.require(function, "fn is null");
    enqueue(c, stream, Work{"cuLaunchHostFunc", [=] { function(data); }, true});
  });
}
VGPU_ALIAS(cuLaunchHostFunc, cuLaunchHostFunc_ptsz)

VGPU_API CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data,
                                      unsigned flags) {
  return entry("cuStreamAddCallback", Need::Context, [&](Call& c) {
    c.require(callback && flags == 0, "callback is null or flags is not 0");
    auto stream = find_stream(c, handle);
    forbid_while_capturing(c, *stream, "given a callback");
    enqueue(c, handle,
            Work{"cuStreamAddCallback", [=] { callback(handle, CUDA_SUCCESS, data); }, true});
  });
}
VGPU_ALIAS(cuStreamAddCallback, cuStreamAddCallback_ptsz)

} // namespace vgpu::driver
