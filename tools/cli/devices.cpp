#include "tools/cli/commands.hpp"
#include "tools/cli/device.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/report.hpp"

#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

namespace warpline::cli {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

struct Listing {
  std::string table, json;
  bool any = false;

  void add(const std::string& option, const wl_device_info& info, const std::string& driver) {
    const std::string capability = format("%d.%d", info.compute_major, info.compute_minor);
    const std::string kernels = info.kernels;
    table += format("%-14s %-28s sm_%-5s %4d SMs  %9s  kernels: %s\n", option.c_str(), info.name,
                    format("%d%d", info.compute_major, info.compute_minor).c_str(), info.sm_count,
                    bytes_text(static_cast<double>(info.memory_bytes)).c_str(),
                    kernels.empty() ? "none" : kernels.c_str());
    table += format("%-14s driver %s, %s shared a block, clusters to %d\n", "", driver.c_str(),
                    bytes_text(info.shared_bytes_per_block).c_str(), info.max_cluster);
    entry(option,
          "\"name\": " + json_string(info.name) + ", \"compute_capability\": " +
              json_string(capability) + ", \"virtual\": " + (info.is_virtual ? "true" : "false") +
              ", \"sm_count\": " + std::to_string(info.sm_count) +
              ", \"memory_bytes\": " + std::to_string(info.memory_bytes) +
              ", \"shared_bytes_per_block\": " + std::to_string(info.shared_bytes_per_block) +
              ", \"max_cluster\": " + std::to_string(info.max_cluster) +
              ", \"driver\": " + json_string(driver) + ", \"kernels\": " + json_string(kernels));
    any = any || !kernels.empty();
  }
  void add_error(const std::string& option, const std::string& error) {
    table += format("%-14s not available: %s\n", option.c_str(), error.c_str());
    entry(option, "\"error\": " + json_string(error));
  }

  void append(const Listing& other) {
    table += other.table;
    json += json.empty() ? other.json : ",\n" + other.json.substr(other.json.find('\n') + 1);
    any = any || other.any;
  }

private:
  void entry(const std::string& option, const std::string& members) {
    json += (json.empty() ? "[\n  {\"option\": " : ",\n  {\"option\": ") + json_string(option) +
            ", " + members + "}";
  }
};

// A process holds one profile of the virtual GPU, so each is asked by a child of its own.
Listing ask_virtual(const std::string& name) {
  Listing listing;
  int ends[2];
  if (pipe(ends) != 0) return listing.add_error(name, "pipe failed"), listing;
  const pid_t child = fork();
  if (child == 0) {
    setenv("WARPLINE_DRIVER", name.c_str(), 1);
    try {
      listing.add(name, device_info(0), driver_text());
    } catch (const Failure& failure) {
      listing.add_error(name, first_line(failure.what()));
    }
    std::string text = listing.table + '\0' + listing.json + '\0' + (listing.any ? "1" : "");
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t n = write(ends[1], text.data() + sent, text.size() - sent);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; child > 0 && (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  const size_t first = text.find('\0'), second = text.find('\0', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    listing.add_error(name, "the process that asked for it ended without an answer");
    return listing;
  }
  listing.table = text.substr(0, first);
  listing.json = text.substr(first + 1, second - first - 1);
  listing.any = second + 1 < text.size();
  return listing;
}

} // namespace

ExitStatus run_devices(const Arguments& arguments) {
  std::string json_path;
  Options options("devices", "Lists the devices, real and virtual, with what --device calls them "
                             "and the targets of\nthe kernels that each can run.");
  options.text("--json", "FILE", "write the list as JSON too, - = to stdout instead of the table",
               json_path);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  check_outputs("devices", {{"--json", json_path}});
  Listing listing;
  const char* user = std::getenv("WARPLINE_DRIVER");
  const bool real = !user || user[0] == '\0' || std::string(user).rfind("virtual", 0) != 0;
  if (!real) unsetenv("WARPLINE_DRIVER");
  try {
    int count = 0;
    require(wl_device_count(&count), exit_device);
    if (count == 0) listing.add_error("gpu", "the driver has no device");
    for (int i = 0; i < count; ++i)
      listing.add("gpu:" + std::to_string(i), device_info(i), driver_text());
  } catch (const Failure& failure) {
    listing.add_error("gpu", first_line(failure.what()));
  }
  for (const char* name : {"virtual:b200", "virtual:b300", "virtual:h200"}) {
    listing.append(ask_virtual(name));
  }
  const std::string json = listing.json + "\n]\n";
  if (json_path == "-")
    std::fputs(json.c_str(), stdout);
  else {
    std::fputs(listing.table.c_str(), stdout);
    if (!json_path.empty()) write_file(json_path, {json});
  }
  return listing.any ? exit_right : exit_device;
}

} // namespace warpline::cli
