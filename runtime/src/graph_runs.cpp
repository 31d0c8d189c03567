#include "runtime/src/graph_runs.hpp"

#include "runtime/src/log.hpp"
#include "runtime/src/plan.hpp"

#include <algorithm>

namespace warpline {

namespace {

// While a graph is made or freed, this thread or others may be capturing streams; neither making
// nor freeing may end their captures.
class RelaxedCaptureMode {
public:
  explicit RelaxedCaptureMode(const cuapi::Functions& cu) : cu_(cu) {
    exchanged_ = cu_.ThreadExchangeStreamCaptureMode(&mode_) == cuapi::CUDA_SUCCESS;
  }
  ~RelaxedCaptureMode() {
    if (exchanged_) cu_.ThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

private:
  const cuapi::Functions& cu_;
  cuapi::CUstreamCaptureMode mode_ = cuapi::CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_;
};

struct PrivateStream {
  explicit PrivateStream(const cuapi::Functions& functions) : cu(functions) {}
  ~PrivateStream() {
    if (handle) cu.StreamDestroy(handle);
  }
  PrivateStream(const PrivateStream&) = delete;
  PrivateStream& operator=(const PrivateStream&) = delete;

  const cuapi::Functions& cu;
  cuapi::CUstream handle = nullptr;
};

} // namespace

wl_status GraphRuns::make(const wl_plan& plan, std::unique_ptr<GraphRuns>* made) {
  const Driver& driver = *plan.context->driver;
  const struct {
    const char* symbol;
    bool found;
  } needed[] = {
      {"cuThreadExchangeStreamCaptureMode", driver.cu.ThreadExchangeStreamCaptureMode != nullptr},
      {"cuStreamBeginCapture_v2", driver.cu.StreamBeginCapture != nullptr},
      {"cuStreamEndCapture", driver.cu.StreamEndCapture != nullptr},
      {"cuStreamIsCapturing", driver.cu.StreamIsCapturing != nullptr},
      {"cuGraphInstantiateWithFlags", driver.cu.GraphInstantiate != nullptr},
      {"cuGraphLaunch", driver.cu.GraphLaunch != nullptr},
      {"cuGraphExecDestroy", driver.cu.GraphExecDestroy != nullptr},
      {"cuGraphDestroy", driver.cu.GraphDestroy != nullptr},
  };
  std::string missing;
  for (const auto& function : needed)
    if (!function.found) missing += (missing.empty() ? "" : ", ") + std::string(function.symbol);
  if (!missing.empty())
    return fail(WL_ERROR_INSUFFICIENT_DRIVER,
                "flags has WL_GRAPH_LAUNCH (%d), for which the driver %s (version %s) must have "
                "%s; without the flag the plan works",
                WL_GRAPH_LAUNCH, driver.file.c_str(), version_text(driver.version).c_str(),
                missing.c_str());
  made->reset(new GraphRuns(plan));
  return WL_SUCCESS;
}

// A graph that still runs is freed by the driver when it has ended.
GraphRuns::~GraphRuns() {
  const ContextScope scope(*plan_.context);
  if (scope.status() != WL_SUCCESS) return;
  const RelaxedCaptureMode relaxed(plan_.context->driver->cu);
  for (const Graph& graph : graphs_)
    if (graph.executable) plan_.context->driver->cu.GraphExecDestroy(graph.executable);
}

std::string GraphRuns::text() const {
  return format("%s: graph of %d launch%s", plan_.info.config, plan_.info.launches,
                plan_.info.launches == 1 ? "" : "es");
}

wl_status GraphRuns::failed(cuapi::CUresult result, const char* call) const {
  return fail_cu(*plan_.context->driver, result, call, WL_ERROR_LAUNCH, text().c_str());
}

wl_status GraphRuns::capture(void* workspace, cuapi::CUgraphExec* executable) const {
  const Driver& driver = *plan_.context->driver;
  PrivateStream stream(driver.cu);
  cuapi::CUresult result = driver.cu.StreamCreate(&stream.handle, cuapi::CU_STREAM_NON_BLOCKING);
  if (result != cuapi::CUDA_SUCCESS) return failed(result, "cuStreamCreate");
  result = driver.cu.StreamBeginCapture(stream.handle, cuapi::CU_STREAM_CAPTURE_MODE_RELAXED);
  if (result != cuapi::CUDA_SUCCESS) return failed(result, "cuStreamBeginCapture");
  const wl_status enqueued = plan_.run(workspace, stream.handle);
  cuapi::CUgraph graph = nullptr;
  result = driver.cu.StreamEndCapture(stream.handle, &graph);
  if (result == cuapi::CUDA_SUCCESS && enqueued == WL_SUCCESS)
    result = driver.cu.GraphInstantiate(executable, graph, 0);
  else if (result != cuapi::CUDA_SUCCESS && enqueued == WL_SUCCESS)
    return failed(result, "cuStreamEndCapture");
  if (graph) driver.cu.GraphDestroy(graph);
  WL_TRY(enqueued);
  return result == cuapi::CUDA_SUCCESS ? WL_SUCCESS : failed(result, "cuGraphInstantiateWithFlags");
}

wl_status GraphRuns::run(void* workspace, wl_stream stream) {
  const Driver& driver = *plan_.context->driver;
  const auto handle = static_cast<cuapi::CUstream>(stream);
  cuapi::CUstreamCaptureStatus capturing = cuapi::CU_STREAM_CAPTURE_STATUS_NONE;
  WL_CHECK_CU(driver, StreamIsCapturing, (handle, &capturing), WL_ERROR_LAUNCH);
  if (capturing != cuapi::CU_STREAM_CAPTURE_STATUS_NONE) return plan_.run(workspace, stream);

  // A plan without one does not look at the address.
  if (plan_.info.workspace_bytes == 0) workspace = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  Graph* graph = std::find_if(std::begin(graphs_), std::end(graphs_), [&](const Graph& g) {
    return g.executable && g.workspace == workspace;
  });
  if (graph == std::end(graphs_)) {
    const RelaxedCaptureMode relaxed(driver.cu);
    cuapi::CUgraphExec executable = nullptr;
    WL_LOG(log_arguments, "%s is made for workspace %p", text().c_str(), workspace);
    WL_TRY(capture(workspace, &executable));
    graph =
        std::min_element(std::begin(graphs_), std::end(graphs_),
                         [](const Graph& a, const Graph& b) { return a.last_run < b.last_run; });
    if (graph->executable) driver.cu.GraphExecDestroy(graph->executable);
    *graph = {workspace, executable, 0};
  }
  graph->last_run = ++runs_;
  WL_LOG(log_arguments, "%s, workspace %p, stream %p", text().c_str(), workspace, stream);
  const cuapi::CUresult result = driver.cu.GraphLaunch(graph->executable, handle);
  return result == cuapi::CUDA_SUCCESS ? WL_SUCCESS : failed(result, "cuGraphLaunch");
}

} // namespace warpline
