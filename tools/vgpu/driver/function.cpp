// Functions: attributes, parameter layout, occupancy.
#include "tools/vgpu/driver/function.hpp"

#include <algorithm>

namespace vgpu::driver {

namespace {

constexpr int kRegistersPerSm = 65536, kThreadsPerSm = 2048, kBlocksPerSm = 32;

int static_shared(const exec::Program& p) { return int(p.static_shared_bytes); }
// Static bytes with the padding before dynamic shared memory.
int dynamic_start(const exec::Program& p) {
  return int(p.dynamic_shared_offset - exec::kSharedBase);
}

bool has_directive(const exec::Program& p, const char* name) {
  for (const auto& d : p.function->directives)
    if (d.name == name) return true;
  return false;
}

// Without .maxntid, .reqntid or .maxnreg the PTX does not bound the registers, and nobody allocates
// any here: such a kernel counts as if they never limited a launch.
bool bounds_registers(const exec::Program& p) { return p.maxntid[0] || p.reqntid[0] || p.maxnreg; }

int max_threads(const exec::Program& p) {
  uint64_t limit = 1024;
  const uint32_t* block = p.reqntid[0] ? p.reqntid : p.maxntid;
  if (block[0])
    limit = std::min<uint64_t>(limit, uint64_t(block[0]) * std::max(1u, block[1]) *
                                          std::max(1u, block[2]));
  if (bounds_registers(p) && p.entry_registers)
    limit = std::min<uint64_t>(limit, uint64_t(kRegistersPerSm / p.entry_registers / 32 * 32));
  return int(limit);
}

int get_attribute(Call& c, const Function& f, int which) {
  const exec::Program& p = *f.program;
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return max_threads(p);
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    return static_shared(p);
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    return int(f.module->const_bytes);
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    return int(p.local_bytes);
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    return int(p.entry_registers);
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    return f.module->ptx_version;
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    return compute_capability(*c.s.profile);
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    return 0;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return f.max_dynamic_shared;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return f.carveout;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    return has_directive(p, "explicitcluster") && !p.reqcluster[0];
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
    int i = which - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
    return p.reqcluster[i] ? int(p.reqcluster[i]) : f.required_cluster[i];
  }
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    return f.nonportable_cluster;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    return f.cluster_policy;
  }
  c.refuse(CUDA_ERROR_INVALID_VALUE, "attribute " + std::to_string(which) + " is unknown");
}

void set_attribute(Call& c, Function& f, int which, int value) {
  const exec::Program& p = *f.program;
  auto within = [&](int low, int high, const char* name) {
    c.require(value >= low && value <= high, std::string(name) + " = " + std::to_string(value) +
                                                 " must lie within " + std::to_string(low) +
                                                 " .. " + std::to_string(high));
  };
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    within(0, c.s.profile->shared_per_block - dynamic_start(p), "dynamic shared bytes");
    f.max_dynamic_shared = value;
    return;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    within(-1, 100, "carveout");
    f.carveout = value;
    return;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    c.require(!p.reqcluster[0], "the kernel's .reqnctapercluster fixes its cluster",
              CUDA_ERROR_NOT_PERMITTED);
    within(0, c.s.profile->max_cluster_nonportable, "cluster dimension");
    f.required_cluster[which - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
    return;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    within(0, 1, "non-portable cluster size allowed");
    f.nonportable_cluster = value != 0;
    return;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    within(0, 2, "cluster scheduling policy");
    f.cluster_policy = value;
    return;
  default:
    c.refuse(CUDA_ERROR_INVALID_VALUE,
             "attribute " + std::to_string(which) + " is read-only or unknown");
  }
}

CUresult param_info(const char* name, const void* handle, size_t index, size_t* offset,
                    size_t* size) {
  return entry(name, Need::Context, [&](Call& c) {
    auto f = find_function(c, handle);
    c.require(offset, "paramOffset is null");
    const auto& params = f->program->params;
    c.require(index < params.size(),
              "parameter " + std::to_string(index) + " of " + std::to_string(params.size()));
    *offset = params[index].offset;
    if (size) *size = params[index].bytes;
  });
}

CUresult active_blocks(const char* name, int* blocks, CUfunction handle, int threads,
                       size_t dynamic, unsigned flags) {
  return entry(name, Need::Context, [&](Call& c) {
    c.require(blocks, "numBlocks is null");
    c.require(flags <= 1, "flags = " + std::to_string(flags) + " is unknown");
    auto f = find_function(c, handle);
    c.require(threads > 0, "blockSize = " + std::to_string(threads) + " must be positive");
    *blocks = blocks_per_sm(*c.s.profile, *f, threads, dynamic);
  });
}

CUresult potential_block(const char* name, int* grid, int* block, CUfunction handle,
                         CUoccupancyB2DSize shared_of, size_t dynamic, int limit, unsigned flags) {
  return entry(name, Need::Context, [&](Call& c) {
    c.require(grid && block, "minGridSize or blockSize is null");
    c.require(flags <= 1, "flags = " + std::to_string(flags) + " is unknown");
    auto f = find_function(c, handle);
    int most = max_threads(*f->program);
    if (limit > 0) most = std::min(most, limit);
    // The largest block among those that keep the most threads resident.
    int best = 0, best_threads = 0, best_blocks = 0;
    for (int threads = std::max(32, most / 32 * 32); threads >= 32; threads -= 32) {
      size_t bytes = dynamic;
      if (shared_of) c.unlocked([&] { bytes = shared_of(threads); });
      int n = blocks_per_sm(*c.s.profile, *f, threads, bytes);
      if (n * threads <= best_threads) continue;
      best = threads;
      best_threads = n * threads;
      best_blocks = n;
    }
    *block = best;
    *grid = best_blocks * c.s.profile->sm_count;
  });
}

} // namespace

// Registers are given out per warp in units of 256; each block takes the reserved shared bytes too.
int blocks_per_sm(const exec::Profile& profile, const Function& f, int threads, size_t dynamic) {
  const exec::Program& p = *f.program;
  if (threads > max_threads(p)) return 0;
  const size_t shared = size_t(dynamic_start(p)) + dynamic;
  if (shared > size_t(profile.shared_per_block) || dynamic > size_t(f.max_dynamic_shared)) return 0;
  const int warps = (threads + 31) / 32;
  int blocks = std::min(kBlocksPerSm, kThreadsPerSm / (warps * 32));
  if (bounds_registers(p) && p.entry_registers) {
    int per_warp = (int(p.entry_registers) + 7) / 8 * 8 * 32;
    blocks = std::min(blocks, kRegistersPerSm / per_warp / warps);
  }
  return std::min(blocks, int(size_t(profile.shared_per_sm) / (shared + exec::kSharedBase)));
}

bool needs_explicit_cluster(const Function& f) {
  return has_directive(*f.program, "explicitcluster") && !f.program->reqcluster[0];
}

std::shared_ptr<Function> find_function(Call& c, const void* handle) {
  auto f = c.s.functions.find(handle);
  c.require(f != nullptr,
            "function " + hex(reinterpret_cast<uint64_t>(handle)) + " is no live function",
            CUDA_ERROR_INVALID_HANDLE);
  return f;
}

VGPU_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction handle) {
  return entry("cuFuncGetAttribute", Need::Context, [&](Call& c) {
    c.require(value, "pi is null");
    auto f = find_function(c, handle);
    *value = get_attribute(c, *f, int(which));
  });
}

VGPU_API CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
  return entry("cuFuncSetAttribute", Need::Context, [&](Call& c) {
    auto f = find_function(c, handle);
    set_attribute(c, *f, int(which), value);
  });
}

VGPU_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel handle,
                                       CUdevice device) {
  return entry("cuKernelGetAttribute", Need::Init, [&](Call& c) {
    c.require(value, "pi is null");
    c.require(device == 0, "there is one device, 0", CUDA_ERROR_INVALID_DEVICE);
    auto f = find_function(c, handle);
    *value = get_attribute(c, *f, int(which));
  });
}

VGPU_API CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel handle,
                                       CUdevice device) {
  return entry("cuKernelSetAttribute", Need::Init, [&](Call& c) {
    c.require(device == 0, "there is one device, 0", CUDA_ERROR_INVALID_DEVICE);
    auto f = find_function(c, handle);
    set_attribute(c, *f, int(which), value);
  });
}

VGPU_API CUresult cuFuncSetCacheConfig(CUfunction handle, int config) {
  return entry("cuFuncSetCacheConfig", Need::Context, [&](Call& c) {
    c.require(config >= 0 && config <= 3, "config = " + std::to_string(config) + " is unknown");
    find_function(c, handle);
  });
}

VGPU_API CUresult cuFuncGetName(const char** name, CUfunction handle) {
  return entry("cuFuncGetName", Need::Context, [&](Call& c) {
    c.require(name, "name is null");
    *name = find_function(c, handle)->program->name.c_str();
  });
}

VGPU_API CUresult cuKernelGetName(const char** name, CUkernel handle) {
  return entry("cuKernelGetName", Need::Init, [&](Call& c) {
    c.require(name, "name is null");
    *name = find_function(c, handle)->program->name.c_str();
  });
}

VGPU_API CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset,
                                     size_t* size) {
  return param_info("cuFuncGetParamInfo", handle, index, offset, size);
}
VGPU_API CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset,
                                       size_t* size) {
  return param_info("cuKernelGetParamInfo", handle, index, offset, size);
}

VGPU_API CUresult cuFuncIsLoaded(int* loaded, CUfunction handle) {
  return entry("cuFuncIsLoaded", Need::Context, [&](Call& c) {
    c.require(loaded, "state is null");
    find_function(c, handle);
    *loaded = 1;
  });
}

VGPU_API CUresult cuFuncLoad(CUfunction handle) {
  return entry("cuFuncLoad", Need::Context, [&](Call& c) { find_function(c, handle); });
}

// ---- occupancy

VGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                              int threads, size_t dynamic) {
  return active_blocks("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks, function, threads,
                       dynamic, 0);
}
VGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                       CUfunction function,
                                                                       int threads, size_t dynamic,
                                                                       unsigned flags) {
  return active_blocks("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", blocks, function,
                       threads, dynamic, flags);
}

VGPU_API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t dynamic,
                                                   int limit) {
  return potential_block("cuOccupancyMaxPotentialBlockSize", grid, block, function, shared_of,
                         dynamic, limit, 0);
}
VGPU_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                            CUfunction function,
                                                            CUoccupancyB2DSize shared_of,
                                                            size_t dynamic, int limit,
                                                            unsigned flags) {
  return potential_block("cuOccupancyMaxPotentialBlockSizeWithFlags", grid, block, function,
                         shared_of, dynamic, limit, flags);
}

VGPU_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle,
                                                          int blocks, int threads) {
  return entry("cuOccupancyAvailableDynamicSMemPerBlock", Need::Context, [&](Call& c) {
    c.require(bytes, "dynamicSmemSize is null");
    c.require(blocks > 0 && threads > 0, "numBlocks and blockSize must be positive");
    auto f = find_function(c, handle);
    Function wide = *f; // as if opted in to all there is
    wide.max_dynamic_shared = c.s.profile->shared_per_block;
    c.require(blocks_per_sm(*c.s.profile, wide, threads, 0) >= blocks,
              "that many blocks do not fit into an SM");
    int64_t each = c.s.profile->shared_per_sm / blocks - int64_t(exec::kSharedBase);
    each = std::min<int64_t>(each, c.s.profile->shared_per_block) - dynamic_start(*f->program);
    *bytes = size_t(std::max<int64_t>(0, each));
  });
}

} // namespace vgpu::driver
