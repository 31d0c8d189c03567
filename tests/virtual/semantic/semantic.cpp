#include "tests/virtual/semantic/semantic.hpp"

#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/grouped/grouped.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/moe/moe.hpp"
#include "tests/problems/share.hpp"
#include "tests/support/fnv.hpp"
#include "tests/virtual/mutation/statement.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

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
  if (name == "fma" && ops.size() == 4) operand(3, ops[1], "other addend");
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

std::vector<SemanticMutant> semantic_mutants(const std::string& kernel, const std::string& ptx) {
  std::vector<SemanticMutant> out;
  std::istringstream in(ptx);
  std::string label;
  uint64_t statements = fnv(kernel);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string t = trim(line);
    if (t.size() > 1 && t.back() == ':' && t.find(' ') == std::string::npos && t != "wait:")
      label = t.substr(0, t.size() - 1);
    Statement s;
    if (!parse(line, s)) continue;
    statements = fnv(t, statements);
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
  std::set<std::string> seen;
  for (const auto& [name, ptx] : kernels) {
    const std::vector<SemanticMutant> all = semantic_mutants(name, ptx);
    std::map<std::string, std::pair<int, int>> lines; // first and last of a new place
    for (const SemanticMutant& m : all)
      if (!seen.count(m.place)) {
        auto [at, fresh] = lines.try_emplace(m.place, m.line, m.line);
        at->second.second = m.line;
      }
    std::vector<SemanticMutant>& mine = out.emplace_back();
    for (const SemanticMutant& m : all) {
      const auto found = lines.find(m.place);
      if (found != lines.end() && (m.line == found->second.first || m.line == found->second.second))
        mine.push_back(m);
    }
    for (const auto& [place, at] : lines) seen.insert(place);
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
    for (const size_t i : {size_t{0}, e.size() / 3, 2 * e.size() / 3, e.size() - 1})
      if (!e.empty() && (few.empty() || few.back().second.key != e[i].second.key))
        few.push_back(e[i]);
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

std::string no_effect(const std::string& kernel, const SemanticMutant& m) {
  const std::string& t = m.instruction;
  if (has(t, "prefetch") || has(t, "applypriority") || has(t, "discard.global"))
    return "a prefetch changes no value";
  if (starts(t, "mov.b64 hint, ") || has(t, "createpolicy") ||
      (has(t, "policy") && starts(t, "ld.param")))
    return "a cache policy changes no value";
  if (has(t, "nanosleep")) return "a pause changes no value";
  if (starts(t, "cvta.to.global") && m.change == "delete")
    return "an address of global memory is the same in the generic window";
  if ((has(kernel, "sm90_decode") || has(kernel, "sm90_permute")) &&
      (m.label == "warmer" || m.label == "next_tile" || m.label == "next_warm" ||
       m.label == "second_warm"))
    return "the warmer does nothing but prefetch";
  return "";
}

namespace {

// The mantissa of an FP32 literal in the statement is 0: a power of two.
bool times_power_of_two(const std::string& t) {
  const size_t at = t.find(", 0f");
  return at != std::string::npos &&
         (std::strtoul(t.substr(at + 4, 8).c_str(), nullptr, 16) & 0x7FFFFF) == 0;
}

const warpline::gemm::Config* config_of(const std::string& kernel) {
  for (const auto* table :
       {&warpline::dual_gemm::configs(), &warpline::linear::configs(),
        &warpline::grouped::linear_configs(), &warpline::grouped::dual_configs(),
        &warpline::moe::up_configs(), &warpline::moe::down_configs()})
    for (const warpline::gemm::Config& config : *table)
      if (kernel == config.name) return &config;
  return nullptr;
}

// What is so in some configurations only.
std::string reason_of_config(const warpline::gemm::Config& c, const SemanticMutant& m) {
  using warpline::gemm::Grid;
  const std::string& t = m.instruction;
  const auto names = [&](const char* a) { return has(t, a); };
  const bool one_more = m.change == "constant + 1";
  const bool sm100 = c.blackwell();
  if (sm100 && (names("tmem_base") || names(" tmem_first, tmem_first")) &&
      warpline::gemm::sm100_tmem_columns(c.tile_n, c.acc_stages, c.scale_sets, c.b_tensors) > 256)
    return "the kernel allocates all columns of tensor memory, which begin at 0";
  if (sm100 && c.acc_stages == 1 && names("mad.lo.u32") && names(", acc, ") &&
      m.change != "without the addend")
    return "there is one accumulator, number 0";
  if (c.grid == Grid::one_tile && sm100 &&
      (names(" acc, ") || names("acc_phase") || names("acc_barrier, acc, ")))
    return "a cluster makes one tile: no accumulator comes next";
  if (c.cluster[0] == 1 && !starts(t, "@") &&
      (names("slice") || names("rank") || names("cluster_x") || names("cluster_y") ||
       names("cluster_row")))
    return "a CTA alone in its cluster has rank 0 and all slices";
  if (sm100) return "";
  if (c.family == warpline::gemm::Family::sm90_small) {
    // Copies of the loop of warps that bring activations: as many as hold words of registers.
    const int copies = c.tile_m == 1 ? 8 : c.first_types().a == WL_OPERAND_NVFP4 ? 4 : 2;
    const int stages = warpline::gemm::sm90_small_token_stages(c.tile_m, c.decoders);
    const bool of_copy =
        starts(m.label, "activations_stage") || starts(m.label, "arrived") || m.label == "fetch";
    if (stages % copies == 0 && of_copy && (names("wraps, stage") || starts(t, "@wraps ")))
      return "the copies of the loop take stages in turn: only the last one's can be the ring's "
             "end";
    if (stages == copies && of_copy && names(", stage, "))
      return "each copy of the loop has a stage of its own, the first one number 0";
    if (stages == copies && of_copy && names("free_phase, phase"))
      return "the phase changes behind the last copy only";
    if (c.tile_m <= 8 && names("tokens, 512")) return "a tile of 8 tokens is one piece, number 0";
    if (names("@inside bra fetch")) return "what is loaded replaces the zeros";
    if (c.split_k == 1 && names("ahead, k_end"))
      return "K is not shared: beyond the split is beyond K";
    if (names("more, k_block, k_end") && has(m.change, "setp.gt"))
      return "one block more, for which no consumer waits";
  }
  const int rows_of_ctas = c.cluster[0] / c.split_k;
  if (c.split_k == 1 && (names(" split, ") || names("mask_word, split") || names("3, mask_word") ||
                         names("release_rank, split")))
    return "K is not shared: the number of the split is 0";
  if (c.split_k == 2 && (names(" slot, ") || names("is_mine, split, ")))
    return "of two splits each gets one message, in slot 0; who ends the tokens sends none";
  if (names("is_mine, set, 0") || (starts(t, "@is_mine bra take_over")))
    return "either of two sets may take over the other's sums";
  if (rows_of_ctas == 2 && (names("share, tile_tokens, 1") || names("share, share, 2") ||
                            names("first, first, tile_tokens")))
    return "each token comes from one of the two CTAs: which one is of no account";
  if (c.columns() <= 128 && 128 % c.tile_n == 0 &&
      (names("_quarter, block, ") || names("block, block, first_block")))
    return "a tile of 64 columns lies in one block of scales, number 0 of the tile's";
  if (one_more &&
      (names("column, group, 32") || names("_quarter, 12") || names("second_quarter, tile_column")))
    return "of a column only its multiple of 32 counts here";
  return "";
}

} // namespace

std::string equivalent_reason(const std::string& kernel, const SemanticMutant& m) {
  const std::string& t = m.instruction;
  const auto names = [&](const char* a) { return has(t, a); };
  const bool one_more = m.change == "constant + 1", deleted = m.change == "delete";
  const bool cut = has(m.change, ".rz.");
  if (names("shfl.sync.idx.b32 warp, warp, 0"))
    return "every lane holds the number of its warp: the shuffle only tells the compiler";
  if (m.label == "operands_release" || m.label == "operands_drain")
    return "the commits that this loop waits for come before the accumulator's, for which the "
           "consumers wait before the last barrier";
  if (names(" fresh, ") || names("@fresh "))
    return "a stage's first wait passes at once: skipping it saves time";
  if (names("k_tail")) return "steps beyond K multiply zeros, with which TMA fills them";
  if (names("ring_end") || names(" k_loop") || (deleted && starts(t, "@more bra mma_ring")))
    return "the turn of the whole ring and the single stages make the same steps";
  if (m.label == "mma_empty" &&
      (names("_desc") || names("tmem_sfb") || names("tmem_scales") || names("acc, ")))
    return "an empty tile's addresses and sets of scales reach no instruction";
  if (names("wide") || names("whole")) return "two stores of 16 bytes write what one of 32 does";
  if (names("or.b32 desc_base") || names("and.b32 desc_base") || names("or.b32 desc_low"))
    return "a descriptor's leading offset is not read under a 128-byte swizzle, and shared memory "
           "starts at a multiple of 1024";
  if (one_more &&
      (names("is_role, warp, ") || names("first_lane, lane, 0") || names("releaser, lane, 0") ||
       names("more, lane, 0") || names("is_role, lane, 0") || names("is_loader, thread, 0") ||
       names("is_role, thread, 0") || names("is_mine, thread, 128")))
    return "another warp or lane does the same";

  // Arithmetic.
  if (one_more && (names("0fC2C80000") || names("0f42C80000")))
    return "beyond 100 the function is its limit: one place more of the bound changes nothing";
  if (one_more && names("0f00000000") &&
      (starts(t, "max.NaN.f32") || names(" largest, ") || names(" zero, ") || names(" factor, ")) &&
      !has(kernel, "f32"))
    return "FP32's smallest number becomes 0 in D's type, in a scale and in a code";
  if (cut && times_power_of_two(t) && starts(t, "mul."))
    return "a product with a power of two is exact";
  if (cut && (names(", other") || names(", moved;") || names(", received") || names(", part") ||
              names("block_sum") || names("_total, ") || names(" total, ")))
    return "sums over K: exact, or rounded within the contract's bound, which no order and no "
           "rounding of FP32 leaves";
  if (one_more && starts(t, "mov.f32 ") && names("0f00000000") && (names(" acc") || names("total")))
    return "FP32's smallest number more in a sum over K, of which the contract leaves the last "
           "place";
  if (m.change == "elements exchanged" && starts(t, "mov.b32 {half0, half1}") &&
      (m.label == "added" || m.label == "each_number" || m.label == "second_pass"))
    return "two sums over K, which are added, exchange a number: the contract leaves their order";
  if (starts(t, "mov.u32 codes") && (deleted || one_more))
    return "eight codes of four bits push out what was there";
  if (m.label == "as_before" &&
      (names("bounded") || starts(t, "mul.rn.f32 other, ") || names("neg.f32 decoded, decoded")))
    return "the long way gives the same codes as the short one";
  if (m.label == "each_barrier" && has(m.change, "setp.le"))
    return "one mbarrier more is made, where none is used";
  if (one_more && starts(t, "add.u32 k_blocks"))
    return "K is a multiple of 64: rounding up adds 63 more or not";
  if (one_more && starts(t, "selp.b32 reciprocal"))
    return "2^32 / GROUP_M, less one or not: a quotient that is one too small is made right";

  if (one_more &&
      (names("slice_column, column, ") || names("limit1, column, 0") || names("beside, column, ")))
    return "N is a multiple of 8: between two of them no comparison changes";
  if (one_more && starts(t, "@more mov.u32 limit")) return "no token of this thread is below 1";
  if (one_more && names("min.f32 magnitude, magnitude, 0f40C00000"))
    return "6 and the next number have the same code";
  if (deleted && starts(t, "mov.f32 zero,"))
    return "only the lower byte of the pair is stored and decoded";
  if (m.label == "encoder" && names("mov.b32 {half0, half1}") && m.change == "elements exchanged")
    return "the greatest of numbers is the same in any order";
  if (one_more && names("valid, 1")) return "any number but 0 says that there is a tile";
  if (one_more && starts(t, "add.u32 group_barrier, group"))
    return "another number for the same barrier";
  if (deleted && starts(t, "@no_bias bra"))
    return "without biases the fetch finds no addresses, and -0";
  if ((m.label == "prefetch_stage" || (m.label == "barriers_ready" && has(kernel, "small"))) &&
      (names("k_byte, k_block") || names("k_atom, k_block") || names("k_block, k_block, 1")))
    return "a prefetch's address changes no value";
  if ((one_more || deleted) && starts(t, "mov.u") && (names(" word") || names(" bytes")) &&
      has(kernel, "sm90"))
    return "beyond K the weights are zeros, with which TMA fills them, and a NaN among the scales "
           "of "
           "the same row makes all its outputs NaN anyway";
  if (deleted && starts(m.label, "form_done") &&
      (starts(t, "ld.param.") || names("is_silu, gate_kind")))
    return "the tile's first part has loaded the register";

  if (names("valid_half")) return "only prefetches ask it";
  if (one_more && m.label == "fetch" && starts(t, "mov.u32 k") && names(", 0;"))
    return "beyond K the weights are zeros, and what they meet is finite";
  if (one_more && names(", index, 32768")) return "half of a number below 32768, rounded down";
  if (one_more && starts(t, "add.u32 team_barrier, team"))
    return "another number for the same barrier";
  if (names("tokens, tokens, 15") && one_more)
    return "an MMA of 16 tokens more, whose sums nobody stores";
  if ((starts(t, "setp.le.u32 more, address, ") && has(m.change, "setp.lt")) ||
      (starts(t, "sub.u32 address, rows, tile_row") && m.change == "add.u32"))
    return "MMAs of more tokens than needed give the same sums";
  if (deleted && names("setp.le.u32 more, address, 64"))
    return "`more` is false there: MMAs of more tokens than needed give the same sums";
  if (names("@found max.u32 end") && has(m.change, "predicate dropped"))
    return "without a lane above, the shuffle gives a lane its own number";
  if (deleted && names("bad, wrong, 0, bad")) return "an or with 0";
  if (names("{valid, valid};")) return "a tile that is none has no rows that are read";
  if (deleted && names("mov.u32 matrix")) return "a lane beyond the pairs has none";
  if (names("first_group, group_total") && has(m.change, "setp.gt"))
    return "one round more of lanes without a group";

  // The gate's last places: ex2 and rcp are approximate, and the contract bounds what becomes of
  // them.
  const bool of_gate = starts(m.label, "form_silu") || starts(m.label, "form_erf") ||
                       starts(m.label, "gelu_erf") || names("sigmoid_c") || names("gate_c") ||
                       names(" t, s, s;") || names(", l, t;") || names("q, e, 0f3F800000");
  if ((cut || (one_more && names(", 0f"))) && of_gate && !names("bias"))
    return "the last place of FP32 of what approximate instructions make: it differs between "
           "chips, "
           "and the contract leaves it open";

  // Outputs that nobody stores.
  if ((one_more || deleted) && starts(t, "mov.") &&
      (names(" kept") || names(" fetched") || names(" low, 0f3F80") || names(" high, 0f3F80")))
    return "of outputs beyond the matrix, which nobody stores";
  if (names("nothing, ") || starts(t, "@nothing "))
    return m.change == "delete" || has(m.change, "setp.gt")
               ? "a warp without outputs skips what it would not store"
               : "";
  if (m.change == "predicate dropped" &&
      ((starts(t, "@has_columns ") && has(kernel, "x1_")) ||
       (starts(t, "@has_rows ") && (has(kernel, "_1x") || has(kernel, "pair_2x")))))
    return "a cluster of one in this direction has nothing beyond the matrix";

  if ((has(kernel, "grouped_sm90_decode") || has(kernel, "grouped_sm90_permute")) &&
      (names("wrong") || names("flags") || (m.label == "tiles_given" && !starts(t, "ld."))))
    return "what is wrong with the table the product behind this kernel tells, too";

  // Sums of ranges (stream-K).
  if (starts(t, "@first_lane st.") && names("global.b64") && has(m.change, "predicate"))
    return "every lane writes the same number to the flag";
  if (m.label == "scheduler_tile" && (names("left, range_end, position") || names("k_count, left")))
    return "a cluster that takes a whole tile instead of its range's part finishes it alone";
  if (m.label == "mma_peer_tile" && (names("tile_k_first") || names("tile_row")))
    return "the second CTA of a pair issues no MMA: where its tile lies reaches no instruction";
  const warpline::gemm::Config* config = config_of(kernel);
  return config == nullptr ? "" : reason_of_config(*config, m);
}

std::string survivor_reason(const SemanticMutant& m) {
  const std::string& t = m.instruction;
  const auto names = [&](const char* a) { return has(t, a); };
  if (m.label == "as_before" && (names("error") || names("factor")))
    return "the virtual GPU's approximate reciprocal is right to the last place: only a card shows "
           "what the next step mends";
  if (starts(t, "div.u32 k_") && names(", 512"))
    return "differs from K = 262144 on, where a problem takes minutes";
  if (has(m.change, ".rz."))
    return "the last place of FP32, at few of the outputs: no drawn one lies near enough to where "
           "it "
           "decides";
  if (m.change == "constant + 1" && names(", 0f"))
    return "the last place of FP32: no drawn output lies near enough to where it decides";
  if (names("row_blocks") || names("shr.u32 row_block"))
    return "needs more than 128 rows or columns and a second batch entry of a tile of few";
  if (names("early") || (starts(t, "@more bra weights_stage")))
    return "needs a grid ahead that writes the weights";
  if (m.change == "operands exchanged" && starts(t, "@one_more sub.u32"))
    return "a quotient is one too small only where the rest is the divisor, as long as tiles times "
           "those of a group stay below 2^32";
  if (names("reciprocal"))
    return "a quotient is wrong by more than the one that is made right only from three groups on";
  return "no drawn problem has the values that tell";
}

} // namespace wltest
