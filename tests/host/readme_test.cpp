// The README cannot rot: its program is the one of tests/examples, its error message is the one
// that the program prints, its steps to a row and to an operation are those that work. Its commands
// are run by commands_test.cpp.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/markdown.hpp"
#include "tests/support/tree_copy.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

using wltest::ChildResult;
using wltest::run_child;
using wltest::source_file;
namespace fs = std::filesystem;

namespace {

std::string readme() { return wltest::read_text(source_file("README.md")); }

// Text with each run of white space as one blank, so that a message may be wrapped in the README.
std::string flat(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

} // namespace

TEST_CASE("the README's program is the one that is compiled and run", "[host][readme]") {
  CHECK(readme().find("```c\n" + wltest::read_text(source_file("tests/examples/program.c")) +
                      "```") != std::string::npos);
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

namespace {

// Runs `make TARGET` in the copy, whose kernels may be changed: the target.
std::string make(const wltest::TreeCopy& copy, const std::string& target) {
  const ChildResult made =
      run_child({"make", "-C", copy.directory.path(), target}, wltest::make_environment());
  INFO(made.out << made.err);
  REQUIRE(made.status == 0);
  return wltest::read_text(copy / target);
}

// The README's text from a heading of the second level to the next.
std::string section(const std::string& heading) {
  const std::string text = readme();
  const size_t start = text.find("\n## " + heading);
  REQUIRE(start != std::string::npos);
  return text.substr(start, text.find("\n## ", start + 4) - start);
}

} // namespace

TEST_CASE("the README's steps to an operation name files that are there", "[host][readme]") {
  const std::string page = section("Adding to it");
  std::set<std::string> files;
  for (size_t at = page.find('`'); at != std::string::npos;) {
    const size_t end = page.find('`', at + 1);
    const std::string name = page.substr(at + 1, end - at - 1);
    const size_t slash = name.find('/');
    const bool path = slash != std::string::npos && name.find('*') == std::string::npos &&
                      name.find(' ') == std::string::npos && name.rfind("build/", 0) != 0;
    if (path) {
      INFO(name);
      CHECK(fs::exists(source_file(name)));
      files.insert(name);
    }
    at = page.find('`', end + 1);
  }
  // And all files of the operation that it speaks of are among them.
  size_t of_operation = 0;
  for (const char* room : {"kernels", "tests", "tools/cli"})
    for (const auto& entry : fs::recursive_directory_iterator(source_file(room))) {
      const std::string name = entry.path().lexically_relative(source_file("")).string();
      const bool code = name.ends_with(".cpp") || name.ends_with(".hpp") ||
                        name.ends_with(".ptx") || name.ends_with(".inc") || name.ends_with(".def");
      if (!code || name.find("quantize") == std::string::npos) continue;
      ++of_operation;
      INFO(name << " is not in the README's steps");
      CHECK(files.count(name) == 1);
    }
  CHECK(of_operation >= 12);
}

// Steps 1 and 2: a folder and its rows are all that make needs to find.
TEST_CASE("an operation's folder under another name becomes kernels", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  const wltest::TreeCopy copy;
  fs::rename(copy / "kernels/quantize", copy / "kernels/narrow");
  const std::string table = copy / "kernels/narrow/rows.def";
  std::string rows = wltest::read_text(table);
  wltest::replace_all(&rows, "quantize_", "narrow_");
  wltest::write_text(table, rows);
  for (const std::string name : {"narrow_sm100_f16", "narrow_sm90_bf16"})
    CHECK(make(copy, "build/ptx/" + name + ".ptx").find(".entry " + name + "(") !=
          std::string::npos);
}

TEST_CASE("make's options have build folders of their own", "[host][readme]") {
  const struct {
    const char *option, *folder, *flag;
  } cases[] = {{"COVERAGE=1", "build/coverage", "--coverage"},
               {"DEBUG=1", "build/debug", "-O0 -g"},
               {"SANITIZE=address,undefined", "build/address", "-fsanitize=address,undefined"}};
  for (const auto& c : cases) {
    const ChildResult made = run_child({"make", "-n", "-B", "-C", source_file(""), "CUBINS=0",
                                        c.option, std::string(c.folder) + "/obj/runtime/src/log.o"},
                                       wltest::make_environment());
    INFO(c.option << "\n" << made.out << made.err);
    CHECK(made.status == 0);
    CHECK(made.out.find(c.flag) != std::string::npos);
  }
}

TEST_CASE("the README's configuration row becomes a kernel", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  const std::vector<std::string> lines = wltest::Markdown("README.md").indented;
  const auto row = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.rfind("SM100_ROW(", 0) == 0;
  });
  REQUIRE(row != lines.end());
  const std::string name = row->substr(10, row->find(',') - 10);
  // It has as many stages as fit, or the tests over all rows would refuse it.
  std::vector<std::string> fields{""};
  for (const char c : *row)
    if (c == ',')
      fields.emplace_back();
    else if (c != ' ')
      fields.back() += c;
  REQUIRE(fields.size() == 15);
  CHECK((fields[2] == "DIRECT" && fields[13] == "PERSISTENT"));
  const auto number = [&](size_t i) { return std::stoi(fields[i]); };
  using namespace warpline::dual_gemm;
  const int bytes = sm100_shared_bytes(number(4), number(7), number(8), number(9), number(10),
                                       Grid::persistent, Store::direct, Epilogue::both);
  CHECK(bytes <= 232448);
  CHECK(bytes + sm100_stage_bytes(number(4), number(8)) > 232448);
  const wltest::TreeCopy copy;
  // Behind the table's other rows, before their macros end.
  const std::string table = copy / "kernels/dual_gemm/rows.def";
  std::string rows = wltest::read_text(table);
  rows.insert(rows.find("\n//: SM90_ROW"), *row + "\n");
  wltest::write_text(table, rows);
  CHECK(make(copy, "build/ptx/" + name + ".ptx").find(".entry " + name + "(") != std::string::npos);
}
