#include "tools/vgpu/check/ledger.hpp"

#include <cctype>
#include <sstream>

namespace vgpu::check {

namespace {

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(' ');
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(' ') - first + 1);
}

// Sums of products of numbers, names and brackets. Throws a sentence.
class Formula {
public:
  Formula(const std::string& text, const LedgerNames& names) : text_(text), names_(names) {}
  int64_t value() {
    const int64_t v = sum();
    if (next() != '\0') fail("is no formula");
    return v;
  }

private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::string("the table's \"" + text_ + "\" " + why);
  }
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  int64_t sum() {
    int64_t v = product();
    for (char c = next(); c == '+' || c == '-'; c = next()) {
      ++at_;
      const int64_t w = product();
      v += c == '+' ? w : -w;
    }
    return v;
  }
  int64_t product() {
    int64_t v = factor();
    for (; next() == '*'; v *= factor()) ++at_;
    return v;
  }
  int64_t factor() {
    if (next() == '(') {
      ++at_;
      const int64_t v = sum();
      if (next() != ')') fail("lacks a bracket");
      ++at_;
      return v;
    }
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word.empty() || word.size() > 18) fail("is no formula");
    auto known = names_.find(word);
    const std::string& digits = known == names_.end() ? word : known->second;
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)
      fail(known == names_.end() ? "has " + word + ", a name without a value"
                                 : "needs a number as " + word);
    return std::stoll(digits);
  }

  const std::string& text_;
  const LedgerNames& names_;
  size_t at_ = 0;
};

} // namespace

bool parse_names(const std::string& text, LedgerNames& names, std::string* error) {
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    const size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == one.size()) {
      if (error) *error = "\"" + one + "\" must be NAME=VALUE";
      return false;
    }
    names[trimmed(one.substr(0, equals))] = trimmed(one.substr(equals + 1));
  }
  return true;
}

uint64_t formula_value(const std::string& text, const LedgerNames& names) {
  const int64_t v = Formula(text, names).value();
  if (v < 0) throw std::string("the table's \"" + text + "\" is negative");
  return static_cast<uint64_t>(v);
}

// ---- the table

Ledger::Ledger(LedgerTable table, LedgerNames names, Sink& sink)
    : table_(std::move(table)), names_(std::move(names)), sink_(sink) {
  const auto edges = names_.find("EDGES");
  edges_ = edges != names_.end() && edges->second != "0";
}

Ledger::Named Ledger::warps(const std::string& cell) const {
  auto known = names_.find(cell);
  std::istringstream in(known == names_.end() ? cell : known->second);
  Named result;
  for (std::string word; in >> word;) {
    if (word == "(commit)") {
      result.commit = true;
      continue;
    }
    const bool maybe = word.size() > 2 && word.front() == '(' && word.back() == ')';
    if (maybe) word = word.substr(1, word.size() - 2);
    const size_t dash = word.find('-');
    const uint64_t first = number(word.substr(0, dash));
    if (dash + 1 == word.size()) {
      result.from = static_cast<uint32_t>(first);
      continue;
    }
    const uint64_t last = dash == std::string::npos ? first : number(word.substr(dash + 1));
    if (last > 31) throw std::string("the table's \"" + cell + "\" names a warp beyond 31");
    for (uint64_t w = first; w <= last; ++w)
      (maybe ? result.maybe : result.each).insert(static_cast<uint32_t>(w));
  }
  return result;
}

Ledger::Line Ledger::read(const std::vector<std::string>& cells) const {
  if (cells.size() != 7)
    throw std::string("a line of the table has " + std::to_string(cells.size()) +
                      " cells; they are barrier, n, count, bytes, arrives, waits and first");
  Line line;
  line.name = cells[0].substr(0, cells[0].find('['));
  line.n = number(cells[1]);
  if (line.n == 0) return line; // of other rows: its names may have no value
  line.count = number(cells[2]);
  for (size_t at = 0; at != std::string::npos;) {
    const size_t end = cells[3].find(" or ", at);
    line.bytes.insert(static_cast<int64_t>(number(cells[3].substr(at, end - at))));
    at = end == std::string::npos ? end : end + 4;
  }
  line.arrives = warps(cells[4]);
  line.waits = warps(cells[5]);
  line.first = cells[6];
  if (line.first != "0" && line.first != "1" && line.first != "0 1")
    throw std::string("the table's \"" + line.first + "\" is no parity: 0, 1, or 0 1");
  return line;
}

// ---- what ran

void Ledger::mbarrier_init(const Who& w, uint32_t cta, uint32_t offset, uint32_t count) {
  Seen& s = seen_[{cta, offset}];
  s.init = w;
  s.count = count;
}

void Ledger::mbarrier_arrive(const Who& w, uint32_t cta, uint32_t offset, uint32_t, bool) {
  Seen& s = seen_[{cta, offset}];
  (w.op ? s.committed : s.arrived).try_emplace(w.warp, w);
}

void Ledger::mbarrier_bytes(const Who&, uint32_t cta, uint32_t offset, int64_t bytes) {
  seen_[{cta, offset}].paid += bytes;
}

void Ledger::mbarrier_phase(uint32_t cta, uint32_t offset) {
  Seen& s = seen_[{cta, offset}];
  ++s.bytes[s.paid];
  s.paid = 0;
}

void Ledger::mbarrier_wait(const Who& w, uint32_t cta, uint32_t offset, uint64_t phase, bool) {
  Seen& s = seen_[{cta, offset}];
  s.waited.try_emplace(w.warp, w);
  s.first.try_emplace({w.cta, w.warp}, static_cast<int64_t>(phase));
}

// ---- the two together

void Ledger::wrong(const Who& at, const std::string& text) const {
  sink_.found(Finding{"barriers", "ledger", false, text, {{"mbarrier.init", at}}});
  throw text; // a sink that only takes notes: nothing more is said of this kernel
}

bool Ledger::may_have(const Line& line, int64_t bytes) const {
  return line.bytes.count(bytes) || (edges_ && bytes < *line.bytes.rbegin());
}

void Ledger::compare(const Line& line, uint64_t index, const Seen& s,
                     const std::string& where) const {
  const std::string name = line.name + "[" + std::to_string(index) + "], " + where + ", ";
  if (s.count != line.count)
    wrong(s.init, name + "awaits " + std::to_string(s.count) + " arrivals; the table says " +
                      std::to_string(line.count));
  for (const auto& [bytes, phases] : s.bytes)
    if (!may_have(line, bytes)) {
      std::string says;
      for (const int64_t b : line.bytes) says += (says.empty() ? "" : " or ") + std::to_string(b);
      wrong(s.init, name + "got " + std::to_string(bytes) + " bytes in " + std::to_string(phases) +
                        (phases == 1 ? " phase" : " phases") + "; the table says " + says);
    }
  // A thread whose first wait is for a later phase has no use for the first ones.
  for (const auto& [who, phase] : s.first)
    if (phase <= 0 && line.first.find(phase < 0 ? '1' : '0') == std::string::npos)
      wrong(s.waited.at(who.second),
            name +
                (phase < 0 ? "lets the first wait of warp " : "holds up the first wait of warp ") +
                std::to_string(who.second) + (phase < 0 ? " pass" : "") +
                "; the table says parity " + line.first);
}

void Ledger::compare_warps(const Named& named, const Warps& seen, const std::string& what,
                           const Who& at, bool all) const {
  for (const auto& [warp, who] : seen)
    if (!named.holds(warp))
      wrong(who, what + " by warp " + std::to_string(warp) + ", which the table does not name");
  if (!all) return;
  for (const uint32_t warp : named.each)
    if (!seen.count(warp))
      wrong(at, what + " by warp " + std::to_string(warp) + " is in the table, but did not happen");
}

void Ledger::end() {
  if (seen_.empty() && table_.empty()) return;
  const Who first = seen_.empty() ? Who{} : seen_.begin()->second.init;
  try {
    if (table_.empty()) wrong(first, "the kernel's head has no table under // BARRIER LEDGER");
    std::vector<Line> lines;
    uint64_t total = 0;
    try {
      for (const auto& cells : table_) {
        lines.push_back(read(cells));
        total += lines.back().n;
      }
    } catch (const std::string& why) {
      wrong(first, why);
    }
    std::map<uint32_t, std::vector<const Seen*>> by_cta;
    std::map<const Seen*, std::string> where;
    for (const auto& [at, s] : seen_) {
      by_cta[at.first].push_back(&s);
      std::ostringstream place;
      place << "at shared offset 0x" << std::hex << at.second << std::dec << " of CTA rank "
            << at.first;
      where[&s] = place.str();
    }
    for (const auto& [cta, all] : by_cta)
      if (all.size() != total)
        wrong(all.front()->init, "CTA rank " + std::to_string(cta) + " initialises " +
                                     std::to_string(all.size()) + " mbarriers; the table has " +
                                     std::to_string(total));
    size_t at = 0;
    for (const Line& line : lines) {
      Warps arrived, committed, waited;
      // Every warp has had its turn once each barrier of the array has had a phase.
      bool all_used = !edges_;
      for (uint64_t i = 0; i < line.n; ++i) {
        bool used = false;
        for (const auto& [cta, all] : by_cta) {
          const Seen& s = *all[at + i];
          compare(line, i, s, where[&s]);
          used |= !s.bytes.empty();
          arrived.insert(s.arrived.begin(), s.arrived.end());
          committed.insert(s.committed.begin(), s.committed.end());
          waited.insert(s.waited.begin(), s.waited.end());
        }
        all_used &= used;
      }
      const Who init = by_cta.empty() || line.n == 0 ? first : by_cta.begin()->second[at]->init;
      at += line.n;
      const Named nobody;
      const Named& by_thread = line.arrives.commit ? nobody : line.arrives;
      const Named& by_commit = line.arrives.commit ? line.arrives : nobody;
      compare_warps(by_thread, arrived, line.name + ": an arrival", init, all_used);
      compare_warps(by_commit, committed, line.name + ": an arrival of an operation", init,
                    all_used);
      compare_warps(line.waits, waited, line.name + ": a wait", init, all_used);
    }
  } catch (const std::string&) {
  }
}

} // namespace vgpu::check
