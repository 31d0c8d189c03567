// Choosing the device that --device names, and the virtual GPU's controls.
#pragma once

#include "runtime/include/warpline/warpline.h"
#include "tools/cli/failure.hpp"

#include <string>

namespace warpline::cli {

struct Device {
  int ordinal = 0;
  wl_device_info info = {};
  std::string driver; // file and version
  std::string note;   // why this one, where the user did not name it
};

// Throws Failure(status of the library's error) with the library's message when `status` is one.
// What the library does not support is a wrong request once there is a device.
void require(wl_status status, ExitStatus unsupported = exit_usage);

// Sets WARPLINE_DRIVER as `option` (checked by check_device) says and returns the first device that
// has a kernel. "auto" takes WARPLINE_DRIVER when the user set it, else a real GPU, else the
// virtual B200.
Device choose_device(const std::string& option);

// The information of one device of the driver that WARPLINE_DRIVER names.
wl_device_info device_info(int ordinal);
std::string driver_text();

// vgpuSetOption; Failure when the driver is no virtual GPU or refuses.
void set_virtual_option(const char* key, const std::string& value);
// The virtual GPU's last report, "" when there is none.
std::string virtual_report();
// What the virtual GPU counted since the reset, as JSON.
void reset_virtual_stats();
std::string virtual_stats();

} // namespace warpline::cli
