// Stream capture and graphs. A graph is the captured work in the order of the calls; launching it
// runs the work in that order.
#include "tools/vgpu/driver/stream.hpp"

namespace vgpu::driver {

namespace {

std::shared_ptr<Graph> find_graph(Call& c, CUgraph handle) {
  auto graph = c.s.graphs.find(handle);
  c.require(graph != nullptr,
            "hGraph = " + hex(reinterpret_cast<uint64_t>(handle)) + " is no live graph",
            CUDA_ERROR_INVALID_HANDLE);
  return graph;
}

CUresult instantiate(const char* name, CUgraphExec* result, CUgraph handle,
                     unsigned long long flags) {
  return entry(name, Need::Context, [&](Call& c) {
    forbid_in_capture(c);
    c.require(result, "phGraphExec is null");
    // 1 frees memory on launch (there are no allocation nodes), 8 keeps node priorities.
    c.require((flags & ~9ull) == 0, "flags = " + hex(flags) + " are not supported",
              CUDA_ERROR_NOT_SUPPORTED);
    auto graph = find_graph(c, handle);
    *result = c.s.graph_execs.add(std::make_shared<Graph>(*graph));
  });
}

CUresult capture_info(const char* name, CUstream handle, CUstreamCaptureStatus* status,
                      uint64_t* id, bool more) {
  return entry(name, Need::Context, [&](Call& c) {
    c.require(status, "captureStatus_out is null");
    c.require(!more, "the graph and the nodes of a capture under way are not shown",
              CUDA_ERROR_NOT_SUPPORTED);
    auto stream = find_stream(c, handle);
    if (!c.s.streams.find(handle)) forbid_implicit(c, true);
    *status = !stream->capture               ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id && stream->capture) *id = stream->capture->id;
  });
}

} // namespace

// ---- capture

VGPU_API CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return entry("cuStreamBeginCapture_v2", Need::Context, [&](Call& c) {
    c.require(int(mode) >= 0 && int(mode) <= 2, "mode = " + std::to_string(int(mode)));
    auto stream = find_stream(c, handle);
    c.require(c.s.streams.find(handle) != nullptr,
              "the default streams cannot be captured; create one",
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    c.require(!stream->capture, "the stream is being captured already", CUDA_ERROR_ILLEGAL_STATE);
    auto capture = std::make_shared<Capture>();
    capture->id = c.s.next_id++;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = handle;
    capture->clocks[handle];
    stream->capture = capture;
    c.s.captures.push_back(capture);
  });
}
VGPU_ALIAS(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz)

VGPU_API CUresult cuStreamEndCapture(CUstream handle, CUgraph* result) {
  return entry("cuStreamEndCapture", Need::Context, [&](Call& c) {
    c.require(result, "phGraph is null");
    auto stream = find_stream(c, handle);
    auto capture = stream->capture;
    c.require(capture != nullptr, "the stream is not being captured", CUDA_ERROR_ILLEGAL_STATE);
    c.require(capture->origin == handle, "the capture began in another stream",
              CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    c.require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
                  capture->thread == std::this_thread::get_id(),
              "the capture was begun by another thread", kCaptureWrongThread);
    *result = nullptr;
    end_capture(c.s, capture);
    c.require(!capture->invalidated, "an earlier call invalidated the capture",
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    Capture::Clock& seen = capture->clocks[handle];
    for (auto& [member, clock] : capture->clocks)
      c.require(seen[member] >= clock[member],
                "a stream forked into the capture was not joined back by an event",
                kCaptureUnjoined);
    auto graph = std::make_shared<Graph>();
    graph->context = c.context->handle;
    graph->work = std::move(capture->work);
    *result = c.s.graphs.add(graph);
  });
}
VGPU_ALIAS(cuStreamEndCapture, cuStreamEndCapture_ptsz)

VGPU_API CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return capture_info("cuStreamIsCapturing", handle, status, nullptr, false);
}
VGPU_ALIAS(cuStreamIsCapturing, cuStreamIsCapturing_ptsz)

VGPU_API CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status,
                                         uint64_t* id) {
  return capture_info("cuStreamGetCaptureInfo", handle, status, id, false);
}
VGPU_ALIAS(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz)

VGPU_API CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                            uint64_t* id, CUgraph* graph, const void* dependencies,
                                            size_t* count) {
  return capture_info("cuStreamGetCaptureInfo_v2", handle, status, id,
                      graph || dependencies || count);
}
VGPU_ALIAS(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz)

VGPU_API CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status,
                                            uint64_t* id, CUgraph* graph, const void* dependencies,
                                            const void* edges, size_t* count) {
  return capture_info("cuStreamGetCaptureInfo_v3", handle, status, id,
                      graph || dependencies || edges || count);
}
VGPU_ALIAS(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz)

VGPU_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return entry("cuThreadExchangeStreamCaptureMode", Need::Init, [&](Call& c) {
    c.require(mode && int(*mode) >= 0 && int(*mode) <= 2, "mode is null or unknown");
    *mode = exchange_thread_capture_mode(*mode);
  });
}

// ---- graphs

VGPU_API CUresult cuGraphCreate(CUgraph* result, unsigned flags) {
  return entry("cuGraphCreate", Need::Context, [&](Call& c) {
    c.require(result && flags == 0, "phGraph is null or flags is not 0");
    auto graph = std::make_shared<Graph>();
    graph->context = c.context->handle;
    *result = c.s.graphs.add(graph);
  });
}

VGPU_API CUresult cuGraphDestroy(CUgraph handle) {
  return entry("cuGraphDestroy", Need::Context, [&](Call& c) {
    find_graph(c, handle);
    c.s.graphs.remove(handle);
  });
}

VGPU_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* result, CUgraph graph,
                                              unsigned long long flags) {
  return instantiate("cuGraphInstantiateWithFlags", result, graph, flags);
}

VGPU_API CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return entry("cuGraphExecDestroy", Need::Context, [&](Call& c) {
    forbid_in_capture(c);
    c.require(c.s.graph_execs.remove(handle), "hGraphExec is no live graph",
              CUDA_ERROR_INVALID_HANDLE);
  });
}

VGPU_API CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return entry("cuGraphUpload", Need::Context, [&](Call& c) {
    c.require(c.s.graph_execs.find(handle) != nullptr, "hGraphExec is no live graph",
              CUDA_ERROR_INVALID_HANDLE);
    find_stream(c, stream);
  });
}
VGPU_ALIAS(cuGraphUpload, cuGraphUpload_ptsz)

VGPU_API CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return entry("cuGraphLaunch", Need::Context, [&](Call& c) {
    auto graph = c.s.graph_execs.find(handle);
    c.require(graph != nullptr, "hGraphExec is no live graph", CUDA_ERROR_INVALID_HANDLE);
    auto stream = find_stream(c, stream_handle);
    c.require(stream->context == c.context->handle && graph->context == c.context->handle,
              "graph, stream and current context do not belong together",
              CUDA_ERROR_INVALID_HANDLE);
    if (auto capture = active_capture(c, *stream)) {
      capture->invalidated = true;
      c.refuse(CUDA_ERROR_NOT_SUPPORTED, "child graphs are not supported", true);
    }
    if (!c.s.streams.find(stream_handle)) forbid_implicit(c);
    c.execute([] {}); // work of its own: no kernel of the graph starts under what is ahead of it
    for (const Work& work : graph->work) {
      run_work(c, work);
      if (c.context->sticky != CUDA_SUCCESS) break;
    }
  });
}
VGPU_ALIAS(cuGraphLaunch, cuGraphLaunch_ptsz)

} // namespace vgpu::driver
