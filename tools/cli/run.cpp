#include "tools/cli/run.hpp"

#include "tools/cli/output_file.hpp"

#include <cmath>
#include <cstdio>
#include <limits>
#include <unistd.h>

namespace warpline::cli {

void declare_run(Options* options, RunOptions* r) {
  Options& o = *options;
  o.custom({"--device", "DEVICE",
            "auto (default: a GPU, else virtual:b200), gpu, gpu:N,\n"
            "virtual:b200, virtual:b300 or virtual:h200",
            [r](std::string_view value) {
              r->device = value;
              return check_device(value);
            }});
  o.unsigned64("--seed", "seed of the inputs (default 1)", r->seed);
  o.custom({"--schedule", "S",
            "virtual GPU: when asynchronous operations complete: eager, lazy,\nreverse, "
            "random:SEED, starve:WARP, hold:SEED, stagger:SEED or explore:RUNS",
            [r](std::string_view value) {
              r->schedule = value;
              return check_schedule(value);
            }});
  o.text("--check", "LIST",
         "virtual GPU: off, all, or some of races,definedness,barriers,\nadvice,proxy-reads,ledger",
         r->check);
  o.text("--config", "NAME",
         "force a configuration; warpline configs lists those of gemm and dual-gemm\n"
         "with K-major operands",
         r->config);
  o.text("--json", "FILE", "write the table as JSON too, - = to stdout instead of the table",
         r->json);
  o.text("--output", "FILE", "write the outputs to this safetensors file, not to stdout",
         r->output);
  o.flag("--verify", "compare with the reference (always done without --input)", r->verify);
}

Device prepare_run(const std::string& command, const RunOptions& r) {
  if (!r.schedule.empty() && r.device.starts_with("gpu"))
    throw Failure(exit_usage,
                  command + ": --schedule is for the virtual GPU, --device is " + r.device);
  if (r.output == "-")
    throw Failure(exit_usage, command + ": --output is '-', must be a file's name: standard output "
                                        "carries the table (a file of that name is ./-)");
  check_outputs(command, {{"--output", r.output}, {"--json", r.json}}, {"--input", r.input});
  if (!r.trace.empty()) check_folder_of(r.trace);
  const Device device = choose_device(r.device);
  if (!device.note.empty()) std::fprintf(stderr, "warpline: %s\n", device.note.c_str());
  if (!r.schedule.empty()) set_virtual_option("schedule", r.schedule);
  if (!r.check.empty()) set_virtual_option("check", r.check);
  return device;
}

void refuse_with_input(const std::string& command, const Options& options,
                       const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (options.given(name))
      throw Failure(exit_usage,
                    command + ": " + name + " cannot be given with --input, the file says it");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check_d_scale(const std::string& command, const std::optional<float>& d_scale) {
  constexpr float least = std::numeric_limits<float>::min();
  if (!d_scale || (*d_scale >= least && std::isfinite(*d_scale))) return;
  throw Failure(exit_usage, command + ": --d-scale is " + format("%.4g", double{*d_scale}) +
                                ", must be a positive normal FP32 number (nearest: " +
                                format("%.9g", double{least}) + ")");
}

void check_memory(const std::string& command, const std::string& sizes, double bytes) {
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  if (bytes > memory)
    throw Failure(exit_usage, command + ": " + sizes + " need about " + bytes_text(bytes) +
                                  " of host memory, this machine has " + bytes_text(memory));
}

double host_bytes(const Device& device, const RunOptions& r, double bytes) {
  if (!device.info.is_virtual) return 0;
  return r.check.empty() || r.check == "off" ? bytes : 6 * bytes;
}

double packed_bytes(int64_t rows, int64_t k, int64_t l) {
  return std::ceil(double(rows) / 128) * 128 * double(k) / 16 * double(l);
}

std::vector<uint8_t> pack_scales(const wltest::Operand& operand) {
  if (operand.scales.empty()) return {};
  const size_t plain_bytes = operand.scales.size() / static_cast<size_t>(operand.l);
  // The layout counts blocks of 16, whatever a type's are.
  const int64_t k = 16 * static_cast<int64_t>(plain_bytes) / operand.rows;
  const size_t packed_bytes = wl_sf_bytes(WL_SF_128x4, operand.rows, k);
  const bool nvfp4 = operand.type == WL_OPERAND_NVFP4;
  std::vector<uint8_t> packed(packed_bytes * static_cast<size_t>(operand.l));
  // The padding may hold any byte, so it holds the worst: a kernel that reads it shows NaN.
  for (size_t entry = 0; entry < static_cast<size_t>(operand.l); ++entry)
    require(wl_sf_pack(WL_SF_128x4, operand.rows, k, operand.scales.data() + entry * plain_bytes,
                       packed.data() + entry * packed_bytes,
                       nvfp4 ? wltest::nan_padding : wltest::mx_nan_padding));
  return packed;
}

void declare_scales(Options* options, RunOptions* r, const std::string& whose) {
  options->flag("--plain-scales",
                "scales of " + whose + " lie in plain rows, which the run packs; on Hopper",
                r->plain_scales);
}

wl_sf_layout layout_of_scales(const RunOptions& r) {
  return r.plain_scales ? WL_SF_PLAIN : WL_SF_128x4;
}

std::vector<uint8_t> scales_of(wl_sf_layout layout, const wltest::Operand& operand) {
  return layout == WL_SF_PLAIN ? operand.scales : pack_scales(operand);
}

void unpack_scales(const std::vector<uint8_t>& packed, wltest::Operand* operand) {
  const size_t packed_bytes = wl_sf_bytes(WL_SF_128x4, operand->rows, operand->k);
  const size_t plain_bytes = static_cast<size_t>(operand->rows * (operand->k / 16));
  operand->scales.resize(plain_bytes * static_cast<size_t>(operand->l));
  for (size_t entry = 0; entry < static_cast<size_t>(operand->l); ++entry)
    require(wl_sf_unpack(WL_SF_128x4, operand->rows, operand->k,
                         packed.data() + entry * packed_bytes,
                         operand->scales.data() + entry * plain_bytes));
}

void report_version(Report& report, const std::string& command) {
  report.add("", "", "command", json_string(command));
  report.add("", "", "version",
             json_string(format("%d.%d.%d", WL_VERSION_MAJOR, WL_VERSION_MINOR, WL_VERSION_PATCH)));
}

void report_device(Report& report, const Device& device) {
  const std::string kind = device.info.is_virtual ? ", virtual" : "";
  report.add("device",
             format("%s (sm_%d%d, %d SMs%s)", device.info.name, device.info.compute_major,
                    device.info.compute_minor, device.info.sm_count, kind.c_str()),
             "device", json_string(device.info.name));
  report.add("", "", "virtual", device.info.is_virtual ? "true" : "false");
  if (!device.note.empty()) report.add_text("chosen", "chosen", device.note);
  report.add_text("driver", "driver", device.driver);
}

void report_inputs(Report& report, const RunOptions& r) {
  if (r.input.empty())
    report.add("inputs", "random, seed " + std::to_string(r.seed), "seed", std::to_string(r.seed));
  else
    report.add_text("inputs", "input", r.input);
}

void report_schedule(Report& report, const Device& device, const RunOptions& r) {
  if (device.info.is_virtual)
    report.add_text("schedule", "schedule", r.schedule.empty() ? "the default" : r.schedule);
}

namespace {

std::string dims_text(const unsigned (&d)[3]) { return format("%u x %u x %u", d[0], d[1], d[2]); }
// Those that there are.
std::string extents_text(const std::vector<int>& extents) {
  std::string text;
  for (const int extent : extents)
    if (extent != 0) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}
std::string dims_json(const unsigned (&d)[3]) { return json_list({d[0], d[1], d[2]}); }

} // namespace

void report_plan(Report& report, const Device& device, const wl_plan_info& plan,
                 double run_seconds) {
  report.rule();
  report.add_text("configuration", "config", plan.config);
  report.add("kernel", format("%s (%s)", plan.kernel, plan.target), "kernel",
             json_string(plan.kernel));
  report.add("", "", "target", json_string(plan.target));
  report.add("tile", extents_text({plan.tile_m, plan.tile_n, plan.tile_k}), "tile",
             json_list({plan.tile_m, plan.tile_n, plan.tile_k}));
  report.add("grid", dims_text(plan.grid), "grid", dims_json(plan.grid));
  report.add("cluster", dims_text(plan.cluster), "cluster", dims_json(plan.cluster));
  report.add("block", dims_text(plan.block), "block", dims_json(plan.block));
  report.add("shared bytes", std::to_string(plan.shared_bytes), "shared_bytes",
             std::to_string(plan.shared_bytes));
  report.add_integer("stages", "stages", plan.stages);
  report.add_integer("registers", "registers", plan.registers);
  report.add_integer("launches", "launches", plan.launches);
  report.add_integer("workspace bytes", "workspace_bytes",
                     static_cast<int64_t>(plan.workspace_bytes));
  report.add("load time",
             duration_text(plan.load_ms * 1e-3) +
                 (plan.precompiled ? " (machine code of the library)" : " (PTX)"),
             "load_ms", json_number(plan.load_ms));
  report.add("run time",
             duration_text(run_seconds) +
                 (device.info.is_virtual ? " (emulation on this host, says nothing about a GPU)"
                                         : " (host clock, one launch to its end)"),
             "run_ms", json_number(run_seconds * 1e3));
}

void print_report(const Report& report, const RunOptions& r, const std::string& result) {
  if (r.json == "-") {
    std::fputs(report.json().c_str(), stdout);
    return;
  }
  std::printf("%s%s\n%s\n", report.table().c_str(), std::string(72, '-').c_str(), result.c_str());
  if (r.json.empty()) return;
  const std::string json = report.json();
  write_file(r.json, {json});
}

} // namespace warpline::cli
