// Adding the instructions.
#include "tools/stamps/stamps.hpp"
#include "tools/vgpu/trace/head.hpp"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace warpline::stamps {

namespace {

// A statement of a line: "@p cp.async.bulk... [x], [y], 16, [bar];" or "label:".
struct Statement {
  std::string guard;    // "p", "!p" or ""
  std::string name;     // up to the first blank
  std::string operands; // the rest, without ';'
  bool label = false;
};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Statement parse(const std::string& line) {
  Statement s;
  std::string text = trimmed(line.substr(0, line.find("//")));
  if (text.empty()) return s;
  if (text.back() == ':') {
    s.label = true;
    s.name = text.substr(0, text.size() - 1);
    return s;
  }
  if (text[0] == '@') {
    const size_t end = text.find_first_of(" \t");
    if (end == std::string::npos) return s;
    s.guard = text.substr(1, end - 1);
    text = trimmed(text.substr(end));
  }
  const size_t end = text.find_first_of(" \t;");
  s.name = text.substr(0, end);
  if (end != std::string::npos) {
    s.operands = trimmed(text.substr(end));
    if (!s.operands.empty() && s.operands.back() == ';') s.operands.pop_back();
  }
  return s;
}

bool starts(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// What stands between the n-th pair of outer brackets, "" when there are fewer.
std::string bracket(const std::string& operands, int n) {
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == '[' && depth++ == 0) from = i + 1;
    if (operands[i] == ']' && --depth == 0 && n-- == 0) return operands.substr(from, i - from);
  }
  return "";
}

// "wgmma.wait_group" of "wgmma.wait_group.sync.aligned".
std::string short_name(const std::string& name) {
  const size_t first = name.find('.');
  const size_t second = first == std::string::npos ? first : name.find('.', first + 1);
  std::string result = name.substr(0, second);
  while (!result.empty() && result.back() == ':') result.pop_back();
  return result;
}

bool is_wait(const std::string& name) {
  for (const char* wait :
       {"wgmma.wait_group", "tcgen05.wait", "cp.async.bulk.wait_group", "griddepcontrol.wait",
        "barrier.cluster.wait", "bar.sync", "barrier.sync", "barrier.cta.sync"})
    if (starts(name, wait)) return true;
  return false;
}

// The work that an instruction issues or commits; What::end when it does neither.
What work_of(const std::string& name) {
  if (starts(name, "wgmma.commit_group") || starts(name, "tcgen05.commit") ||
      starts(name, "cp.async.bulk.commit_group"))
    return What::commit;
  if (starts(name, "wgmma.mma_async") || starts(name, "tcgen05.mma") || starts(name, "tcgen05.cp"))
    return What::mma;
  if (starts(name, "tcgen05.ld") || starts(name, "tcgen05.st")) return What::tensor_load;
  if (starts(name, "cp.async.bulk") && has(name, ".global.shared::cta")) return What::store;
  if (starts(name, "cp.async.bulk") && has(name, ".shared::") && !has(name, "prefetch"))
    return What::load;
  return What::end;
}

class Stamper {
public:
  Stamper(const std::string& ptx, uint32_t ctas, uint32_t records) {
    std::istringstream in(ptx);
    for (std::string line; std::getline(in, line);) lines_.push_back(line);
    result_.ctas = ctas;
    result_.records = records;
    result_.roles = vgpu::trace::roles_of(lines_);
    result_.barriers = vgpu::trace::barriers_of(lines_);
  }

  Stamped run() {
    const size_t entry = find_line(0, [](const std::string& line) {
      return line.rfind(".entry ", 0) == 0 || line.rfind(".visible .entry ", 0) == 0;
    });
    const size_t size = find_line(entry, [](const std::string& l) { return has(l, ".maxntid"); });
    const size_t body = find_line(size, [](const std::string& line) { return line == "{"; });
    if (body == lines_.size())
      throw std::invalid_argument(
          "stamps: the PTX must have an .entry with .maxntid and its body's '{' on a line");
    const char* bound = lines_[size].c_str() + lines_[size].find(".maxntid") + 8;
    result_.warps = static_cast<uint32_t>(std::strtoul(bound, nullptr, 10) + 31) / 32;
    if (result_.warps == 0 || result_.warps > 32)
      throw std::invalid_argument("stamps: .maxntid must be a number from 1 to 1024");
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (i == entry) declare_buffer();
      if (i > body)
        line(i);
      else
        put(lines_[i]);
      if (i == body) prologue();
    }
    result_.text = std::move(out_);
    return std::move(result_);
  }

private:
  template <class Test>
  size_t find_line(size_t from, const Test& test) const {
    while (from < lines_.size() && !test(lines_[from])) ++from;
    return from;
  }

  void put(const std::string& text) { out_ += text + "\n"; }

  void declare_buffer() {
    put(".visible .global .align 16 .b8 " + std::string(buffer_name) + "[" +
        std::to_string(result_.buffer_bytes()) + "];");
  }

  uint32_t add_site(What what, size_t line, const std::string& name, int pending = 0) {
    result_.sites.push_back({what, static_cast<int>(line) + 1, name, pending});
    return static_cast<uint32_t>(result_.sites.size() - 1);
  }

  // Two times the site, one more for the end of a wait. `address`: "reg", "reg + 8", or "".
  void record(uint32_t site, bool end, const std::string& address, const std::string& guard,
              const char* clock = "%clock64") {
    put("  mov.u64 wl_stamp_clock, " + std::string(clock) + ";");
    put("  mov.b32 wl_stamp_site, " + std::to_string(2 * site + end) + ";");
    const size_t plus = address.find('+');
    if (address.empty())
      put("  mov.b32 wl_stamp_value, 0;");
    else if (plus == std::string::npos)
      put("  mov.b32 wl_stamp_value, " + trimmed(address) + ";");
    else
      put("  add.u32 wl_stamp_value, " + trimmed(address.substr(0, plus)) + ", " +
          trimmed(address.substr(plus + 1)) + ";");
    put("  mov.b64 wl_stamp_word, {wl_stamp_site, wl_stamp_value};");
    std::string now = "wl_stamp_on";
    if (!guard.empty()) {
      now = "wl_stamp_now";
      if (guard[0] == '!') {
        put("  not.pred wl_stamp_now, " + guard.substr(1) + ";");
        put("  and.pred wl_stamp_now, wl_stamp_now, wl_stamp_on;");
      } else
        put("  and.pred wl_stamp_now, " + guard + ", wl_stamp_on;");
    }
    put("  @" + now + " st.global.v2.b64 [wl_stamp_at], {wl_stamp_clock, wl_stamp_word};");
    put("  @" + now + " add.s64 wl_stamp_at, wl_stamp_at, 16;");
    put("  @" + now + " sub.s32 wl_stamp_left, wl_stamp_left, 1;");
    put("  setp.gt.and.s32 wl_stamp_on, wl_stamp_left, 0, wl_stamp_on;");
  }

  void prologue() {
    put("  .reg .b64 wl_stamp_at, wl_stamp_clock, wl_stamp_word;");
    put("  .reg .b32 wl_stamp_left, wl_stamp_site, wl_stamp_value;");
    put("  .reg .pred wl_stamp_on, wl_stamp_now;");
    // Cluster 0, lane 0.
    put("  mov.u32 wl_stamp_value, %clusterid.x;");
    for (const char* more : {"%clusterid.y", "%clusterid.z", "%laneid"}) {
      put("  mov.u32 wl_stamp_site, " + std::string(more) + ";");
      put("  or.b32 wl_stamp_value, wl_stamp_value, wl_stamp_site;");
    }
    put("  setp.eq.u32 wl_stamp_on, wl_stamp_value, 0;");
    put("  mov.u32 wl_stamp_value, %cluster_ctarank;");
    put("  setp.lt.and.u32 wl_stamp_on, wl_stamp_value, " + std::to_string(result_.ctas) +
        ", wl_stamp_on;");
    put("  mov.u32 wl_stamp_site, %tid.x;");
    put("  shr.u32 wl_stamp_site, wl_stamp_site, 5;");
    put("  mad.lo.u32 wl_stamp_value, wl_stamp_value, " + std::to_string(result_.warps) +
        ", wl_stamp_site;");
    put("  mov.u64 wl_stamp_at, " + std::string(buffer_name) + ";");
    put("  mul.wide.u32 wl_stamp_word, wl_stamp_value, " + std::to_string(16 * result_.records) +
        ";");
    put("  add.s64 wl_stamp_at, wl_stamp_at, wl_stamp_word;");
    put("  mov.u32 wl_stamp_left, " + std::to_string(result_.records) + ";");
    record(add_site(What::time, 0, ""), false, "", "", "%globaltimer");
    record(add_site(What::start, 0, ""), false, "", "");
  }

  // The loop of three lines "LABEL: / try_wait P, [barrier], parity / @!P bra LABEL" at i.
  bool wait_loop(size_t i) const {
    if (i + 2 >= lines_.size()) return false;
    const Statement label = parse(lines_[i]), attempt = parse(lines_[i + 1]),
                    again = parse(lines_[i + 2]);
    return label.label && has(attempt.name, "mbarrier.") &&
           (has(attempt.name, "try_wait") || has(attempt.name, "test_wait")) &&
           starts(again.name, "bra") && trimmed(again.operands) == label.name;
  }

  void line(size_t i) {
    const Statement s = parse(lines_[i]);
    if (s.label || starts(s.name, "bra")) run_ = {};
    if (i < loop_end_) return; // of a wait's loop, written with its first line
    if (wait_loop(i)) {
      const std::string barrier = bracket(parse(lines_[i + 1]).operands, 0);
      const uint32_t site = add_site(What::wait, i + 1, "mbarrier");
      record(site, false, barrier, "");
      loop_end_ = i + 3;
      for (size_t j = i; j < loop_end_; ++j) put(lines_[j]);
      record(site, true, barrier, "");
    } else if (is_wait(s.name)) {
      run_ = {};
      const uint32_t site =
          add_site(What::wait, i, short_name(s.name), std::atoi(s.operands.c_str()));
      record(site, false, "", s.guard);
      put(lines_[i]);
      record(site, true, "", s.guard);
    } else if (starts(s.name, "mbarrier.init")) {
      record(add_site(What::barrier, i, ""), false, bracket(s.operands, 0), s.guard);
      put(lines_[i]);
    } else if (!s.label && (s.name == "ret" || s.name == "exit")) {
      record(add_site(What::end, i, ""), false, "", s.guard);
      record(add_site(What::time, i, ""), false, "", s.guard, "%globaltimer");
      put(lines_[i]);
    } else {
      issue(i, s);
      put(lines_[i]);
    }
  }

  // Of a run of like instructions, without a branch or a wait between them, the first is stamped.
  void issue(size_t i, const Statement& s) {
    const What what = work_of(s.name);
    if (what == What::end) return;
    const std::string barrier = what == What::load     ? bracket(s.operands, 2)
                                : what == What::commit ? bracket(s.operands, 0)
                                                       : "";
    const Run run = {what, barrier, s.guard};
    if (what != What::commit && run == run_) return;
    run_ = what == What::commit ? Run{} : run;
    record(add_site(what, i, short_name(s.name)), false, barrier, s.guard);
  }

  struct Run {
    What what = What::end;
    std::string barrier, guard;
    bool operator==(const Run&) const = default;
  };

  std::vector<std::string> lines_;
  std::string out_;
  Stamped result_;
  Run run_;
  size_t loop_end_ = 0;
};

} // namespace

Stamped stamp(const std::string& ptx, uint32_t ctas, uint32_t records) {
  return Stamper(ptx, ctas, records).run();
}

} // namespace warpline::stamps
