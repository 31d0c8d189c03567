// What the commands that run a kernel share: options, the device, scales on their way to it, and
// the parts of the report that say what ran where.
#pragma once

#include "tests/reference/inputs.hpp"
#include "tools/cli/device.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/report.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace warpline::cli {

struct RunOptions {
  bool plain_scales = false; // as they lie in memory: WL_SF_PLAIN
  std::string device = "auto", schedule, check, config, json, input, output, trace;
  uint64_t seed = 1;
  bool verify = false;
};
// --device, --seed, --schedule, --check, --config, --json, --output, --verify; --input and --trace
// are the command's own.
void declare_run(Options* options, RunOptions* r);

// Refuses options that do not go together and files that cannot be written, then chooses the device
// and sets the virtual GPU up. Says on stderr which device was chosen when nobody named one.
Device prepare_run(const std::string& command, const RunOptions& r);
// Options that say what an input file says.
void refuse_with_input(const std::string& command, const Options& options,
                       const std::vector<std::string>& names);

// The header's rule for the scale of an NVFP4 output, which no call can check.
void check_d_scale(const std::string& command, const std::optional<float>& d_scale);

double seconds_since(std::chrono::steady_clock::time_point start);

// Refuses what cannot fit this machine's memory, before hours of paging.
void check_memory(const std::string& command, const std::string& sizes, double bytes);
// What `bytes` of the device's memory take of the host's: nothing, or on the virtual GPU as much,
// and with checks at least five times more.
double host_bytes(const Device& device, const RunOptions& r, double bytes);
// Of an operand's scales in WL_SF_128x4, with the padding to whole atoms.
double packed_bytes(int64_t rows, int64_t k, int64_t l);

// An operand's scales in WL_SF_128x4 with NaN in the padding, none where it has none; and back, of
// NVFP4.
std::vector<uint8_t> pack_scales(const wltest::Operand& operand);
// --plain-scales, and scales of an operand in a layout, NaN in the padding.
void declare_scales(Options* options, RunOptions* r, const std::string& whose);
wl_sf_layout layout_of_scales(const RunOptions& r);
std::vector<uint8_t> scales_of(wl_sf_layout layout, const wltest::Operand& operand);
void unpack_scales(const std::vector<uint8_t>& packed, wltest::Operand* operand);

void report_version(Report& report, const std::string& command);
void report_device(Report& report, const Device& device);
void report_inputs(Report& report, const RunOptions& r);
void report_schedule(Report& report, const Device& device, const RunOptions& r);
void report_plan(Report& report, const Device& device, const wl_plan_info& plan,
                 double run_seconds);
// The table with the result under it, and JSON, where the options want them.
void print_report(const Report& report, const RunOptions& r, const std::string& result);

// Adds what the virtual GPU found to a failure of the device.
template <class Run>
auto with_virtual_report(const Device& device, const Run& run) {
  try {
    return run();
  } catch (const Failure& failure) {
    const std::string details = device.info.is_virtual ? virtual_report() : "";
    if (details.empty() || failure.status != exit_device) throw;
    throw Failure(failure.status, std::string(failure.what()) + "\n" + details);
  }
}

} // namespace warpline::cli
