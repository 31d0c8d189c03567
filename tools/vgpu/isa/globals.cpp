#include "tools/vgpu/isa/globals.hpp"

#include "tools/vgpu/isa/types.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace vgpu::isa {

namespace {

// By name, for initial values.
using Symbols = std::unordered_map<std::string_view, const GlobalSymbol*>;

uint64_t initial_bits(const ptx::Variable& v, const ptx::Operand& o, const Symbols& symbols) {
  const uint32_t bits = type_bits(v.type);
  const bool is_float = v.type[0] == 'f';
  switch (o.kind) {
  case ptx::Operand::Kind::Int:
    if (is_float && bits == 32) return std::bit_cast<uint32_t>(float(int64_t(o.value)));
    if (is_float && bits == 64) return std::bit_cast<uint64_t>(double(int64_t(o.value)));
    return o.value;
  case ptx::Operand::Kind::Float: {
    if (bits != 32 && bits != 64)
      throw DecodeError(v.line, "a float as the initial value of the ." + v.type + " variable '" +
                                    v.name + "'");
    const double value = o.width == 32 ? double(std::bit_cast<float>(uint32_t(o.value)))
                                       : std::bit_cast<double>(o.value);
    if (bits == 32) return o.width == 32 ? o.value : std::bit_cast<uint32_t>(float(value));
    return std::bit_cast<uint64_t>(value);
  }
  case ptx::Operand::Kind::Name: {
    auto s = symbols.find(o.name);
    if (s == symbols.end())
      throw DecodeError(v.line, "the initial value of '" + v.name + "' names '" + o.name +
                                    "', which is no variable or function of this module");
    const uint64_t address = s->second->address + uint64_t(o.offset);
    return o.value ? (address & o.value) >> std::countr_zero(o.value) : address;
  }
  default:
    throw DecodeError(v.line, "the initial value of '" + v.name + "' is no constant");
  }
}

void initialise(const ptx::Variable& v, uint8_t* to, uint64_t bytes, const Symbols& symbols) {
  std::memset(to, 0, bytes);
  const uint64_t each = std::max(1u, type_bits(v.type) / 8);
  if (v.init.size() > bytes / each)
    throw DecodeError(v.line, "'" + v.name + "' has more initial values than elements");
  for (size_t i = 0; i < v.init.size(); ++i) {
    const uint64_t value = initial_bits(v, v.init[i], symbols);
    std::memcpy(to + i * each, &value, std::min<uint64_t>(each, 8));
  }
}

void note_names(const ptx::Operand& o, std::unordered_set<std::string_view>& names) {
  if (o.kind == ptx::Operand::Kind::Name) names.insert(o.name);
  for (const ptx::Operand& item : o.items) note_names(item, names);
}

bool reads_grid_workspace(const ptx::Module& module) {
  for (const ptx::Function& f : module.functions)
    for (const ptx::Statement& s : f.statements)
      if (s.opcode[0] == "mov" && s.operands.size() > 1 &&
          (s.operands[1].name == "%envreg1" || s.operands[1].name == "%envreg2"))
        return true;
  return false;
}

// Functions that are named where no call is.
std::vector<const ptx::Function*> address_taken(const ptx::Module& module) {
  std::vector<const ptx::Function*> list;
  std::unordered_set<std::string_view> names;
  const bool any = std::any_of(module.functions.begin(), module.functions.end(),
                               [](const ptx::Function& f) { return !f.is_entry && f.has_body; });
  if (!any) return list;
  for (const ptx::Variable& v : module.variables)
    for (const ptx::Operand& o : v.init) note_names(o, names);
  for (const ptx::Function& f : module.functions)
    for (const ptx::Statement& s : f.statements)
      if (s.opcode[0] == "mov" || s.opcode[0] == "cvta")
        for (const ptx::Operand& o : s.operands) note_names(o, names);
  for (const ptx::Function& f : module.functions)
    if (!f.is_entry && f.has_body && names.contains(f.name)) list.push_back(&f);
  return list;
}

} // namespace

std::vector<GlobalSymbol> place_globals(const ptx::Module& module, mem::DeviceMemory& memory) {
  std::vector<GlobalSymbol> symbols;
  std::vector<const ptx::Variable*> variables;
  std::unordered_set<std::string_view> names;
  try {
    for (const ptx::Variable& v : module.variables) {
      if ((v.space != "global" && v.space != "const") || v.is_extern) continue;
      const uint64_t bytes = variable_bytes(v);
      if (!bytes) throw DecodeError(v.line, "the variable '" + v.name + "' has no size");
      if (!names.insert(v.name).second)
        throw DecodeError(v.line, "'" + v.name + "' is defined twice");
      const uint64_t alignment = std::max<uint64_t>(16, variable_alignment(v));
      const uint64_t address = v.is_managed ? memory.allocate_visible(bytes, alignment, v.name)
                                            : memory.allocate(bytes, alignment, v.name);
      if (!address)
        throw DecodeError(v.line, "the variable '" + v.name + "' of " + std::to_string(bytes) +
                                      " bytes does not fit into device memory");
      symbols.push_back({v.name, address, bytes});
      variables.push_back(&v);
    }
    // Addresses of no other module's functions either.
    for (const ptx::Function* f : address_taken(module)) {
      if (!names.insert(f->name).second)
        throw DecodeError(f->line, "'" + f->name + "' is defined twice");
      const uint64_t address = memory.allocate(16, 16, f->name);
      if (!address) throw DecodeError(f->line, "device memory has no room for '" + f->name + "'");
      symbols.push_back({f->name, address, 16, true});
    }
    if (reads_grid_workspace(module)) {
      constexpr uint64_t kBytes = 64; // its size, then the barrier of the grid
      const uint64_t address = memory.allocate(kBytes, 16, std::string(kGridWorkspace));
      if (!address) throw DecodeError(0, "device memory has no room for the grid's barrier");
      symbols.push_back({std::string(kGridWorkspace), address, kBytes});
      std::memset(memory.find(address, kBytes), 0, kBytes);
    }
    Symbols by_name;
    for (const GlobalSymbol& g : symbols) by_name.emplace(g.name, &g);
    for (size_t i = 0; i < variables.size(); ++i)
      initialise(*variables[i], memory.find(symbols[i].address, symbols[i].bytes), symbols[i].bytes,
                 by_name);
  } catch (...) {
    for (const GlobalSymbol& g : symbols) memory.free(g.address);
    throw;
  }
  return symbols;
}

} // namespace vgpu::isa
