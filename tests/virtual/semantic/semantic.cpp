#include "tests/virtual/semantic/semantic.hpp"

#include "tests/problems/share.hpp"
#include "tests/support/fnv.hpp"
#include "tests/virtual/mutation/statement.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace wltest {

namespace {

// Instructions whose mutants are those of mutants.hpp, and directives of control.
bool synchronises(const std::string& op) {
  for (const char* prefix : {"mbarrier.",
                             "fence.",
                             "tcgen05.fence",
                             "membar",
                             "tcgen05.commit",
                             "tcgen05.wait",
                             "tcgen05.relinquish",
                             "tcgen05.alloc",
                             "tcgen05.dealloc",
                             "wgmma.fence",
                             "wgmma.commit_group",
                             "wgmma.wait_group",
                             "cp.async.bulk.commit_group",
                             "cp.async.bulk.wait_group",
                             "cp.async.commit_group",
                             "cp.async.wait_group",
                             "griddepcontrol",
                             "bar.",
                             "barrier.",
                             "setmaxnreg",
                             "ret",
                             "exit"})
    if (starts(op, prefix)) return true;
  return false;
}

// The opcode with another word in the place of one between its dots; "" when it is not there.
std::string swapped(const std::string& op, const std::string& word, const std::string& by) {
  const std::string dotted = "." + op + ".";
  const size_t at = dotted.find("." + word + ".");
  if (at == std::string::npos) return "";
  std::string s = dotted;
  s.replace(at + 1, word.size(), by);
  return s.substr(1, s.size() - 2);
}

std::string next_float(const std::string& literal) { // 0fXXXXXXXX
  char text[16];
  std::snprintf(text, sizeof text, "0f%08X",
                static_cast<unsigned>(std::strtoul(literal.c_str() + 2, nullptr, 16) + 1));
  return text;
}

bool is_float(const std::string& s) { return s.size() == 10 && s[0] == '0' && s[1] == 'f'; }
bool is_integer(const std::string& s) {
  const size_t first = !s.empty() && s[0] == '-' ? 1 : 0;
  return s.size() > first && std::isdigit(static_cast<unsigned char>(s[first])) != 0 &&
         !is_float(s);
}

std::string stepped(const std::string& literal) {
  if (is_float(literal)) return next_float(literal);
  // Of a mask, what its lowest bit lets through.
  if (literal.find('x') != std::string::npos)
    return number(literal) == 0 ? "1" : hex(number(literal) & (number(literal) - 1));
  return std::to_string(std::strtoll(literal.c_str(), nullptr, 10) + 1);
}

std::string literal_change(const std::string& literal) {
  return literal.find('x') != std::string::npos ? "lowest bit cleared" : "constant + 1";
}

// {a, b, c, d} -> {b, a, c, d}; "" where there are no two.
std::string exchanged(const std::string& list) {
  if (list.size() < 2 || list[0] != '{' || list.back() != '}') return "";
  std::vector<std::string> parts = operands(list.substr(1, list.size() - 2));
  if (parts.size() < 2 || parts[0] == parts[1]) return "";
  std::swap(parts[0], parts[1]);
  return "{" + joined(parts) + "}";
}

struct Change {
  std::string what, line;
};

std::vector<Change> changes(const Statement& s) {
  std::vector<Change> out;
  const std::string& op = s.opcode;
  if (synchronises(op)) return out;
  const std::vector<std::string> ops = operands(s.rest);
  const auto with = [&](const std::string& guard, const std::string& opcode,
                        const std::vector<std::string>& o) {
    return s.indent + guard + opcode + (o.empty() ? "" : " " + joined(o)) + ";";
  };
  const auto operation = [&](const std::string& opcode) {
    if (!opcode.empty() && opcode != op) out.push_back({opcode, with(s.guard, opcode, ops)});
  };
  const auto operand = [&](size_t i, const std::string& value, const std::string& what) {
    auto o = ops;
    o[i] = value;
    out.push_back({what, with(s.guard, op, o)});
  };
  const bool branch = starts(op, "bra");
  if (branch && s.rest == "wait") return out; // of a wait for a barrier
  if (!s.guard.empty()) {
    const std::string other =
        s.guard[1] == '!' ? "@" + s.guard.substr(2) : "@!" + s.guard.substr(1);
    out.push_back({"predicate inverted", with(other, op, ops)});
    if (!branch) out.push_back({"predicate dropped", with("", op, ops)});
  }
  if (branch) {
    if (!s.guard.empty()) out.push_back({"delete", s.indent + "// deleted"});
    return out;
  }
  out.push_back({"delete", s.indent + "// deleted"});
  const std::string name = op.substr(0, op.find('.'));
  static const std::map<std::string, std::string> others = {
      {"add", "sub"}, {"sub", "add"}, {"and", "or"},  {"or", "and"}, {"xor", "or"},
      {"shl", "shr"}, {"min", "max"}, {"max", "min"}, {"abs", "neg"}};
  // What a macro adds or shifts by 0 is the same the other way round.
  const bool neutral = (name == "add" || name == "sub" || name == "shl" || name == "shr") &&
                       ops.size() == 3 && ops[2] == "0";
  if (const auto found = others.find(name); found != others.end() && !neutral) {
    std::string by = found->second + op.substr(name.size());
    if (name == "shl")
      by =
          swapped(by, "b32", "u32").empty() ? swapped(by, "b64", "u64") : swapped(by, "b32", "u32");
    operation(by);
  }
  if (name == "shr" && !neutral) {
    std::string by = "shl" + op.substr(3);
    for (const char* bits : {"32", "64", "16"})
      for (const char* sign : {"u", "s"})
        if (const std::string other =
                swapped(by, sign + std::string(bits), "b" + std::string(bits));
            !other.empty())
          by = other;
    operation(by);
  }
  if (name == "mul" || name == "mad") {
    operation(swapped(op, "lo", "hi"));
    if (name == "mad" && ops.size() == 4)
      out.push_back({"without the addend", s.indent + s.guard + "mul" + op.substr(3) + " " +
                                               joined({ops[0], ops[1], ops[2]}) + ";"});
  }
  if (name == "fma" && ops.size() == 4 && ops[3] != ops[1]) operand(3, ops[1], "other addend");
  if (name == "setp") {
    static const std::map<std::string, std::string> senses = {
        {"lt", "le"}, {"le", "lt"}, {"gt", "ge"}, {"ge", "gt"}, {"eq", "ne"},
        {"ne", "eq"}, {"lo", "ls"}, {"ls", "lo"}, {"hi", "hs"}, {"hs", "hi"}};
    for (const auto& [from, to] : senses)
      if (starts(op.substr(4), ("." + from + ".").c_str())) operation("setp." + to + op.substr(7));
  }
  // Operands where the order matters.
  const bool ordered = name == "sub" || name == "shl" || name == "shr" || name == "div" ||
                       name == "rem" || name == "selp" || name == "prmt" ||
                       (name == "setp" && !has(op, ".eq.") && !has(op, ".ne.")) ||
                       (name == "cvt" && ops.size() == 3);
  if (ordered && ops.size() >= 3 && ops[1] != ops[2] &&
      (name == "selp" || (!is_integer(ops[1]) && !is_integer(ops[2])))) {
    auto o = ops;
    std::swap(o[1], o[2]);
    out.push_back({"operands exchanged", with(s.guard, op, o)});
  }
  if ((starts(op, "wgmma.mma") || starts(op, "tcgen05.mma")) && ops.size() >= 3) {
    const size_t first = 1;
    auto o = ops;
    std::swap(o[first], o[first + 1]);
    out.push_back({"operands exchanged", with(s.guard, op, o)});
  }
  for (size_t i = 0; i < ops.size(); ++i)
    if (const std::string other = exchanged(ops[i]); !other.empty())
      operand(i, other, "elements exchanged");
  // Constants, those of addresses included.
  for (size_t i = 0; i < ops.size(); ++i) {
    if (is_float(ops[i]) || (i > 0 && is_integer(ops[i])))
      operand(i, stepped(ops[i]), literal_change(ops[i]));
    if (const size_t plus = ops[i].find(" + ");
        ops[i][0] == '[' && plus != std::string::npos && is_integer(ops[i].substr(plus + 3))) {
      const std::string offset = ops[i].substr(plus + 3);
      operand(i,
              ops[i].substr(0, plus + 3) +
                  std::to_string(std::strtoll(offset.c_str(), nullptr, 0) + 16) + "]",
              "address + 16");
    }
  }
  if (has(op, ".f") && (has(op, ".rn.") || op.size() < 3)) operation(swapped(op, "rn", "rz"));
  if (name == "lop3" && ops.size() == 5) operand(4, hex(number(ops[4]) ^ 0x80), "other table");
  return out;
}

// A statement without its numbers: what one line of the source becomes in other places.
std::string masked(const std::string& statement) {
  std::string out;
  for (size_t i = 0; i < statement.size(); ++i) {
    const auto c = static_cast<unsigned char>(statement[i]);
    if (std::isdigit(c) == 0) {
      out += statement[i];
      continue;
    }
    while (i + 1 < statement.size() &&
           std::isxdigit(static_cast<unsigned char>(statement[i + 1])) != 0)
      ++i;
    out += '#';
  }
  return out;
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t") + 1 - first);
}

bool is_label(std::string_view t) {
  return t.size() > 1 && t.back() == ':' && t.find(' ') == std::string_view::npos && t != "wait:";
}

// Of a cluster, by the kernel's name.
int ctas_of(const std::string& kernel) {
  for (size_t i = 1; i + 1 < kernel.size(); ++i)
    if (kernel[i] == 'x' && std::isdigit(static_cast<unsigned char>(kernel[i - 1])) != 0 &&
        std::isdigit(static_cast<unsigned char>(kernel[i + 1])) != 0)
      return (kernel[i - 1] - '0') * (kernel[i + 1] - '0');
  if (has(kernel, "swapped")) return has(kernel, "split4") ? 4 : has(kernel, "split2") ? 2 : 1;
  return has(kernel, "split2") ? 4 : has(kernel, "pair") ? 2 : 1;
}

} // namespace

std::vector<SemanticMutant> semantic_mutants(const std::string& kernel, const std::string& ptx,
                                             const std::set<int>* lines) {
  std::vector<SemanticMutant> out;
  std::istringstream in(ptx);
  std::string label;
  uint64_t statements = fnv(kernel);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string t = trim(line);
    if (is_label(t)) label = t.substr(0, t.size() - 1);
    Statement s;
    if (!parse(line, s)) continue;
    statements = fnv(t, statements);
    if (lines != nullptr && lines->count(number) == 0) continue;
    const std::vector<Change> its = changes(s);
    if (its.empty()) continue;
    const std::string place = problems::family_of(kernel) + "|" + masked(label) + "|" + masked(t);
    for (const Change& c : its) {
      SemanticMutant m;
      m.line = number;
      m.change = c.what;
      m.instruction = t;
      m.label = label;
      m.replacement = c.line;
      m.place = place;
      m.key = fnv(c.line, statements);
      out.push_back(std::move(m));
    }
  }
  // Of the whole kernel: what comes behind a statement decides, too, what becomes of its mutants.
  for (SemanticMutant& m : out) m.key = fnv_step(m.key, statements);
  return out;
}

std::vector<std::vector<SemanticMutant>>
shared_out(const std::vector<std::pair<std::string, std::string>>& kernels) {
  std::vector<std::vector<SemanticMutant>> out;
  std::unordered_set<uint64_t> seen;
  for (const auto& [name, ptx] : kernels) {
    std::unordered_map<uint64_t, std::pair<int, int>> places; // first and last line of a new one
    const uint64_t family = fnv(problems::family_of(name));
    uint64_t label = family;
    int number = 0;
    for (size_t at = 0, end; at < ptx.size(); at = end + 1) {
      ++number;
      end = std::min(ptx.find('\n', at), ptx.size());
      const std::string_view t = trimmed({&ptx[at], end - at});
      if (is_label(t)) label = problems::hash_without_numbers(t, family);
      const uint64_t place = problems::hash_without_numbers(t, label);
      if (seen.count(place) == 0)
        places.try_emplace(place, number, number).first->second.second = number;
    }
    std::set<int> lines;
    for (const auto& [place, ends] : places) {
      lines.insert({ends.first, ends.second});
      seen.insert(place);
    }
    out.push_back(lines.empty() ? std::vector<SemanticMutant>()
                                : semantic_mutants(name, ptx, &lines));
  }
  return out;
}

std::vector<Elsewhere>
places_elsewhere(const std::vector<std::pair<std::string, std::string>>& kernels,
                 const std::vector<const SemanticMutant*>& mutants) {
  std::map<std::string, std::vector<size_t>> wanted; // by place and change
  for (size_t i = 0; i < mutants.size(); ++i)
    wanted[mutants[i]->place + "|" + mutants[i]->change].push_back(i);
  std::vector<Elsewhere> all(mutants.size());
  if (mutants.empty()) return all;
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::set<size_t> taken; // once in a kernel
    for (SemanticMutant& m : semantic_mutants(kernels[k].first, kernels[k].second)) {
      const auto found = wanted.find(m.place + "|" + m.change);
      if (found == wanted.end()) continue;
      for (const size_t i : found->second)
        if (m.key != mutants[i]->key && taken.insert(i).second) all[i].emplace_back(k, m);
    }
  }
  // Those with the largest clusters first, then some from all over the table.
  for (Elsewhere& e : all) {
    std::stable_sort(e.begin(), e.end(), [&](const auto& a, const auto& b) {
      return ctas_of(kernels[a.first].first) > ctas_of(kernels[b.first].first);
    });
    Elsewhere few;
    const size_t count = std::min(e.size(), most_elsewhere);
    for (size_t i = 0; i < count; ++i)
      few.push_back(e[count == 1 ? 0 : i * (e.size() - 1) / (count - 1)]);
    e = std::move(few);
  }
  return all;
}

std::string text_of(const SemanticMutant& mutant, const std::string& ptx) {
  std::string out;
  std::istringstream in(ptx);
  int number = 0;
  for (std::string line; std::getline(in, line);)
    out += (++number == mutant.line ? mutant.replacement : line) + "\n";
  return out;
}

} // namespace wltest
