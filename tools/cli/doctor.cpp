// warpline doctor: what is on this machine, what is wrong with it, in a form for a bug report. Each
// question that opens a driver is asked by a child process: a driver that crashes or hangs is a
// finding, and a process holds one profile of the virtual GPU.
#include "runtime/src/images.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/device.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/report.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "warpline/warpline.h"

namespace warpline::cli {
namespace {

constexpr unsigned child_seconds = 120;

struct Answer {
  int status = -1; // exit status, 128 + signal
  std::string text;
  double seconds = 0;
};

// What `ask` prints to stdout, and its status. Its stderr comes along when `with_errors`.
Answer in_child(bool with_errors, const std::function<ExitStatus()>& ask) {
  Answer answer;
  int ends[2];
  std::fflush(nullptr);
  if (pipe(ends) != 0) return answer;
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    alarm(child_seconds);
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    if (with_errors)
      dup2(ends[1], STDERR_FILENO);
    else if (!std::freopen("/dev/null", "w", stderr))
      _exit(exit_device);
    int status = exit_device;
    try {
      status = ask();
    } catch (const Failure& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
      status = failure.status;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }
  close(ends[1]);
  char buffer[4096];
  for (ssize_t n; child > 0 && (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    answer.text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child)
    answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  answer.seconds = elapsed.count();
  return answer;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

const char* const variables[] = {
    "WARPLINE_DRIVER",      "WARPLINE_LOG_LEVEL",  "WARPLINE_LOG_DEST",  "WARPLINE_DUMP_DIR",
    "VGPU_PROFILE",         "VGPU_THREADS",        "VGPU_SCHEDULE",      "VGPU_CHECK",
    "VGPU_STRICT",          "VGPU_RULES",          "VGPU_SMS",           "VGPU_COVERAGE",
    "VGPU_GRAPH",           "VGPU_REPORT",         "VGPU_LIMIT",         "CUDA_VISIBLE_DEVICES",
    "CUDA_CACHE_DISABLE",   "CUDA_CACHE_PATH",     "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT",
    "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "LD_LIBRARY_PATH",
};

class Doctor {
public:
  ExitStatus examine(bool probe) {
    versions();
    look_at_environment();
    look_at_devices(probe);
    return healthy_ ? exit_right : exit_device;
  }

  std::string text() const {
    std::string result = facts_.table();
    for (const std::string& problem : problems_) result += "problem  " + problem + "\n";
    for (const std::string& note : notes_) result += "note     " + note + "\n";
    if (problems_.empty()) result += "no problem found\n";
    return result;
  }

  std::string json() const {
    std::string result = facts_.json();
    while (!result.empty() && (result.back() == '\n' || result.back() == '}')) result.pop_back();
    return result + ",\n  \"devices\": " + (devices_.empty() ? "[]" : devices_) +
           ",\n  \"probes\": " + list(probes_, false) +
           ",\n  \"problems\": " + list(problems_, true) + ",\n  \"notes\": " + list(notes_, true) +
           "\n}\n";
  }

private:
  Report facts_;
  std::vector<std::string> problems_, notes_, probes_;
  std::string devices_;
  bool healthy_ = false; // a kernel ran right somewhere, and nothing is a problem

  static std::string list(const std::vector<std::string>& texts, bool quote) {
    std::string result = "[";
    for (const std::string& text : texts)
      result += (result.size() > 1 ? ", " : "") + (quote ? json_string(text) : text);
    return result + "]";
  }

  void versions() {
    const int version = wl_version();
    facts_.add_text("warpline", "version",
                    format("%d.%d.%d", version / 10000, version / 100 % 100, version % 100));
    if (version != WL_VERSION)
      problems_.push_back(
          format("the library is version %d, this program was built for %d", version, WL_VERSION));
    std::map<std::string, int> counts;
    for (const Image& image : embedded_images())
      ++counts[format("%s (PTX %d.%d)", image.target.c_str(), image.ptx_major, image.ptx_minor)];
    std::string kernels;
    for (const auto& [target, count] : counts)
      kernels += (kernels.empty() ? "" : ", ") + format("%d for %s", count, target.c_str());
    facts_.add_text("kernels", "kernels", kernels);
    utsname host{};
    uname(&host);
    facts_.add_text("host", "host",
                    format("%s %s %s, %u CPUs", host.sysname, host.release, host.machine,
                           std::thread::hardware_concurrency()));
    std::string module = "not loaded";
    if (std::ifstream file("/proc/driver/nvidia/version"); file) std::getline(file, module);
    facts_.add_text("nvidia module", "nvidia_module", module);
  }

  void look_at_environment() {
    bool any = false;
    for (const char* name : variables) {
      const char* value = std::getenv(name);
      if (!value) continue;
      facts_.add("", "", name, json_string(value));
      facts_.add(any ? " " : "environment", std::string(name) + "=" + value, "", "");
      any = true;
    }
    if (!any) facts_.add("environment", "nothing set that matters", "", "");

    const std::string level = environment("WARPLINE_LOG_LEVEL");
    if (!level.empty() && (level.size() != 1 || level[0] < '0' || level[0] > '4'))
      problems_.push_back("WARPLINE_LOG_LEVEL = \"" + level + "\" must be 0, 1, 2, 3 or 4");
    const std::string dump = environment("WARPLINE_DUMP_DIR");
    if (!dump.empty() && !writable(dump))
      problems_.push_back("WARPLINE_DUMP_DIR = \"" + dump + "\" cannot be written");
    const std::string log = environment("WARPLINE_LOG_DEST");
    const std::filesystem::path folder = std::filesystem::path(log).parent_path();
    if (!log.empty() && log != "stderr" && log != "stdout" &&
        !writable(folder.empty() ? "." : folder.string()))
      problems_.push_back("WARPLINE_LOG_DEST = \"" + log + "\" cannot be written");
    const std::string visible = environment("CUDA_VISIBLE_DEVICES");
    if (std::getenv("CUDA_VISIBLE_DEVICES") && (visible.empty() || visible[0] == '-'))
      notes_.push_back("CUDA_VISIBLE_DEVICES = \"" + visible + "\" hides every GPU");
    if (environment("CUDA_CACHE_DISABLE") == "1")
      notes_.push_back("CUDA_CACHE_DISABLE = 1: the driver compiles the PTX at every start");
    if (environment("CUDA_DISABLE_PTX_JIT") == "1")
      problems_.push_back("CUDA_DISABLE_PTX_JIT = 1: the kernels are PTX and cannot be loaded");
    if (environment("CUDA_LAUNCH_BLOCKING") == "1")
      notes_.push_back("CUDA_LAUNCH_BLOCKING = 1: every launch waits for its kernel");
  }

  // A folder that is there and may be written, or that could be made.
  static bool writable(const std::string& folder) {
    std::error_code error;
    std::filesystem::path path = std::filesystem::absolute(folder, error);
    while (!std::filesystem::exists(path, error) && path != path.root_path())
      path = path.parent_path();
    return std::filesystem::is_directory(path, error) && access(path.c_str(), W_OK) == 0;
  }

  void look_at_devices(bool probe) {
    const std::string asked = environment("WARPLINE_DRIVER");
    const bool asked_for_virtual = asked.rfind("virtual", 0) == 0;
    if (asked_for_virtual) { // the listing opens each profile by its own name
      const Answer opened = in_child(true, [] {
        int count = 0;
        require(wl_device_count(&count), exit_device);
        return exit_right;
      });
      if (opened.status != exit_right) problems_.push_back(last_line(opened.text));
    }
    const Answer answer = in_child(false, [] { return run_devices({"--json", "-"}); });
    Json listing;
    try {
      listing = parse_json(answer.text);
      devices_ = answer.text.substr(0, answer.text.find_last_not_of('\n') + 1);
    } catch (const JsonError&) {
      problems_.push_back(format("asking for the devices ended with status %d%s", answer.status,
                                 answer.status == 128 + 14 ? " (it took too long)" : ""));
    }
    bool runs = false;
    for (const Json& device : listing.items) {
      const std::string option = device.find("option")->text;
      const bool real = option.rfind("gpu", 0) == 0;
      if (const Json* error = device.find("error")) {
        facts_.add(option, "not available", "", "");
        // Without a GPU the virtual one serves; a driver that was asked for must be there.
        const bool note = real && (asked.empty() || asked_for_virtual);
        (note ? notes_ : problems_).push_back(option + ": " + error->text);
        continue;
      }
      const std::string kernels = device.find("kernels")->text,
                        capability = device.find("compute_capability")->text;
      facts_.add(option,
                 device.find("name")->text + ", compute capability " + capability + ", " +
                     device.find("driver")->text +
                     ", kernels: " + (kernels.empty() ? "none" : kernels),
                 "", "");
      if (kernels.empty())
        notes_.push_back(option + ": the library holds no kernel for compute capability " +
                         capability);
      else if (probe && option != "virtual:b300") // runs what virtual:b200 runs
        runs = examine_device(option) || runs;
    }
    healthy_ = problems_.empty() && (runs || !probe);
  }

  // A small problem with every edge, compared with the reference.
  bool examine_device(const std::string& option) {
    const Answer answer = in_child(true, [&] {
      return run_dual_gemm({"-m", "130", "-n", "136", "-k", "320", "--device", option});
    });
    const bool right = answer.status == exit_right;
    std::string verdict = right ? "PASS"
                          : answer.status == 128 + 14
                              ? format("no answer within %u s", child_seconds)
                              : format("status %d: ", answer.status) + last_line(answer.text);
    facts_.add("probe " + option, verdict + ", " + duration_text(answer.seconds), "", "");
    probes_.push_back("{\"option\": " + json_string(option) +
                      ", \"pass\": " + (right ? "true" : "false") +
                      ", \"status\": " + std::to_string(answer.status) +
                      ", \"seconds\": " + json_number(answer.seconds) +
                      ", \"output\": " + json_string(right ? "" : answer.text) + "}");
    if (!right) problems_.push_back(option + ": the probe ended with " + verdict);
    return right;
  }
};

} // namespace

ExitStatus run_doctor(const Arguments& arguments) {
  std::string json_path;
  bool no_probe = false;
  Options options("doctor", "Collects versions, environment, devices and what is wrong, and runs a "
                            "small problem on each\ndevice but the virtual B300. Put its output "
                            "into a bug report.");
  options.text("--json", "FILE", "write it as JSON too, - = to stdout instead of the text",
               json_path);
  options.flag("--no-probe", "only look, run no kernel", no_probe);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  check_outputs("doctor", {{"--json", json_path}});
  Doctor doctor;
  const ExitStatus status = doctor.examine(!no_probe);
  if (json_path == "-") {
    std::fputs(doctor.json().c_str(), stdout);
  } else {
    std::fputs(doctor.text().c_str(), stdout);
    if (!json_path.empty()) write_file(json_path, {doctor.json()});
  }
  return status;
}

} // namespace warpline::cli
