// Module-scope .global and .const variables: places them in device memory and writes their initial
// values (PTX ISA 5.4.4).
#pragma once

#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/mem/device_memory.hpp"

#include <string_view>
#include <vector>

namespace vgpu::isa {

// Every variable that the module defines; extern ones without a definition are left out, so that
// the decoder refuses their use. Throws DecodeError; what was allocated before is freed then. The
// caller frees the addresses when the module goes.
// Also the zeroed workspace of cooperative groups, whose address %envreg1 and %envreg2 hold, where
// a kernel reads them: its symbol is kGridWorkspace.
constexpr std::string_view kGridWorkspace = "%envreg";
std::vector<GlobalSymbol> place_globals(const ptx::Module& module, mem::DeviceMemory& memory);

} // namespace vgpu::isa
