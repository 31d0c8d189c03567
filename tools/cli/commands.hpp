// The program's commands. Each takes its arguments without the command's name, prints to stdout and
// returns the exit status, or throws Failure.
#pragma once

#include "tools/cli/failure.hpp"

#include <string>
#include <vector>

namespace warpline::cli {

using Arguments = std::vector<std::string>;

ExitStatus run_dual_gemm(const Arguments& arguments);
ExitStatus run_gemm(const Arguments& arguments);
ExitStatus run_grouped_gemm(const Arguments& arguments);
ExitStatus run_grouped_dual_gemm(const Arguments& arguments);
ExitStatus run_quantize(const Arguments& arguments);
ExitStatus run_norm_linear(const Arguments& arguments);
ExitStatus run_moe(const Arguments& arguments);
ExitStatus run_configs(const Arguments& arguments);
ExitStatus run_devices(const Arguments& arguments);
ExitStatus run_doctor(const Arguments& arguments);
ExitStatus run_rules(const Arguments& arguments);
ExitStatus run_types(const Arguments& arguments);
ExitStatus run_make_example(const Arguments& arguments);

} // namespace warpline::cli
