// A CUDA driver for WARPLINE_DRIVER that hands out another PTX file in place of a kernel's, and
// leaves the rest to the driver that it is linked with:
//   OTHER_KERNEL   the entry
//   OTHER_SOURCE   the file, whose entry has the same name and parameters
// The parameter `workspace` of that kernel becomes the address of D, the matrix whose boxes are
// 64 x 64: schedules.ptx stores there by threads.
#include "runtime/src/cuda_api.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <string>

using namespace cuapi;

namespace {

enum Index {
#define PARAM(type, name) index_of_##name,
#define B_TENSORS 1
#include "kernels/gemm/sm90_native_params.def"
  params
};

CUmodule other_module;
CUfunction other_function;
void* address_of_d;

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

} // namespace

#define REAL(name) real(name, #name)

extern "C" CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                       CUjit_option* options, void** values) {
  const char* entry = std::getenv("OTHER_KERNEL");
  const char* file = std::getenv("OTHER_SOURCE");
  const bool other = entry != nullptr && file != nullptr &&
                     std::strstr(static_cast<const char*>(image),
                                 (std::string(".entry ") + entry + "(").c_str()) != nullptr;
  if (!other) return REAL(cuModuleLoadDataEx)(module, image, count, options, values);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const CUresult result =
      REAL(cuModuleLoadDataEx)(module, text.str().c_str(), count, options, values);
  std::fprintf(stderr, "other kernel: %s, %d\n", file, static_cast<int>(result));
  other_module = *module;
  return result;
}

extern "C" CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const CUresult result = REAL(cuModuleGetFunction)(function, module, name);
  if (module == other_module) other_function = *function;
  return result;
}

extern "C" CUresult
cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, uint32_t rank, void* address,
                       const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                       const uint32_t* element_strides, CUtensorMapInterleave interleave,
                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                       CUtensorMapFloatOOBfill oob_fill) {
  if (box[0] == 64 && box[1] == 64) address_of_d = address;
  return REAL(cuTensorMapEncodeTiled)(map, type, rank, address, dims, strides, box, element_strides,
                                      interleave, swizzle, l2_promotion, oob_fill);
}

extern "C" CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                     void** parameters, void** extra) {
  void* own[params];
  if (function == other_function && function != nullptr) {
    std::memcpy(own, parameters, sizeof own);
    own[index_of_workspace] = &address_of_d;
    parameters = own;
  }
  return REAL(cuLaunchKernelEx)(config, function, parameters, extra);
}
