#include "tests/support/vgpu_run.hpp"

#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/ptx/parser.hpp"

#include <stdexcept>

namespace wltest {

using namespace vgpu;

Params& Params::raw(const void* data, size_t bytes, size_t alignment) {
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  const auto* p = static_cast<const uint8_t*>(data);
  bytes_.insert(bytes_.end(), p, p + bytes);
  return *this;
}

bool RunResult::faulted(std::string_view checker_name, std::string_view part) const {
  return stage == Stage::Run && checker == checker_name && text.find(part) != std::string::npos;
}

bool RunResult::refused(std::string_view part) const {
  return !ok && stage < Stage::Run && text.find(part) != std::string::npos;
}

Vgpu::Vgpu(const std::string& profile) : profile_(exec::find_profile(profile)) {
  if (!profile_) throw std::invalid_argument("no profile " + profile);
  memory_ = std::make_unique<mem::DeviceMemory>(uint64_t(8) << 30);
  memory_->track_writes(true);
}

Vgpu::~Vgpu() = default;

uint64_t Vgpu::allocate(size_t bytes, uint64_t alignment) {
  return memory_->allocate(bytes, alignment);
}

uint64_t Vgpu::upload(const void* data, size_t bytes) {
  uint64_t address = memory_->allocate(bytes);
  write(address, data, bytes);
  return address;
}

void Vgpu::read(uint64_t address, void* data, size_t bytes) {
  const uint8_t* p = memory_->find(address, bytes);
  if (!p) throw std::out_of_range("Vgpu::read: " + memory_->explain(address, bytes));
  std::memcpy(data, p, bytes);
}

void Vgpu::write(uint64_t address, const void* data, size_t bytes) {
  uint8_t* p = memory_->find(address, bytes);
  if (!p) throw std::out_of_range("Vgpu::write: " + memory_->explain(address, bytes));
  std::memcpy(p, data, bytes);
  memory_->host_wrote(address, bytes);
}

uint64_t Vgpu::symbol(const std::string& name) const {
  for (const auto& [known, address] : symbols_)
    if (known == name) return address;
  return 0;
}

RunResult Vgpu::run(const std::string& text, const Params& params, const Launch& launch) {
  RunResult r;
  try {
    // The module outlives the run, nothing after it refers to it: reports are text.
    const ptx::Module module = ptx::parse(text);
    r.stage = RunResult::Stage::Decode;
    const auto globals = isa::place_globals(module, *memory_);
    symbols_.clear();
    for (const auto& g : globals) symbols_.emplace_back(g.name, g.address);
    const ptx::Function* entry = nullptr;
    for (const ptx::Function& f : module.functions)
      if (f.is_entry && f.has_body && (launch.entry.empty() || f.name == launch.entry)) entry = &f;
    if (!entry) {
      r.text = "the module has no entry '" + launch.entry + "'";
      return r;
    }
    const auto program = isa::decode(module, *entry, globals);

    r.stage = RunResult::Stage::Launch;
    exec::LaunchSpec spec;
    spec.program = program.get();
    spec.profile = profile_;
    spec.memory = memory_.get();
    spec.grid = launch.grid;
    spec.block = launch.block;
    spec.cluster = launch.cluster;
    spec.dynamic_shared = launch.dynamic_shared;
    spec.stack_bytes = launch.stack_bytes;
    spec.heap_bytes = launch.heap_bytes;
    spec.params = params.packed();
    spec.schedule = launch.schedule;
    spec.checks = launch.checks;
    spec.names = launch.names;
    spec.host_threads = launch.host_threads;
    spec.instruction_limit = launch.instruction_limit;
    spec.hopper_sums = launch.hopper_sums;
    spec.cluster_launch = launch.cluster_launch;
    if (!launch.strict) spec.rules = check::Rules::lenient();
    std::string wrong;
    if (!spec.rules.apply(launch.rules, &wrong)) throw std::invalid_argument(wrong);
    if (spec.params.size() != program->param_bytes) {
      r.text = "the kernel has " + std::to_string(program->param_bytes) +
               " bytes of parameters, the test gives " + std::to_string(spec.params.size());
      return r;
    }
    r.text = exec::check_launch(spec);
    if (!r.text.empty()) return r;

    r.stage = RunResult::Stage::Run;
    r.stats = exec::run_grid(spec);
    r.stage = RunResult::Stage::Done;
    r.ok = true;
  } catch (const ptx::ParseError& e) {
    r.text = std::to_string(e.line) + ":" + std::to_string(e.column) + ": " + e.what();
  } catch (const isa::DecodeError& e) {
    r.text = e.what();
  } catch (const exec::Fault& f) {
    r.code = f.code;
    r.checker = f.checker;
    r.text = f.what();
  }
  return r;
}

std::string module_text(const std::string& body, const std::string& params,
                        const std::string& target, const std::string& head) {
  return ".version 9.0\n.target " + target + "\n.address_size 64\n" + head +
         "\n.visible .entry k(" + params +
         ")\n{\n"
         "  .reg .pred %p<32>;\n  .reg .b8 %b<32>;\n  .reg .b16 %h<32>;\n  .reg .b32 %r<64>;\n"
         "  .reg .b64 %rd<64>;\n  .reg .f32 %f<64>;\n  .reg .f64 %d<32>;\n  .reg .b128 %q<16>;\n" +
         body + "\n}\n";
}

const std::vector<std::string>& schedules() {
  static const std::vector<std::string> list{"eager", "lazy", "random:1", "random:2", "random:3"};
  return list;
}

} // namespace wltest
