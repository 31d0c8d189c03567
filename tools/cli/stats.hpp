// `--stats`: what the virtual GPU counted in one run, and the machine code of the kernel.
#pragma once

#include "tools/cli/report.hpp"
#include "warpline/warpline.h"

#include <string>
#include <utility>
#include <vector>

namespace warpline::cli {

struct Counted {
  std::string json;                                         // vgpuStatsJson()
  std::vector<std::pair<const char*, const void*>> tensors; // names and addresses
  const void* workspace = nullptr; // where a launch may leave operands of the next
  size_t workspace_bytes = 0;
};

// Counts from zero from here on, and what is counted on demand too.
void start_counting();

// `configs` are those of the problem, `name` is the one that ran it.
void report_stats(Report& report, const std::vector<wl_dual_gemm_config>& configs,
                  const std::string& name, const Counted& counted);

} // namespace warpline::cli
