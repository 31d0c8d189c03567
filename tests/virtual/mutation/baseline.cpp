#include "tests/virtual/mutation/baseline.hpp"
#include "tests/virtual/mutation/draw.hpp"
#include "tests/virtual/mutation/table.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

namespace wltest {

namespace {

// A pair of 16-bit values becomes two of FP32 in one statement in FP16 and by shifts in BF16; both
// only compute. "" = no such pair begins at line i; else one line for it, and i is its last.
std::string unpacked_pair(const std::vector<std::string>& lines, size_t& i) {
  // Most lines are told apart without their words.
  const auto has = [&](size_t at, const char* part) {
    return at < lines.size() && lines[at].find(part) != std::string::npos;
  };
  if (!has(i + 1, "low_half") && !(has(i, "shl.b32") && has(i + 1, "0xFFFF0000"))) return "";
  const auto words = [&](size_t at) {
    std::string text = at < lines.size() ? lines[at] : "";
    std::erase_if(text, [](char c) { return c == ',' || c == ';'; });
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const auto is = [&](size_t at, const std::vector<std::string>& shape,
                      std::vector<std::string>& names) {
    const std::vector<std::string> found = words(at);
    if (found.size() != shape.size()) return false;
    for (size_t k = 0; k < shape.size(); ++k)
      if (shape[k] == "?")
        names.push_back(found[k]);
      else if (shape[k] != found[k])
        return false;
    return true;
  };
  std::vector<std::string> n;
  if (is(i, {"{"}, n) && is(i + 1, {".reg", ".b16", "low_half", "high_half"}, n) &&
      is(i + 2, {"mov.b32", "{low_half", "high_half}", "?"}, n) &&
      is(i + 3, {"cvt.f32.f16", "?", "low_half"}, n) &&
      is(i + 4, {"cvt.f32.f16", "?", "high_half"}, n) && is(i + 5, {"}"}, n)) {
    i += 5;
    return "unpack " + n[1] + " " + n[2] + " " + n[0];
  }
  n.clear();
  if (is(i, {"shl.b32", "?", "?", "16"}, n) && is(i + 1, {"and.b32", "?", "?", "0xFFFF0000"}, n) &&
      n[1] == n[3]) {
    ++i;
    return "unpack " + n[0] + " " + n[2] + " " + n[1];
  }
  return "";
}

// The text of a kernel whatever 16-bit type D has: kernels that differ in nothing else are twins.
// What is put away are names and arithmetic, never an access to memory, a wait, a branch or an
// address.
std::string without_type(const std::string& ptx) {
  std::vector<std::string> lines;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string pair = unpacked_pair(lines, i);
    text += (pair.empty() ? lines[i] : pair) + "\n";
  }
  for (size_t at = 0; (at = text.find("bf16", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

const char* const kNothing = "nothing";

// Kernels that a file of the same command calls clean, with the hash of their text.
std::map<std::string, std::string> read_clean(const std::string& path, const std::string& how) {
  std::map<std::string, std::string> clean;
  std::ifstream in(path);
  bool same = false;
  for (std::string line; std::getline(in, line);) {
    same |= line.find(how) != std::string::npos;
    std::istringstream cells(line);
    std::string bar, name, at, word, last;
    if (!(cells >> bar >> name >> bar >> word >> at)) continue;
    while (cells >> word)
      if (word != "|") last = word;
    if (same && last == kNothing) clean[name] = "text " + at;
  }
  return clean;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  return text;
}

} // namespace

bool is_named(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

int run_baseline(const std::vector<Kernel>& every, const std::string& wanted,
                 const std::string& text, int seeds, unsigned jobs, const std::string& check,
                 const std::string& out_path, bool fresh, size_t drawn, uint64_t seed) {
  std::vector<Kernel> kernels, all_kernels; // those to run; all but twins
  std::map<std::string, std::vector<std::string>> twins;
  std::map<std::string, std::string> first_of; // the first kernel of a text, whatever D's type
  for (const Kernel& kernel : every) {
    const auto [first, is_new] = first_of.emplace(without_type(kernel.text), kernel.name);
    if (wanted.empty() ? is_new : is_named(wanted, kernel.name)) kernels.push_back(kernel);
    if (!is_new)
      twins[first->second].push_back(kernel.name);
    else
      all_kernels.push_back(kernel);
  }
  std::vector<std::string> schedules = kSchedules;
  std::erase_if(schedules, [](const std::string& s) { return s.rfind("random:", 0) == 0; });
  for (int s = 1; s <= seeds; ++s) schedules.push_back("random:" + std::to_string(s));
  for (const std::string& s : hold_schedules(seeds / 4)) schedules.push_back(s);
  const std::string how =
      "`mutation --baseline " + std::to_string(seeds) + " --check " + check + "`";
  std::map<std::string, std::string> said, before; // by kernel
  if (!out_path.empty() && !fresh) before = read_clean(out_path, how);
  auto write = [&] {
    if (out_path.empty()) return;
    std::string table;
    std::vector<std::string> missing;
    size_t bad = 0;
    for (const Kernel& r : all_kernels) {
      if (!said.count(r.name)) {
        missing.push_back(r.name);
        continue;
      }
      bad += said[r.name] != kNothing;
      auto same = twins.find(r.name);
      table += "| " + r.name + " | " + hash_code(r.text) + " | " +
               (same == twins.end() ? "" : joined_names(same->second)) + " | " +
               std::to_string(r.problem.m) + " x " + std::to_string(r.problem.n) + " x " +
               std::to_string(r.problem.k) + " | " + said[r.name] + " |\n";
    }
    std::ofstream(out_path)
        << "# False alarms\n\nWritten by `make false-alarms` on " << today() << " (" << how
        << "): the shipped kernels as\nthey are, on the virtual GPU. Whatever a checker says is a "
           "false alarm, or a fault of the kernel. Results are\ncompared with the reference too. "
           "Schedules, the first four with a short K as well: "
        << joined_names(schedules) << ".\n\n**" << said.size() << " kernels, " << schedules.size()
        << " schedules each: " << bad << " reported.**\n\n"
        << (missing.empty() ? ""
                            : "Not run with their present text: " + joined_names(missing) + ".\n\n")
        << "| kernel | text | the same but for the type of D | M x N x K | reported |\n"
           "|---|---|---|---|---|\n"
        << table;
  };
  int bad = 0;
  std::vector<Child> running;
  auto settle = [&] {
    Child c = take_ended(running);
    const Outcome o = finish(c);
    const std::string& name = kernels[c.index].name;
    const bool clean = o.verdict.by.empty();
    said[name] = clean ? kNothing : o.verdict.by + " (" + o.verdict.schedule + ")";
    std::cout << name << ": " << said[name] << "\n" << (clean ? "" : o.report) << std::flush;
    bad += !clean;
    write();
  };
  for (const Kernel& r : all_kernels)
    if (auto known = before.find(r.name);
        known != before.end() && known->second == hash_code(r.text))
      said[r.name] = kNothing;
  if (drawn != 0) {
    std::erase_if(kernels, [&](const Kernel& k) { return said.count(k.name) != 0; });
    std::cout << drawn << " drawn with seed " << seed << " from " << kernels.size() << std::endl;
    draw(&kernels, drawn, seed);
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (said.count(kernels[i].name)) {
      std::cout << kernels[i].name << ": as told before" << std::endl;
      continue;
    }
    if (running.size() == jobs) settle();
    running.push_back(
        start(kernels[i], text, kernels[i].ledger ? check : without_ledger(check), schedules, i));
  }
  while (!running.empty()) settle();
  write();
  std::cout << said.size() << " kernels, " << schedules.size() << " schedules each, checks "
            << check << ": " << bad << " reported\n";
  return bad != 0;
}

} // namespace wltest
