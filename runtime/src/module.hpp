// Loads an embedded image into a context, as machine code where the library holds some for the
// device, else through the driver's JIT compiler; checks that the host and the kernel agree on the
// parameter block, and keeps the kernel for later plans.
#pragma once

#include "runtime/src/cuda_api.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/status.hpp"

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

struct wl_context;

namespace warpline {

// One kernel parameter as the host lays it out; compared with the loaded kernel.
struct Param {
  const char* name; // a literal: kept for the log
  size_t offset;    // bytes from the start of the parameter block
  size_t size;
};

// A parameter block is a list of PARAM(KIND, name) lines, which the kernel reads too. Included in a
// struct `Block` with PARAM as WL_PARAM_FIELD it makes the fields, in the braces of a
// std::vector<Param> with PARAM as WL_PARAM_LAYOUT their layout. The list undefines PARAM.
#define WL_PARAM_MAP cuapi::CUtensorMap
#define WL_PARAM_U64 uint64_t
#define WL_PARAM_U32 uint32_t
#define WL_PARAM_F32 float
#define WL_PARAM_FIELD(kind, name) WL_PARAM_##kind name;
#define WL_PARAM_LAYOUT(kind, name) {#name, offsetof(Block, name), sizeof(Block::name)},

struct KernelNeeds {
  std::vector<Param> params;
  int dynamic_shared_bytes = 0;
  bool nonportable_cluster = false; // clusters of more than 8 CTAs
};

struct Kernel {
  std::string name, entry, target;
  cuapi::CUmodule module = nullptr;
  cuapi::CUfunction function = nullptr;
  int registers = 0; // per thread at entry
  int static_shared_bytes = 0;
  std::atomic<int> dynamic_shared_limit{0};       // highest opted into so far
  mutable std::atomic<int> resident_clusters{-1}; // see resident_clusters(); -1: not asked yet
  int local_bytes = 0;                            // per thread; spills and stack
  int max_threads = 0;                            // per CTA, from .maxntid and the register count
  double load_ms = 0;                             // loading, JIT compilation included
  bool precompiled = false;                       // loaded as machine code
  std::string jit_log;
  std::vector<Param> params;
};

// Idempotent and thread-safe; the kernel lives as long as the context. Makes the context current
// itself. Fails with WL_ERROR_NOT_SUPPORTED (target of another device),
// WL_ERROR_INSUFFICIENT_DRIVER (PTX version), WL_ERROR_JIT (with the driver's log),
// WL_ERROR_INTERNAL (parameter layout).
wl_status load_kernel(wl_context& context, const Image& image, const KernelNeeds& needs,
                      const Kernel** kernel);

// Unloads all kernels of a context (on its destruction).
void unload_kernels(wl_context& context);

// The highest PTX version that a driver's JIT compiler accepts, as 10 * major + minor (88 for 8.8),
// and the lowest driver version (12090) that accepts a PTX version. PTX ISA, "Release History".
int ptx_version_of_driver(int driver_version);
int driver_of_ptx_version(int ptx_version);

} // namespace warpline
