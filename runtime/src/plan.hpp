// The base of every operation's plan. kernels/<op>/<op>.cpp derives from it, fills `info` and hands
// the object out as wl_plan*.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/graph_runs.hpp"
#include "warpline/warpline.h"

#include <memory>

// In the global namespace because the public header declares it there.
struct wl_plan {
  explicit wl_plan(wl_context* owner) : context(owner) { info.struct_size = sizeof(info); }
  virtual ~wl_plan() = default;
  wl_plan(const wl_plan&) = delete;
  wl_plan& operator=(const wl_plan&) = delete;

  // Enqueues the launches. Called with the context current and with workspace and stream checked.
  // Const, without allocation and locks: several threads may run one plan, also under graph
  // capture.
  virtual wl_status run(void* workspace, wl_stream stream) const = 0;

  wl_context* context;
  wl_plan_info info{};
  std::unique_ptr<warpline::GraphRuns> graphs; // runs go through it, null without WL_GRAPH_LAUNCH
};

namespace warpline {

// Copies `text` into a fixed char array of wl_plan_info or wl_device_info, cut and terminated.
template <size_t N>
void copy_text(char (&field)[N], const std::string& text) {
  const size_t length = text.copy(field, N - 1);
  field[length] = '\0';
}

} // namespace warpline
