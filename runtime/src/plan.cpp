#include "runtime/src/plan.hpp"

#include <cstring>

using namespace warpline;

namespace {
constexpr size_t most_params = 64; // addresses that a run keeps on its stack
} // namespace

wl_status wl_plan::add(const Kernel& kernel, const LaunchConfig& config, const void* block,
                       size_t bytes, size_t workspace_at) {
  WL_TRY(check_launch(*context, kernel, config));
  bool takes_workspace = workspace_at == no_workspace;
  for (const Param& param : kernel.params)
    takes_workspace |= param.offset == workspace_at && param.size == sizeof(void*);
  if (kernel.params.size() > most_params || !takes_workspace)
    return fail(WL_ERROR_INTERNAL,
                "kernel %s: %zu parameters must be at most %zu, one of them an address at the "
                "workspace's offset",
                kernel.name.c_str(), kernel.params.size(), most_params);
  Step step{&kernel, config, std::vector<Chunk>((bytes + sizeof(Chunk) - 1) / sizeof(Chunk)),
            workspace_at};
  std::memcpy(step.block.data(), block, bytes);
  info.precompiled = (steps_.empty() || info.precompiled) && kernel.precompiled;
  info.load_ms += kernel.load_ms;
  steps_.push_back(std::move(step));
  info.launches = static_cast<int>(steps_.size());
  return WL_SUCCESS;
}

wl_status wl_plan::run(void* workspace, wl_stream stream) const {
  for (const Step& step : steps_) {
    void* addresses[most_params];
    size_t count = 0;
    // The driver only reads parameters.
    auto* block = reinterpret_cast<std::byte*>(const_cast<Chunk*>(step.block.data()));
    for (const Param& param : step.kernel->params)
      addresses[count++] =
          param.offset == step.workspace_at ? static_cast<void*>(&workspace) : block + param.offset;
    WL_TRY(launch(*context, *step.kernel, step.config, addresses, stream));
  }
  return WL_SUCCESS;
}
