// build/vgpu as its README and the first page show it: their lines, one after the other, what they
// print, and the pictures there.
#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include "tools/vgpu/trace/coverage.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

using namespace wltest;

namespace {

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The commands between two texts of a page: indented lines that begin as one of those, with what a
// backslash continues.
std::string commands(const std::string& page, const std::string& from, const std::string& to) {
  const std::string text = read(source_file(page));
  const size_t begin = text.find(from), end = text.find(to, begin);
  REQUIRE(end != std::string::npos);
  std::istringstream lines(text.substr(begin, end - begin));
  std::string script;
  for (std::string line; std::getline(lines, line);)
    for (const char* start : {"    run=", "    $run ", "    sed ", "    build/vgpu "})
      if (line.rfind(start, 0) == 0 || script.ends_with("\\\n")) {
        script += line.substr(4) + "\n";
        break;
      }
  return script;
}

// A folder that looks like the tree after a build.
struct Tree {
  TemporaryDirectory directory;
  Tree() {
    std::filesystem::create_directory(directory / "build");
    std::filesystem::create_symlink(build_file("vgpu"), directory / "build/vgpu");
    std::filesystem::create_directory_symlink(source_file("tests"), directory / "tests");
  }
  ChildResult run(const std::string& script) const {
    return run_child({"bash", "-c", "cd " + (directory / "") + "\n" + script + "echo status $?\n"});
  }
};

} // namespace

TEST_CASE("vgpu: five minutes with somebody else's kernel", "[virtual][tool]") {
  const Tree tree;
  const std::string script =
      commands("tools/vgpu/README.md", "## Five minutes", "`.cu` becomes PTX");
  INFO(script);
  const ChildResult r = tree.run(script);
  INFO(r.out << r.err);
  CHECK_THAT(r.out, ContainsSubstring("ran clean under 1 schedule, 664 warp-instructions"));
  CHECK_THAT(r.out, ContainsSubstring("status 1"));
  const std::string all = r.out + r.err;
  for (const char* part :
       {"vgpu: races: order: read of shared memory 0x440..0x443", "line 168 (after $L__BB1_5)",
        "line 170 (after $L__BB1_5)", "missing: bar.warp.sync of the lanes", "picture: race.svg",
        "vgpu: deadlock: no warp can run", "1024 of 2048 announced bytes", "picture: hung.svg"})
    CHECK_THAT(all, ContainsSubstring(part));
  CHECK(read(tree.directory / "race.svg") == read(source_file("tools/vgpu/race.svg")));
  CHECK(read(tree.directory / "hung.svg") == read(source_file("tools/vgpu/deadlock.svg")));
  const std::string json = read(tree.directory / "race.json");
  CHECK_THAT(json, ContainsSubstring("\"checker\": \"races\", \"rule\": \"order\"") &&
                       ContainsSubstring("\"instruction\": \"st.shared.f32 [%r5], %f9;\""));
}

TEST_CASE("vgpu: the race on the first page is found", "[virtual][tool]") {
  const std::string script = commands("README.md", "## Your own PTX", "## How it is tested");
  INFO(script);
  const ChildResult r = Tree().run(script);
  INFO(r.out << r.err);
  CHECK_THAT(r.out, ContainsSubstring("status 1"));
  // What the page shows of it, wrapped there and with "..." where it leaves something out.
  const auto flat = [](const std::string& text) {
    std::istringstream words(text);
    std::string result;
    for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
    return result;
  };
  const std::string page = read(source_file("README.md")), printed = flat(r.out + r.err);
  const size_t begin = page.find("    vgpu: races");
  REQUIRE(begin != std::string::npos);
  std::string shown = flat(page.substr(begin, page.find("\n\n", begin) - begin));
  for (size_t at; (at = shown.find(" ... ")) != std::string::npos; shown = shown.substr(at + 5)) {
    INFO(shown.substr(0, at));
    CHECK(printed.find(shown.substr(0, at)) != std::string::npos);
  }
  CHECK(printed.find(shown) != std::string::npos);
}

TEST_CASE("vgpu: a heap of the size that is asked for", "[virtual][tool]") {
  auto greedy = [](const std::vector<std::string>& options) {
    std::vector<std::string> command = {
        build_file("vgpu"), "run",      source_file("tests/virtual/foreign/heap.ptx"),
        "--device",         "h200",     "--entry",
        "greedy",           "--block",  "1",
        "--param",          "u64:1024", "--param",
        "zeros:4",          "--print",  "1:s32"};
    command.insert(command.end(), options.begin(), options.end());
    return run_child(command);
  };
  CHECK_THAT(greedy({"--heap", "5120"}).out, ContainsSubstring("  5\n"));
  CHECK_THAT(greedy({"--heap", "0"}).out, ContainsSubstring("  0\n"));
  CHECK(greedy({"--heap", "much"}).status == 2);
}

TEST_CASE("vgpu run: a module is held to what a device takes", "[virtual][tool]") {
  TemporaryDirectory directory;
  const std::string file = directory / "k.ptx";
  auto run = [&](const std::string& target, const std::string& rest,
                 const std::string& device = "b200", const std::string& version = "9.0") {
    std::ofstream(file) << ".version " << version << "\n.target " << target
                        << "\n.address_size 64\n"
                        << rest;
    return run_child({build_file("vgpu"), "run", file, "--device", device});
  };
  const std::string entry = ".visible .entry k() { ret; }\n";
  CHECK(run("sm_100a", entry).status == 0);
  CHECK(run("sm_90", ".const .b8 a[65536];\n" + entry).status == 0);
  CHECK(run("sm_100a", ".visible .entry k() { .shared .b8 a[232448]; ret; }").status == 0);
  struct Case {
    const char *target, *rest, *says;
  };
  for (const Case& c :
       {Case{"sm_9999", "",
             "line 2: unknown target 'sm_9999'; the nearest that is known is sm_121"},
        Case{"sm_103a", "",
             "line 2: .target sm_103a cannot run on a device of compute capability "
             "10.0"},
        Case{"sm_90a", "", "cannot run"}, Case{"sm_120f", "", "cannot run"},
        Case{"sm_90", ".const .b8 a[1073741824];\n", "1073741824 bytes of .const variables"},
        Case{"sm_90", ".const .b8 a[65000];\n.const .b8 b[537];\n", "65537 bytes"},
        Case{"sm_90", ".shared .b8 a[99000000000];\n", "'a' has 99000000000 bytes"},
        Case{"sm_100f", ".visible .entry k() { .shared .b8 a[49153]; ret; }", "49152 bytes"},
        Case{"sm_100a", ".visible .entry k() { .shared .b8 a[232449]; ret; }", "232448 bytes"},
        Case{"sm_90", "#include \"x.ptx\"\n", "4:1: '#include' is a preprocessor's"},
        Case{"sm_90", ".section .x { \"{ }\n", "4:15: this string is not closed"}}) {
    INFO(c.target << " " << c.rest);
    const bool whole = std::string(c.rest).find(".entry") != std::string::npos;
    const ChildResult r = run(c.target, c.rest + (whole ? "" : entry));
    CHECK(r.status == 2);
    CHECK_THAT(r.err, ContainsSubstring(c.says));
  }
  CHECK_THAT(run("sm_100", entry, "h200").err, ContainsSubstring("cannot run"));
  CHECK_THAT(run("sm_90", entry, "h200", "10.0").err,
             ContainsSubstring("unsupported .version 10.0"));
}

TEST_CASE("vgpu run: rules by name", "[virtual][tool]") {
  TemporaryDirectory directory;
  const std::string file = directory / "k.ptx";
  std::ofstream(file) << R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
  .shared .align 8 .b64 bar;
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.init.shared::cta.b64 [bar], 1;
  ret;
}
)";
  auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words{build_file("vgpu"), "run", file, "--device", "h200",
                                   "--block",          "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_child(words);
  };
  CHECK_THAT(run({}).out, ContainsSubstring("vgpu: barriers: mbarrier at"));
  const ChildResult told = run({"--rules", "foreign"});
  CHECK(told.status == 1);
  CHECK_THAT(told.out, ContainsSubstring("(error, rule mbarrier-again)") &&
                           ContainsSubstring("ran on with 1 error under 1 schedule"));
  CHECK(run({"--rules", "foreign", "--json"}).status == 1);
  CHECK(run({"--rules", "foreign,mbarrier-again=off"}).status == 0);
  CHECK(run({"--rules", "mbarrier-again=off"}).status == 0);
  const ChildResult bad = run({"--rules", "mbarrier=off"});
  CHECK(bad.status == 2);
  CHECK_THAT(bad.err, ContainsSubstring("there is no rule \"mbarrier\""));
}

TEST_CASE("vgpu run: coverage", "[virtual][tool]") {
  TemporaryDirectory directory;
  const std::string file = directory / "k.ptx", prefix = directory / "what";
  std::ofstream(file) << R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry _Z4somej(.param .u32 n_param)
{
  .reg .b32 n, i;
  .reg .pred again, odd, none;
  ld.param.u32 n, [n_param];
  mov.u32 i, 0;
loop:
  add.u32 i, i, 1;
  setp.lt.u32 again, i, n;
  @again bra loop;
  setp.gt.u32 none, i, 1000;
  @none mov.u32 i, 7;
  @none bra far;
  mov.u32 n, %tid.x;
  setp.lt.u32 odd, n, 5;
  @odd bra done;
  mov.u32 i, 3;
done:
  ret;
far:
  mov.u32 i, 9;
  ret;
}
)";
  auto run = [&](const std::string& n) {
    return run_child({build_file("vgpu"), "run", file, "--device", "h200", "--param", "u32:" + n,
                      "--coverage", prefix});
  };
  auto read = [](const std::string& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const ChildResult r = run("4");
  INFO(r.out << r.err);
  REQUIRE(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("some: 11 of 15 instructions (73.3 %), 5 of 6 ways of "
                                      "branches (83.3 %)"));
  CHECK_THAT(r.out, ContainsSubstring("line 15, its guard never held: @none mov.u32 i, 7;"));
  CHECK_THAT(r.out, ContainsSubstring("line 16, never taken: @none bra far;"));
  CHECK_THAT(r.out, ContainsSubstring("line 24, never reached: mov.u32 i, 9;"));
  CHECK(r.out.find("line 19") == std::string::npos); // some lanes went either way
  CHECK(r.out.find("line 13") == std::string::npos); // the back edge and the way out
  CHECK(read(prefix + ".txt") == r.out.substr(0, r.out.find("ran clean")));
  // Counts of two runs add up; a prefix that is a file of counts is that alone.
  const ChildResult other =
      run_child({build_file("vgpu"), "run", file, "--device", "h200", "--param", "u32:2000",
                 "--coverage", directory / "other.counts"});
  REQUIRE(other.status == 0);
  CHECK_FALSE(std::filesystem::exists(directory / "other.counts.txt"));
  vgpu::trace::Coverage sum;
  for (const char* name : {"what.counts", "other.counts"}) {
    std::ifstream counts(directory / name);
    CHECK(sum.add(counts) == "");
  }
  REQUIRE(sum.kernels().size() == 1);
  const auto& items = sum.kernels()[0].items;
  CHECK(items.at({11, 0}).cell.ran == 4 + 2000);
  CHECK(std::string(items.at({16, 0}).missing()) == ""); // passed with 4, taken with 2000
  CHECK(std::string(items.at({13, 0}).missing()) == "");
  std::istringstream wrong("vgpu coverage 1\nkernel 2 1 some\n");
  CHECK_THAT(sum.add(wrong), ContainsSubstring("the file ends inside some"));
  const std::string listing = read(prefix + "._Z4somej.ptx");
  INFO(listing);
  CHECK_THAT(listing, ContainsSubstring("           4 |   add.u32 i, i, 1;"));
  CHECK_THAT(listing, ContainsSubstring("!          0 |   @none bra far;"));
  CHECK_THAT(listing, ContainsSubstring("-          0 |   mov.u32 i, 9;"));
  CHECK_THAT(run("1").out, ContainsSubstring("line 13, never taken: @again bra loop;"));
}

TEST_CASE("vgpu: a dump that cannot be written and more zeros than there is memory for",
          "[virtual][tool]") {
  const auto reduced = [](const std::string& zeros, const std::string& dump) {
    return run_child({build_file("vgpu"), "run", source_file("tests/virtual/foreign/reduction.ptx"),
                      "--device", "h200", "--entry", "largest", "--block", "128", "--shared", "512",
                      "--param", "zeros:" + zeros, "--param", "s32:1000", "--param", "zeros:4",
                      "--dump", "2=" + dump});
  };
  const TemporaryDirectory directory;
  CHECK(reduced("4096", directory / "out").status == 0);
  CHECK(read(directory / "out") == std::string(4, '\0'));
  for (const char* file : {"/nope/out", "/dev/full"}) {
    const ChildResult r = reduced("4096", file);
    CHECK(r.status == 2);
    CHECK_THAT(r.err, ContainsSubstring("the file cannot be written"));
  }
  const ChildResult r = reduced("99999999999999", directory / "out");
  CHECK(r.status == 2);
  CHECK_THAT(r.err, ContainsSubstring("more memory than the device or host has"));
}
