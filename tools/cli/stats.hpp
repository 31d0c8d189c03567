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
};

// Counts from zero from here on, and what is counted on demand too.
void start_counting();

// `args` says the problem, `row` is the row that ran it.
void report_stats(Report& report, wl_context* context, const wl_dual_gemm_args& args,
                  const std::string& row, const Counted& counted);

} // namespace warpline::cli
