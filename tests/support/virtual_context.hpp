// A context on the virtual GPU. A process holds one profile: the first that is asked for.
#pragma once

#include "warpline/warpline.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace wltest {

inline wl_context* virtual_context(const std::string& profile) {
  static wl_context* context = nullptr;
  if (context) return context;
  setenv("WARPLINE_DRIVER", ("virtual:" + profile).c_str(), 1);
  if (wl_context_create(0, &context) != WL_SUCCESS) throw std::runtime_error(wl_last_error());
  return context;
}

} // namespace wltest
