// What a thread may call while it captures a stream: the same on a GPU and on the virtual one.
#pragma once

#include "warpline/warpline.h"

namespace wltest {

// Captures a stream in each mode, makes each call once under it and checks what the call and the
// end of the capture answer.
void check_capture_rules(wl_context* context);

} // namespace wltest
