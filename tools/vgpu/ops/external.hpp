// Functions that a module declares and the driver has: vprintf, __assertfail, malloc, free. Their
// arguments and results are .param variables of the caller.
#pragma once

#include "tools/vgpu/ops/memory.hpp"

namespace vgpu::ops {

void call_external(DecodeContext& dc, const Statement& s, std::string_view name, Inst& inst);

// The value of the call's argument, of the size that the function has for it.
uint64_t argument(Warp& w, const Inst& i, uint32_t lane, size_t index);
// Into the caller's variable, if it takes the result.
void give_result(Warp& w, const Inst& i, uint32_t lane, uint64_t value);

Step print_text(Warp& w, const Inst& i, uint32_t mask);
Step assert_fail(Warp& w, const Inst& i, uint32_t mask);
Step heap_allocate(Warp& w, const Inst& i, uint32_t mask);
Step heap_allocate_aligned(Warp& w, const Inst& i, uint32_t mask);
Step heap_free(Warp& w, const Inst& i, uint32_t mask);

} // namespace vgpu::ops
