// The documentation cannot rot: its programs are those of tests/examples, what it says is printed
// is printed, its steps to a configuration and to an operation are those that work. Its commands
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

std::string page(const std::string& name) { return wltest::read_text(source_file(name)); }

// The text of a page between ``` and the end of the fence, for a language.
std::string fenced(const std::string& text, const std::string& language) {
  const std::string opening = "```" + language + "\n";
  const size_t start = text.find(opening);
  REQUIRE(start != std::string::npos);
  const size_t end = text.find("```", start + opening.size());
  REQUIRE(end != std::string::npos);
  return text.substr(start + opening.size(), end - start - opening.size());
}

// Text with each run of white space as one blank, so that a message may be wrapped on a page.
std::string flat(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

} // namespace

// C: a part of the program, from its context to its result. Both programs are run by
// install_test.cpp and python_test.cpp.
TEST_CASE("the README's programs are those that are run", "[host][readme]") {
  const std::string c = fenced(page("README.md"), "c");
  CHECK(page("tests/examples/program.c").find(c) != std::string::npos);
  for (const char* call :
       {"wl_context_create(", "wl_dual_gemm_plan(", "wl_plan_run(", "wl_download("})
    CHECK_THAT(c, wltest::ContainsSubstring(call));
  CHECK(fenced(page("README.md"), "python") == page("tests/examples/smallest.py"));
}

TEST_CASE("the README's demo prints what it shows", "[host][readme]") {
  const std::vector<std::string> lines = wltest::Markdown("README.md").indented;
  const auto demo = std::find(lines.begin(), lines.end(), "make demo");
  REQUIRE(demo != lines.end());
  const auto pass = std::find(demo, lines.end(), "PASS");
  REQUIRE(pass != lines.end());
  // As the Makefile runs it.
  const ChildResult result = run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "256",
                                        "-n", "4096", "-k", "7168", "--device", "virtual:b200"});
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  const auto first = std::find_if(demo, pass, [](const std::string& line) {
    return line.rfind("make ", 0) != 0; // the commands come first
  });
  CHECK(pass - first >= 5);
  for (auto line = first; line <= pass; ++line) {
    INFO(*line);
    CHECK(flat(result.out).find(flat(*line)) != std::string::npos);
  }
}

TEST_CASE("the error message on the page of rules is the one that is printed", "[host][readme]") {
  const ChildResult result = run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "0",
                                        "-n", "7", "-k", "63", "--device", "virtual:b200"});
  const std::string printed = flat(result.err);
  const size_t start = printed.find("wl_dual_gemm_check:");
  INFO(result.err);
  REQUIRE(start != std::string::npos);
  CHECK(flat(page("kernels/RULES.md")).find(printed.substr(start)) != std::string::npos);
}

// A first screen is read only when the whole is short.
TEST_CASE("the README is short", "[host][readme]") {
  const std::string text = page("README.md");
  CHECK(std::count(text.begin(), text.end(), '\n') <= 150);
}

TEST_CASE("links between pages lead to files", "[host][readme]") {
  size_t links = 0;
  const fs::recursive_directory_iterator end;
  for (fs::recursive_directory_iterator entry(source_file("")); entry != end; ++entry) {
    const fs::path file = entry->path();
    const std::string name = file.lexically_relative(source_file("")).string();
    if (name == "build" || name == ".git") entry.disable_recursion_pending();
    if (file.extension() != ".md") continue;
    const std::string text = wltest::read_text(file.string());
    for (size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
      const std::string to = text.substr(at + 2, text.find(')', at) - at - 2);
      if (to.find("://") != std::string::npos || to.find(' ') != std::string::npos) continue;
      INFO(name << " links to " << to);
      CHECK(fs::exists(file.parent_path() / to.substr(0, to.find('#'))));
      ++links;
    }
  }
  CHECK(links >= 30);
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

// A page's text from a heading of the second level to the next.
std::string section(const std::string& text, const std::string& heading) {
  const size_t start = text.find("\n## " + heading);
  REQUIRE(start != std::string::npos);
  return text.substr(start, text.find("\n## ", start + 4) - start);
}

} // namespace

TEST_CASE("the steps to an operation name files that are there", "[host][readme]") {
  const std::string steps = section(page("kernels/README.md"), "Adding to it");
  std::set<std::string> files;
  for (size_t at = steps.find('`'); at != std::string::npos;) {
    const size_t end = steps.find('`', at + 1);
    const std::string name = steps.substr(at + 1, end - at - 1);
    const size_t slash = name.find('/');
    const bool path = slash != std::string::npos && name.find('*') == std::string::npos &&
                      name.find(' ') == std::string::npos && name.rfind("build/", 0) != 0;
    if (path) {
      INFO(name);
      CHECK(fs::exists(source_file(name)));
      files.insert(name);
    }
    at = steps.find('`', end + 1);
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
      INFO(name << " is not in the steps");
      CHECK(files.count(name) == 1);
    }
  CHECK(of_operation >= 12);
}

// Steps 1 and 2: a folder and its configurations are all that make needs to find.
TEST_CASE("an operation's folder under another name becomes kernels", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  const wltest::TreeCopy copy;
  fs::rename(copy / "kernels/quantize", copy / "kernels/narrow");
  const std::string table = copy / "kernels/narrow/configs.def";
  std::string rows = wltest::read_text(table);
  wltest::replace_all(&rows, "quantize_", "narrow_");
  wltest::write_text(table, rows);
  for (const std::string name : {"narrow_sm100_f16", "narrow_sm90_bf16"})
    CHECK(make(copy, "build/ptx/" + name + ".ptx").find(".entry " + name + "(") !=
          std::string::npos);
  // A source that refuses a configuration ends make, and leaves no kernel.
  const std::string source = copy / "kernels/narrow/sm90.ptx";
  wltest::write_text(source, wltest::read_text(source) + "#error \"refused\"\n");
  const ChildResult refused =
      run_child({"make", "-C", copy.directory.path(), "CUBINS=0", "build/ptx/narrow_sm90_f16.ptx"},
                wltest::make_environment());
  INFO(refused.out << refused.err);
  CHECK(refused.status != 0);
  CHECK_THAT(refused.err, wltest::ContainsSubstring("refused"));
  CHECK(!fs::exists(copy / "build/ptx/narrow_sm90_f16.ptx"));
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

TEST_CASE("the documentation's configuration becomes a kernel", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  const std::vector<std::string> lines = wltest::Markdown("kernels/README.md").indented;
  const auto config = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.rfind("SM100_CONFIG(", 0) == 0;
  });
  REQUIRE(config != lines.end());
  const std::string name = config->substr(13, config->find(',') - 13);
  // It has as many stages as fit, or the tests over all configurations would refuse it.
  std::vector<std::string> fields{""};
  for (const char c : *config)
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
  // Behind the table's others, before their macros end.
  const std::string table = copy / "kernels/dual_gemm/configs.def";
  std::string entries = wltest::read_text(table);
  entries.insert(entries.find("\n//: SM90_CONFIG"), *config + "\n");
  wltest::write_text(table, entries);
  CHECK(make(copy, "build/ptx/" + name + ".ptx").find(".entry " + name + "(") != std::string::npos);
}
