// Runs of a plan as launches of CUDA graphs, for WL_GRAPH_LAUNCH: one driver call a run, whatever
// number of kernels. A graph is captured from the plan's own run(), so it holds the same launches
// with their attributes, programmatic dependence included.
#pragma once

#include "runtime/src/driver.hpp"
#include "warpline/warpline.h"

#include <memory>
#include <mutex>
#include <string>

namespace warpline {

class GraphRuns {
public:
  // For wl_plan::graphs. Refuses a driver without graphs.
  static wl_status make(const wl_plan& plan, std::unique_ptr<GraphRuns>* made);
  ~GraphRuns();
  GraphRuns(const GraphRuns&) = delete;
  GraphRuns& operator=(const GraphRuns&) = delete;

  // Like wl_plan::run, and with the context current likewise. Allocates where the plan has no graph
  // for the workspace yet. In a stream under capture it is the plan's own run().
  wl_status run(void* workspace, wl_stream stream);

  // Graphs that a plan keeps, one for a workspace; another takes the place of the one that has not
  // run for longest.
  static constexpr int most_graphs = 4;

private:
  struct Graph {
    void* workspace = nullptr;
    cuapi::CUgraphExec executable = nullptr; // null: none
    uint64_t last_run = 0;
  };

  explicit GraphRuns(const wl_plan& plan) : plan_(plan) {}
  wl_status capture(void* workspace, cuapi::CUgraphExec* executable) const;
  std::string text() const; // for messages and the log
  wl_status failed(cuapi::CUresult result, const char* call) const;

  const wl_plan& plan_;
  // The driver leaves it to its callers that one thread at a time has to do with a graph.
  std::mutex mutex_;
  Graph graphs_[most_graphs];
  uint64_t runs_ = 0;
};

} // namespace warpline
