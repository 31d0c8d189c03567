// The choke point: every access of warps and operations passes here, is checked, and gets a
// pointer.
#include "tools/vgpu/check/definedness.hpp"
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/exec/cluster.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace vgpu::exec {

namespace {

std::string hex(uint64_t v) {
  std::ostringstream s;
  s << "0x" << std::hex << v;
  return s.str();
}

const char* space_name(Space s) {
  switch (s) {
  case Space::Global:
    return "global";
  case Space::Shared:
    return "shared";
  case Space::Tensor:
    return "tensor";
  case Space::Local:
    return "local";
  case Space::Param:
    return "parameter";
  }
  return "?";
}

std::string range_text(const Range& r) {
  std::ostringstream s;
  if (r.space == Space::Tensor)
    s << "tensor memory columns " << r.lo << ".." << r.hi - 1 << ", lanes " << r.lane_lo << ".."
      << r.lane_hi - 1 << " of CTA " << r.cta;
  else if (r.space == Space::Shared)
    s << "shared memory " << hex(r.lo) << ".." << hex(r.hi - 1) << " of CTA " << r.cta;
  else
    s << space_name(r.space) << " memory " << hex(r.lo) << ".." << hex(r.hi - 1);
  return s.str();
}

constexpr uint8_t kPendingByte = 0xFF; // a NaN scale, and a NaN in every wider float format

} // namespace

Cta& Cluster::owner(uint32_t cta, const Origin& origin) {
  if (cta >= ctas.size())
    fault(origin, FaultCode::illegal_address, "bounds",
          "CTA rank " + std::to_string(cta) + " is outside the cluster of " +
              std::to_string(ctas.size()));
  check_started(cta, origin);
  return *ctas[cta];
}

void Cluster::check_started(uint32_t cta, const Origin& origin) {
  if (ctas[cta]->started) return;
  violation(origin, check::Rule::start, FaultCode::illegal_address, [&] {
    return "CTA " + std::to_string(cta) +
           " of the cluster has not started: what it owns is used only after a barrier of the "
           "cluster (barrier.cluster), or another sign that it runs";
  });
}

Guards& Cluster::guards(const Range& range) {
  if (range.space == Space::Shared) return ctas.at(range.cta)->shared_guards;
  if (range.space == Space::Tensor) return ctas.at(range.cta)->tensor_guards;
  return global_guards_;
}

void Cluster::check_guards(const Guards& list, const Range& range, const AsyncOp* op,
                           const Origin& origin) {
  if (!list.may_object(range.space, range.lo, range.hi, range.write) ||
      (op && !list.others_may_object(range, *op)))
    return;
  for (size_t i = 0; i < list.size(); ++i) {
    const Guard& g = list[i];
    if (g.op == op || !(g.range.write || range.write) || !g.range.overlaps(range)) continue;
    check::Rule rule = check::Rule::pending;
    if (op && op->pipe && op->pipe == g.op->pipe) {
      // An operation that has no number yet is about to be issued.
      const bool later = op->id == 0 || op->id > g.op->id;
      const AsyncOp &first = later ? *g.op : *op, &second = later ? *op : *g.op;
      if (second.ordered_after(first)) continue; // the pipe orders the two
      if (second.follows(first)) rule = check::Rule::tensor_order;
    } else if (g.op->tensor_store()) {
      rule = check::Rule::wait_st;
    }
    auto what = [&] {
      return std::string(range.write ? "write" : "read") + " of " + range_text(range) +
             (g.range.write ? ", which an operation in flight has yet to write: "
                            : ", which an operation in flight still reads: ") +
             g.op->describe() + "\n    issued at " + where(g.op->origin) +
             "\n    nothing orders the two: a wait for its completion is missing";
    };
    if (rule == check::Rule::pending) fault(origin, FaultCode::launch_failed, "pending", what());
    violation(origin, rule, FaultCode::launch_failed, what);
    if (rule != check::Rule::wait_st) continue;
    finish_now(*g.op); // which changes the list
    i = size_t(-1);
  }
}

void Cluster::check_conflicts(const AsyncOp& op) {
  for (const Range& r : op.ranges) check_guards(guards(r), r, &op, op.origin);
}

// Destinations in shared memory hold a pattern until the data arrives.
void Cluster::poison(const AsyncOp& op) {
  for (const Range& r : op.ranges) {
    if (!r.write || r.space != Space::Shared) continue;
    std::vector<uint8_t>& shared = ctas.at(r.cta)->shared;
    if (r.hi <= shared.size()) std::memset(shared.data() + r.lo, kPendingByte, r.hi - r.lo);
  }
}

void Cluster::release_ranges(AsyncOp& op, bool write) {
  for (const Range& r : op.ranges)
    if (r.write == write) guards(r).release(op, r);
  (write ? op.guards_writes : op.guards_reads) = false;
}

// Its bytes are what they are from then on: a barrier that nobody waits for is none any more.
void Cluster::check_overwritten(Cta& cta, const Access& a, const Origin& origin) {
  auto it = cta.mbarriers.upper_bound(static_cast<uint32_t>(a.address + a.bytes - 1));
  while (it != cta.mbarriers.begin() && std::prev(it)->first + 8 > a.address) {
    --it;
    violation(origin, check::Rule::mbarrier_over, FaultCode::launch_failed, [&] {
      return "write over the live mbarrier at shared offset " + hex(it->first) +
             "; mbarrier.inval must come first";
    });
    if (it->second.waiters.empty()) it = cta.mbarriers.erase(it);
  }
}

uint8_t* Cluster::touch(const Access& a, const Origin& origin) {
  if (a.alignment > 1 && a.address % a.alignment != 0)
    fault(origin, FaultCode::misaligned_address, "alignment",
          std::string(space_name(a.space)) + " address " + hex(a.address) + " is " +
              std::to_string(a.address % a.alignment) + " modulo " + std::to_string(a.alignment) +
              "; this access needs a multiple of " + std::to_string(a.alignment));
  switch (a.space) {
  case Space::Global: {
    uint8_t* p = spec.memory->find(a.address, a.bytes);
    if (!p)
      fault(origin, FaultCode::illegal_address, "bounds",
            std::string("global ") + (a.write ? "write" : "read") + ": " +
                spec.memory->explain(a.address, a.bytes));
    if (!global_guards_.empty())
      check_guards(global_guards_, Range{Space::Global, a.write, 0, a.address, a.address + a.bytes},
                   a.op, origin);
    if (a.write)
      stats.global_store_bytes += a.bytes;
    else
      stats.global_load_bytes += a.bytes;
    if (hub) hub->access(a, origin);
    return p;
  }
  case Space::Shared: {
    Cta& cta = owner(a.cta, origin);
    const uint32_t floor = spec.program->shared_floor;
    if (a.address < floor || a.address + a.bytes > cta.shared.size())
      fault(origin, FaultCode::illegal_address, "bounds",
            std::string("shared ") + (a.write ? "write" : "read") + " of " +
                std::to_string(a.bytes) + " bytes at offset " + hex(a.address) +
                " lies outside the CTA's window [" + hex(floor) + ", " + hex(cta.shared.size()) +
                ")");
    if (cta.live_warps == 0)
      fault(origin, FaultCode::illegal_address, "exit",
            "shared memory of CTA " + std::to_string(a.cta) +
                " of the cluster is accessed after that CTA has exited");
    if (a.write && !cta.mbarriers.empty()) check_overwritten(cta, a, origin);
    if (!cta.shared_guards.empty())
      check_guards(cta.shared_guards,
                   Range{Space::Shared, a.write, a.cta, a.address, a.address + a.bytes}, a.op,
                   origin);
    if (hub) hub->access(a, origin);
    return cta.shared.data() + a.address;
  }
  case Space::Local: {
    Cta& cta = owner(origin.cta, origin);
    const uint64_t each = local_bytes();
    if (a.address > each || a.bytes > each - a.address)
      fault(origin, FaultCode::illegal_address, "bounds",
            "local address " + hex(a.address) + " lies outside the thread's " +
                std::to_string(each) + " bytes");
    if (a.address + a.bytes > spec.program->local_bytes) { // the stack
      const uint32_t top =
          cta.warps[origin.warp]->lanes<uint32_t>(spec.program->stack_slot)[origin.lane];
      if (a.address < top)
        fault(origin, FaultCode::illegal_address, "stack",
              "local address " + hex(a.address) + " lies below the thread's stack pointer, " +
                  hex(top) + ": no alloca has given that memory, or it was given back");
      if (hub) hub->access(a, origin);
    }
    return cta.local.data() + (size_t(origin.warp) * 32 + origin.lane) * each + a.address;
  }
  case Space::Param:
    if (a.write || a.address + a.bytes > spec.params.size())
      fault(origin, FaultCode::illegal_address, "bounds",
            std::string("parameter ") + (a.write ? "write" : "read") + " at offset " +
                hex(a.address) + "; the kernel has " + std::to_string(spec.params.size()) +
                " bytes of read-only parameters");
    return const_cast<uint8_t*>(spec.params.data()) + a.address;
  case Space::Tensor:
    break;
  }
  fault(origin, FaultCode::invalid_address_space, "bounds",
        "tensor memory is reached by tcgen05 instructions only");
}

void Cluster::touch_tensor(uint32_t rank, uint32_t lane, uint32_t lanes, uint32_t column,
                           uint32_t columns, bool write, const AsyncOp* op, const Origin& origin) {
  Cta& cta = owner(rank, origin);
  if (cta.tensor.words.empty())
    fault(origin, FaultCode::illegal_instruction, "tmem", "this device has no tensor memory");
  if (lane + lanes > TensorMemory::kLanes || column + columns > TensorMemory::kColumns)
    fault(origin, FaultCode::illegal_address, "tmem",
          "tensor memory lanes " + std::to_string(lane) + ".." + std::to_string(lane + lanes - 1) +
              ", columns " + std::to_string(column) + ".." + std::to_string(column + columns - 1) +
              " lie outside 128 lanes x 512 columns");
  uint16_t id = cta.tensor.owner[column];
  for (uint32_t c = column; c < column + columns; ++c) {
    if (cta.tensor.owner[c] == 0)
      fault(origin, FaultCode::illegal_address, "tmem",
            "tensor memory column " + std::to_string(c) + " of CTA " + std::to_string(rank) +
                " is not allocated");
    if (cta.tensor.owner[c] == id) continue;
    violation(origin, check::Rule::tmem_across, FaultCode::illegal_address, [&] {
      return "tensor memory columns " + std::to_string(column) + ".." +
             std::to_string(column + columns - 1) + " cross from one allocation to another";
    });
    id = cta.tensor.owner[c];
  }
  if (!cta.tensor_guards.empty())
    check_guards(cta.tensor_guards,
                 Range{Space::Tensor, write, rank, column, column + columns, lane, lane + lanes},
                 op, origin);
  if (hub) hub->access_tensor(rank, lane, lanes, column, columns, write, op, origin);
}

bool Cluster::read_unwritten() const {
  return hub && hub->definedness() && hub->definedness()->read_unwritten();
}

std::vector<uint8_t> Cluster::states(Space space, uint32_t cta, uint64_t address,
                                     uint64_t bytes) const {
  if (!hub || !hub->definedness()) return {};
  return hub->definedness()->states(space, cta, address, bytes);
}

void Cluster::put_states(Space space, uint32_t cta, uint64_t address, const uint8_t* states,
                         uint64_t bytes, bool output, const Origin& origin) {
  if (hub && hub->definedness())
    hub->definedness()->put_states(space, cta, address, states, bytes, output, origin);
}

Space Cluster::resolve(uint64_t generic, uint32_t& cta, uint64_t& address) const {
  cta = 0;
  if (generic >= kSharedWindow && generic < kLocalWindow) {
    cta = static_cast<uint32_t>((generic - kSharedWindow) >> 24);
    address = (generic - kSharedWindow) & 0xFFFFFF;
    return Space::Shared;
  }
  if (generic >= kLocalWindow && generic < kParamWindow) {
    address = generic - kLocalWindow;
    return Space::Local;
  }
  if (generic >= kParamWindow && generic < kParamWindow + (1ull << 32)) {
    address = generic - kParamWindow;
    return Space::Param;
  }
  address = generic;
  return Space::Global;
}

void Cluster::resolve_shared(uint32_t shared_address_, uint32_t& cta, uint32_t& offset,
                             const Origin& origin) const {
  cta = shared_address_ >> 24;
  offset = shared_address_ & 0xFFFFFF;
  if (cta >= ctas.size())
    fault(origin, FaultCode::illegal_address, "bounds",
          "shared address " + hex(shared_address_) + " names CTA rank " + std::to_string(cta) +
              "; the cluster has " + std::to_string(ctas.size()));
}

} // namespace vgpu::exec
