// Plans with WL_GRAPH_LAUNCH beside plans without: runs that launch a graph of the plan's kernels
// write what runs of the kernels write, bit for bit, on several workspaces, streams and threads,
// under capture, and while other streams are captured. Inside a test case.
#pragma once

#include "warpline/warpline.h"

#include <cstdint>

namespace wltest {

// A dual GEMM of the row `config` whose run has `launches` kernels, with a workspace or none.
void check_graph_launch(wl_context* context, const char* config, uint32_t more_flags, int launches,
                        bool workspace);
void check_graph_launch_of_quantize(wl_context* context);

} // namespace wltest
