// tools/check_ptx.sh with a stand-in for ptxas: kernels are checked side by side, told in order,
// and whatever goes wrong with one is a failure.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

using wltest::ChildResult;
using wltest::run_child;

namespace {

// The first line of a kernel says what ptxas does with it.
class Kernels {
public:
  Kernels() {
    wltest::write_text(directory_ / "ptxas", R"(#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 0"; exit; fi
for word; do case $word in *.ptx) file=$word ;; esac; done
case $(head -n 1 "$file") in
  *slow*) sleep 0.3 ;;
  *refused*) echo "ptxas error: no"; exit 1 ;;
  *spills*) spills=8 ;;
  *registers*) used=33 ;;
  *killed*) kill -9 $PPID ;;
esac
for word; do [ "$last" = -o ] && echo code > "$word"; last=$word; done
echo "ptxas info : 0 bytes stack frame, ${spills:-0} bytes spill stores, 0 bytes spill loads"
echo "ptxas info : Used ${used:-32} registers"
)");
    std::filesystem::permissions(directory_ / "ptxas", std::filesystem::perms::owner_all);
  }
  void add(const std::string& name, const std::string& what) {
    paths_.push_back(directory_ / (name + ".ptx"));
    wltest::write_text(paths_.back(), "// " + what +
                                          "\n// Launched with 32 registers a thread\n"
                                          ".version 8.1\n.target sm_90a\n");
  }
  ChildResult check(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {wltest::source_file("tools/check_ptx.sh"), "--ptxas",
                                        directory_ / "ptxas"};
    command.insert(command.end(), paths_.begin(), paths_.end());
    command.insert(command.end(), more.begin(), more.end());
    return run_child(command);
  }

private:
  wltest::TemporaryDirectory directory_;
  std::vector<std::string> paths_;
};

// First words of the lines behind the head, and the last line.
std::string told(const std::string& text, std::string& last) {
  std::string words;
  size_t line = 0;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    last = text.substr(at, end - at);
    if (++line > 2 && last[0] != ' ') words += last.substr(0, last.find(' ')) + " ";
  }
  return words;
}

} // namespace

TEST_CASE("kernels are checked side by side and told in order", "[host][check_ptx]") {
  Kernels kernels;
  std::string names;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    kernels.add(name, *name == 'a' || *name == 'd' ? "slow" : "right");
    names += std::string(name) + " ";
  }
  const ChildResult result = kernels.check();
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  std::string last;
  CHECK(told(result.out, last) == names + "8 ");
  CHECK(last == "8 assembled, 0 failed");
}

TEST_CASE("what is wrong with one kernel of many is a failure", "[host][check_ptx]") {
  for (const char* what : {"refused", "spills", "registers", "killed"}) {
    Kernels kernels;
    kernels.add("first", "slow");
    kernels.add("wrong", what);
    kernels.add("last", "right");
    const ChildResult result = kernels.check();
    INFO(what << "\n" << result.out << result.err);
    CHECK(result.status == 1);
    std::string last;
    const std::string words = told(result.out, last);
    CHECK(words.substr(0, 6) == "first ");
    CHECK(words.find("wrong") < words.find("last "));
    CHECK(last.substr(last.find(',')) == ", 1 failed");
  }
  Kernels kernels;
  kernels.add("first", "right");
  const ChildResult result = kernels.check({"/nowhere/kernel.ptx"});
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  std::string last;
  told(result.out, last);
  CHECK(last == "1 assembled, 1 failed");
  CHECK(result.out.find("/nowhere/kernel.ptx: cannot be read") != std::string::npos);
}

// The registers are those of tests/golden, so that this needs no ptxas.
TEST_CASE("every kernel's head says how many registers a thread it is launched with",
          "[host][check_ptx]") {
  std::istringstream golden(
      wltest::read_text(wltest::source_file("tests/golden/sass-ptxas-13.0.88.txt")));
  size_t kernels = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream words(line);
    std::string name, target, key;
    int registers = 0;
    if (!(words >> name >> target >> key >> registers) || key != "registers") continue;
    const std::string text = wltest::read_text(wltest::build_file("ptx/" + name + ".ptx"));
    const std::string before = "Launched with ", behind = " registers a thread";
    const size_t at = text.find(before);
    INFO(name << ", " << target << ": " << registers << " registers");
    REQUIRE(at != std::string::npos);
    size_t digits = 0;
    const int said = std::stoi(text.substr(at + before.size(), 8), &digits);
    CHECK(text.compare(at + before.size() + digits, behind.size(), behind) == 0);
    CHECK(said >= registers);
    if (const size_t most = text.find(".maxnreg "); most != std::string::npos)
      CHECK(said == std::stoi(text.substr(most + 9, 8)));
    ++kernels;
  }
  CHECK(kernels >= 700);
}

TEST_CASE("a kernel that ptxas refuses ends the build, a target that it does not know does not",
          "[host][check_ptx]") {
  const wltest::TemporaryDirectory directory;
  wltest::write_text(directory / "ptxas", R"(#!/bin/sh
case $1 in *sm_100f) echo "ptxas fatal: no such target"; exit 255 ;; esac >&2
grep -q wrong "$2" && { echo "ptxas error: wrong" >&2; exit 255; }
grep -q '^.version 8.1' "$2" || { echo "ptxas fatal: no such version" >&2; exit 255; }
grep -q spills "$2" && case $* in *--warn-on-spills*) echo "ptxas warning: spilled" >&2 ;; esac
echo code > "$4"
)");
  std::filesystem::permissions(directory / "ptxas", std::filesystem::perms::owner_all);
  const std::string machine_code = directory / "k.cubin";
  const auto assemble = [&](const char* target, const std::string& version, const char* body) {
    wltest::write_text(directory / "k.ptx",
                       "// A kernel\n.version " + version + "\n.target sm_90a\n" + body);
    wltest::write_text(machine_code, "of the kernel before");
    return run_child({wltest::source_file("tools/assemble.sh"), directory / "ptxas", target,
                      directory / "k.ptx", machine_code});
  };
  const auto files = [&] {
    const std::filesystem::directory_iterator all(directory.path());
    return std::distance(begin(all), end(all));
  };
  ChildResult result = assemble("sm_90a", "8.1", "right\n");
  CHECK(result.status == 0);
  CHECK(result.out.empty());
  CHECK(std::filesystem::file_size(machine_code) == 5);
  CHECK(result.err.empty());
  CHECK(files() == 3);

  result = assemble("sm_90a", "8.1", "spills\n");
  CHECK(result.status == 0);
  CHECK(result.err == "ptxas warning: spilled\n");
  CHECK(std::filesystem::file_size(machine_code) == 5);
  CHECK(files() == 3);

  result = assemble("sm_90a", "8.1", "wrong\n");
  CHECK(result.status == 1);
  CHECK(result.err.find("ptxas error: wrong") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(machine_code));

  for (const auto& [target, version] : {std::pair{"sm_100f", "8.1"}, {"sm_90a", "9.9"}}) {
    result = assemble(target, version, "right\n");
    INFO(target << ", " << version);
    CHECK(result.status == 0);
    CHECK(result.out.find("no machine code of k for " + std::string(target)) != std::string::npos);
    CHECK(std::filesystem::file_size(machine_code) == 0);
    CHECK(std::filesystem::file_size(machine_code + ".log") != 0);
  }
}
