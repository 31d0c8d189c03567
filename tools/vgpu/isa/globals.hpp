// Module-scope .global and .const variables: places them in device memory and writes their initial
// values (PTX ISA 5.4.4).
#pragma once

#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/mem/device_memory.hpp"

#include <vector>

namespace vgpu::isa {

// Every variable that the module defines; extern ones without a definition are left out, so that
// the decoder refuses their use. Throws DecodeError; what was allocated before is freed then. The
// caller frees the addresses when the module goes.
std::vector<GlobalSymbol> place_globals(const ptx::Module& module, mem::DeviceMemory& memory);

} // namespace vgpu::isa
