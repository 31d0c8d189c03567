#include "tools/cli/stats.hpp"

#include "tools/cli/device.hpp"
#include "tools/cli/json.hpp"

#include <algorithm>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

namespace warpline::cli {
namespace {

double number(const Json& object, const char* key) {
  const Json* value = object.find(key);
  return value != nullptr ? value->number : 0;
}

void report_traffic(Report& report, const Json& stats, const Counted& counted, double least) {
  double read = 0, delivered = 0;
  const Json* tensors = stats.find("tensors");
  const auto add = [&](const char* name, const auto& is_it) {
    double r = 0, d = 0, loads = 0;
    bool found = false;
    for (const Json& tensor : tensors->items) {
      const Json* at = tensor.find("address");
      if (at == nullptr || !is_it(at->integer)) continue;
      found = true;
      r += number(tensor, "read_bytes"), d += number(tensor, "delivered_bytes");
      loads += number(tensor, "loads");
    }
    if (!found) return;
    read += r;
    delivered += d;
    report.add(format("%s from L2", name),
               bytes_text(r) + format(" in %.0f loads, ", loads) + bytes_text(d) + " delivered",
               format("tma_%s", name),
               "{\"read_bytes\": " + json_number(r) + ", \"delivered_bytes\": " + json_number(d) +
                   "}");
  };
  if (tensors != nullptr) {
    for (const auto& [name, address] : counted.tensors)
      add(name,
          [&, start = reinterpret_cast<uint64_t>(address)](uint64_t at) { return at == start; });
    const auto start = reinterpret_cast<uint64_t>(counted.workspace);
    add("workspace", [&](uint64_t at) { return at - start < counted.workspace_bytes; });
  }
  report.add("L2 to SMs",
             bytes_text(read) + format(" read, %.2f times the least, ", read / least) +
                 bytes_text(delivered) + " delivered",
             "l2_read_bytes", json_number(read));
  report.add("", "", "delivered_bytes", json_number(delivered));
  report.add("", "", "least_bytes", json_number(least));
  report.add("", "", "times_least", json_number(read / least));
}

// tools/sass/sass-summary of the source tree that this program was built in, or "".
std::string sass_summary() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::string folder(path, length > 0 ? static_cast<size_t>(length) : 0);
  for (int level = 0; level < 3; ++level) { // build/warpline, build/KIND/warpline
    folder.resize(folder.find_last_of('/') == std::string::npos ? 0 : folder.find_last_of('/'));
    const std::string tool = folder + "/tools/sass/sass-summary";
    if (access(tool.c_str(), X_OK) == 0) return tool;
  }
  return "";
}

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t to = text.find(by, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return parts;
    from = to + by.size();
  }
}

// "spill bytes 0" to "spill_bytes": 0
std::string member(const std::string& field) {
  const size_t space = field.find_last_of(' ');
  std::string key = field.substr(0, space);
  for (char& c : key)
    if (c == ' ') c = '_';
  return json_string(key) + ": " + field.substr(space + 1);
}

std::string members(const std::vector<std::string>& fields, size_t from, std::string* text) {
  std::string json;
  for (size_t i = from; i < fields.size(); ++i) {
    json += (json.empty() ? "" : ", ") + member(fields[i]);
    *text += (text->empty() ? "" : ", ") + fields[i];
  }
  return json;
}

// Instructions of the same kernel by role, where ptxas and nvdisasm are found. A line of the tool
// is the row, a role and its counts; the first of a row has the architecture in the role's place.
void report_machine_code(Report& report, const std::string& row) {
  const std::string tool = sass_summary();
  std::string printed;
  int status = -1;
  if (!tool.empty() && tool.find('\'') == std::string::npos) {
    FILE* pipe = popen(("'" + tool + "' --config " + row + " '' 2>&1").c_str(), "r");
    char part[4096];
    for (size_t got; pipe != nullptr && (got = std::fread(part, 1, sizeof part, pipe)) > 0;)
      printed.append(part, got);
    if (pipe != nullptr) status = pclose(pipe);
  }
  if (status != 0) {
    const std::string why =
        tool.empty() ? "no source tree around this program" : split(printed, "\n")[0];
    report.add("machine code", "not counted: " + why, "", "");
    return;
  }
  std::string json, roles;
  for (const std::string& line : split(printed, "\n")) {
    const std::vector<std::string> fields = split(line, "  ");
    if (fields.size() < 3 || fields[0] != row) continue;
    std::string text;
    const std::string counts = members(fields, 2, &text);
    if (json.empty()) {
      json = "{\"arch\": " + json_string(fields[1]) + ", " + counts;
      report.add("machine code", fields[1] + ": " + text, "", "");
    } else {
      roles += (roles.empty() ? "" : ", ") + json_string(fields[1]) + ": {" + counts + "}";
      report.add("  " + fields[1], text, "", "");
    }
  }
  report.add("", "", "machine_code", json + ", \"roles\": {" + roles + "}}");
}

} // namespace

void start_counting() {
  set_virtual_option("count", "1");
  reset_virtual_stats();
}

void report_stats(Report& report, const std::vector<wl_dual_gemm_config>& configs,
                  const std::string& name, const Counted& counted) {
  const Json stats = parse_json(counted.json);
  const auto config = std::find_if(configs.begin(), configs.end(),
                                   [&](const wl_dual_gemm_config& c) { return name == c.name; });
  const bool known = config != configs.end();
  report.rule();
  report_traffic(report, stats, counted, known ? static_cast<double>(config->least_bytes) : 0.0);
  for (const auto& [label, key] : {std::pair{"MMAs", "mma"},
                                   {"scale copies", "tensor_copies"},
                                   {"waits that blocked", "blocked_waits"},
                                   {"warp instructions", "warp_instructions"}})
    report.add(label, format("%.0f", number(stats, key)), key, json_number(number(stats, key)));
  const double stores = number(stats, "global_store_bytes"); // TMA's too
  report.add("bytes stored", bytes_text(stores), "stored_bytes", json_number(stores));
  const double sectors = number(stats, "store_sectors"), partial = number(stats, "partial_sectors"),
               turns = number(stats, "bank_turns"), least_turns = number(stats, "least_bank_turns");
  report.add("sectors stored",
             format("%.0f of 32 bytes, %.0f of them written in part", sectors, partial),
             "store_sectors", json_number(sectors));
  report.add("", "", "partial_sectors", json_number(partial));
  report.add(
      "shared memory",
      format("%.0f turns of threads at the banks, %.0f without conflicts", turns, least_turns),
      "bank_turns", json_number(turns));
  report.add("", "", "least_bank_turns", json_number(least_turns));
  if (known && config->tmem_columns != 0)
    report.add("tensor memory", format("%d of 512 columns used", config->tmem_columns),
               "tmem_columns", std::to_string(config->tmem_columns));
  // No ticks: no stage was both filled and given back.
  if (const double stages = number(stats, "stages"), ticks = number(stats, "stage_ticks");
      stages > 0 && ticks > 0) {
    const double filled = number(stats, "filled_ticks") / ticks;
    report.add(
        "stages filled",
        format("%.2f of %.0f on average, first cluster, causal clock (--trace)", filled, stages),
        "stages_filled", json_number(filled));
  }
  report_machine_code(report, name);
}

} // namespace warpline::cli
