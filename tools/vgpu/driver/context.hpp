// The calling thread's stack of contexts.
#pragma once

#include "tools/vgpu/driver/api_types.hpp"

namespace vgpu::driver {

CUcontext current_context(); // null when none
const char* last_message_text();

} // namespace vgpu::driver
