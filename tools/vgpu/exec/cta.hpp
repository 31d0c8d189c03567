// State of one CTA: shared memory, mbarriers, named barriers, register pool, tensor memory.
#pragma once

#include "tools/vgpu/exec/guards.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace vgpu::exec {

class Warp;
class Cta;

// Lanes parked on something. Waking makes them run their instruction again.
struct Waiter {
  Warp* warp = nullptr;
  uint32_t fragment = 0; // id, see Warp
};
using WaitList = std::vector<Waiter>;

// What parked lanes wait for; printed in the wait-for graph.
struct WaitInfo {
  enum class Kind : uint8_t {
    None,
    Mbarrier,
    NamedBarrier,
    ClusterBarrier,
    BulkGroup,
    CpAsyncGroup,
    WgmmaGroup,
    TensorLoad,
    TensorStore,
    TensorAlloc,
    RegisterPool,
    Converge,
    Poll
  };
  Kind kind = Kind::None;
  uint32_t cta = 0;     // owner of the barrier
  uint64_t address = 0; // shared offset, barrier id, registers wanted, ...
  uint32_t value = 0;   // parity, count, ...
};

// PTX ISA, mbarrier object. The 8 bytes in shared memory hold a token; the state is here, keyed by
// its offset. A phase completes when pending arrivals and pending bytes are both zero; bytes may
// be negative in between (complete_tx before expect_tx).
struct Mbarrier {
  uint32_t offset = 0;
  uint32_t expected = 0;         // arrival count of each phase
  uint32_t pending = 0;          // arrivals missing in this phase
  int64_t tx = 0;                // bytes missing in this phase
  uint64_t phase = 0;            // completed phases since init; parity of the current = phase & 1
  int64_t tx_expected_total = 0; // bytes announced in this phase (ledger)
  const Inst* init = nullptr;
  uint32_t started = 0; // CTAs that whoever signals it knew to run, themselves among them
  WaitList waiters;
};

struct NamedBarrier {
  uint32_t expected = 0; // threads, 0 = not in use
  bool all = false;      // awaits every warp of the CTA: those that exit are no longer awaited
  uint32_t arrived = 0;
  uint64_t generation = 0;
  uint32_t started = 0; // as an mbarrier's
  WaitList waiters;
  // bar.red: running reduction over the arrived lanes, and the last generation's result
  uint32_t red_and = 1, red_or = 0, red_pop = 0, last_and = 1, last_or = 0, last_pop = 0;
};

// 128 lanes x 512 columns of 32 bits; PTX ISA 9.7.16.1.
struct TensorMemory {
  static constexpr uint32_t kLanes = 128, kColumns = 512;
  std::vector<uint32_t> words;            // [lane][column]; empty on devices without it
  std::array<uint16_t, kColumns> owner{}; // allocation id of a column, 0 = free
  struct Allocation {
    uint32_t id = 0, column = 0, columns = 0;
    const Inst* inst = nullptr;
    uint32_t warp = 0;
  };
  std::vector<Allocation> allocations;
  uint32_t next_id = 1;
  uint32_t cta_group = 0; // 0 until the first tcgen05 instruction fixes it
  bool relinquished = false;
  uint32_t last_columns = 0; // of the last allocation: later ones may not be larger
  // tcgen05.alloc or dealloc with cta_group::2 that waits for the warp of the peer CTA.
  struct PairRequest {
    const Inst* inst = nullptr; // null: none
    bool alloc = false;
    uint32_t columns = 0;
    uint32_t address = 0; // alloc: shared offset of the result; dealloc: column
    uint32_t warp = 0;
  } pair;
  uint64_t pair_steps = 0; // completed ones
  WaitList waiters;
  uint32_t* row(uint32_t lane) { return words.data() + size_t(lane) * kColumns; }
};

class Cta {
public:
  Cta(Cluster& cluster, uint32_t rank);
  ~Cta();

  Cluster& cluster;
  uint32_t rank;               // in the cluster
  uint32_t index[3];           // %ctaid
  std::vector<uint8_t> shared; // the whole window: kSharedBase + static + dynamic
  std::vector<uint8_t> local;  // [thread][Cluster::local_bytes()]
  std::vector<std::unique_ptr<Warp>> warps;
  uint32_t live_warps = 0;
  bool started = false;                   // a warp of it has run
  std::map<uint32_t, Mbarrier> mbarriers; // by shared offset
  std::array<NamedBarrier, 16> named;
  void settle_named(NamedBarrier& b); // completes it when everyone awaited has arrived
  TensorMemory tensor;
  Pipe tensor_pipe; // tcgen05.mma, cp, shift and commit issued by this CTA

  // setmaxnreg: registers of the CTA not held by any warp.
  uint32_t pool_free = 0;
  WaitList pool_waiters;

  // Guarded ranges of operations in flight on this CTA's shared and tensor memory.
  Guards shared_guards, tensor_guards;
};

} // namespace vgpu::exec
