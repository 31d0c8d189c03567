// The calling thread's stack of contexts.
#pragma once

#include "tools/vgpu/driver/api_types.hpp"

namespace vgpu::driver {

CUcontext current_context(); // null when none
struct Context;
uint32_t stack_bytes(const Context& context); // of a thread: CU_LIMIT_STACK_SIZE
uint64_t heap_bytes(const Context& context);  // CU_LIMIT_MALLOC_HEAP_SIZE
const char* last_message_text();

} // namespace vgpu::driver
