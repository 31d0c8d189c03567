#include "tools/vgpu/ops/external.hpp"

#include <cstring>

namespace vgpu::ops {

namespace {

struct Function {
  std::string_view name;
  Step (*run)(Warp&, const Inst&, uint32_t);
  std::vector<uint32_t> arguments; // bytes
  uint32_t result;                 // bytes; 0: none
  bool heap = false;
};
const Function kFunctions[] = {
    {"vprintf", print_text, {8, 8}, 4},
    {"__assertfail", assert_fail, {8, 8, 4, 8, 8}, 0},
    {"malloc", heap_allocate, {8}, 8, true},
    {"__nv_aligned_device_malloc", heap_allocate_aligned, {8, 8}, 8, true},
    {"free", heap_free, {8}, 0, true},
};

// Local-memory offsets of the call's .param variables.
struct External {
  const Function* function = nullptr;
  std::vector<uint64_t> arguments;
  uint64_t result = ~0ull;
};

} // namespace

uint64_t argument(Warp& w, const Inst& i, uint32_t lane, size_t index) {
  const External& x = *static_cast<const External*>(i.data);
  uint64_t v = 0;
  read_generic(w, i, lane, exec::kLocalWindow + x.arguments[index], &v,
               x.function->arguments[index]);
  return v;
}

void give_result(Warp& w, const Inst& i, uint32_t lane, uint64_t value) {
  const External& x = *static_cast<const External*>(i.data);
  if (x.result == ~0ull) return;
  exec::Access a;
  a.space = exec::Space::Local;
  a.write = true;
  a.address = x.result;
  a.bytes = x.function->result;
  std::memcpy(w.cluster().touch(a, w.origin(i, 1u << lane)), &value, a.bytes);
}

void call_external(DecodeContext& dc, const Statement& s, std::string_view name, Inst& inst) {
  const Function* f = nullptr;
  std::string known;
  for (const Function& one : kFunctions) {
    if (one.name == name) f = &one;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  if (!f)
    dc.refuse(s, "the function '" + std::string(name) +
                     "' has no body; of the external functions only these exist: " + known);
  if (s.call_arguments.size() != f->arguments.size())
    dc.refuse(s, std::string(name) + " takes " + std::to_string(f->arguments.size()) +
                     (f->arguments.size() == 1 ? " argument" : " arguments"));
  if (s.call_returns.size() > (f->result ? 1 : 0))
    dc.refuse(s, std::string(name) + " returns " + (f->result ? "one value" : "nothing"));
  auto* x = dc.make<External>();
  x->function = f;
  auto offset_of = [&](const Operand& o) {
    const isa::AddressOperand a =
        dc.variable_space(o) == "local" ? dc.address(o) : isa::AddressOperand{};
    if (!a.known) dc.refuse(s, std::string(name) + " takes .param variables of this function");
    return a.value;
  };
  for (const Operand& o : s.call_arguments) x->arguments.push_back(offset_of(o));
  if (!s.call_returns.empty()) x->result = offset_of(s.call_returns[0]);
  inst.data = x;
  inst.run = f->run;
  if (f->heap) dc.program().uses_heap = true;
  dc.set_operands(inst, {}, {});
}

} // namespace vgpu::ops
