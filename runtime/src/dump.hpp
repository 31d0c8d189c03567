// WARPLINE_DUMP_DIR: a folder that receives what the driver is given. A folder that cannot be
// written stops nothing, but is said on stderr, once for each value of the variable, whatever the
// level of the log; the log has a line for each file at level 1.
#pragma once

#include <string>

namespace warpline {

// Whether the variable is set.
bool dump_wanted();

// Writes or appends to a file of the folder, which is made when it is missing.
void dump_file(const std::string& name, const std::string& bytes);
void dump_appended(const std::string& name, const std::string& bytes);

} // namespace warpline
