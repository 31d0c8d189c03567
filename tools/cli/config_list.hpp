// What wl_dual_gemm_list_configs or the like lists, as a vector.
#pragma once

#include "tools/cli/device.hpp"

#include <vector>

namespace warpline::cli {

template <class Args>
std::vector<wl_dual_gemm_config>
list_configs(wl_context* context, const Args& args,
             wl_status (*list)(wl_context*, const Args*, wl_dual_gemm_config*, size_t, int*)) {
  int count = 0;
  require(list(context, &args, nullptr, sizeof(wl_dual_gemm_config), &count));
  std::vector<wl_dual_gemm_config> configs(static_cast<size_t>(count));
  require(list(context, &args, configs.data(), sizeof(wl_dual_gemm_config), &count));
  return configs;
}

} // namespace warpline::cli
