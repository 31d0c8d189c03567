// A plan: the kernels that a run enqueues, one behind the other, with their launches and parameter
// blocks. kernels/<op>/<op>.cpp makes it, fills `info` and hands it out.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/graph_runs.hpp"
#include "runtime/src/kept_run.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rules.hpp"
#include "warpline/warpline.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

struct wl_plan;

namespace warpline {

// What an operation keeps with a plan to run it with other operands; a class of its own derives.
struct PlannedProblem {
  virtual ~PlannedProblem() = default;
};

// How a plan runs that is made of others, or whose kernels take addresses within the run's
// workspace in more ways than as one parameter, as in tensor maps. Allocates nothing and takes no
// lock.
struct OwnRun {
  virtual ~OwnRun() = default;
  virtual wl_status run(void* workspace, wl_stream stream) const = 0;
};

} // namespace warpline

// In the global namespace because the public header declares it there.
struct wl_plan {
  explicit wl_plan(wl_context* owner) : context(owner) { info.struct_size = sizeof(info); }
  wl_plan(const wl_plan&) = delete;
  wl_plan& operator=(const wl_plan&) = delete;

  static constexpr size_t nowhere = SIZE_MAX;

  // Appends a kernel, checks its launch and counts it in `info`. `block` is a struct of the
  // parameters that the kernel was loaded with; the one at offset `workspace_at` takes the address
  // of the workspace at each run, the one at `word_at` a word that no other run of the process has.
  // Runs of one CUDA graph share theirs.
  template <class Block>
  wl_status add(const warpline::Kernel& kernel, const warpline::LaunchConfig& config,
                const Block& block, size_t workspace_at = nowhere, size_t word_at = nowhere) {
    return add(kernel, config, &block, sizeof block, workspace_at, word_at);
  }

  // A kernel's block and launch in the place of the planned ones; the launch is of the planned
  // kind, of at most as many CTAs.
  struct Instead {
    const void* block;
    const warpline::LaunchConfig* config;
  };

  // Enqueues the kernels. Called with the context current and with workspace and stream checked.
  // Without allocation and locks: several threads may run one plan, also under graph capture. Where
  // there is an own_run, it does all that.
  // `instead` has an entry for each kernel, or is null.
  wl_status run(void* workspace, wl_stream stream, const Instead* instead = nullptr) const;

  // Before all that is freed in the context.
  warpline::ContextHold context;
  wl_plan_info info{};
  // What the kernels touch beside the workspace, which may overlap none of it.
  std::vector<warpline::Extent> operands;
  // Of workspaces, and of operands that runs brought.
  warpline::Known known;
  std::unique_ptr<warpline::PlannedProblem> problem; // null: runs bring no operands
  std::unique_ptr<warpline::OwnRun> own_run;         // null: the kernels that were added
  std::unique_ptr<warpline::KeptRun> kept;           // of own_run
  std::unique_ptr<warpline::GraphRuns> graphs; // runs go through it, null without WL_GRAPH_LAUNCH

private:
  struct alignas(128) Chunk { // tensor maps are aligned so
    std::byte bytes[128];
  };
  struct Step {
    const warpline::Kernel* kernel;
    warpline::LaunchConfig config;
    std::vector<Chunk> block;
    size_t workspace_at, word_at;
  };
  wl_status add(const warpline::Kernel& kernel, const warpline::LaunchConfig& config,
                const void* block, size_t bytes, size_t workspace_at, size_t word_at);

  std::vector<Step> steps_;
};

namespace warpline {

// A plan that is there, and a workspace of the plan's needs that overlaps none of `operands`.
wl_status check_plan(const wl_plan* plan);
wl_status check_workspace(const wl_plan& plan, const void* workspace, size_t bytes,
                          std::span<const Extent> operands);
// With the context current. What is known was memory when it was asked about; whether it was freed
// since, no run asks.
wl_status check_workspace_memory(const wl_plan& plan, const void* workspace);

// Copies `text` into a fixed char array of wl_plan_info or wl_device_info, cut and terminated.
template <size_t N>
void copy_text(char (&field)[N], const std::string& text) {
  const size_t length = text.copy(field, N - 1);
  field[length] = '\0';
}

} // namespace warpline
