// Kernel launches: configuration, attributes and parameters are checked at the call; the kernel
// runs at its place in the stream, and its failure shows in later calls.
#include "tools/vgpu/driver/context.hpp"
#include "tools/vgpu/driver/function.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::driver {

namespace {

struct Configuration {
  std::array<uint32_t, 3> grid{}, block{}, cluster{0, 0, 0}; // cluster 0: not given
  bool names_clusters = false;
  unsigned dynamic_shared = 0;
  CUstream stream = nullptr;
  bool cooperative = false;
  bool programmatic = false; // may start before the kernel ahead of it has ended
};

std::string dims(const std::array<uint32_t, 3>& d) {
  return std::to_string(d[0]) + " x " + std::to_string(d[1]) + " x " + std::to_string(d[2]);
}
uint64_t volume(const std::array<uint32_t, 3>& d) { return uint64_t(d[0]) * d[1] * d[2]; }

void read_attributes(Call& c, const CUlaunchConfig& config, Configuration& to) {
  c.require(config.numAttrs == 0 || config.attrs, "attrs is null");
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& a = config.attrs[i];
    switch (int(a.id)) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    // Hints, and permissions that an execution in order makes no use of.
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case 14: // PREFERRED_SHARED_MEMORY_CARVEOUT
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      to.programmatic = a.value.programmaticStreamSerializationAllowed != 0;
      break;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      to.cooperative = a.value.cooperative != 0;
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      to.cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
      if (volume(to.cluster) == 0)
        c.refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster " + dims(to.cluster) + " is empty",
                 true);
      break;
    default:
      c.refuse(CUDA_ERROR_NOT_SUPPORTED,
               "launch attribute " + std::to_string(int(a.id)) + " is not supported", true);
    }
  }
}

// The cluster that the launch, the function's attribute or the kernel's directive asks for.
void choose_cluster(Call& c, const Function& f, Configuration& config) {
  const exec::Program& p = *f.program;
  config.names_clusters = config.cluster[0] || p.reqcluster[0] || f.required_cluster[0];
  if (!config.cluster[0]) {
    c.require(!needs_explicit_cluster(f),
              "the kernel is .explicitcluster and the launch names no cluster",
              CUDA_ERROR_INVALID_CLUSTER_SIZE);
    for (int i = 0; i < 3; ++i)
      config.cluster[i] = p.reqcluster[i]         ? p.reqcluster[i]
                          : f.required_cluster[i] ? uint32_t(f.required_cluster[i])
                                                  : 1;
  }
  const uint64_t size = volume(config.cluster);
  for (int i = 0; i < 3; ++i) {
    uint32_t required = p.reqcluster[i] ? p.reqcluster[i] : uint32_t(f.required_cluster[i]);
    if (required && required != config.cluster[i])
      c.refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
               "cluster " + dims(config.cluster) + " differs from the kernel's required cluster",
               true);
  }
  const int limit =
      f.nonportable_cluster ? c.s.profile->max_cluster_nonportable : c.s.profile->max_cluster;
  if (size > uint64_t(limit))
    c.refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
             "cluster " + dims(config.cluster) + " has " + std::to_string(size) + " CTAs; " +
                 std::to_string(limit) + " are allowed" +
                 (f.nonportable_cluster ? "" : " without CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER"),
             true);
}

std::vector<uint8_t> gather_parameters(Call& c, const exec::Program& p, void** parameters,
                                       void** extra) {
  std::vector<uint8_t> block(p.param_bytes);
  c.require(!(parameters && extra), "kernelParams and extra are both given");
  if (extra) {
    // Pairs of key and value: 1 pointer to the block, 2 pointer to its size, 0 the end.
    const void* buffer = nullptr;
    const size_t* bytes = nullptr;
    for (void** e = extra; *e; e += 2) {
      auto key = reinterpret_cast<uintptr_t>(e[0]);
      if (key == 1)
        buffer = e[1];
      else if (key == 2)
        bytes = static_cast<const size_t*>(e[1]);
      else
        c.refuse(CUDA_ERROR_INVALID_VALUE, "extra has the unknown key " + std::to_string(key));
    }
    c.require(bytes && (buffer || *bytes == 0), "extra lacks the buffer or its size");
    c.require(*bytes == block.size(), "extra has " + std::to_string(*bytes) +
                                          " bytes of parameters, the kernel takes " +
                                          std::to_string(block.size()));
    if (*bytes) std::memcpy(block.data(), buffer, block.size());
    return block;
  }
  c.require(parameters || p.params.empty(), "kernelParams is null, the kernel takes " +
                                                std::to_string(p.params.size()) + " parameters");
  for (size_t i = 0; i < p.params.size(); ++i) {
    c.require(parameters[i], "kernelParams[" + std::to_string(i) + "] is null");
    std::memcpy(block.data() + p.params[i].offset, parameters[i], p.params[i].bytes);
  }
  return block;
}

void run_kernel(const exec::LaunchSpec& spec) {
  State& s = state();
  const auto start = std::chrono::steady_clock::now();
  exec::Stats stats;
  std::string kernel = spec.program->name + "|";
  // Told once for a place, whatever the number of launches.
  auto fresh_of = [&](const auto& told, auto&& text) {
    std::string fresh;
    std::lock_guard lock(s.mutex);
    for (const auto& [place, t] : told)
      if (s.told.insert(kernel + place).second) fresh += text(t) + "\n";
    return fresh;
  };
  try {
    stats = exec::run_grid(spec);
  } catch (const exec::Fault& f) {
    const std::string fresh = fresh_of(f.told, [](const std::string& t) { return t; });
    if (!fresh.empty()) print_report(fresh);
    throw;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const std::string fresh = fresh_of(stats.told, [](const exec::Told& t) { return t.full(); });
  if (!fresh.empty()) print_report(fresh);
  std::lock_guard lock(s.mutex);
  s.report += fresh;
  s.stats.add(stats);
  s.seconds += elapsed.count();
  ++s.launches;
}

void check_limits(Call& c, const Function& f, const exec::LaunchSpec& spec, bool cooperative) {
  const exec::Program& p = *f.program;
  const uint64_t threads = volume(spec.block);
  if (spec.dynamic_shared > unsigned(f.max_dynamic_shared))
    c.refuse(CUDA_ERROR_INVALID_VALUE,
             "sharedMemBytes = " + std::to_string(spec.dynamic_shared) + " exceeds " +
                 std::to_string(f.max_dynamic_shared) +
                 "; CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises it to at most " +
                 std::to_string(c.s.profile->shared_per_block -
                                int(p.dynamic_shared_offset - exec::kSharedBase)),
             true);
  std::string wrong = exec::check_launch(spec);
  if (!wrong.empty()) {
    bool registers = wrong.find("registers") != std::string::npos;
    c.refuse(registers ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_INVALID_VALUE, wrong,
             true);
  }
  if (!cooperative) return;
  const uint64_t resident =
      uint64_t(blocks_per_sm(*c.s.profile, f, int(threads), spec.dynamic_shared)) *
      uint64_t(c.s.profile->sm_count);
  if (volume(spec.grid) > resident)
    c.refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
             "grid " + dims(spec.grid) + " has more CTAs than the " + std::to_string(resident) +
                 " that are resident at once",
             true);
}

// A grid that may start before those ahead of it have ended is judged against what they did.
void run_in_stream(exec::LaunchSpec& spec, CUstream stream, bool programmatic) {
  State& s = state();
  const bool behind = programmatic && s.grids.stream == stream && s.grids.last + 1 == s.executed;
  check::GridUses earlier;
  if (behind) {
    earlier = s.grids.uses.joined();
    spec.earlier = &earlier;
  } else {
    s.grids.uses = {};
  }
  s.grids.stream = stream;
  s.grids.last = s.executed;
  spec.uses = &s.grids.uses;
  run_kernel(spec);
}

void launch(Call& c, const void* handle, Configuration config, void** parameters, void** extra) {
  auto f = find_function(c, handle);
  const exec::Program& p = *f->program;
  c.require(f->module->context == c.context->handle, "the function belongs to another context",
            CUDA_ERROR_INVALID_CONTEXT);
  choose_cluster(c, *f, config);
  exec::LaunchSpec spec;
  spec.program = &p;
  spec.profile = c.s.profile;
  spec.memory = c.s.memory.get();
  spec.grid = config.grid;
  spec.block = config.block;
  spec.cluster = config.cluster;
  spec.cluster_launch = config.names_clusters;
  spec.dynamic_shared = config.dynamic_shared;
  spec.stack_bytes = stack_bytes(*c.context);
  spec.heap = reinterpret_cast<uint64_t>(c.context->handle);
  spec.heap_bytes = heap_bytes(*c.context);
  spec.params = gather_parameters(c, p, parameters, extra);
  check_limits(c, *f, spec, config.cooperative);
  // The function keeps the program alive. Options are those of the time when it runs: the same
  // graph can be replayed under another schedule.
  enqueue(c, config.stream,
          Work{"kernel " + p.name,
               [f, spec, stream = config.stream, programmatic = config.programmatic]() mutable {
                 State& s = state();
                 {
                   std::lock_guard lock(s.mutex);
                   spec.schedule = s.options.schedule;
                   spec.host_threads = s.options.threads;
                   spec.instruction_limit = s.options.instruction_limit;
                   spec.checks = s.options.checks;
                   spec.names = s.options.names;
                   spec.graph = s.options.graph;
                   spec.trace = s.options.trace;
                   spec.count = s.options.count;
                   if (!s.options.coverage.empty()) spec.coverage = &s.coverage;
                   spec.hopper_sums = s.options.hopper_sums;
                   spec.rules = s.options.rules;
                 }
                 run_in_stream(spec, stream, programmatic);
               }});
}

Configuration read_config(Call& c, const CUlaunchConfig* config) {
  c.require(config, "config is null");
  Configuration k;
  k.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  k.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  k.dynamic_shared = config->sharedMemBytes;
  k.stream = config->hStream;
  read_attributes(c, *config, k);
  return k;
}

} // namespace

VGPU_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared, CUstream stream,
                                 void** parameters, void** extra) {
  return entry("cuLaunchKernel", Need::Context, [&](Call& c) {
    Configuration k;
    k.grid = {grid_x, grid_y, grid_z};
    k.block = {block_x, block_y, block_z};
    k.dynamic_shared = shared;
    k.stream = stream;
    launch(c, function, k, parameters, extra);
  });
}
VGPU_ALIAS(cuLaunchKernel, cuLaunchKernel_ptsz)

VGPU_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                            unsigned grid_z, unsigned block_x, unsigned block_y,
                                            unsigned block_z, unsigned shared, CUstream stream,
                                            void** parameters) {
  return entry("cuLaunchCooperativeKernel", Need::Context, [&](Call& c) {
    Configuration k;
    k.grid = {grid_x, grid_y, grid_z};
    k.block = {block_x, block_y, block_z};
    k.dynamic_shared = shared;
    k.stream = stream;
    k.cooperative = true;
    launch(c, function, k, parameters, nullptr);
  });
}
VGPU_ALIAS(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz)

VGPU_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                   void** parameters, void** extra) {
  return entry("cuLaunchKernelEx", Need::Context,
               [&](Call& c) { launch(c, function, read_config(c, config), parameters, extra); });
}
VGPU_ALIAS(cuLaunchKernelEx, cuLaunchKernelEx_ptsz)

// Clusters are placed as if any SMs could form one: the GPCs of a chip are not modelled.
VGPU_API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle,
                                               const CUlaunchConfig* config) {
  return entry("cuOccupancyMaxActiveClusters", Need::Context, [&](Call& c) {
    c.require(clusters, "numClusters is null");
    auto f = find_function(c, handle);
    Configuration k = read_config(c, config);
    choose_cluster(c, *f, k);
    const uint64_t threads = volume(k.block);
    c.require(threads > 0 && threads <= 1024, "block " + dims(k.block) + " is invalid");
    const int per_sm = blocks_per_sm(*c.s.profile, *f, int(threads), k.dynamic_shared);
    *clusters = int(uint64_t(per_sm) * uint64_t(c.s.profile->sm_count) / volume(k.cluster));
  });
}

VGPU_API CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle,
                                                     const CUlaunchConfig* config) {
  return entry("cuOccupancyMaxPotentialClusterSize", Need::Context, [&](Call& c) {
    c.require(size, "clusterSize is null");
    auto f = find_function(c, handle);
    Configuration k = read_config(c, config);
    const uint64_t threads = volume(k.block);
    c.require(threads > 0 && threads <= 1024, "block " + dims(k.block) + " is invalid");
    const int per_sm = blocks_per_sm(*c.s.profile, *f, int(threads), k.dynamic_shared);
    *size = per_sm == 0              ? 0
            : f->nonportable_cluster ? c.s.profile->max_cluster_nonportable
                                     : c.s.profile->max_cluster;
  });
}

} // namespace vgpu::driver
