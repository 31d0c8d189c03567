// `warpline configs`: the configuration rows for a problem, what each would move, and why one wins.
#include "tools/cli/commands.hpp"
#include "tools/cli/device.hpp"
#include "tools/cli/device_memory.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/report.hpp"

#include <cstdio>
#include <map>

namespace warpline::cli {
namespace {

std::string mib(int64_t bytes) {
  return bytes == 0 ? "-" : format("%.1f", static_cast<double>(bytes) / (1 << 20));
}

const char* scheduler_name(wl_scheduler scheduler) {
  switch (scheduler) {
  case WL_SCHEDULER_ONE_TILE:
    return "one tile";
  case WL_SCHEDULER_STATIC:
    return "static";
  case WL_SCHEDULER_LAUNCH_CONTROL:
    return "launch control";
  case WL_SCHEDULER_STREAM_K:
    return "stream-K";
  }
  return "";
}

std::string table_of(const std::vector<wl_dual_gemm_config>& configs) {
  std::string table = format("%-42s %-11s %-7s %2s %3s %6s %5s %5s %7s %6s %6s %6s %7s %8s\n",
                             "row", "tile", "cluster", "st", "acc", "tiles", "waves", "CTAs",
                             "A MiB", "B", "SFA", "SFB", "L2 read", "clocks");
  std::map<std::string, std::string> refused; // names by reason
  for (const wl_dual_gemm_config& c : configs) {
    if (!c.runs) {
      refused[c.reason] += std::string(" ") + c.name;
      continue;
    }
    table +=
        format("%-42s %-11s %-7s %2d %3d ", c.name,
               format("%dx%dx%d", c.tile_m, c.tile_n, c.tile_k).c_str(),
               format("%dx%d%s", c.cluster_m, c.cluster_n, c.cta_group == 2 ? " pair" : "").c_str(),
               c.stages, c.acc_stages);
    table += format("%6lld %5lld %5lld %7s %6s %6s %6s %7s %8.0f\n",
                    static_cast<long long>(c.tiles), static_cast<long long>(c.waves),
                    static_cast<long long>(c.ctas), mib(c.a_bytes).c_str(), mib(c.b_bytes).c_str(),
                    mib(c.sfa_bytes).c_str(), mib(c.sfb_bytes).c_str(),
                    mib(c.a_bytes + c.b_bytes + c.sfa_bytes + c.sfb_bytes).c_str(), c.total_clocks);
    table += format("    %s%s\n", c.chosen ? "chosen: " : "", c.reason);
  }
  for (const auto& [reason, names] : refused) table += "cannot run, " + reason + ":" + names + "\n";
  if (!configs.empty())
    table += format("least possible: %s MiB. Clocks are the model's in sm100_cost.cpp; no row "
                    "was timed on a Blackwell GPU.\n",
                    mib(configs[0].least_bytes).c_str());
  return table;
}

std::string json_of(const std::vector<wl_dual_gemm_config>& configs) {
  std::string json = "[";
  for (const wl_dual_gemm_config& c : configs) {
    const auto number = [](const char* key, int64_t value) {
      return std::string(", \"") + key + "\": " + std::to_string(value);
    };
    const auto real = [](const char* key, double value) {
      return std::string(", \"") + key + "\": " + json_number(value);
    };
    json += json.size() > 1 ? ",\n  " : "\n  ";
    json += "{\"name\": " + json_string(c.name) + ", \"target\": " + json_string(c.target) +
            ", \"runs\": " + (c.runs ? "true" : "false") +
            ", \"chosen\": " + (c.chosen ? "true" : "false") +
            ", \"reason\": " + json_string(c.reason) + number("tile_m", c.tile_m) +
            number("tile_n", c.tile_n) + number("tile_k", c.tile_k) +
            number("cta_group", c.cta_group) + number("cluster_m", c.cluster_m) +
            number("cluster_n", c.cluster_n) + number("split_k", c.split_k) +
            number("stages", c.stages) + number("acc_stages", c.acc_stages) +
            ", \"scheduler\": " + json_string(scheduler_name(c.scheduler)) +
            number("shared_bytes", c.shared_bytes) + number("tmem_columns", c.tmem_columns) +
            number("tiles", c.tiles) + number("waves", c.waves) + number("ctas", c.ctas) +
            number("a_bytes", c.a_bytes) + number("b_bytes", c.b_bytes) +
            number("sfa_bytes", c.sfa_bytes) + number("sfb_bytes", c.sfb_bytes) +
            number("delivered_bytes", c.delivered_bytes) + number("least_bytes", c.least_bytes) +
            real("tile_clocks", c.tile_clocks) + real("epilogue_clocks", c.epilogue_clocks) +
            real("memory_clocks", c.memory_clocks) + real("total_clocks", c.total_clocks) + "}";
  }
  return json + "\n]\n";
}

} // namespace

ExitStatus run_configs(const Arguments& arguments) {
  wl_dual_gemm_args args{};
  args.struct_size = sizeof args;
  args.l = 1;
  std::string device_option = "auto", out = "f16", json_path;
  constexpr int64_t any = int64_t{1} << 40;
  Options options("configs",
                  "Lists the configuration rows of the dual GEMM for a problem: what each "
                  "would move, the\nmodel's time, and why the chosen one wins. Needs no "
                  "tensors and launches nothing.");
  options.integer("-m", "rows of A and D", args.m, -any, any);
  options.integer("-n", "rows of B1 and B2, columns of D", args.n, -any, any);
  options.integer("-k", "columns of A, B1 and B2", args.k, -any, any);
  options.integer("-l", "batch entries (default 1)", args.l, -any, any);
  options.choice("--out", "type of D (default f16)", out, {"f16", "bf16", "nvfp4"});
  options.custom({"--device", "DEVICE",
                  "auto (default), gpu, gpu:N, virtual, virtual:b200, virtual:b300, virtual:h200",
                  [&device_option](std::string_view value) {
                    device_option = value;
                    return check_device(value);
                  }});
  options.text("--json", "FILE", "write the list as JSON too, - = to stdout instead of the table",
               json_path);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  check_outputs("configs", {{"--json", json_path}});
  for (const char* name : {"-m", "-n", "-k"})
    if (!options.given(name))
      throw Failure(exit_usage,
                    std::string("configs needs ") + name + "\nSee: warpline configs --help");
  args.d_type = out == "nvfp4" ? WL_NVFP4 : out == "bf16" ? WL_BF16 : WL_F16;

  const Device device = choose_device(device_option);
  const Context context(device.ordinal);
  int count = 0;
  require(wl_dual_gemm_list_configs(context.get(), &args, nullptr, sizeof(wl_dual_gemm_config),
                                    &count));
  std::vector<wl_dual_gemm_config> configs(static_cast<size_t>(count));
  require(wl_dual_gemm_list_configs(context.get(), &args, configs.data(),
                                    sizeof(wl_dual_gemm_config), &count));
  const std::string json = json_of(configs);
  if (json_path == "-") {
    std::fputs(json.c_str(), stdout);
    return exit_right;
  }
  std::printf("%s, M %lld, N %lld, K %lld, L %lld, D %s%s%s\n", device.info.name,
              static_cast<long long>(args.m), static_cast<long long>(args.n),
              static_cast<long long>(args.k), static_cast<long long>(args.l), out.c_str(),
              device.note.empty() ? "" : "; ", device.note.c_str());
  std::fputs(table_of(configs).c_str(), stdout);
  if (!json_path.empty()) write_file(json_path, {json});
  return exit_right;
}

} // namespace warpline::cli
