#include "tests/problems/device.hpp"

#include "runtime/src/context.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace wltest::problems {

bool adds_f8_on_hopper(const Configuration& configuration) {
  return configuration.profile == "h200" && !configuration.types.empty() &&
         configuration.types[0].a == WL_OPERAND_E4M3;
}

bool of_one_launch(const Configuration& configuration) {
  return std::count_if(configuration.kernels.begin(), configuration.kernels.end(),
                       [](const std::string& kernel) { return kernel != "gemm_sm90_pack"; }) == 1;
}

wl_context* open_device(const Configuration& configuration, const std::string& driver) {
  setenv("WARPLINE_DRIVER", (driver.empty() ? "virtual:" + configuration.profile : driver).c_str(),
         1);
  setenv("VGPU_PROFILE", configuration.profile.c_str(), 1);
  setenv("VGPU_STRICT", "1", 1); // errors end the launch
  int devices = 0;
  if (wl_device_count(&devices) != WL_SUCCESS) throw std::runtime_error(wl_last_error());
  // Others' sums are exact in the card's accumulators, too.
  const char* const sums = adds_f8_on_hopper(configuration) ? "hopper" : "exact";
  const std::pair<const char*, std::string> options[] = {{"report", "none"},
                                                         {"threads", "1"},
                                                         {"sms", std::to_string(configuration.sms)},
                                                         {"instruction_limit", "20000000"},
                                                         {"wgmma_accumulation", sums}};
  for (const auto& [key, value] : options)
    if (!set_option(key, value))
      throw std::runtime_error("option " + std::string(key) + " = " + value + " is refused");
  wl_context* context = nullptr;
  if (wl_context_create(0, &context) != WL_SUCCESS) throw std::runtime_error(wl_last_error());
  return context;
}

wl_context* open_gpu() {
  wl_context* context = nullptr;
  if (wl_context_create(0, &context) != WL_SUCCESS) throw std::runtime_error(wl_last_error());
  if (context->driver->is_virtual)
    throw std::runtime_error("WARPLINE_DRIVER names the virtual GPU; unset it");
  return context;
}

bool is_of_gpu(const Operation& operation, const Configuration& configuration, int capability) {
  if (operation.args == "wl_moe_args") return false;
  if (configuration.profile == "h200") return capability == 90;
  const bool integers = !configuration.types.empty() && configuration.types[0].a == WL_OPERAND_INT8;
  return capability == 100 || (capability / 10 == 10 && !integers);
}

std::string run_on_device(wl_context* context, const Problem& problem) {
  if (!context->driver->is_virtual) return run(context, problem);
  if (!set_schedule(problem.schedule) || !set_checks(problem.checks))
    return "schedule " + problem.schedule + " or checks " + problem.checks + " are refused";
  const std::string wrong = run(context, problem);
  const std::string report = wrong.empty() ? "" : virtual_report();
  return report.empty() ? wrong : wrong + "\n" + report;
}

} // namespace wltest::problems
