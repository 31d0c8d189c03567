// The documentation's commands cannot rot: every one of the README, and of the folders' pages,
// is run here in a copy of the tree, or by .ci/run. Large ones run over a part of their work.
#include "tests/support/catch.hpp"
#include "tests/support/markdown.hpp"
#include "tests/support/sass_toolkit.hpp"
#include "tests/support/tree_copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

using wltest::ChildResult;
using wltest::ContainsSubstring;
using wltest::run_child;
using wltest::source_file;
namespace fs = std::filesystem;

namespace {

const char* const kPages[] = {"README.md",
                              "kernels/README.md",
                              "kernels/RULES.md",
                              "kernels/blackwell.md",
                              "kernels/gemm/README.md",
                              "ptx/README.md",
                              "runtime/README.md",
                              "tests/README.md",
                              "tools/README.md",
                              "tools/bench/README.md",
                              "tools/sass/README.md",
                              "tools/vgpu/README.md"};
// With what stands around them they are run by tests/virtual/vgpu_tool_test.cpp; the speed of the
// virtual GPU takes minutes to measure.
const char* const kElsewhere[] = {"build/vgpu run", "build/vgpu speed", "make vgpu-speed"};

const char* const kInside = "WL_INSIDE_COMMANDS_TEST";

// How a command runs here, and what it prints then. An empty `run`: as it stands.
struct Case {
  const char *command, *run, *prints;
};
#define VIRTUAL "WARPLINE_DRIVER=virtual:b200 "
#define NO_GPU "WARPLINE_DRIVER=/nonexistent/libcuda.so "
#define SMALL_GEMM "--m 16 --n 64 --k 128 "
#define STAND_IN "CUDA_HOME=$toolkit "
const Case kCases[] = {
    {"make install PREFIX=/tmp/warpline", "", "install -m 755 build/warpline"},
    {"WARPLINE_DRIVER=virtual:b200 /tmp/warpline/program", "", "0 of 102400 outputs wrong"},
    // `make test` runs it, and so does the report.
    {"make hardware-test", "make -n hardware-test", "tests/run_suites.sh build/tests/hardware"},
    {"build/tests/problems --gpu", NO_GPU "build/tests/problems --gpu || true",
     "problems: --gpu: wl_context_create: "},
    {"make sanitize", NO_GPU "make sanitize", "sanitize: skipped, no "},
    {"make bench",
     VIRTUAL "BENCH_FLAGS='" SMALL_GEMM "--replays 1 --warm' "
             "HOST_COST_FLAGS='" SMALL_GEMM "--starts 1 --calls 2 --batches 2 --row 3' "
             "DRIVER_COST_FLAGS='--calls 2 --batches 2 --loads 1' make bench",
     "a graph of both"},
    {"make report", "REPORT_FLAGS='--device virtual:b200 --out report.txt' make report",
     " steps ok, 0 failed; send back report.txt"},
    // What it keeps of long runs lies in the build folder, which the copy of the tree shares.
    {"make mutation",
     "MUTATION_FLAGS='--fresh --kernels quantize_sm90_f16 --out synchronising.md' "
     "SEMANTIC_FLAGS='--kernels quantize_sm90_f16 --line 88 --results semantic.txt' make mutation",
     ": 1 of 1 mutants killed, 0 survived"},
    {"make false-alarms",
     "FALSE_ALARMS_FLAGS='--kernels quantize_sm90_f16 --baseline 1' make false-alarms",
     "checks all,advice,ledger: 0 reported"},
    {"make planted", "PLANTED_FLAGS='--program async.tile' make planted",
     "5 of 5 faults noticed (100.0 %)"},
    {"make sweep", "SWEEP_FLAGS='--configs dual_gemm_sm100_n64_f16 --sizes 2' make sweep",
     "1 configurations, 32 cases, 174160 outputs: all right, bit for bit."},
    {"make try OP=quantize", "TRY_FLAGS='--config quantize_sm90_f16' make try OP=quantize",
     ": 0 wrong"},
    // The suite runs all of them anyway.
    {"build/tests/virtual \"[cli]\"", "build/tests/virtual \"cli: what quantize refuses\"",
     " passed, 0 failed, 0 skipped"},
    {"make timeline", "", "PASS"},
    {"make CUBINS=0",
     "mkdir -p plain/obj && ln -s ../build/std plain/std && "
     "cp -a build/ptx build/gen build/embed plain && "
     "cp -a build/obj/runtime build/obj/kernels plain/obj && "
     "make CUBINS=0 BUILD=plain OPERATIONS=quantize lib",
     "AR   plain/libwarpline.a"},
    {"build/warpline doctor", "", ""},
    {"tools/sass/sass-summary --update",
     STAND_IN "tools/sass/sass-summary --update quantize_sm100_f16", "1 kernels"},
    {"tools/sass/sass KERNEL --arrivals", STAND_IN "tools/sass/sass quantize_sm100_f16 --arrivals",
     ""},
    {"tools/sass/sass KERNEL", STAND_IN "tools/sass/sass quantize_sm100_f16", "role prologue"},
    {"tools/sass/sass-diff",
     STAND_IN "tools/sass/sass-diff quantize_sm100_f16 --ptxas $toolkit/bin/ptxas "
              "--ptxas $toolkit/bin/ptxas",
     "the code is the same"},
    {"build/warpline dual-gemm --stats --config NAME",
     "build/warpline dual-gemm -m 256 -n 4096 -k 512 --device virtual:b200 --stats "
     "--config dual_gemm_sm100_pair_n64_f16",
     "PASS"},
    // The name of a configuration that the page adds, and that is not in the tree.
    {"build/warpline dual-gemm -m 130 -n 296 -k 512 --config dual_gemm_sm100_1x2_n128_f16 "
     "--device virtual:b200 --check all",
     "build/warpline dual-gemm -m 130 -n 296 -k 512 --config dual_gemm_sm100_1x2_n64_f16 "
     "--device virtual:b200 --check all",
     "PASS"},
    {"WARPLINE_SWEEP=0:3000 build/tests/virtual \"[.sweep]\"",
     "WARPLINE_SWEEP=0:3 build/tests/virtual \"[.sweep]\"", " passed, 0 failed, 0 skipped"},
};

bool executable(const std::string& name) {
  if (name.find(".so") != std::string::npos) return false; // a library
  const std::string file = name.rfind("build/", 0) == 0   ? wltest::build_file(name.substr(6))
                           : name.rfind("tools/", 0) == 0 ? source_file(name)
                                                          : "";
  return !file.empty() && fs::is_regular_file(file) &&
         (fs::status(file).permissions() & fs::perms::owner_exec) != fs::perms::none;
}

// The first word that sets no variable.
std::string program_of(const std::string& command) {
  std::istringstream words(command);
  std::string word;
  while (words >> word && word.find('=') != std::string::npos) {
  }
  return word;
}

// A span is often a file's name alone; with arguments, or in an indented line, it is a command even
// where no such program is there.
bool is_command(const std::string& line, const std::string& program, bool indented) {
  const auto starts = [&](std::initializer_list<const char*> paths) {
    return std::any_of(paths.begin(), paths.end(),
                       [&](const char* path) { return program.rfind(path, 0) == 0; });
  };
  if (program == "make" || executable(program)) return true;
  if (!indented) return line.find(' ') != std::string::npos && starts({"build/", "tools/"});
  for (const char* name : {"cc", "c++", "g++", "python3", "cmake", "sh", "bash"})
    if (program == name) return true;
  return line.rfind("export ", 0) == 0 || starts({"build/", "tools/", "tests/", "/tmp/warpline/"});
}

// Commands of indented lines, in their order, and of spans, each once.
std::vector<std::string> commands_of(bool indented) {
  std::vector<std::string> result;
  for (const char* page : kPages) {
    const wltest::Markdown text(page);
    for (std::string line : indented ? text.indented : text.spans) {
      if (line.rfind("$ ", 0) == 0) line = line.substr(2);
      line = line.substr(0, line.find("  #"));
      line.erase(line.find_last_not_of(' ') + 1);
      while (line.find("  ") != std::string::npos) wltest::replace_all(&line, "  ", " ");
      const std::string program = program_of(line);
      if (std::any_of(std::begin(kElsewhere), std::end(kElsewhere),
                      [&](const char* start) { return line.rfind(start, 0) == 0; }))
        continue;
      if (is_command(line, program, indented) &&
          std::find(result.begin(), result.end(), line) == result.end())
        result.push_back(line);
    }
  }
  return result;
}

// What `make` is asked to make; nothing when the command is no make.
std::vector<std::string> goals_of(const std::string& command) {
  std::vector<std::string> goals;
  if (program_of(command) != "make") return goals;
  std::istringstream words(command);
  for (std::string word; words >> word;)
    if (word != "make" && word.find('=') == std::string::npos) goals.push_back(word);
  return goals;
}

std::set<std::string> goals_of_ci() {
  std::set<std::string> goals;
  std::istringstream script(wltest::read_text(source_file(".ci/run")));
  for (std::string line; std::getline(script, line);)
    for (const std::string& goal : goals_of(line)) goals.insert(goal);
  return goals;
}

// Runs commands one after the other in a copy of the tree, in one shell a call.
class Reader {
public:
  Reader() : ci_(goals_of_ci()) {
    copy_.link_build();
    has_pkg_config_ = run_child({"sh", "-c", "command -v pkg-config"}).status == 0;
    has_python_ = run_child({"python3", "--version"}).status == 0;
    has_ptxas_ = !run_child({source_file("tools/find_ptxas.sh")}).out.empty();
  }

  void run(const std::vector<std::string>& commands) {
    std::string script = "set -e\nexec 2>&1\ncd " + copy_.directory.path() +
                         "\ntoolkit=" + toolkit_.directory.path() + "\n";
    std::vector<std::string> asked;
    for (const std::string& command : commands) {
      const Case* c = find(command);
      std::string line = c != nullptr && *c->run != 0 ? c->run : command;
      if (!can_run(line)) continue;
      wltest::replace_all(&line, "/tmp/warpline", copy_ / "prefix");
      asked.push_back(command);
      script += "echo; echo '" + mark(asked.size()) + "'\n" + line + "\n";
    }
    auto environment = wltest::make_environment();
    environment.emplace_back("WARPLINE_DRIVER", "");
    environment.emplace_back("PREFIX", copy_ / "prefix"); // nothing is installed in the machine
    environment.emplace_back(kInside, "1");
    const ChildResult result = run_child({"sh", "-c", script}, environment, 600);
    INFO(last(result.out));
    REQUIRE(result.status == 0);
    for (size_t i = 0; i < asked.size(); ++i) {
      const size_t at = result.out.find(mark(i + 1));
      const std::string printed = result.out.substr(at, result.out.find(mark(i + 2)) - at);
      printed_[asked[i]] = printed;
      const Case* c = find(asked[i]);
      INFO(asked[i] << "\n" << last(printed));
      CHECK((c == nullptr || printed.find(c->prints) != std::string::npos));
    }
  }

  // A suite as a whole is run by `make test`.
  bool by_ci(const std::string& command) const {
    if (command.rfind("build/tests/", 0) == 0 && command.find(' ') == std::string::npos)
      return ci_.count("test") != 0;
    const std::vector<std::string> goals = goals_of(command);
    return !goals.empty() && std::all_of(goals.begin(), goals.end(), [&](const std::string& goal) {
      return ci_.count(goal) != 0;
    });
  }
  // As it stands; a program's name alone with some arguments; a goal with some variables; or as a
  // line of a make's recipe.
  bool ran(const std::string& command) const {
    const std::vector<std::string> goals = goals_of(command);
    for (const auto& [other, printed] : printed_)
      if (other == command || printed.find("\n" + command + " ") != std::string::npos ||
          (command.find(' ') == std::string::npos && program_of(other) == command) ||
          (command.find('=') == std::string::npos && !goals.empty() && goals_of(other) == goals))
        return true;
    return false;
  }
  std::string file(const std::string& name) const { return wltest::read_text(copy_ / name); }
  const std::string& printed(const std::string& command) { return printed_[command]; }

private:
  static std::string mark(size_t index) { return "==== command " + std::to_string(index) + "."; }
  static std::string last(const std::string& text) {
    return text.substr(text.size() - std::min<size_t>(text.size(), 4000));
  }
  static const Case* find(const std::string& command) {
    for (const Case& c : kCases)
      if (command == c.command) return &c;
    return nullptr;
  }
  bool can_run(const std::string& line) const {
    const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
    return (has_pkg_config_ || !(has("pkg-config") || has("/tmp/warpline/program"))) &&
           (has_python_ || !(has("tools/sass/") || has("python3 "))) &&
           (has_ptxas_ || !has("tools/check_ptx.sh"));
  }

  wltest::TreeCopy copy_;
  wltest::SassToolkit toolkit_;
  std::set<std::string> ci_;
  std::map<std::string, std::string> printed_; // by command
  bool has_pkg_config_ = false, has_python_ = false, has_ptxas_ = false;
};

} // namespace

TEST_CASE("the documentation's commands run", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  REQUIRE(std::getenv(kInside) == nullptr); // a command that runs all tests belongs to .ci/run
  Reader reader;
  const auto select = [&](bool indented) {
    std::vector<std::string> commands = commands_of(indented);
    std::erase_if(commands, [&](const std::string& command) {
      return reader.by_ci(command) || reader.ran(command);
    });
    return commands;
  };
  const std::vector<std::string> lines = select(true);
  CHECK(lines.size() >= 30);
  reader.run(lines);
  reader.run(select(false));
  // The pictures and figures of the pages are what the commands make.
  for (const char* picture : {"tools/trace/b200.svg", "tools/bench/results/h200.svg"}) {
    INFO(picture);
    CHECK(reader.file(picture) == wltest::read_text(source_file(picture)));
  }
}

TEST_CASE("the cases are commands of the documentation", "[host][readme]") {
  std::vector<std::string> commands = commands_of(true);
  for (const std::string& command : commands_of(false)) commands.push_back(command);
  for (const Case& c : kCases) {
    INFO(c.command);
    CHECK(std::find(commands.begin(), commands.end(), c.command) != commands.end());
  }
}

TEST_CASE("make bench is skipped without a GPU, and rehearsed on the virtual one",
          "[host][readme]") {
  const auto recipe = [](const char* driver) {
    auto environment = wltest::make_environment();
    environment.emplace_back("WARPLINE_DRIVER", driver);
    const ChildResult made =
        run_child({"make", "-n", "-C", source_file(""), "CUBINS=0", "bench"}, environment);
    INFO(made.err);
    CHECK(made.status == 0);
    return made.out;
  };
  const std::string without = recipe("/nonexistent/libcuda.so"),
                    on_virtual = recipe("virtual:b200");
  CHECK_THAT(without, ContainsSubstring("bench: skipped, no GPU"));
  CHECK(without.find("build/bench --quantize") == std::string::npos);
  CHECK_THAT(on_virtual, ContainsSubstring("build/bench --quantize"));
  CHECK(on_virtual.find("bench: skipped") == std::string::npos);
}

TEST_CASE("without a GPU the programs of make bench say what is missing", "[host][readme]") {
  if (!wltest::plain_build()) WL_SKIP("an instrumented build");
  for (const char* program : {"bench", "host-cost", "driver-cost"}) {
    const ChildResult result =
        run_child({wltest::build_file(program)}, {{"WARPLINE_DRIVER", "/nonexistent/libcuda.so"}});
    INFO(program << "\n" << result.err);
    CHECK(result.status == 1);
    CHECK_THAT(result.err, ContainsSubstring("no CUDA driver could be opened (WARPLINE_DRIVER = "));
  }
}
