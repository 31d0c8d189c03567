#include "runtime/src/launch.hpp"

#include "runtime/src/kept_run.hpp"
#include "runtime/src/log.hpp"
#include "runtime/src/plan.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace warpline {

namespace {

unsigned long long volume(const unsigned (&size)[3]) { return 1ull * size[0] * size[1] * size[2]; }

std::string text(const unsigned (&size)[3]) {
  return format("%u x %u x %u", size[0], size[1], size[2]);
}

std::string describe(const Kernel& kernel, const LaunchConfig& config) {
  return format("kernel %s: grid %s, block %s, cluster %s, %u bytes dynamic shared%s",
                kernel.name.c_str(), text(config.grid).c_str(), text(config.block).c_str(),
                text(config.cluster).c_str(), config.dynamic_shared_bytes,
                config.programmatic_dependent ? ", programmatic dependent" : "");
}

// The arguments are on record before the launch, so a launch that takes the process down leaves
// them.
void log_launch(const Kernel& kernel, const LaunchConfig& config, void** params, wl_stream stream) {
  log(log_arguments, "%s, stream %p", describe(kernel, config).c_str(), stream);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const Param& param = kernel.params[i];
    if (param.size > sizeof(uint64_t)) {
      log(log_arguments, "  %s: %zu bytes", param.name, param.size);
      continue;
    }
    uint64_t value = 0;
    std::memcpy(&value, params[i], param.size);
    log(log_arguments, "  %s = 0x%" PRIx64 " (%" PRIu64 ")", param.name, value, value);
  }
}

// A launch as the driver takes it.
struct DriverLaunch {
  DriverLaunch(const LaunchConfig& from, wl_stream stream) {
    if (volume(from.cluster) > 1 || from.stores_to_cluster) {
      cuapi::CUlaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cuapi::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attribute.value.clusterDim = {from.cluster[0], from.cluster[1], from.cluster[2]};
    }
    if (from.programmatic_dependent) {
      cuapi::CUlaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cuapi::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    config.gridDimX = from.grid[0];
    config.gridDimY = from.grid[1];
    config.gridDimZ = from.grid[2];
    config.blockDimX = from.block[0];
    config.blockDimY = from.block[1];
    config.blockDimZ = from.block[2];
    config.sharedMemBytes = from.dynamic_shared_bytes;
    config.hStream = static_cast<cuapi::CUstream>(stream);
    config.attrs = config.numAttrs ? attributes : nullptr;
  }
  DriverLaunch(const DriverLaunch&) = delete;
  DriverLaunch& operator=(const DriverLaunch&) = delete;

  cuapi::CUlaunchAttribute attributes[2] = {};
  cuapi::CUlaunchConfig config{};
};

} // namespace

wl_status check_launch(const wl_context& context, const Kernel& kernel,
                       const LaunchConfig& config) {
  const DeviceLimits& limits = context.limits;
  static const char axes[] = "xyz";
  std::string violations;
  int count = 0;
  const auto violate = [&](const std::string& sentence) {
    violations += sentence + "; ";
    ++count;
  };
  for (int i = 0; i < 3; ++i) {
    if (config.grid[i] < 1 || config.grid[i] > static_cast<unsigned>(limits.max_grid[i]))
      violate(format("grid.%c = %u CTAs must be from 1 to %d", axes[i], config.grid[i],
                     limits.max_grid[i]));
    if (config.block[i] < 1 || config.block[i] > static_cast<unsigned>(limits.max_block[i]))
      violate(format("block.%c = %u threads must be from 1 to %d", axes[i], config.block[i],
                     limits.max_block[i]));
    if (config.cluster[i] < 1)
      violate(format("cluster.%c = 0 CTAs must be at least 1", axes[i]));
    else if (config.grid[i] % config.cluster[i])
      violate(format("grid.%c = %u CTAs must be a multiple of cluster.%c = %u", axes[i],
                     config.grid[i], axes[i], config.cluster[i]));
  }
  const int threads = kernel.max_threads
                          ? std::min(kernel.max_threads, limits.max_threads_per_block)
                          : limits.max_threads_per_block;
  if (volume(config.block) > static_cast<unsigned long long>(threads))
    violate(format("block = %llu threads must be at most %d", volume(config.block), threads));
  if (volume(config.cluster) > static_cast<unsigned long long>(limits.max_cluster_nonportable))
    violate(format("cluster = %llu CTAs must be at most %d on %s", volume(config.cluster),
                   limits.max_cluster_nonportable, limits.name.c_str()));
  const long long shared = 1ll * config.dynamic_shared_bytes + kernel.static_shared_bytes;
  if (shared > limits.shared_bytes_per_block)
    violate(format("shared memory = %lld bytes a CTA (%u dynamic + %d static) must be at most %d",
                   shared, config.dynamic_shared_bytes, kernel.static_shared_bytes,
                   limits.shared_bytes_per_block));
  constexpr unsigned without_opt_in = 48 * 1024;
  const unsigned opted = static_cast<unsigned>(kernel.dynamic_shared_limit.load());
  if (config.dynamic_shared_bytes > without_opt_in && config.dynamic_shared_bytes > opted)
    violate(format("dynamic shared memory = %u bytes must be at most the %u bytes that the kernel "
                   "was loaded with",
                   config.dynamic_shared_bytes, opted));
  if (count == 0) return WL_SUCCESS;
  return fail(WL_ERROR_NOT_SUPPORTED, "kernel %s: %s%d rule%s violated, nothing was launched",
              kernel.name.c_str(), violations.c_str(), count, count == 1 ? "" : "s");
}

int ask_resident_clusters(const wl_context& context, const Kernel& kernel,
                          const LaunchConfig& config) {
  int clusters = 0;
  const auto ask = context.driver->cu.OccupancyMaxActiveClusters;
  const DriverLaunch made(config, nullptr);
  if (ask != nullptr && ask(&clusters, kernel.function, &made.config) != cuapi::CUDA_SUCCESS)
    clusters = 0;
  clusters = std::max(clusters, 0);
  WL_LOG(log_detail, "%s: the driver says that %d clusters of %llu CTAs are resident",
         kernel.name.c_str(), clusters, volume(config.cluster));
  return clusters;
}

int resident_clusters(const wl_context& context, const Kernel& kernel, const LaunchConfig& config) {
  int clusters = kernel.resident_clusters.load(std::memory_order_relaxed);
  if (clusters >= 0) return clusters;
  clusters = ask_resident_clusters(context, kernel, config);
  kernel.resident_clusters.store(clusters, std::memory_order_relaxed);
  return clusters;
}

void report_launch(const char* config_name, const Kernel& kernel, const LaunchConfig& config,
                   wl_plan_info* info) {
  copy_text(info->config, config_name);
  copy_text(info->kernel, kernel.entry);
  copy_text(info->target, kernel.target);
  std::copy(config.grid, config.grid + 3, info->grid);
  std::copy(config.block, config.block + 3, info->block);
  std::copy(config.cluster, config.cluster + 3, info->cluster);
  info->shared_bytes = static_cast<int>(config.dynamic_shared_bytes) + kernel.static_shared_bytes;
  info->registers = kernel.registers;
}

wl_status launch(const wl_context& context, const Kernel& kernel, const LaunchConfig& config,
                 void** params, wl_stream stream) {
  if (log_enabled(log_arguments)) log_launch(kernel, config, params, stream);
  const DriverLaunch made(config, stream);
  const cuapi::CUresult result =
      context.driver->cu.LaunchKernelEx(&made.config, kernel.function, params, nullptr);
  if (result == cuapi::CUDA_SUCCESS) {
    KeptRun::note(kernel, config, params);
    return WL_SUCCESS;
  }
  return fail_cu(*context.driver, result, "cuLaunchKernelEx", WL_ERROR_LAUNCH,
                 describe(kernel, config).c_str());
}

} // namespace warpline
