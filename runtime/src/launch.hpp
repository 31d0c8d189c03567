// Kernel launches through cuLaunchKernelEx. check_launch() belongs to the plan; launch() to the
// run: it allocates nothing and takes no lock, so it can be captured and called from several
// threads.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/module.hpp"

namespace warpline {

// For parameter blocks and grids.
inline uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
inline int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}; // CTAs, also with clusters
  unsigned block[3] = {1, 1, 1};
  unsigned cluster[3] = {1, 1, 1}; // CTAs
  unsigned dynamic_shared_bytes = 0;
  // Programmatic dependent launch: the kernel may start before its predecessor in the stream has
  // ended and orders itself with griddepcontrol.wait.
  bool programmatic_dependent = false;
  // A cluster is named even if it is one CTA, without which st.async does not run.
  bool stores_to_cluster = false;
};

// Grid divisible by cluster; grid, block, threads, shared bytes and cluster within the limits of
// the device and the loaded kernel. All violations in one message.
wl_status check_launch(const wl_context& context, const Kernel& kernel, const LaunchConfig& config);

// Clusters of such a launch that the device holds at once, as the driver says; 0 where it gives no
// answer. The context is current.
int ask_resident_clusters(const wl_context& context, const Kernel& kernel,
                          const LaunchConfig& config);
// Likewise of a kernel that is launched in clusters of one kind: the driver is asked once for each
// kernel, then remembered.
int resident_clusters(const wl_context& context, const Kernel& kernel, const LaunchConfig& config);

// What a plan reports of the kernel that makes its outputs, launched so by the configuration
// `config_name`.
void report_launch(const char* config_name, const Kernel& kernel, const LaunchConfig& config,
                   wl_plan_info* info);

// `params` has one pointer per kernel parameter, as cuLaunchKernel takes them. The caller has made
// the context current.
wl_status launch(const wl_context& context, const Kernel& kernel, const LaunchConfig& config,
                 void** params, wl_stream stream);

} // namespace warpline
