// One decoded instruction and the program it belongs to. Decoding happens once (isa/decode.hpp);
// execution sees only slots.
//
// Register file of a warp: bytes, addressed by slot = byte offset. A register occupies
//   Pred                 one uint32_t: a bit per lane
//   B32 (and narrower)   32 x uint32_t; 8- and 16-bit values are kept zero-extended
//   B64                  32 x uint64_t
//   B128                 32 x 16 bytes
// Immediates and special registers that never change (%tid, %ctaid, ...) are registers too: their
// slots are filled when a warp starts, so that every source operand is a slot.
#pragma once

#include "tools/vgpu/isa/forms.hpp"
#include "tools/vgpu/ptx/ast.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vgpu::exec {

class Warp;
struct Inst;

// What a handler tells the warp loop.
enum class Step : uint8_t {
  Next,  // go on with the next instruction
  Jump,  // the handler has set the lanes' pcs (Warp::branch and friends)
  Block, // the lanes are parked (Warp::park was called); the instruction runs again when woken
  Yield, // done with this instruction, let others run first
  Exit,  // the lanes have ended (Warp::exit_lanes was called)
};

// `mask`: lanes that execute it, guard applied, never 0.
using Handler = Step (*)(Warp& warp, const Inst& inst, uint32_t mask);

enum class RegClass : uint8_t { Pred, B32, B64, B128 };

constexpr uint32_t kNoSlot = 0xFFFFFFFFu;

struct Inst {
  Handler run = nullptr;
  uint32_t guard = kNoSlot; // slot of the guard predicate
  bool guard_negated = false;
  bool aligned = false; // needs all live lanes of the warp together (.aligned, .sync.aligned)
  bool parts = false;   // a strong load: some lanes may see memory before others (Policy)
  bool own_pending_check = false; // the handler checks registers of operations in flight itself
  uint8_t width = 0;              // decoder-private: bytes of an element, ...
  uint8_t flags = 0;              // decoder-private
  uint16_t n_dst = 0;             // op[0 .. n_dst) are destinations,
  uint16_t n_src = 0;             // op[n_dst .. n_dst + n_src) sources
  const uint32_t* op = nullptr;
  uint32_t mod[4] = {}; // decoder-private modifiers
  uint64_t imm = 0;     // address offset or other constant
  uint32_t target = 0;  // branch target pc
  uint32_t pc = 0;
  const void* data = nullptr; // decoder-private, owned by the program
  const isa::Form* form = nullptr;
  const ptx::Statement* text = nullptr;
};

// Shared-memory variable of a program: its byte offset from the start of the CTA's window.
struct SharedSymbol {
  std::string name;
  uint32_t offset = 0, bytes = 0;
};

struct ParamSlot {
  std::string name;
  uint32_t offset = 0, bytes = 0;
};

// Value of a register slot at warp start.
struct Constant {
  uint32_t slot;
  RegClass cls;
  uint64_t value;
};

enum class Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  laneid,
  warpid,
  nwarpid,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  is_explicit_cluster,
  dynamic_smem_size,
  total_smem_size,
  aggr_smem_size,
  stack_top,      // local address behind the thread's stack, which grows down
  shared_address, // of a shared variable: Cluster::shared_address(own rank, SpecialSlot::offset)
};
struct SpecialSlot {
  uint32_t slot; // B32 or B64, see Program::slot_class
  Special which;
  uint32_t offset = 0;
  uint32_t bits = 64; // that an instruction of a narrower type takes
};

// What calls through a pointer and calls of a function that is active already must know of it.
struct FunctionCode {
  std::string name;
  uint64_t address = 0; // what a pointer to it holds; 0 = nobody takes one
  uint32_t pc = 0, return_slot = kNoSlot;
  uint32_t depth_slot = kNoSlot; // B32: activations of the lane
  // Its registers and local memory, which a second activation would overwrite.
  std::vector<std::pair<uint32_t, RegClass>> registers;
  uint32_t local_begin = 0, local_end = 0;
  uint32_t frame_slot = kNoSlot; // B32: stack pointer at the call; of functions that use the stack
  // .local variables of a function that may be active already: each activation has its own, on the
  // stack, and registers that hold the addresses its code names.
  struct FrameAddress {
    uint32_t slot;
    RegClass cls;
    uint64_t offset; // from the frame's lowest byte
  };
  uint32_t frame_bytes = 0, frame_alignment = 1;
  std::vector<FrameAddress> frame_addresses;
};

// First byte of static shared memory inside a CTA's shared window. The hardware keeps the first
// KiB on sm_90 and later, so shared symbols start at 1024 there.
constexpr uint32_t kSharedBase = 1024;
// Where it keeps room for libraries (%reserved_smem_offset_0, _1): cooperative groups need 288
// bytes.
constexpr uint32_t kLibraryShared[2] = {0, 256};

struct Program {
  std::string name; // entry
  const ptx::Module* module = nullptr;
  const ptx::Function* function = nullptr;
  std::string target;     // "sm_100f"
  std::vector<Inst> code; // ends with an implicit exit
  uint32_t regfile_bytes = 0;
  std::vector<Constant> constants;
  std::vector<SpecialSlot> specials;
  std::vector<ParamSlot> params;
  uint32_t param_bytes = 0;
  std::vector<SharedSymbol> shared_symbols;
  uint32_t static_shared_bytes = 0;    // from kSharedBase
  uint32_t shared_floor = kSharedBase; // 0: it asks for the library's room below
  uint32_t dynamic_shared_offset = 0;  // where .extern .shared arrays start, from the window start
  uint32_t local_bytes = 0;            // per thread, without the stack
  uint32_t stack_slot = kNoSlot;       // B32: the stack pointer, of programs that ask for it
  bool uses_heap = false;              // calls malloc or free
  uint32_t maxntid[3] = {0, 0, 0};     // 0 = not given
  uint32_t reqntid[3] = {0, 0, 0};
  uint32_t minnctapersm = 0, maxnreg = 0, maxclusterrank = 0;
  uint32_t reqcluster[3] = {0, 0, 0};
  // Registers per thread the hardware would reserve at entry (from .maxnreg, .maxntid,
  // .minnctapersm: what ptxas may use at most); the setmaxnreg pool of a CTA is made of these.
  uint32_t entry_registers = 0;
  // Predicate slot of CC.CF (9.7.2); given to the first instruction that needs it.
  uint32_t carry_flag = kNoSlot;
  std::vector<RegClass> slot_class;          // by slot / 8; of the register that starts there
  std::map<uint32_t, std::string> slot_name; // of declared registers, for reports
  std::vector<std::shared_ptr<void>> arena;  // owns Inst::op and Inst::data

  // Name of the nearest label at or before pc ("" when none), for reports.
  std::string label_before(uint32_t pc) const;
  std::map<uint32_t, std::string> labels; // pc -> name
};

} // namespace vgpu::exec
