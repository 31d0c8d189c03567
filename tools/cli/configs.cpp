// `warpline configs`: the configurations for a problem, what each would move, and why one wins.
#include "tools/cli/commands.hpp"
#include "tools/cli/config_list.hpp"
#include "tools/cli/device_memory.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/product.hpp"
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
                             "configuration", "tile", "cluster", "st", "acc", "tiles", "waves",
                             "CTAs", "A MiB", "B", "SFA", "SFB", "L2 read", "clocks");
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
    table += format("least possible: %s MiB. Clocks are the model's in sm100_cost.cpp; none "
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

struct Sizes {
  int64_t m = 0, n = 0, k = 0, l = 1;
  std::string a_type = "nvfp4", b_type = "nvfp4", out = "f16";
};

template <class Args>
std::vector<wl_dual_gemm_config> listed(wl_context* context, const Sizes& sizes,
                                        wl_status (*list)(wl_context*, const Args*,
                                                          wl_dual_gemm_config*, size_t, int*)) {
  Args args{};
  args.struct_size = sizeof args;
  args.m = sizes.m;
  args.n = sizes.n;
  args.k = sizes.k;
  args.l = sizes.l;
  args.d_type = dtype_of(sizes.out);
  args.a_type = operand_of(sizes.a_type);
  args.b_type = operand_of(sizes.b_type);
  return list_configs(context, args, list);
}

} // namespace

ExitStatus run_configs(const Arguments& arguments) {
  Sizes sizes;
  std::string operation = "dual-gemm", device_option = "auto", json_path;
  constexpr int64_t any = int64_t{1} << 40;
  Options options("configs",
                  "Lists the configurations of a product for a problem: what each would move, "
                  "the model's\ntime, and why the chosen one wins. Needs no tensors and launches "
                  "nothing.");
  options.choice("--operation", "the command that runs it (default dual-gemm)", operation,
                 {"dual-gemm", "gemm"});
  options.integer("-m", "rows of A and D", sizes.m, -any, any);
  options.integer("-n", "rows of B, or of B1 and B2, columns of D", sizes.n, -any, any);
  options.integer("-k", "columns of A and B", sizes.k, -any, any);
  options.integer("-l", "batch entries (default 1)", sizes.l, -any, any);
  options.choice("--a-type", "type of A (default nvfp4)", sizes.a_type, operand_names);
  options.choice("--b-type", "type of B (default A's; of dual-gemm nvfp4)", sizes.b_type,
                 operand_names);
  options.choice("--out", std::string(out_help) + "; f32: of gemm only", sizes.out,
                 {"f16", "bf16", "f32", "nvfp4"});
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
  const bool gemm = operation == "gemm";
  if (gemm && !options.given("--b-type")) sizes.b_type = sizes.a_type;
  if (!options.given("--out"))
    sizes.out = !gemm && sizes.a_type == "tf32" ? "f16" : default_out(sizes.a_type);
  if (!gemm && sizes.out == "f32")
    throw Failure(exit_usage,
                  "configs: --out is f32, must be f16, bf16 or nvfp4 with --operation dual-gemm");

  const Device device = choose_device(device_option);
  const Context context(device.ordinal);
  const std::vector<wl_dual_gemm_config> configs =
      gemm ? listed(context.get(), sizes, wl_gemm_list_configs)
           : listed(context.get(), sizes, wl_dual_gemm_list_configs);
  const std::string json = json_of(configs);
  if (json_path == "-") {
    std::fputs(json.c_str(), stdout);
    return exit_right;
  }
  std::printf("%s on %s, M %lld, N %lld, K %lld, L %lld, %s, D %s%s%s\n", operation.c_str(),
              device.info.name, static_cast<long long>(sizes.m), static_cast<long long>(sizes.n),
              static_cast<long long>(sizes.k), static_cast<long long>(sizes.l),
              operands_text(sizes.a_type, sizes.b_type).c_str(), sizes.out.c_str(),
              device.note.empty() ? "" : "; ", device.note.c_str());
  std::fputs(table_of(configs).c_str(), stdout);
  if (!json_path.empty()) write_file(json_path, {json});
  return exit_right;
}

} // namespace warpline::cli
