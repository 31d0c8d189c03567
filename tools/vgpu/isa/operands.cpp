// What decoders ask for: slots of operands, addresses, labels, constants.
#include "tools/vgpu/isa/builder.hpp"
#include "tools/vgpu/isa/globals.hpp"

#include <algorithm>
#include <bit>

namespace vgpu::isa {

using exec::RegClass;
using exec::Special;
using ptx::Operand;
using K = ptx::Operand::Kind;

namespace {

struct SpecialName {
  std::string_view name;
  Special which;
  RegClass cls;
};
constexpr RegClass W = RegClass::B32;
constexpr SpecialName kSpecials[] = {
    {"%tid.x", Special::tid_x, W},
    {"%tid.y", Special::tid_y, W},
    {"%tid.z", Special::tid_z, W},
    {"%ntid.x", Special::ntid_x, W},
    {"%ntid.y", Special::ntid_y, W},
    {"%ntid.z", Special::ntid_z, W},
    {"%laneid", Special::laneid, W},
    {"%warpid", Special::warpid, W},
    {"%nwarpid", Special::nwarpid, W},
    {"%ctaid.x", Special::ctaid_x, W},
    {"%ctaid.y", Special::ctaid_y, W},
    {"%ctaid.z", Special::ctaid_z, W},
    {"%nctaid.x", Special::nctaid_x, W},
    {"%nctaid.y", Special::nctaid_y, W},
    {"%nctaid.z", Special::nctaid_z, W},
    {"%smid", Special::smid, W},
    {"%nsmid", Special::nsmid, W},
    {"%gridid", Special::gridid, RegClass::B64},
    {"%lanemask_eq", Special::lanemask_eq, W},
    {"%lanemask_le", Special::lanemask_le, W},
    {"%lanemask_lt", Special::lanemask_lt, W},
    {"%lanemask_ge", Special::lanemask_ge, W},
    {"%lanemask_gt", Special::lanemask_gt, W},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x, W},
    {"%cluster_ctaid.y", Special::cluster_ctaid_y, W},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z, W},
    {"%cluster_nctaid.x", Special::cluster_nctaid_x, W},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y, W},
    {"%cluster_nctaid.z", Special::cluster_nctaid_z, W},
    {"%cluster_ctarank", Special::cluster_ctarank, W},
    {"%cluster_nctarank", Special::cluster_nctarank, W},
    {"%clusterid.x", Special::clusterid_x, W},
    {"%clusterid.y", Special::clusterid_y, W},
    {"%clusterid.z", Special::clusterid_z, W},
    {"%nclusterid.x", Special::nclusterid_x, W},
    {"%nclusterid.y", Special::nclusterid_y, W},
    {"%nclusterid.z", Special::nclusterid_z, W},
    {"%is_explicit_cluster", Special::is_explicit_cluster, RegClass::Pred},
    {"%dynamic_smem_size", Special::dynamic_smem_size, W},
    {"%total_smem_size", Special::total_smem_size, W},
    {"%aggr_smem_size", Special::aggr_smem_size, W},
};

// Special registers with the same value in every kernel here.
struct FixedName {
  std::string_view name;
  RegClass cls;
  uint64_t value;
};
constexpr FixedName kFixed[] = {
    {"%tid.w", W, 0},
    {"%ntid.w", W, 1},
    {"%ctaid.w", W, 0},
    {"%nctaid.w", W, 1},
    {"%cluster_ctaid.w", W, 0},
    {"%cluster_nctaid.w", W, 1},
    {"%clusterid.w", W, 0},
    {"%nclusterid.w", W, 1},
    {"%reserved_smem_offset_begin", W, 0},
    {"%reserved_smem_offset_0", W, exec::kLibraryShared[0]},
    {"%reserved_smem_offset_1", W, exec::kLibraryShared[1]},
    {"%reserved_smem_offset_end", W, exec::kSharedBase},
    {"%reserved_smem_offset_cap", W, exec::kSharedBase},
    {"%current_graph_exec", RegClass::B64, 0},
};

constexpr std::string_view kDynamic[] = {"%clock",       "%clock_hi",       "%clock64",
                                         "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"};

std::string quoted(const Operand& o) { return "'" + o.name + "'"; }

} // namespace

// ---- builder side

uint32_t ProgramBuilder::constant(RegClass cls, uint64_t value) {
  if (cls == RegClass::Pred) value = value ? 1 : 0;
  if (cls == RegClass::B32) value &= 0xFFFFFFFFu;
  auto [it, fresh] = constants_.try_emplace({cls, value}, 0);
  if (fresh) {
    it->second = allocate(cls);
    program_->constants.push_back({it->second, cls, value});
  }
  return it->second;
}

uint32_t ProgramBuilder::special(Special which, RegClass cls, uint32_t offset, uint32_t bits) {
  auto [it, fresh] = specials_.try_emplace({which, cls, offset, bits}, 0);
  if (fresh) {
    it->second = allocate(cls);
    program_->specials.push_back({it->second, which, offset, bits});
  }
  return it->second;
}

uint32_t ProgramBuilder::special_register(std::string_view given, RegClass cls) {
  const std::string name = with_letter(given);
  for (const SpecialName& s : kSpecials)
    if (s.name == name) {
      const bool narrow_grid = s.which == Special::gridid && cls == RegClass::B32;
      if (s.cls != cls && !narrow_grid)
        refuse("'" + name + "' has " + class_name(s.cls) + "; the instruction takes " +
               class_name(cls));
      return special(s.which, cls, 0,
                     cls == RegClass::B32 && immediate_bits_ ? immediate_bits_ : 64);
    }
  for (const FixedName& f : kFixed)
    if (f.name == name) {
      if (f.cls != cls)
        refuse("'" + name + "' has " + class_name(f.cls) + "; the instruction takes " +
               class_name(cls));
      if (name.starts_with("%reserved_smem_offset_")) program_->shared_floor = 0;
      return constant(cls, f.value);
    }
  // PTX leaves them to the driver; CUDA's holds the address of a workspace there.
  auto workspace = index_.globals.find(kGridWorkspace);
  if (workspace != index_.globals.end() && (name == "%envreg1" || name == "%envreg2")) {
    if (cls != RegClass::B32) refuse("'" + name + "' has 32 bits");
    const uint64_t address = workspace->second->address;
    return constant(cls, name == "%envreg1" ? address >> 32 : uint32_t(address));
  }
  return exec::kNoSlot;
}

bool ProgramBuilder::is_special(std::string_view name) const {
  const auto named = [&](const auto& s) { return s.name == name; };
  return std::any_of(std::begin(kSpecials), std::end(kSpecials), named) ||
         std::any_of(std::begin(kFixed), std::end(kFixed), named);
}

uint32_t ProgramBuilder::address_slot(const Symbol& s, RegClass cls, int64_t offset) {
  if (!s.has_address) refuse("'" + s.name + "' is declared but not defined in this module");
  if (cls != RegClass::B32 && cls != RegClass::B64)
    refuse("the address of '" + s.name + "' needs a register of 32 or 64 bits");
  if (s.kind == Symbol::Kind::Shared) {
    const int64_t at = int64_t(s.address) + offset;
    if (at < 0 || at >= (1 << 24))
      refuse("the address of '" + s.name + "' with this offset leaves shared memory");
    return special(Special::shared_address, cls, uint32_t(at));
  }
  if (s.in_frame) return frame_address(s, cls, offset);
  if (cls == RegClass::B32 && (s.kind == Symbol::Kind::Global || s.kind == Symbol::Kind::Const))
    refuse("the address of '" + s.name + "' needs a register of 64 bits");
  return constant(cls, s.address + uint64_t(offset));
}

const uint32_t* ProgramBuilder::keep_operands(const std::vector<uint32_t>& dst,
                                              const std::vector<uint32_t>& src) {
  const size_t n = dst.size() + src.size();
  if (!operands_ || operands_->size() + n > operands_->capacity()) {
    operands_ = std::make_shared<std::vector<uint32_t>>();
    operands_->reserve(std::max<size_t>(4096, n));
    program_->arena.push_back(operands_);
  }
  const size_t start = operands_->size();
  operands_->insert(operands_->end(), dst.begin(), dst.end());
  operands_->insert(operands_->end(), src.begin(), src.end());
  return operands_->data() + start;
}

// ---- registers

namespace {

// The register that an operand names, or null for anything else.
Symbol* register_of(ProgramBuilder& b, const Operand& o) {
  if (o.kind != K::Name) return nullptr;
  Symbol* s = b.find(o.name);
  return s && s->kind == Symbol::Kind::Register ? s : nullptr;
}

uint32_t slot_of(ProgramBuilder& b, Symbol& s, const Operand& o, RegClass cls) {
  if (s.cls != cls)
    b.refuse("the register " + quoted(o) + " has " + class_name(s.cls) +
             "; the instruction takes " + class_name(cls));
  if (o.offset) b.refuse("an offset behind the register " + quoted(o));
  return b.register_slot(s);
}

// The names v.x, v.y, ... of a vector register, also of a special one such as %tid; empty when
// there is none of that name.
std::vector<Operand> components(ProgramBuilder& b, const Operand& o) {
  std::vector<Operand> list;
  if (o.kind != K::Name) return list;
  for (std::string_view c : {"x", "y", "z", "w"}) {
    Operand part = o;
    part.name += '.';
    part.name += c;
    const bool special = part.name[0] == '%' && !b.find(o.name) && b.is_special(part.name);
    if (!special && !register_of(b, part)) break;
    list.push_back(std::move(part));
  }
  return list;
}

uint64_t float_bits(const Operand& o, RegClass cls) {
  if (cls == RegClass::B32)
    return o.width == 32 ? o.value : std::bit_cast<uint32_t>(float(std::bit_cast<double>(o.value)));
  return o.width == 64 ? o.value
                       : std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(o.value))));
}

} // namespace

uint32_t DecodeContext::dst(const Operand& o, RegClass cls) {
  if (o.kind == K::Sink) return scratch(cls);
  if (o.kind != K::Name) builder_->refuse("a destination must be a register");
  Symbol* s = register_of(*builder_, o);
  if (!s) {
    if (builder_->find(o.name))
      builder_->refuse(quoted(o) + " is no register; it cannot be a destination");
    builder_->refuse("the register " + quoted(o) + " is not declared");
  }
  if (o.negated) builder_->refuse("a negated destination");
  return slot_of(*builder_, *s, o, cls);
}

uint32_t DecodeContext::src(const Operand& o, RegClass cls) {
  ProgramBuilder& b = *builder_;
  switch (o.kind) {
  case K::Int: {
    uint64_t v = o.value;
    if (b.immediate_bits_ && cls == RegClass::B32) v &= (uint64_t(1) << b.immediate_bits_) - 1;
    return constant(cls, v);
  }
  case K::Float:
    if (cls != RegClass::B32 && cls != RegClass::B64) b.refuse("a float in place of a predicate");
    return constant(cls, float_bits(o, cls));
  case K::Sink:
    b.refuse("'_' as a source");
  case K::Name:
    break;
  default:
    b.refuse("a source must be a register or an immediate");
  }
  if (o.negated && cls != RegClass::Pred)
    b.refuse("the operand " + quoted(o) + " cannot be negated here");
  if (Symbol* s = b.find(o.name)) {
    if (s->kind == Symbol::Kind::Register) return slot_of(b, *s, o, cls);
    return b.address_slot(*s, cls, o.offset);
  }
  const uint32_t slot = b.special_register(o.name, cls);
  if (slot != exec::kNoSlot) return slot;
  if (!dynamic_special(o).empty())
    b.refuse(quoted(o) + " changes while the kernel runs; only mov reads it");
  if (b.find_function(o.name))
    b.refuse("the function " + quoted(o) + " has no address: only those with a body in this " +
             "module, that mov or an initial value names, have one");
  for (const char* unmodelled : {"%pm", "%envreg"})
    if (o.name.starts_with(unmodelled))
      b.refuse("the special register " + quoted(o) + " does not exist on the virtual machine");
  if (b.is_special(o.name + ".x"))
    b.refuse("the special register " + quoted(o) + " has four elements: one is '" + o.name +
             ".x', and mov.v4 takes all");
  if (o.name[0] == '%' && o.name.find('.') != std::string::npos)
    b.refuse("unknown special register " + quoted(o));
  b.refuse(quoted(o) + " is not declared");
}

uint32_t DecodeContext::src_f32(const Operand& o) {
  if (o.kind == K::Int) builder_->refuse("an integer in place of a float; write 0f... or 1.0");
  return src(o, RegClass::B32);
}

uint32_t DecodeContext::src_f64(const Operand& o) {
  if (o.kind == K::Int) builder_->refuse("an integer in place of a float; write 0d... or 1.0");
  return src(o, RegClass::B64);
}

uint32_t DecodeContext::pred_dst(const Operand& o) { return dst(o, RegClass::Pred); }

uint32_t DecodeContext::pred_src(const Operand& o, bool& negated) {
  negated = o.negated;
  // Compilers write -1 for true.
  if (o.kind == K::Int && o.value > 1 && ~o.value) builder_->refuse("a predicate is 0, 1 or -1");
  return src(o, RegClass::Pred);
}

std::vector<uint32_t> DecodeContext::vector_dst(const Operand& o, RegClass cls) {
  std::vector<uint32_t> slots;
  if (o.kind == K::Vector) {
    for (const Operand& item : o.items) slots.push_back(dst(item, cls));
    return slots;
  }
  for (const Operand& part : components(*builder_, o)) slots.push_back(dst(part, cls));
  if (slots.empty()) slots.push_back(dst(o, cls));
  return slots;
}

std::vector<uint32_t> DecodeContext::vector_src(const Operand& o, RegClass cls) {
  std::vector<uint32_t> slots;
  if (o.kind == K::Vector) {
    for (const Operand& item : o.items) slots.push_back(src(item, cls));
    return slots;
  }
  for (const Operand& part : components(*builder_, o)) slots.push_back(src(part, cls));
  if (slots.empty()) slots.push_back(src(o, cls));
  return slots;
}

// ---- addresses, labels

AddressOperand DecodeContext::address(const Operand& operand) {
  ProgramBuilder& b = *builder_;
  const Operand& base = operand.kind == K::Address ? operand.items[0] : operand;
  AddressOperand a;
  a.offset = operand.offset;
  if (base.kind == K::Int) {
    a.base = constant(RegClass::B64, base.value);
    a.known = true;
    a.value = base.value;
    return a;
  }
  if (base.kind != K::Name || base.negated)
    b.refuse("an address must be a register, a variable or a number, with a constant offset");
  Symbol* s = b.need(base.name);
  switch (s->kind) {
  case Symbol::Kind::Register:
    if (s->bits != 32 && s->bits != 64)
      b.refuse("the address register " + quoted(base) + " must have 32 or 64 bits");
    a.base = b.register_slot(*s);
    a.wide = s->bits == 64;
    return a;
  case Symbol::Kind::Shared:
    a.base = b.address_slot(*s, RegClass::B32, 0);
    a.wide = false;
    return a;
  default:
    a.base = b.address_slot(*s, RegClass::B64, 0);
    a.known = !s->in_frame;
    a.value = s->address;
    return a;
  }
}

uint32_t DecodeContext::label(const Operand& o) {
  if (o.kind != K::Name) builder_->refuse("a branch needs a label");
  const uint32_t pc = builder_->find_label(o.name);
  if (pc == exec::kNoSlot) builder_->refuse("there is no label " + quoted(o) + " in reach");
  return pc;
}

std::vector<uint32_t> DecodeContext::branch_targets(const Operand& o) {
  if (o.kind != K::Name) builder_->refuse("brx.idx needs the name of a .branchtargets list");
  for (const auto& [name, labels] : builder_->unit_->function->branch_targets)
    if (name == o.name) {
      std::vector<uint32_t> pcs;
      for (const std::string& l : labels) {
        pcs.push_back(builder_->find_label(l));
        if (pcs.back() == exec::kNoSlot)
          builder_->refuse("there is no label '" + l + "' in reach, which " + quoted(o) + " names");
      }
      return pcs;
    }
  builder_->refuse("there is no .branchtargets list " + quoted(o));
}

// ---- the rest

uint32_t DecodeContext::constant(RegClass cls, uint64_t value) {
  return builder_->constant(cls, value);
}

uint32_t DecodeContext::scratch(RegClass cls) { return builder_->allocate(cls); }

bool DecodeContext::is_register(const Operand& o) const { return register_of(*builder_, o); }

RegClass DecodeContext::register_class(const Operand& o) const {
  Symbol* s = register_of(*builder_, o);
  if (!s) builder_->refuse(quoted(o) + " is not declared as a register");
  return s->cls;
}

uint32_t DecodeContext::register_bits(const Operand& o) const {
  Symbol* s = register_of(*builder_, o);
  if (!s) builder_->refuse(quoted(o) + " is not declared as a register");
  return s->bits;
}

std::string DecodeContext::variable_space(const Operand& operand) const {
  const Operand& o = operand.kind == K::Address ? operand.items[0] : operand;
  if (o.kind != K::Name) return "";
  Symbol* s = builder_->find(o.name);
  if (!s) return "";
  switch (s->kind) {
  case Symbol::Kind::Register:
    return "";
  case Symbol::Kind::Shared:
    return "shared";
  case Symbol::Kind::Local:
    return "local";
  case Symbol::Kind::Param:
    return "param";
  case Symbol::Kind::Global:
    return "global";
  case Symbol::Kind::Const:
    return "const";
  }
  return "";
}

std::string DecodeContext::dynamic_special(const Operand& o) const {
  if (o.kind == K::Name)
    for (std::string_view name : kDynamic)
      if (name == o.name) return o.name;
  return "";
}

void DecodeContext::set_operands(exec::Inst& inst, const std::vector<uint32_t>& dst,
                                 const std::vector<uint32_t>& src) {
  inst.op = builder_->keep_operands(dst, src);
  inst.n_dst = uint16_t(dst.size());
  inst.n_src = uint16_t(src.size());
}

void DecodeContext::keep(std::shared_ptr<void> p) { program_->arena.push_back(std::move(p)); }

void DecodeContext::refuse(const ptx::Statement& statement, const std::string& why) const {
  builder_->refuse(statement.line, why);
}

} // namespace vgpu::isa
