// Fat binaries, as nvcc and fatbinary make them: machine code, which the virtual GPU does not run,
// and PTX, packed or not.
#pragma once

#include <string>

namespace vgpu::driver {

// The line between texts that shall be linked.
inline constexpr const char* kNextInput = "// vgpu: the next input of the link";

bool is_fatbin(const void* image);
// The PTX text for a device of that capability (90, 100): of the newest architecture that runs
// there; several, with kNextInput between them, of a binary that asks for a link. "", and in
// `error` what the binary holds instead.
std::string fatbin_ptx(const void* image, int capability, std::string* error);

} // namespace vgpu::driver
