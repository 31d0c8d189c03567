#include "tools/vgpu/check/definedness.hpp"

#include <algorithm>

namespace vgpu::check {

using exec::Inst;
using exec::Warp;

namespace {
constexpr uint32_t kColumns = exec::TensorMemory::kColumns;
constexpr uint32_t kLanes = exec::TensorMemory::kLanes;
} // namespace

Definedness::Rule Definedness::rule_of(const Inst& inst) {
  Rule r;
  if (!inst.text || inst.text->opcode.empty()) return r;
  const auto& op = inst.text->opcode;
  const std::string& first = op[0];
  auto has = [&](std::string_view t) { return std::find(op.begin(), op.end(), t) != op.end(); };
  const uint8_t vector = has("v8") ? 8 : has("v4") ? 4 : has("v2") ? 2 : 1;
  const bool integers = std::none_of(op.begin(), op.end(), [](const std::string& t) {
    return t[0] == 'f' || t[0] == 'e' || t[0] == 't' || t[0] == 'b' || t == "sat";
  });
  if (first == "ld" || first == "ldu" || first == "ldmatrix") {
    r.kind = Kind::Load;
    r.elements = vector;
  } else if (first == "st" && !has("bulk")) {
    r.kind = Kind::Store;
    r.elements = r.data = vector;
  } else if (first == "wmma" && op[1] == "load") {
    r.kind = Kind::Load;
  } else if (first == "wmma" && op[1] == "store") {
    r.kind = Kind::Store;
    r.data = static_cast<uint8_t>(inst.n_src - 2); // behind them address and stride
  } else if (first == "mov" || first == "prmt" || first == "shf" || first == "shl" ||
             first == "shr" || first == "and" || first == "or" || first == "bfi" ||
             first == "bfe" || (first == "cvt" && integers)) {
    r.kind = Kind::Move;
  } else if (first == "discard") {
    r.kind = Kind::Discard;
  } else if (first == "alloca") {
    r.kind = Kind::Alloca;
  } else if (first == "mma" && op.size() > 1 && op[1].starts_with("sp")) {
    r.metadata = uint32_t(inst.imm);
  } else if (first == "selp" || first == "slct") {
    r.kind = Kind::Select;
  } else if (first == "wgmma") {
    r.kind = has("mma_async") ? Kind::WgmmaOp : has("fence") ? Kind::WgmmaFence : Kind::Fresh;
  } else if (first == "shfl" || first == "vote" || first == "match" || first == "redux" ||
             first == "elect" || first == "activemask" || first == "ret" || first == "stmatrix") {
    r.kind = Kind::Fresh;
  } else if (first == "call") {
    r.kind = Kind::Call;
  } else if (first == "tcgen05") {
    bool ld = op.size() > 1 && op[1] == "ld", st = op.size() > 1 && op[1] == "st";
    r.kind = ld ? Kind::TensorLoad : st ? Kind::Fresh : Kind::Sink;
  } else if (first == "atom" || first == "red" || first == "cp" || first == "mbarrier" ||
             first == "bar" || first == "barrier" || first == "prefetch" || first == "setmaxnreg") {
    r.kind = Kind::Sink;
    r.elements = first == "atom" || first == "red" ? vector : 1;
    r.replaces = has("exch");
    r.copies = first == "cp" && !has("reduce");
  } else if ((first == "xor" || first == "sub") && inst.n_src == 2 &&
             inst.op[inst.n_dst] == inst.op[inst.n_dst + 1]) {
    r.kind = Kind::Fresh; // x ^ x and x - x do not depend on x
  }
  return r;
}

std::shared_ptr<const Definedness::Facts> Definedness::facts_of(const exec::Program& p) {
  auto facts = std::make_shared<Facts>();
  constexpr uint32_t none = ~0u;
  uint32_t count = 0;
  facts->number.assign(p.regfile_bytes / 8 + 1, none);
  const auto count_in = [&](uint32_t slot) {
    if (slot == exec::kNoSlot) return;
    uint32_t& number = facts->number[slot / 8];
    if (number == none) number = count++;
  };
  facts->rules.reserve(p.code.size());
  for (const Inst& inst : p.code) {
    Rule rule = rule_of(inst);
    if (rule.kind == Kind::Call && p.stack_slot == exec::kNoSlot) rule.kind = Kind::Fresh;
    facts->wgmma |= rule.kind == Kind::WgmmaOp;
    facts->rules.push_back(rule);
    count_in(inst.guard);
    for (uint32_t i = 0; i < uint32_t(inst.n_dst) + inst.n_src; ++i) count_in(inst.op[i]);
  }
  for (const exec::Constant& c : p.constants) count_in(c.slot);
  for (const exec::SpecialSlot& x : p.specials) count_in(x.slot);
  count_in(p.carry_flag);
  facts->start.assign(count, Lanes{0});
  const auto written = [&](uint32_t slot) {
    if (slot != exec::kNoSlot) facts->start[facts->at(slot)].written = ~0u;
  };
  for (const exec::Constant& c : p.constants) written(c.slot);
  for (const exec::SpecialSlot& x : p.specials) written(x.slot);
  written(p.carry_flag);
  return facts;
}

Definedness::Definedness(exec::Cluster& cluster, const Facts& facts, Sink& sink)
    : cluster_(cluster), sink_(sink), facts_(facts) {
  const exec::Program& p = *cluster.spec.program;
  const exec::LaunchSpec& s = cluster.spec;
  warps_ = (s.block[0] * s.block[1] * s.block[2] + 31) / 32;
  uint32_t ctas = s.cluster[0] * s.cluster[1] * s.cluster[2];
  registers_.assign(size_t(ctas) * warps_, facts.start);
  if (facts.wgmma) unfenced_.assign(registers_.size(), std::vector<uint8_t>(facts.start.size(), 0));
  shared_.assign(ctas, std::vector<uint8_t>(p.dynamic_shared_offset + s.dynamic_shared, 0));
  for (auto& states : shared_) // the library's room
    std::fill_n(states.begin(), std::min<size_t>(states.size(), exec::kSharedBase),
                uint8_t{kWritten});
  stack_each_ = size_t(cluster.local_bytes() - p.local_bytes);
  stack_.assign(ctas, std::vector<uint8_t>(stack_each_ * warps_ * 32, 0));
  tensor_.assign(
      ctas, std::vector<uint8_t>(s.profile->has_tensor_memory ? size_t(kLanes) * kColumns : 0, 0));
}

void Definedness::report(const Warp& w, const Inst& inst, uint32_t lanes, uint32_t slot,
                         const char* rule, const std::string& what) {
  const auto& names = w.program().slot_name;
  auto name = names.find(slot);
  Finding f;
  f.checker = "definedness";
  f.rule = rule;
  f.text = (name == names.end() ? std::string("a register") : "register " + name->second) + " " +
           what + ", and nothing has written it in lane " + std::to_string(std::countr_zero(lanes));
  f.sites.push_back({"this use", Who{w.cta.rank, w.index, lanes, inst.pc, 0}});
  sink_.found(f);
}

void Definedness::before(Warp& w, const Inst& inst, uint32_t mask) {
  const Rule& rule = facts_.rules[inst.pc];
  if (inst.guard != exec::kNoSlot)
    if (const uint32_t undefined = mask & ~registers(w)[facts_.at(inst.guard)].written)
      report(w, inst, undefined, inst.guard, "predicate", "guards an instruction");
  if (rule.takes_stack())
    std::copy_n(w.lanes<uint32_t>(w.program().stack_slot), 32, stack_before_.begin());
  if (rule.kind == Kind::WgmmaOp) {
    const std::vector<uint8_t>& unfenced = unfenced_[w.cta.rank * warps_ + w.index];
    for (uint32_t i = 0; i < uint32_t(inst.n_dst) + inst.n_src; ++i) {
      uint32_t slot = inst.op[i];
      // Descriptors and predicates are read at issue; fragments are 32-bit registers.
      if (!unfenced[facts_.at(slot)] || w.program().slot_class[slot / 8] != exec::RegClass::B32)
        continue;
      auto name = w.program().slot_name.find(slot);
      Finding f;
      f.checker = "definedness";
      f.rule = "wgmma-fence";
      f.text = "register " + (name == w.program().slot_name.end() ? "?" : name->second) +
               (unfenced[facts_.at(slot)] & kWrote ? " was written" : " was read") +
               " by another instruction, and no wgmma.fence stands between that and this use";
      f.sites.push_back({"this use", Who{w.cta.rank, w.index, mask, inst.pc, 0}});
      sink_.found(f);
    }
  }
  if (rule.kind == Kind::Sink || rule.kind == Kind::Load || rule.kind == Kind::Store ||
      rule.kind == Kind::TensorLoad || rule.kind == Kind::WgmmaOp || rule.kind == Kind::Alloca)
    sources(w, inst, rule, mask);
}

void Definedness::sources(Warp& w, const Inst& inst, const Rule& rule, uint32_t mask) {
  const Registers& r = registers(w);
  const uint32_t* src = inst.op + inst.n_dst;
  if (rule.data || rule.kind == Kind::Load) std::fill_n(moved_, kMaxElements, Lanes{});
  for (uint32_t i = 0; i < inst.n_src; ++i) {
    const Lanes& s = r[facts_.at(src[i])];
    uint32_t undefined = mask & ~s.written;
    if (undefined && i < rule.data) {
      Lanes& m = moved_[i < rule.elements ? i : 0];
      const uint32_t derived = (m.written | m.derived) & (s.written | s.derived);
      const uint32_t copied = (m.written | m.copied) & (s.written | s.copied);
      m.written &= ~undefined;
      m.derived = derived & ~m.written;
      m.copied = copied & ~m.written;
      continue;
    }
    // Fragments hold rows beyond a matrix too, which come from padding.
    if (rule.kind == Kind::WgmmaOp) undefined &= ~s.derived;
    if (!undefined) continue;
    report(w, inst, undefined, src[i], "operand",
           "is an address or operand of a memory, barrier or tensor core instruction");
  }
}

void Definedness::after(Warp& w, const Inst& inst, uint32_t mask, exec::Step step) {
  // A call jumps, and hands its arguments over.
  if (step == exec::Step::Block || step == exec::Step::Exit) return;
  const Rule& rule = facts_.rules[inst.pc];
  if (!unfenced_.empty()) {
    std::vector<uint8_t>& unfenced = unfenced_[w.cta.rank * warps_ + w.index];
    if (rule.kind == Kind::WgmmaFence) std::fill(unfenced.begin(), unfenced.end(), uint8_t{0});
    if (rule.kind != Kind::WgmmaOp) {
      for (uint32_t i = 0; i < inst.n_src; ++i)
        unfenced[facts_.at(inst.op[inst.n_dst + i])] |= kRead;
      for (uint32_t i = 0; i < inst.n_dst; ++i) unfenced[facts_.at(inst.op[i])] |= kWrote;
    }
  }
  if (rule.takes_stack())
    for (uint32_t m = mask; m; m &= m - 1) {
      const uint32_t lane = uint32_t(std::countr_zero(m));
      const uint32_t top = w.lanes<uint32_t>(w.program().stack_slot)[lane];
      if (top < stack_before_[lane])
        std::fill_n(stack_byte(w.cta.rank, w.index, lane, top), stack_before_[lane] - top,
                    uint8_t{rule.kind == Kind::Alloca ? kUnwritten : kWritten});
    }
  if (inst.n_dst == 0 || rule.kind == Kind::TensorLoad) return;
  Registers& r = registers(w);
  const uint32_t* src = inst.op + inst.n_dst;
  Lanes result{mask};
  if (rule.kind == Kind::Compute || rule.kind == Kind::Move) {
    for (uint32_t i = 0; i < inst.n_src; ++i)
      result.written &= r[facts_.at(src[i])].written | (i + 1 == inst.n_src ? ~rule.metadata : 0);
  } else if (rule.kind == Kind::Select && inst.n_src == 3) {
    result.written &= (r[facts_.at(src[0])].written | r[facts_.at(src[1])].written) &
                      r[facts_.at(src[2])].written;
  }
  if (any_derived_ && result.written != mask) {
    result.derived = result.copied = mask & ~result.written;
    for (uint32_t i = 0; i < inst.n_src; ++i) {
      const Lanes& s = r[facts_.at(src[i])];
      result.derived &= s.written | s.derived;
      result.copied &= s.written | s.copied;
    }
    if (rule.kind == Kind::Compute) result.copied = 0;
  }
  for (uint32_t i = 0; i < inst.n_dst; ++i) {
    if (rule.kind == Kind::Load) {
      const Lanes& part = moved_[i < rule.elements ? i : 0];
      result = {mask & part.written, mask & part.derived, mask & part.copied};
      any_derived_ |= result.derived != 0;
    }
    Lanes& d = r[facts_.at(inst.op[i])];
    d.written = (d.written & ~mask) | result.written;
    if (!any_derived_) continue;
    d.derived = (d.derived & ~mask) | result.derived;
    d.copied = (d.copied & ~mask) | result.copied;
  }
}

void Definedness::access_tensor(uint32_t cta, uint32_t lane, uint32_t lanes, uint32_t column,
                                uint32_t columns, bool write, bool by_warp,
                                const exec::Origin& origin) {
  uint8_t* words = tensor_[cta].data();
  const Rule& rule = facts_.rules[origin.inst->pc];
  if (write) {
    if (by_warp) return; // dealloc
    for (uint32_t l = lane; l < lane + lanes; ++l)
      std::fill_n(words + size_t(l) * kColumns + column, columns, uint8_t{1});
    return;
  }
  uint32_t good = 0; // by lane mod 32: all words of the row
  bool any = false;
  for (uint32_t l = lane; l < lane + lanes; ++l) {
    const uint8_t* row = words + size_t(l) * kColumns + column;
    bool all = std::find(row, row + columns, 0) == row + columns;
    any |= std::find(row, row + columns, 1) != row + columns;
    if (all) good |= 1u << (l - lane) % 32;
  }
  if (rule.kind == Kind::TensorLoad) {
    Registers& r = registers(*cluster_.ctas[origin.cta]->warps[origin.warp]);
    // Shapes of 16 lanes spread a row over the warp: defined when all of it is.
    uint32_t result = lanes == 32 ? good : (good == 0xFFFF ? ~0u : 0);
    for (uint32_t i = 0; i < origin.inst->n_dst; ++i)
      r[facts_.at(origin.inst->op[i])] = Lanes{result};
    return;
  }
  if (any) return;
  Finding f;
  f.checker = "definedness";
  f.rule = "source";
  f.text = "tensor memory columns " + std::to_string(column) + ".." +
           std::to_string(column + columns - 1) + " of CTA rank " + std::to_string(cta) +
           " are read by the tensor core, and nothing has written any of them";
  f.sites.push_back(
      {"issued", Who{origin.cta, origin.warp, 1u << origin.lane, origin.inst->pc, 0}});
  sink_.found(f);
}

void Definedness::tensor_alloc(uint32_t cta, uint32_t column, uint32_t columns) {
  for (uint32_t l = 0; l < kLanes; ++l)
    std::fill_n(tensor_[cta].data() + size_t(l) * kColumns + column, columns, uint8_t{0});
}

} // namespace vgpu::check
