// The virtual GPU under a test: its context, and its options while it runs.
#pragma once

#include "warpline/warpline.h"

#include <string>

namespace wltest {

// A context on the virtual GPU. A process holds one profile: the first that is asked for.
wl_context* virtual_context(const std::string& profile);

// The same of the profile that WARPLINE_DRIVER names, or "b200": for tests that run once more in a
// process of their own for each other profile.
wl_context* context_of_process();

// An option of vgpuSetOption. False when it is refused, or the driver is not the virtual GPU.
bool set_option(const std::string& key, const std::string& value);
// The schedule of launches from now on ("lazy", "random:7" ...).
bool set_schedule(const std::string& schedule);
// The checkers of launches from now on ("all,advice", "off" ...).
bool set_checks(const std::string& list);

// What the last fault's report says, "" when there was none.
std::string virtual_report();

} // namespace wltest
