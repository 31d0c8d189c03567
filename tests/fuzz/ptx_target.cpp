#include "tests/fuzz/targets.hpp"

#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/ptx/parser.hpp"

namespace wlfuzz {

void ptx_text(const uint8_t* data, size_t size) {
  using namespace vgpu;
  // Small, so that huge variables are refused and not written.
  mem::DeviceMemory memory(1 << 20);
  try {
    const ptx::Module module = ptx::parse({reinterpret_cast<const char*>(data), size});
    const auto globals = isa::place_globals(module, memory);
    const isa::ModuleIndex index(module, globals);
    for (const ptx::Function& f : module.functions) {
      if (!f.is_entry || !f.has_body) continue;
      try {
        isa::decode(index, f);
      } catch (const isa::DecodeError&) {
      }
    }
  } catch (const ptx::ParseError&) {
  } catch (const isa::DecodeError&) {
  }
}

} // namespace wlfuzz
