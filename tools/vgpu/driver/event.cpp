// Events: host time at the moment when the stream's earlier work is done, and, while a stream is
// being captured, a point in the capture.
#include "tools/vgpu/driver/stream.hpp"

#include <algorithm>

namespace vgpu::driver {

namespace {

std::shared_ptr<Event> find_event(Call& c, CUevent handle) {
  auto event = c.s.events.find(handle);
  c.require(event != nullptr,
            "hEvent = " + hex(reinterpret_cast<uint64_t>(handle)) + " is no live event",
            CUDA_ERROR_INVALID_HANDLE);
  return event;
}

void forbid_captured(Call& c, const Event& event) {
  c.require(!event.capture, "the event was last recorded in a captured stream", kCapturedEvent);
}

CUresult record(const char* name, CUevent handle, CUstream stream_handle, unsigned flags) {
  return entry(name, Need::Context, [&](Call& c) {
    c.require(flags == 0, "flags = " + std::to_string(flags) + " is not supported",
              CUDA_ERROR_NOT_SUPPORTED);
    auto event = find_event(c, handle);
    auto stream = find_stream(c, stream_handle);
    c.require(event->context == stream->context, "event and stream belong to different contexts",
              CUDA_ERROR_INVALID_HANDLE);
    if (auto capture = active_capture(c, *stream)) {
      event->capture = capture;
      event->clock = capture->clocks[stream_handle];
      return;
    }
    if (!c.s.streams.find(stream_handle)) forbid_implicit(c);
    std::chrono::steady_clock::time_point time;
    c.execute([&] { time = std::chrono::steady_clock::now(); });
    event->capture = nullptr;
    event->clock.clear();
    event->time = time;
    event->recorded = true;
  });
}

void merge(Capture::Clock& into, const Capture::Clock& from) {
  for (const auto& [stream, n] : from) into[stream] = std::max(into[stream], n);
}

} // namespace

VGPU_API CUresult cuEventCreate(CUevent* result, unsigned flags) {
  return entry("cuEventCreate", Need::Context, [&](Call& c) {
    c.require(result, "phEvent is null");
    c.require((flags & ~7u) == 0, "flags = " + hex(flags) + " has unknown bits");
    c.require((flags & 4u) == 0, "interprocess events are not supported", CUDA_ERROR_NOT_SUPPORTED);
    auto event = std::make_shared<Event>();
    event->context = c.context->handle;
    event->flags = flags;
    event->handle = c.s.events.add(event);
    *result = event->handle;
  });
}

VGPU_API CUresult cuEventDestroy_v2(CUevent handle) {
  return entry("cuEventDestroy_v2", Need::Context, [&](Call& c) {
    find_event(c, handle);
    c.s.events.remove(handle);
  });
}

VGPU_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  return record("cuEventRecord", event, stream, 0);
}
VGPU_ALIAS(cuEventRecord, cuEventRecord_ptsz)
VGPU_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return record("cuEventRecordWithFlags", event, stream, flags);
}
VGPU_ALIAS(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz)

VGPU_API CUresult cuEventSynchronize(CUevent handle) {
  return entry("cuEventSynchronize", Need::Context, [&](Call& c) {
    forbid_captured(c, *find_event(c, handle));
    forbid_in_capture(c);
    c.execute([] {});
    if (c.context->sticky != CUDA_SUCCESS) c.refuse(c.context->sticky, "");
  });
}

VGPU_API CUresult cuEventQuery(CUevent handle) {
  return entry("cuEventQuery", Need::Context, [&](Call& c) {
    forbid_captured(c, *find_event(c, handle));
    forbid_in_capture(c);
  });
}

VGPU_API CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return entry("cuEventElapsedTime", Need::Context, [&](Call& c) {
    c.require(milliseconds, "pMilliseconds is null");
    auto a = find_event(c, start), b = find_event(c, end);
    for (const auto& event : {a, b}) {
      forbid_captured(c, *event);
      c.require(event->recorded && !(event->flags & CU_EVENT_DISABLE_TIMING),
                "the event was never recorded, or made without timing", CUDA_ERROR_INVALID_HANDLE);
    }
    *milliseconds = std::chrono::duration<float, std::milli>(b->time - a->time).count();
  });
}
VGPU_ALIAS(cuEventElapsedTime, cuEventElapsedTime_v2)

VGPU_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  return entry("cuStreamWaitEvent", Need::Context, [&](Call& c) {
    c.require(flags <= 1, "flags = " + std::to_string(flags) + " is unknown");
    auto stream = find_stream(c, handle);
    auto event = find_event(c, event_handle);
    auto capture = active_capture(c, *stream);
    if (!event->capture) {
      if (!capture) return; // its work is done already
      capture->invalidated = true;
      c.refuse(kCaptureIsolation, "a captured stream cannot wait for work outside the capture");
    }
    bool under_way = std::count(c.s.captures.begin(), c.s.captures.end(), event->capture) != 0;
    c.require(under_way, "the event was last recorded in a capture that has ended", kCapturedEvent);
    c.require(!event->capture->invalidated, "the event's capture is invalid",
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    c.require(c.s.streams.find(handle) != nullptr,
              "the default stream cannot take part in a capture",
              CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (capture && capture != event->capture) {
      capture->invalidated = event->capture->invalidated = true;
      c.refuse(kCaptureMerge, "the wait would merge two captures");
    }
    stream->capture = event->capture;
    merge(event->capture->clocks[handle], event->clock);
  });
}
VGPU_ALIAS(cuStreamWaitEvent, cuStreamWaitEvent_ptsz)

} // namespace vgpu::driver
