// Every other entry point that libcuda exports: known by name, refused and reported once. The list
// holds the names of CUDA 13.0's exports that no file here defines.
#include "tools/vgpu/driver/state.hpp"

namespace vgpu::driver {

namespace {

// Each has its own parameters; none is read, so on x86-64 the caller's may be of any number.
CUresult refuse(const char* name, bool& told) {
  return entry(name, Need::Nothing, [&](Call& c) {
    bool first = !told;
    told = true;
    c.refuse(CUDA_ERROR_NOT_SUPPORTED, "the virtual GPU does not have this function", first);
  });
}

} // namespace

#define UNSUPPORTED(name)                                                                          \
  VGPU_API CUresult name(void) {                                                                   \
    static bool told = false; /* guarded by the state's lock */                                    \
    return refuse(#name, told);                                                                    \
  }
#include "tools/vgpu/driver/unsupported.inc"
#undef UNSUPPORTED

} // namespace vgpu::driver
