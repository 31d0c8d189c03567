// The README cannot rot: its commands run, its program is the one of tests/examples, its error
// message is the one that the program prints.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

using wltest::ChildResult;
using wltest::run_child;
using wltest::source_file;
namespace fs = std::filesystem;

namespace {

std::string readme() { return wltest::read_text(source_file("README.md")); }

// Lines that are indented by four blanks outside of fences, continued ones joined: commands and
// what they print.
std::vector<std::string> indented_lines() {
  std::vector<std::string> result;
  std::istringstream text(readme());
  bool fenced = false;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("```", 0) == 0) fenced = !fenced;
    if (fenced || line.rfind("    ", 0) != 0) continue;
    const bool continued = !result.empty() && result.back().ends_with('\\');
    if (continued) result.back().pop_back();
    if (continued)
      result.back() += line.substr(4);
    else
      result.push_back(line.substr(4));
  }
  return result;
}

// Text with each run of white space as one blank, so that a message may be wrapped in the README.
std::string flat(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

void replace_all(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size())
    text->replace(at, from.size(), to);
}

bool is_command(const std::string& line) {
  if (line == "make") return true;
  for (const char* start : {"make ", "build/", "tools/", "cc ", "export ", "WARPLINE_"})
    if (line.rfind(start, 0) == 0) return true;
  return false;
}

} // namespace

TEST_CASE("the README's program is the one that is compiled and run", "[host][readme]") {
  CHECK(readme().find("```c\n" + wltest::read_text(source_file("tests/examples/program.c")) +
                      "```") != std::string::npos);
}

TEST_CASE("the README's commands run", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  // In a folder that looks like the repository, so that what a command writes stays out of it.
  wltest::TemporaryDirectory directory;
  const fs::path build = fs::path(wltest::build_file("x")).parent_path();
  for (const char* name : {"tests", "tools", "runtime", "kernels", "README.md"})
    fs::create_symlink(source_file(name), directory / name);
  fs::create_directory_symlink(build, directory / "build");
  const bool pkg_config = run_child({"sh", "-c", "command -v pkg-config"}).status == 0;

  // One script: exports and files of a line serve the lines after it.
  std::string script = "set -e\ncd " + directory.path() + "\n";
  int commands = 0;
  for (std::string line : indented_lines()) {
    if (line.rfind("$ ", 0) == 0) line = line.substr(2);
    if (!is_command(line)) continue;
    ++commands;
    line = line.substr(0, line.find("  #"));
    replace_all(&line, "/tmp/warpline", directory / "prefix");
    if (line.rfind("tools/", 0) == 0) continue; // tools/sass needs a disassembler: sass_test.cpp
    if (!pkg_config && (line.find("pkg-config") != std::string::npos ||
                        line.find("prefix/program") != std::string::npos))
      continue;
    if (line.rfind("make", 0) == 0) {
      const std::string make = "make -s -C " + source_file("") +
                               " BUILD=" + fs::relative(build, source_file("")).string() + " ";
      // Targets that test, install packages or rewrite files are only looked up.
      const bool runs = line.rfind("make install", 0) == 0;
      line = make + (runs ? "" : "-n ") + (line.size() > 5 ? line.substr(5) : "") +
             (runs ? "" : " >/dev/null");
    }
    script += "echo '== " + line.substr(0, line.find('\'')) + "'\n" + line + "\n";
  }
  CHECK(commands >= 10);
  const ChildResult result = run_child(
      {"sh", "-c", script},
      {{"MAKEFLAGS", ""}, {"MFLAGS", ""}, {"MAKELEVEL", ""}, {"WARPLINE_DRIVER", ""}}, 300);
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK((!pkg_config || result.out.find("0 of 102400 outputs wrong") != std::string::npos));
}

TEST_CASE("the README's error message is the one that is printed", "[host][readme]") {
  const ChildResult result = run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "0",
                                        "-n", "7", "-k", "63", "--device", "virtual:b200"});
  const std::string printed = flat(result.err);
  const size_t start = printed.find("wl_dual_gemm_check:");
  INFO(result.err);
  REQUIRE(start != std::string::npos);
  CHECK(flat(readme()).find(printed.substr(start)) != std::string::npos);
}

TEST_CASE("the README's configuration row becomes a kernel", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  const std::vector<std::string> lines = indented_lines();
  const auto row = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.rfind("SM100_ROW(", 0) == 0;
  });
  REQUIRE(row != lines.end());
  const std::string name = row->substr(10, row->find(',') - 10);
  wltest::TemporaryDirectory directory;
  for (const char* part : {"Makefile", "ptx", "runtime", "tests", "tools"})
    fs::create_symlink(source_file(part), directory / part);
  fs::copy(source_file("kernels"), directory / "kernels", fs::copy_options::recursive);
  // Behind the table's other rows, before their macros end.
  const std::string table = directory / "kernels/dual_gemm/rows.def";
  std::string rows = wltest::read_text(table);
  rows.insert(rows.find("\n//: SM90_ROW"), *row + "\n");
  wltest::write_text(table, rows);
  const ChildResult made =
      run_child({"make", "-C", directory.path(), "CUBINS=0", "build/ptx/" + name + ".ptx"},
                {{"MAKEFLAGS", ""}, {"MFLAGS", ""}, {"MAKELEVEL", ""}});
  INFO(made.out << made.err);
  REQUIRE(made.status == 0);
  CHECK(wltest::read_text(directory / "build/ptx/" + name + ".ptx").find(".entry " + name + "(") !=
        std::string::npos);
}
