// The rest of the runtime's names: each says so when it is called, and returns
// cudaErrorNotSupported.
#include "tools/vgpu/cudart/cudart.hpp"

#define MISSING(name)                                                                              \
  CUDART_API int name() { return vgpu::cudart::missing(#name); }
#include "tools/vgpu/cudart/missing.inc"
