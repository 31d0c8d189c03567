// The launches of a run of a plan that is made of others, kept so that later runs with the same
// workspace need not make parameter blocks and tensor maps anew: they follow from the plan and from
// where the workspace lies. The first workspace that a plan runs with is the one.
#pragma once

#include "runtime/src/launch.hpp"

#include <atomic>
#include <cstddef>
#include <vector>

namespace warpline {

struct OwnRun;

class KeptRun {
public:
  explicit KeptRun(int launches) : room_(static_cast<size_t>(launches)) {}
  KeptRun(const KeptRun&) = delete;
  KeptRun& operator=(const KeptRun&) = delete;

  // A run with the workspace has succeeded and is kept. Any thread may ask.
  bool has(const void* workspace) const {
    return state_.load(std::memory_order_acquire) == State::kept && workspace_ == workspace;
  }
  // With a workspace that it has.
  wl_status run(const wl_context& context, wl_stream stream) const;
  // Runs `plan`; its launches are kept if nothing is yet, and if it succeeds. Allocates nothing.
  wl_status keep(const OwnRun& plan, void* workspace, wl_stream stream);

  // For launch(), of one that has been made; and for a run whose parameters no other run has.
  static void note(const Kernel& kernel, const LaunchConfig& config, void** params);
  static void do_not_keep();

private:
  static constexpr size_t most_bytes = 2048, most_params = 64; // of a kernel
  struct Launch {
    const Kernel* kernel = nullptr;
    LaunchConfig config;
    alignas(128) std::byte block[most_bytes];
    void* params[most_params];
  };
  enum class State { nothing, being_made, kept };

  bool take(const Kernel& kernel, const LaunchConfig& config, void** params);

  std::vector<Launch> room_;
  size_t count_ = 0;
  bool fits_ = true;
  const void* workspace_ = nullptr;
  std::atomic<State> state_{State::nothing};
};

} // namespace warpline
