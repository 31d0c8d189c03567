// Values that nobody wrote: a bit for each lane of each register, each byte of shared and of global
// memory and each word of tensor memory. Undefined values may be copied and computed with; they are
// reported where they become an address, a predicate that decides, an operand of the tensor core or
// output. Global memory that nobody has written (padding) may be moved to global memory, by
// instructions that keep its bytes; computed with, it is as undefined as any other value.
// Bytes of the stack are undefined until a store after the alloca that gave them; parameter memory
// and .local variables count as written. Also: registers that an instruction wrote
// or read and a wgmma.mma_async uses without a wgmma.fence in between. Rules: RULES.md.
#pragma once

#include "tools/vgpu/check/observer.hpp"
#include "tools/vgpu/exec/cluster.hpp"

#include <array>
#include <memory>
#include <vector>

namespace vgpu::check {

class Definedness {
public:
  // What the checker knows of a program, which all clusters of a launch share.
  struct Facts;
  static std::shared_ptr<const Facts> facts_of(const exec::Program& program);

  Definedness(exec::Cluster& cluster, const Facts& facts, Sink& sink);

  void before(exec::Warp& w, const exec::Inst& inst, uint32_t mask);
  void after(exec::Warp& w, const exec::Inst& inst, uint32_t mask, exec::Step step);
  // An access of one lane (op null), or of the operation that performs.
  void access(const exec::Access& a, const exec::Origin& origin, const exec::AsyncOp* op);
  // The same of the lanes of a warp that `mask` names, in turn. All of [lo, hi) is one
  // allocation's.
  void access_lanes(const exec::Access& a, const uint64_t* addresses, uint32_t mask, uint64_t lo,
                    uint64_t hi, const exec::Origin& origin);
  // For operations that move bytes: whether the one that performs has read unwritten global memory;
  // the states of a range, none when all is written; and where they go. `output`: bytes written
  // to global memory of which no part was ever written are reported.
  void performing() { read_unwritten_ = false; }
  bool read_unwritten() const { return read_unwritten_; }
  std::vector<uint8_t> states(exec::Space space, uint32_t cta, uint64_t address,
                              uint64_t bytes) const;
  void put_states(exec::Space space, uint32_t cta, uint64_t address, const uint8_t* states,
                  uint64_t bytes, bool output, const exec::Origin& origin);
  void access_tensor(uint32_t cta, uint32_t lane, uint32_t lanes, uint32_t column, uint32_t columns,
                     bool write, bool by_warp, const exec::Origin& origin);
  void tensor_alloc(uint32_t cta, uint32_t column, uint32_t columns);

private:
  enum class Kind : uint8_t {
    Compute, // destinations are as defined as the sources
    Move,    // the same; the sources' bits are kept, so unwritten memory may pass
    Select,  // ... as the predicate and one of the two
    Fresh,   // destinations are defined
    Load,
    Store,
    Discard,
    TensorLoad,
    WgmmaOp,
    WgmmaFence,
    Alloca, // as Sink; the memory is undefined
    Call,   // as Fresh; .local variables that it puts on the stack count as written
    Sink    // all sources must be defined; destinations are
  };
  struct Rule {
    Kind kind = Kind::Compute;
    uint8_t elements = 1;  // Load, Store, atomics: registers that each access is divided among
    uint8_t data = 0;      // Store: sources that are data, the first ones
    bool replaces = false; // an atomic whose result in memory does not depend on what was there
    bool copies = false;   // an operation that copies bytes and does nothing else with them
    // Compute: lanes in which the last source counts (mma.sp reads metadata of some).
    uint32_t metadata = ~0u;
    bool takes_stack() const { return kind == Kind::Alloca || kind == Kind::Call; }
  };
  // State of a byte. In shared memory, of global memory that nobody has written: copied from there,
  // or derived from it in another way. In global memory such bytes count as unwritten.
  enum State : uint8_t { kUnwritten, kWritten, kCopied, kDerived };
  // Lanes of a warp: those whose part of an access is written; of the others those that are
  // undefined only by unwritten global memory, and of these those that hold a copy of it.
  struct Lanes {
    uint32_t written = ~0u, derived = 0, copied = 0;
  };
  static constexpr uint32_t kMaxElements = 8;
  enum Unfenced : uint8_t { kWrote = 1, kRead = 2 };
  using Registers = std::vector<Lanes>; // by Facts::number
  static Rule rule_of(const exec::Inst& inst);
  // Of a thread; `address` is one of local memory.
  uint8_t* stack_byte(uint32_t cta, uint32_t warp, uint32_t lane, uint64_t address);
  Registers& registers(const exec::Warp& w) { return registers_[w.cta.rank * warps_ + w.index]; }
  void sources(exec::Warp& w, const exec::Inst& inst, const Rule& rule, uint32_t mask);
  void access_by_operation(const exec::Access& a, uint8_t* states, const Rule& rule,
                           const exec::Origin& origin);
  void stored(const exec::Access& a, uint8_t* states, const Rule& rule, const exec::Origin& origin);
  void report_output(const Rule& rule, uint32_t element, const exec::Origin& origin);
  static bool all_written(const uint8_t* states, uint64_t bytes);
  // Whether each register that these lanes store is defined.
  bool stores_written(const Rule& rule, uint32_t mask) const;
  void loaded(const exec::Access& a, const uint8_t* states, const Rule& rule, uint32_t lane);
  void atomic(const exec::Access& a, uint8_t* states, const Rule& rule, const exec::Origin& origin);
  void report_source(const exec::Access& a, const exec::Origin& origin);
  void report(const exec::Warp& w, const exec::Inst& inst, uint32_t lanes, uint32_t slot,
              const char* rule, const std::string& what);

  exec::Cluster& cluster_;
  Sink& sink_;
  const Facts& facts_;
  uint32_t warps_;
  std::vector<Registers> registers_;         // by warp
  std::vector<std::vector<uint8_t>> shared_; // by CTA: State
  // By CTA: [thread][byte of the stack]; empty without one.
  std::vector<std::vector<uint8_t>> stack_;
  size_t stack_each_ = 0;                      // bytes of a thread
  std::array<uint32_t, 32> stack_before_;      // stack pointers before an alloca, by lane
  std::vector<std::vector<uint8_t>> tensor_;   // by CTA: [lane][column]
  std::vector<std::vector<uint8_t>> unfenced_; // by warp and number: Unfenced; empty without wgmma
  Lanes moved_[kMaxElements]; // of the instruction that runs: what it loads or stores
  bool any_derived_ = false;  // some register has held what unwritten global memory has led to
  bool read_unwritten_ = false;
};

struct Definedness::Facts {
  std::vector<Rule> rules; // by pc
  bool wgmma = false;
  std::vector<uint32_t> number; // of the register at a slot, by slot / 8: slots leave wide gaps
  Registers start;
  uint32_t at(uint32_t slot) const { return number[slot / 8]; }
};

} // namespace vgpu::check
