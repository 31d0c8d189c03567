// Work of streams, shared with graphs.
#pragma once

#include "tools/vgpu/driver/state.hpp"

namespace vgpu::driver {

// Runs work now. A kernel's fault spoils the context and is no failure of this call.
void run_work(Call& call, const Work& work);
// The capture that the stream takes part in, null when none; refuses an invalidated one.
std::shared_ptr<Capture> active_capture(Call& call, const Stream& stream);
// Forgets the capture: no stream takes part any more.
void end_capture(State& s, const std::shared_ptr<Capture>& capture);

// The mode of the calling thread, see cuThreadExchangeStreamCaptureMode; returns the old one.
CUstreamCaptureMode exchange_thread_capture_mode(CUstreamCaptureMode mode);

} // namespace vgpu::driver
