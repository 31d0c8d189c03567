#include "runtime/src/kept_run.hpp"

#include "runtime/src/plan.hpp"

#include <cstring>

namespace warpline {

namespace {
thread_local KeptRun* noting = nullptr;
struct Noting {
  explicit Noting(KeptRun* run) { noting = run; }
  ~Noting() { noting = nullptr; }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;
};
} // namespace

bool KeptRun::take(const Kernel& kernel, const LaunchConfig& config, void** params) {
  if (count_ == room_.size() || kernel.params.size() > most_params) return false;
  Launch& launch = room_[count_++];
  launch.kernel = &kernel;
  launch.config = config;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const Param& param = kernel.params[i];
    if (param.offset + param.size > most_bytes) return false;
    launch.params[i] = std::memcpy(launch.block + param.offset, params[i], param.size);
  }
  return true;
}

void KeptRun::note(const Kernel& kernel, const LaunchConfig& config, void** params) {
  if (noting != nullptr && noting->fits_) noting->fits_ = noting->take(kernel, config, params);
}

void KeptRun::do_not_keep() {
  if (noting != nullptr) noting->fits_ = false;
}

wl_status KeptRun::keep(const OwnRun& plan, void* workspace, wl_stream stream) {
  State nothing = State::nothing;
  if (!state_.compare_exchange_strong(nothing, State::being_made))
    return plan.run(workspace, stream);
  workspace_ = workspace;
  count_ = 0, fits_ = true;
  const wl_status status = [&] {
    const Noting here(this);
    return plan.run(workspace, stream);
  }();
  // What does not fit stays being made: it is not tried again.
  if (status != WL_SUCCESS)
    state_.store(State::nothing);
  else if (fits_)
    state_.store(State::kept, std::memory_order_release);
  return status;
}

wl_status KeptRun::run(const wl_context& context, wl_stream stream) const {
  for (size_t i = 0; i < count_; ++i) {
    const Launch& l = room_[i];
    WL_TRY(launch(context, *l.kernel, l.config, const_cast<void**>(l.params), stream));
  }
  return WL_SUCCESS;
}

} // namespace warpline
