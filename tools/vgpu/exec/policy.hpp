// When things happen. The functional policies ignore cost; a cycle model may implement the same
// interface with real latencies, because semantics live in the agents and only order lives here.
#pragma once

#include "tools/vgpu/exec/agent.hpp"

#include <memory>
#include <string>

namespace vgpu::exec {

class Warp;

class Policy {
public:
  virtual ~Policy() = default;
  // True: an operation whose pipe is empty completes inside its issue.
  virtual bool immediate() const { return false; }
  // When an operation that is eligible (it follows none of its pipe, or has none) completes.
  virtual When op_when(const AsyncOp& op, uint64_t now) = 0;
  // When a warp that can run is next advanced, and for how many instructions.
  virtual When warp_when(const Warp& warp, uint64_t now) = 0;
  virtual uint32_t quantum(const Warp& warp) = 0;
  // CTAs start when it says: once one has, it is asked again about all warps of it.
  virtual bool staggers() const { return false; }
  // mbarrier.try_wait may return false although the phase has completed (its time limit is the
  // implementation's): true asks for that.
  virtual bool spurious_false() { return false; }
  // The same for a wait that had to park: it comes back false before it comes back true, so that
  // the back edge of its loop is taken.
  virtual bool false_first() const { return false; }
  // Called after each step that other agents can see (an operation issued, an arrival, an atomic):
  // true ends the turn of the warp that took it.
  virtual bool preempts() { return false; }
  // Which lanes of a strong load see memory first; the others follow after what these do next. All
  // of `mask`, or a part of it that is not empty.
  virtual uint32_t first_lanes(uint32_t mask) { return mask; }
  // Points where a schedule could have gone another way, so far.
  virtual uint64_t points() const { return 0; }
};

// "eager": operations complete at issue. "lazy": they complete only when no warp can run, oldest
// first, one at a time; "reverse": newest first. "random:SEED": completion, order of warps, length
// of their turns and lanes that a strong load parts come from a generator seeded by SEED and the
// cluster's index.
// "starve:WARP": operations complete soon, and warp WARP (modulo their number) of each CTA runs
// only when nothing else can, or others do nothing but spin on memory. "hold:SEED": operations
// complete soon, but half of those that a quarter of the instructions issue, chosen by SEED, only
// when nothing else can happen, the newest of them first. "stagger:SEED": operations complete soon,
// and the CTAs of a cluster start at different times: about half of them, chosen by SEED, not
// before nothing else can happen.
// "explore:@P,Q": operations complete soon, but what happens at the
// points P, Q ... of each cluster (an operation is free to complete, a warp to run, or a warp has
// done what others can see) comes only when nothing else can happen; see explore.hpp. Null and a
// sentence in `error` for any other text.
std::unique_ptr<Policy> make_policy(const std::string& text, uint64_t cluster_index,
                                    std::string* error);

} // namespace vgpu::exec
