// build/tests/mutation [--rows a,b] [--line N] [--out FILE] [--fresh] [--jobs N] [--list]
//                      [--baseline SEEDS] [--check LIST] [--text FILE] [--driver PATH]
// --out keeps what FILE says of rows whose PTX is the same, and does not run those, unless --fresh.
// --baseline runs the kernels as they are (or the --text FILE in place of one) and wants silence.
//
// Runs every mutant of every kernel row on the virtual GPU, each in a process of its own, with all
// checkers and advice, under several schedules, and writes a table of what noticed it.
#include "tests/virtual/mutation/judge.hpp"
#include "tests/virtual/mutation/mutants.hpp"
#include "tests/virtual/mutation/table.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

using namespace wltest;

namespace {

using Twins = std::map<std::string, std::vector<std::string>>; // row: others of the same PTX

// The text of a row whatever 16-bit type D has: rows that differ in nothing else are twins.
std::string without_type(std::string text) {
  for (size_t at = 0; (at = text.find("bf16", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

std::string cell(std::string s) {
  if (s.size() > 96) s = s.substr(0, 93) + "...";
  for (size_t at = 0; (at = s.find('|', at)) != std::string::npos; at += 2) s.insert(at, "\\");
  return s;
}

// The table of one row; false when the kernel itself is not clean.
bool run_row(const Row& row, unsigned jobs, int line, const Twins& twins, std::string& section) {
  std::ostringstream out;
  out << "## " << row.name << "\n\nPTX " << hash_text(row.text) << ". ";
  std::string check = "all,advice";
  Child base = start(row, "", check, kSchedules, 0);
  Outcome clean = finish(base);
  if (!clean.verdict.by.empty()) {
    std::string first = clean.verdict.by;
    check = "all";
    Child again = start(row, "", check, kSchedules, 0);
    clean = finish(again);
    if (!clean.verdict.by.empty()) {
      out << "The kernel itself is reported by " << clean.verdict.by << " (schedule "
          << clean.verdict.schedule << "); no mutants were run.\n\n```\n"
          << clean.report << "```\n";
      section = out.str();
      std::cout << row.name << ": not clean: " << clean.verdict.by << "\n" << clean.report << "\n";
      return false;
    }
    out << "Advice against the row itself: " << first << "; it runs without advice. ";
  }
  std::vector<Mutant> mutants = make_mutants(row.text);
  if (line) std::erase_if(mutants, [&](const Mutant& m) { return m.line != line; });
  std::vector<Outcome> outcomes(mutants.size());
  std::vector<Child> running;
  for (size_t next = 0; next < mutants.size() || !running.empty();) {
    while (next < mutants.size() && running.size() < jobs) {
      running.push_back(start(row, mutants[next].text, check, kSchedules, next));
      ++next;
    }
    outcomes[running.front().index] = finish(running.front());
    running.erase(running.begin());
  }
  std::ostringstream table;
  for (size_t i = 0; i < mutants.size(); ++i) {
    const Mutant& m = mutants[i];
    const Verdict& v = outcomes[i].verdict;
    if (line) std::cout << m.change << ": " << v.by << "\n" << outcomes[i].report << "\n";
    std::string verdict;
    if (!v.by.empty()) {
      verdict = v.by + (v.schedule.empty() ? "" : " (" + v.schedule + ")");
    } else if (std::string why = equivalent_reason(row.name, m); !why.empty()) {
      verdict = "equivalent: " + why;
    } else {
      const std::string note = survivor_note(m);
      verdict = "**survived**" + (note.empty() ? "" : ": " + note);
    }
    table << "| " << m.line << " | " << cell(m.label) << " | `" << cell(m.instruction) << "` | "
          << m.change << " | " << verdict << " |\n";
  }
  const Totals t = count_verdicts(table.str());
  const std::string told = std::to_string(t.killed) + " of " +
                           std::to_string(t.killed + t.survived) + " mutants killed, " +
                           std::to_string(t.survived) + " survived, " +
                           std::to_string(t.equivalent) + " equivalent.";
  std::cout << row.name << ": " << told << std::endl;
  out << told;
  if (auto same = twins.find(row.name); same != twins.end())
    out << " But for the type of D the same text, counted once: " << joined(same->second) << ".";
  out << "\n\n| line | after | instruction | change | killed by |\n"
      << "|---|---|---|---|---|\n"
      << table.str();
  section = out.str();
  return true;
}

// The unchanged kernels under many seeds: any report is a false alarm.
int run_baseline(const std::vector<Row>& rows, const Twins& twins, const std::string& text,
                 int seeds, unsigned jobs, const std::string& check, const std::string& out_path) {
  std::vector<std::string> schedules = kSchedules;
  std::erase_if(schedules, [](const std::string& s) { return s.rfind("random:", 0) == 0; });
  for (int s = 1; s <= seeds; ++s) schedules.push_back("random:" + std::to_string(s));
  int bad = 0;
  std::vector<Child> running;
  std::ostringstream table;
  auto settle = [&] {
    Child c = running.front();
    running.erase(running.begin());
    const Outcome o = finish(c);
    const Row& row = rows[c.index];
    const bool clean = o.verdict.by.empty();
    const std::string said = clean ? "nothing" : o.verdict.by + " (" + o.verdict.schedule + ")";
    std::cout << row.name << ": " << said << "\n" << (clean ? "" : o.report) << std::flush;
    bad += !clean;
    auto same = twins.find(row.name);
    table << "| " << row.name << " | " << (same == twins.end() ? "" : joined(same->second)) << " | "
          << row.problem.m << " x " << row.problem.n << " x " << row.problem.k << " | " << said
          << " |\n";
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    if (running.size() == jobs) settle();
    running.push_back(start(rows[i], text, check, schedules, i));
  }
  while (!running.empty()) settle();
  std::ostringstream head;
  head << rows.size() << " kernels, " << schedules.size() << " schedules each, checks " << check
       << ": " << bad << " reported.";
  std::cout << head.str() << "\n";
  if (!out_path.empty())
    std::ofstream(out_path)
        << "# False alarms\n\n"
        << "Written by `make false-alarms`: the shipped kernels as they are, on "
           "the virtual GPU. Whatever a checker says\nis a false alarm, or a "
           "fault of the kernel. Results are compared with the reference too.\n"
           "Schedules: "
        << joined(schedules) << ".\n\n**" << head.str()
        << "**\n\n| row | the same text but for the type of D | M x N x K | "
           "reported |\n|---|---|---|---|\n"
        << table.str();
  return bad != 0;
}

} // namespace

int main(int argc, char** argv) {
  std::string wanted, out_path, text_path, check = "all";
  unsigned jobs = 2;
  bool list = false, fresh = false;
  int seeds = 0, line = 0;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (a == "--rows")
      wanted = "," + value() + ",";
    else if (a == "--out")
      out_path = value();
    else if (a == "--jobs")
      jobs = static_cast<unsigned>(std::max(1, std::atoi(value().c_str())));
    else if (a == "--line")
      line = std::atoi(value().c_str());
    else if (a == "--fresh")
      fresh = true;
    else if (a == "--list")
      list = true;
    else if (a == "--driver")
      driver_path = value();
    else if (a == "--text")
      text_path = value();
    else if (a == "--check")
      check = value();
    else if (a == "--baseline")
      seeds = std::atoi(value().c_str());
    else {
      std::fprintf(stderr, "mutation: unknown option %s\n", a.c_str());
      return 2;
    }
  }
  std::vector<Row> rows, all_rows; // those to run; all but twins
  Twins twins;
  for (const warpline::Image& image : warpline::embedded_images()) {
    Row row = make_row(image);
    const Row* twin = nullptr;
    for (const Row& other : all_rows)
      if (!twin && without_type(other.text) == without_type(row.text)) twin = &other;
    const bool asked = wanted.find("," + image.name + ",") != std::string::npos;
    if (asked || (wanted.empty() && !twin)) rows.push_back(row);
    if (twin)
      twins[twin->name].push_back(row.name);
    else
      all_rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    std::fprintf(stderr, "mutation: no such row\n");
    return 2;
  }
  if (seeds) {
    std::ostringstream text;
    if (!text_path.empty()) text << std::ifstream(text_path).rdbuf();
    return run_baseline(rows, twins, text.str(), seeds, jobs, check, out_path);
  }
  if (list) {
    for (const Row& r : rows)
      for (const Mutant& m : make_mutants(r.text))
        std::cout << r.name << ":" << m.line << ": " << m.change << ": " << m.instruction << "\n";
    return 0;
  }
  // What an earlier run has told of the same text stays.
  std::map<std::string, std::string> sections;
  if (!out_path.empty()) sections = read_sections(out_path);
  std::vector<std::string> names;
  for (const Row& r : all_rows) {
    names.push_back(r.name);
    auto known = sections.find(r.name);
    const std::string hash = hash_text(r.text);
    if (known != sections.end() && known->second.find(hash) == std::string::npos)
      sections.erase(known);
  }
  auto write = [&] {
    if (!out_path.empty())
      std::ofstream(out_path) << table_text(names, sections, kSchedules.size());
  };
  bool clean = true;
  for (const Row& r : rows) {
    if (!fresh && sections.count(r.name)) {
      std::cout << r.name << ": as told before" << std::endl;
      continue;
    }
    clean &= run_row(r, jobs, line, twins, sections[r.name]);
    write(); // after each row, so that a run that is cut short leaves what it found
  }
  write();
  return clean ? 0 : 1;
}
