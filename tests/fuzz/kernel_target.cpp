#include "tests/fuzz/targets.hpp"

#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/fault.hpp"
#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/ptx/parser.hpp"
#include "tools/vgpu/tensor/tensor_map.hpp"

#include <cstring>

namespace wlfuzz {

namespace {

using namespace vgpu;

constexpr size_t kBuffer = 64 << 10;

void blank_line(std::string& text, int line) {
  size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  for (; at < text.size() && text[at] != '\n'; ++at) text[at] = ' ';
}

} // namespace

void kernel(const uint8_t* data, size_t size) {
  Reader c(data, size);
  const bool blackwell = c.below(4) != 0;
  const exec::Profile* profile = exec::find_profile(blackwell ? "b200" : "h200");
  exec::LaunchSpec spec;
  spec.schedule = c.pick({"lazy", "eager", "random:1", "random:2", "starve:0"});
  spec.checks = c.pick({0u, uint32_t(check::kAll), uint32_t(check::kRaces), uint32_t(check::kAll)});
  spec.block = {c.pick({32u, 1u, 33u, 64u, 128u}), 1, 1};
  const uint32_t ctas = c.pick({1u, 2u, 1u, 4u});
  spec.cluster = {ctas, 1, 1};
  spec.grid = {ctas * c.pick({1u, 2u}), 1, 1};
  spec.cluster_launch = ctas > 1;
  std::string text = kernel_text(c, blackwell ? "sm_100a" : "sm_90a");

  mem::DeviceMemory memory(8 << 20);
  const uint64_t buffer = memory.allocate(kBuffer, 1024);
  std::memset(memory.find(buffer, kBuffer), 0x3C, kBuffer);
  // Statements that do not decode are left out, one after the other.
  for (size_t tries = 0; tries < 32; ++tries) {
    try {
      const ptx::Module module = ptx::parse(text);
      const auto globals = isa::place_globals(module, memory);
      std::unique_ptr<exec::Program> program;
      for (const ptx::Function& f : module.functions)
        if (f.is_entry) program = isa::decode(module, f, globals);
      spec.program = program.get();
      spec.profile = profile;
      spec.memory = &memory;
      spec.host_threads = 1;
      spec.instruction_limit = 4000;
      spec.heap_bytes = 4096;
      spec.params.assign(program->param_bytes, 0);
      std::memcpy(spec.params.data(), &buffer, sizeof buffer);
      tensor::TensorMap map;
      map.type = tensor::ElementType::u8;
      map.rank = 2;
      map.address = buffer;
      map.dim[0] = map.dim[1] = 128;
      map.stride[0] = 128;
      map.box[0] = 64;
      map.box[1] = 8;
      tensor::store(map, spec.params.data() + 128);
      exec::run_grid(spec);
      return;
    } catch (const ptx::ParseError& e) {
      blank_line(text, e.line);
    } catch (const isa::DecodeError& e) {
      blank_line(text, e.line);
    } catch (const exec::Fault&) {
      return;
    }
  }
}

} // namespace wlfuzz
