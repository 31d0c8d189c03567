#include "runtime/src/plan.hpp"

#include "runtime/src/reachable.hpp"
#include "runtime/src/status.hpp"

#include <chrono>
#include <cstring>

namespace warpline {

namespace {
constexpr uintptr_t workspace_alignment = 256;
}

wl_status check_plan(const wl_plan* plan) {
  if (plan) return WL_SUCCESS;
  return fail(WL_ERROR_INVALID_ARGUMENT,
              "plan: pointer is null, must be a plan of one of the wl_*_plan functions");
}

wl_status check_workspace(const wl_plan& plan, const void* workspace, size_t bytes,
                          std::span<const Extent> operands) {
  const size_t needed = plan.info.workspace_bytes;
  if (bytes < needed)
    return fail(WL_ERROR_WORKSPACE_TOO_SMALL,
                "workspace_bytes = %zu must be at least %zu for %s (nearest: %zu)", bytes, needed,
                plan.info.config, needed);
  if (needed == 0) return WL_SUCCESS;
  if (!workspace)
    return fail(WL_ERROR_INVALID_ARGUMENT, "workspace: address is null, must hold %zu bytes",
                needed);
  const uintptr_t rest = reinterpret_cast<uintptr_t>(workspace) % workspace_alignment;
  if (rest)
    return fail(WL_ERROR_MISALIGNED,
                "workspace: address %p is %zu modulo 256, must be 256-byte "
                "aligned",
                workspace, static_cast<size_t>(rest));
  const Verdict apart = disjoint(Extent{"workspace", workspace, needed}, operands);
  if (!apart.holds)
    return fail(WL_ERROR_INVALID_ARGUMENT,
                "workspace%s must overlap nothing that the run reads or writes",
                apart.finding.c_str());
  return WL_SUCCESS;
}

wl_status check_workspace_memory(const wl_plan& plan, const void* workspace) {
  const Extent extent{"workspace", workspace, plan.info.workspace_bytes};
  if (extent.bytes == 0) return WL_SUCCESS;
  const Verdict verdict = reachable({&*plan.context, &plan.known}, extent);
  if (!verdict.holds)
    return fail(WL_ERROR_WRONG_DEVICE, "workspace%s %s (nearest: %s)", verdict.finding.c_str(),
                reachable_text, verdict.nearest.c_str());
  return WL_SUCCESS;
}

} // namespace warpline

using namespace warpline;

namespace {
constexpr size_t most_params = 64; // addresses that a run keeps on its stack

// Numbers from a start that other processes hardly have, mixed (splitmix64, a bijection) so that
// neither sums nor cleared memory look like one.
uint64_t next_word() {
  static std::atomic<uint64_t> count{
      static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
  uint64_t word = 0x9E3779B97F4A7C15u * (1 + count.fetch_add(1, std::memory_order_relaxed));
  word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9u;
  word = (word ^ word >> 27) * 0x94D049BB133111EBu;
  word ^= word >> 31;
  return word != 0 ? word : 1; // a flag that is down is 0
}
} // namespace

wl_status wl_plan::add(const Kernel& kernel, const LaunchConfig& config, const void* block,
                       size_t bytes, size_t workspace_at, size_t word_at) {
  static_assert(sizeof(void*) == sizeof(uint64_t));
  WL_TRY(check_launch(*context, kernel, config));
  const auto has = [&](size_t offset) {
    if (offset == nowhere) return true;
    for (const Param& param : kernel.params)
      if (param.offset == offset) return param.size == sizeof(uint64_t);
    return false;
  };
  if (kernel.params.size() > most_params || !has(workspace_at) || !has(word_at))
    return fail(WL_ERROR_INTERNAL,
                "kernel %s: %zu parameters must be at most %zu, 64-bit ones among them at the "
                "offsets of the workspace's address and of a run's word",
                kernel.name.c_str(), kernel.params.size(), most_params);
  Step step{&kernel, config, std::vector<Chunk>((bytes + sizeof(Chunk) - 1) / sizeof(Chunk)),
            workspace_at, word_at};
  std::memcpy(step.block.data(), block, bytes);
  info.precompiled = (steps_.empty() || info.precompiled) && kernel.precompiled;
  info.load_ms += kernel.load_ms;
  steps_.push_back(std::move(step));
  info.launches = static_cast<int>(steps_.size());
  return WL_SUCCESS;
}

wl_status wl_plan::run(void* workspace, wl_stream stream, const Instead* instead) const {
  if (own_run && kept) {
    if (kept->has(workspace)) return kept->run(*context, stream);
    return kept->keep(*own_run, workspace, stream);
  }
  if (own_run) return own_run->run(workspace, stream);
  uint64_t word = 0;
  for (const Step& step : steps_) {
    void* addresses[most_params];
    size_t count = 0;
    const void* planned = instead != nullptr ? instead->block : step.block.data();
    const LaunchConfig& config = instead != nullptr ? *instead->config : step.config;
    if (instead != nullptr) ++instead;
    // The driver only reads parameters.
    auto* block = static_cast<std::byte*>(const_cast<void*>(planned));
    if (step.word_at != nowhere) {
      KeptRun::do_not_keep();
      if (word == 0) word = next_word();
    }
    for (const Param& param : step.kernel->params)
      addresses[count++] = param.offset == step.workspace_at ? static_cast<void*>(&workspace)
                           : param.offset == step.word_at    ? static_cast<void*>(&word)
                                                             : block + param.offset;
    WL_TRY(launch(*context, *step.kernel, config, addresses, stream));
  }
  return WL_SUCCESS;
}
