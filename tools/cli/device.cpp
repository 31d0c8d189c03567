#include "tools/cli/device.hpp"

#include "runtime/src/driver.hpp"

#include <cstdlib>

namespace warpline::cli {
namespace {

ExitStatus exit_status(wl_status status, ExitStatus unsupported) {
  switch (status) {
  case WL_SUCCESS:
    return exit_right;
  case WL_ERROR_NOT_SUPPORTED:
    return unsupported;
  case WL_ERROR_INVALID_ARGUMENT:
  case WL_ERROR_MISALIGNED:
    return exit_usage;
  default:
    return exit_device;
  }
}

bool names_virtual(const char* driver) {
  return driver && std::string(driver).rfind("virtual", 0) == 0;
}

// A device of the current driver: `ordinal`, or the first with a kernel when it is negative.
Device find_device(int ordinal) {
  int count = 0;
  require(wl_device_count(&count), exit_device);
  if (count == 0) throw Failure(exit_device, "the driver is there, but it has no device");
  if (ordinal >= count)
    throw Failure(exit_device, "there is no device " + std::to_string(ordinal) +
                                   ", the driver has " + std::to_string(count));
  std::string seen;
  for (int i = ordinal < 0 ? 0 : ordinal; i < (ordinal < 0 ? count : ordinal + 1); ++i) {
    const wl_device_info info = device_info(i);
    if (info.kernels[0] != '\0') return {i, info, driver_text(), ""};
    seen += (seen.empty() ? "" : ", ") + std::string(info.name) + " (compute capability " +
            std::to_string(info.compute_major) + "." + std::to_string(info.compute_minor) + ")";
  }
  throw Failure(exit_device, "warpline has no kernel for " + seen +
                                 "; --device virtual:b200 runs the kernels without a GPU");
}

// The gist of a message: what stands before its details.
std::string first_clause(const std::string& text) {
  return text.substr(0, text.find_first_of("\n;"));
}

} // namespace

void require(wl_status status, ExitStatus unsupported) {
  if (status == WL_SUCCESS) return;
  std::string message = wl_last_error();
  if (message.empty()) message = wl_status_string(status);
  throw Failure(exit_status(status, unsupported), message);
}

wl_device_info device_info(int ordinal) {
  wl_device_info info = {};
  info.struct_size = sizeof info;
  require(wl_device_get_info(ordinal, &info), exit_device);
  return info;
}

std::string driver_text() {
  const Driver* driver = nullptr;
  require(open_driver(&driver), exit_device);
  return driver->file + ", CUDA " + version_text(driver->version);
}

Device choose_device(const std::string& option) {
  const char* chosen = std::getenv("WARPLINE_DRIVER");
  const bool user_chose = chosen && chosen[0] != '\0';
  if (option.starts_with("virtual")) {
    setenv("WARPLINE_DRIVER", option.c_str(), 1);
    return find_device(-1);
  }
  if (option.starts_with("gpu")) {
    if (names_virtual(chosen)) unsetenv("WARPLINE_DRIVER");
    Device device = find_device(option == "gpu" ? -1 : std::atoi(option.c_str() + 4));
    if (device.info.is_virtual)
      throw Failure(exit_device, "--device gpu: WARPLINE_DRIVER names the virtual GPU");
    return device;
  }
  if (user_chose) {
    Device device = find_device(-1);
    device.note = std::string("WARPLINE_DRIVER=") + chosen;
    return device;
  }
  try {
    return find_device(-1);
  } catch (const Failure& failure) {
    setenv("WARPLINE_DRIVER", "virtual:b200", 1);
    try {
      Device device = find_device(-1);
      device.note =
          "no GPU to run on, took the virtual B200 (" + first_clause(failure.what()) + ")";
      return device;
    } catch (const Failure& second) {
      throw Failure(exit_device, std::string("no GPU: ") + failure.what() +
                                     "\nand no virtual GPU: " + second.what());
    }
  }
}

void set_virtual_option(const char* key, const std::string& value) {
  using SetOption = int (*)(const char*, const char*);
  const auto set = reinterpret_cast<SetOption>(driver_symbol("vgpuSetOption"));
  if (!set)
    throw Failure(exit_usage,
                  std::string("--") + key + " needs the virtual GPU (--device virtual)");
  if (set(key, value.c_str()) == 0) return;
  using Message = const char* (*)();
  const auto message = reinterpret_cast<Message>(driver_symbol("vgpuMessage"));
  throw Failure(exit_usage, "option --" + std::string(key) + " is '" + value +
                                "': " + (message ? message() : "the virtual GPU refuses it"));
}

std::string virtual_report() {
  using Report = const char* (*)();
  const auto report = reinterpret_cast<Report>(driver_symbol("vgpuReport"));
  const char* text = report ? report() : nullptr;
  return text ? text : "";
}

void reset_virtual_stats() {
  using Reset = void (*)();
  if (const auto reset = reinterpret_cast<Reset>(driver_symbol("vgpuResetStats"))) reset();
}

std::string virtual_stats() {
  using Stats = const char* (*)();
  const auto stats = reinterpret_cast<Stats>(driver_symbol("vgpuStatsJson"));
  return stats ? stats() : "";
}

} // namespace warpline::cli
