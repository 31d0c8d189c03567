#include "tools/vgpu/trace/write.hpp"

#include "tools/vgpu/exec/cluster.hpp"

namespace vgpu::trace {

std::unique_ptr<Timeline> make_timeline(const exec::Cluster& cluster) {
  const exec::LaunchSpec& spec = cluster.spec;
  const uint32_t threads = spec.block[0] * spec.block[1] * spec.block[2];
  Naming naming;
  if (spec.program->module) {
    naming.roles = roles_of(spec.program->module->lines);
    naming.barriers = barriers_of(spec.program->module->lines);
  }
  const exec::Program* program = spec.program;
  naming.line = [program](uint32_t pc) {
    if (pc >= program->code.size() || !program->code[pc].text) return 0;
    return static_cast<int>(program->code[pc].text->line);
  };
  return std::make_unique<Timeline>(static_cast<uint32_t>(cluster.ctas.size()), (threads + 31) / 32,
                                    std::move(naming));
}

std::string write_timeline(Timeline& timeline, const exec::Cluster& cluster) {
  const exec::LaunchSpec& spec = cluster.spec;
  timeline.close();
  const std::string title =
      spec.program->name + " on the virtual " + spec.profile->name + ", cluster " +
      std::to_string(cluster.index) + " of " +
      std::to_string(uint64_t(spec.grid[0]) * spec.grid[1] * spec.grid[2] / cluster.ctas.size());
  return write_files(timeline.recording(), title, spec.trace + "." + spec.program->name);
}

} // namespace vgpu::trace
