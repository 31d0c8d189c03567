// Values that nobody wrote: a bit for each lane of each register, each byte of shared memory and
// each word of tensor memory. Undefined values may be copied and computed with; they are reported
// where they become an address, a predicate that decides, an operand of the tensor core or output.
// So do bytes of the stack that no store has written since alloca gave them. Global and parameter
// memory and .local variables count as written. Also: registers that an instruction wrote
// and a wgmma.mma_async uses without a wgmma.fence in between. Rules: RULES.md.
#pragma once

#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/exec/cluster.hpp"

#include <array>

namespace vgpu::check {

class Definedness {
public:
  Definedness(exec::Cluster& cluster, Sink& sink);

  void before(exec::Warp& w, const exec::Inst& inst, uint32_t mask);
  void after(exec::Warp& w, const exec::Inst& inst, uint32_t mask, exec::Step step);
  // An access of one lane (op null), or of the operation that performs.
  void access(const exec::Access& a, const exec::Origin& origin, const exec::AsyncOp* op);
  void access_tensor(uint32_t cta, uint32_t lane, uint32_t lanes, uint32_t column, uint32_t columns,
                     bool write, bool by_warp, const exec::Origin& origin);
  void tensor_alloc(uint32_t cta, uint32_t column, uint32_t columns);

private:
  enum class Kind : uint8_t {
    Compute, // destinations are as defined as the sources
    Select,  // ... as the predicate and one of the two
    Fresh,   // destinations are defined
    Load,
    Store,
    TensorLoad,
    WgmmaOp,
    WgmmaFence,
    Alloca, // as Sink; the memory is undefined
    Sink    // all sources must be defined; destinations are
  };
  struct Rule {
    Kind kind = Kind::Compute;
    uint32_t data = 0;   // Store: sources that are data, the first ones
    bool global = false; // Store: data becomes output
    // Compute: lanes in which the last source counts (mma.sp reads metadata of some).
    uint32_t metadata = ~0u;
  };
  static Rule rule_of(const exec::Inst& inst);
  // Of a thread; `address` is one of local memory.
  uint8_t* stack_byte(uint32_t cta, uint32_t warp, uint32_t lane, uint64_t address);
  std::vector<uint32_t>& registers(const exec::Warp& w) {
    return registers_[w.cta.rank * warps_ + w.index];
  }
  void report(const exec::Warp& w, const exec::Inst& inst, uint32_t lanes, uint32_t slot,
              const char* rule, const std::string& what);

  exec::Cluster& cluster_;
  Sink& sink_;
  uint32_t warps_;
  std::vector<Rule> rules_;                      // by pc
  std::vector<std::vector<uint32_t>> registers_; // by warp; by slot / 8: lanes that are defined
  std::vector<std::vector<uint8_t>> shared_;     // by CTA
  // By CTA: [thread][byte of the stack]; empty without one.
  std::vector<std::vector<uint8_t>> stack_;
  size_t stack_each_ = 0;                      // bytes of a thread
  std::array<uint32_t, 32> stack_before_;      // stack pointers before an alloca, by lane
  std::vector<std::vector<uint8_t>> tensor_;   // by CTA: [lane][column]
  std::vector<std::vector<uint8_t>> unfenced_; // by warp, by slot / 8; empty without wgmma
  uint32_t loaded_ = 0, stored_ = 0;           // lanes: memory read was defined, value to write is
};

} // namespace vgpu::check
