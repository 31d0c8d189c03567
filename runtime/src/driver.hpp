// The CUDA driver, opened by dlopen. WARPLINE_DRIVER chooses: unset or "" = libcuda.so.1, then
// libcuda.so; "virtual" or "virtual:PROFILE" (b200, b300, h200) = the virtual GPU, libvgpu.so; any
// other value = a path. A library is opened once a process for each value and never closed; a
// failed opening is tried again by the next call, so a program may choose another driver after it.
#pragma once

#include "runtime/src/cuda_api.hpp"
#include "runtime/src/status.hpp"

#include <string>

namespace warpline {

struct Driver {
  cuapi::Functions cu;
  std::string request; // the value of WARPLINE_DRIVER it was opened for
  std::string file;    // the name that dlopen accepted
  bool is_virtual = false;
  int version = 0; // cuDriverGetVersion: 1000 * major + 10 * minor
  void* handle = nullptr;

  // An exported symbol beyond the table (vgpuReport ...), null when the library has none.
  void* symbol(const char* name) const;
};

// The driver that WARPLINE_DRIVER names now, opened and initialised (cuInit). On failure the
// message lists the names tried with dlopen's reasons, or the symbols that the library lacks.
wl_status open_driver(const Driver** driver);

// The virtual GPU's control functions and any other symbol of the driver that WARPLINE_DRIVER
// names: opens it when need be; null when that fails or the symbol does not exist.
void* driver_symbol(const char* name);

// "13.0" for 13000.
std::string version_text(int driver_version);

} // namespace warpline
