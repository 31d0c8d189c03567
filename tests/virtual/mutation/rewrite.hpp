// A grid that rewrites memory with what it holds, by ordinary accesses: to the grid behind it the
// work ahead of a kernel in its stream, to the one ahead of it the work behind.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace wltest {

// Of each of up to 32 regions at most the first 4 KB; a primary context is there. One grid: what
// lies ahead of an ordinary one has ended when it starts.
void rewrite(const std::vector<std::pair<void*, size_t>>& regions);
// Likewise, by a grid that may start before the one ahead of it ends, and waits for that.
void rewrite_behind(const std::vector<std::pair<void*, size_t>>& regions);

} // namespace wltest
