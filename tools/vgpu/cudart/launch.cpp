// Launches, functions' attributes, occupancy.
#include "tools/vgpu/cudart/cudart.hpp"

#include <cstring>

using namespace vgpu::cudart;

namespace {

struct Configuration { // between <<< and >>>
  Dim3 grid, block;
  size_t shared;
  CUstream stream;
};
// Without a destructor: those of global objects may launch, too. One configuration is open while
// the arguments of its launch are worked out, which may hold others.
constexpr unsigned kMostOpen = 64;
thread_local constinit Configuration open_configurations[kMostOpen] = {};
thread_local constinit unsigned open_count = 0;

CUlaunchConfig driver_config(const LaunchConfig& c) {
  CUlaunchConfig to{};
  to.gridDimX = c.grid.x, to.gridDimY = c.grid.y, to.gridDimZ = c.grid.z;
  to.blockDimX = c.block.x, to.blockDimY = c.block.y, to.blockDimZ = c.block.z;
  to.sharedMemBytes = unsigned(c.dynamic_shared);
  to.hStream = c.stream;
  to.attrs = c.attributes;
  to.numAttrs = c.count;
  return to;
}

Error launch(const void* host, LaunchConfig c, void** arguments) {
  return call([&] {
    CUfunction f = nullptr;
    if (Error e = function_of(host, &f)) return e;
    const bool empty = c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0 || c.block.x == 0 ||
                       c.block.y == 0 || c.block.z == 0;
    const uint64_t threads = uint64_t(c.block.x) * c.block.y * c.block.z;
    if (empty || threads > 1024) return kInvalidConfiguration;
    const CUlaunchConfig to = driver_config(c);
    return Error(cuLaunchKernelEx(&to, f, arguments, nullptr));
  });
}

template <class F>
Error with_function(const void* host, F&& f) {
  return call([&] {
    CUfunction function = nullptr;
    if (Error e = function_of(host, &function)) return e;
    return Error(f(function));
  });
}

} // namespace

CUDART_API unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared,
                                                CUstream stream) {
  if (open_count == kMostOpen) return 1;
  open_configurations[open_count++] = {grid, block, shared, stream};
  return 0;
}
CUDART_API Error __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared, void* stream) {
  if (open_count == 0) return note(kInvalidConfiguration);
  const Configuration c = open_configurations[--open_count];
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  std::memcpy(stream, &c.stream, sizeof c.stream);
  return kSuccess;
}
// A kernel's handle is the host address that names it.
CUDART_API Error __cudaGetKernel(const void** kernel, const void* host) {
  *kernel = host;
  return kSuccess;
}
CUDART_API Error cudaGetKernel(const void** kernel, const void* host) {
  return with_function(host, [&](CUfunction) {
    *kernel = host;
    return CUDA_SUCCESS;
  });
}
CUDART_API Error cudaGetFuncBySymbol(CUfunction* function, const void* host) {
  return with_function(host, [&](CUfunction f) {
    *function = f;
    return CUDA_SUCCESS;
  });
}
CUDART_API Error cudaLaunchKernel(const void* host, Dim3 grid, Dim3 block, void** arguments,
                                  size_t shared, CUstream stream) {
  return launch(host, {grid, block, shared, stream, nullptr, 0}, arguments);
}
CUDART_ALIAS(cudaLaunchKernel, cudaLaunchKernel_ptsz)
CUDART_ALIAS(cudaLaunchKernel, __cudaLaunchKernel)
CUDART_ALIAS(cudaLaunchKernel, __cudaLaunchKernel_ptsz)
CUDART_API Error cudaLaunchKernelExC(const LaunchConfig* config, const void* host,
                                     void** arguments) {
  return config ? launch(host, *config, arguments) : note(kInvalidValue);
}
CUDART_ALIAS(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz)
CUDART_API Error cudaLaunchCooperativeKernel(const void* host, Dim3 g, Dim3 b, void** arguments,
                                             size_t shared, CUstream stream) {
  return with_function(host, [&](CUfunction f) {
    return cuLaunchCooperativeKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, unsigned(shared), stream,
                                     arguments);
  });
}
CUDART_ALIAS(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz)

// ---- attributes

struct FuncAttributes { // cudaFuncAttributes
  size_t shared, constant, local;
  int threads, registers, ptx, binary, cache, dynamic_shared, carveout, cluster_must_be_set;
  int cluster_width, cluster_height, cluster_depth, cluster_policy, nonportable_cluster;
  int reserved[16];
};
static_assert(sizeof(FuncAttributes) == 144);

CUDART_API Error cudaFuncGetAttributes(FuncAttributes* to, const void* host) {
  return with_function(host, [&](CUfunction f) {
    *to = {};
    // The driver's numbers, in the order of its enumeration.
    int v[16] = {};
    for (int i = 0; i < 16; ++i)
      if (CUresult e = cuFuncGetAttribute(&v[i], i, f)) return e;
    to->threads = v[0];
    to->shared = size_t(v[1]);
    to->constant = size_t(v[2]);
    to->local = size_t(v[3]);
    to->registers = v[4];
    to->ptx = v[5];
    to->binary = v[6];
    to->cache = v[7];
    to->dynamic_shared = v[8];
    to->carveout = v[9];
    to->cluster_must_be_set = v[10];
    to->cluster_width = v[11];
    to->cluster_height = v[12];
    to->cluster_depth = v[13];
    to->nonportable_cluster = v[14];
    to->cluster_policy = v[15];
    return CUDA_SUCCESS;
  });
}
CUDART_API Error cudaFuncSetAttribute(const void* host, int attribute, int value) {
  return with_function(host, [&](CUfunction f) { return cuFuncSetAttribute(f, attribute, value); });
}
CUDART_API Error cudaFuncSetCacheConfig(const void* host, int config) {
  return with_function(host, [&](CUfunction f) { return cuFuncSetCacheConfig(f, config); });
}
CUDART_API Error cudaFuncGetName(const char** name, const void* host) {
  return with_function(host, [&](CUfunction f) { return cuFuncGetName(name, f); });
}

// ---- occupancy

CUDART_API Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                        const void* host,
                                                                        int threads, size_t shared,
                                                                        unsigned flags) {
  return with_function(host, [&](CUfunction f) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, shared, flags);
  });
}
CUDART_API Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host,
                                                               int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}
CUDART_API Error cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* host,
                                                           int blocks, int threads) {
  return with_function(host, [&](CUfunction f) {
    return cuOccupancyAvailableDynamicSMemPerBlock(bytes, f, blocks, threads);
  });
}
CUDART_API Error cudaOccupancyMaxActiveClusters(int* clusters, const void* host,
                                                const LaunchConfig* config) {
  return with_function(host, [&](CUfunction f) {
    const CUlaunchConfig c = driver_config(*config);
    return cuOccupancyMaxActiveClusters(clusters, f, &c);
  });
}
CUDART_API Error cudaOccupancyMaxPotentialClusterSize(int* size, const void* host,
                                                      const LaunchConfig* config) {
  return with_function(host, [&](CUfunction f) {
    const CUlaunchConfig c = driver_config(*config);
    return cuOccupancyMaxPotentialClusterSize(size, f, &c);
  });
}
