// tools/sass with stand-ins for ptxas and nvdisasm: finding them, reading a listing, roles, the
// main loop, golden summaries. What the real tools make of the kernels is `make sass-check`.
#include "tests/support/catch.hpp"
#include "tests/support/sass_toolkit.hpp"

#include <filesystem>
#include <sstream>

using wltest::ChildResult;
using wltest::ContainsSubstring;
using wltest::SassToolkit;
using wltest::TemporaryDirectory;

namespace {

bool has_python() { return wltest::run_child({"python3", "--version"}).status == 0; }

} // namespace

TEST_CASE("sass shows PTX lines, roles and the main loop", "[host][sass]") {
  if (!has_python()) WL_SKIP("no python3");
  const SassToolkit toolkit;
  const ChildResult result = toolkit.run("sass", {toolkit.directory / "small.ptx"});
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out, ContainsSubstring("ptxas 13.0.88: 64 registers, 8 spill bytes, 6 "
                                           "instructions"));
  CHECK_THAT(result.out, ContainsSubstring("// ==== role loader\n//    13 cp.async.bulk.tensor;\n"
                                           "  00010  UTMALDG.3D [UR8], [UR4]"));
  CHECK_THAT(result.out, ContainsSubstring("// ---- main loop begins\n.L_x_1:\n  00020  HGMMA"));
  CHECK_THAT(result.out, ContainsSubstring("@P0 BRA `(.L_x_1)\n// ---- main loop ends"));

  const ChildResult role =
      toolkit.run("sass", {toolkit.directory / "small.ptx", "--role", "consumer"});
  CHECK(role.out.find("UTMALDG") == std::string::npos);
  CHECK(toolkit.run("sass", {toolkit.directory / "small.ptx", "--role", "nobody"}).status == 2);
  CHECK(toolkit.run("sass", {toolkit.directory / "small.ptx", "--arch", "sm_90a"}).status == 2);
  CHECK(toolkit.run("sass", {"no_such_row"}).status == 2);
}

TEST_CASE("sass --arrivals finds arrivals that pending loads may outlast", "[host][sass]") {
  if (!has_python()) WL_SKIP("no python3");
  SassToolkit toolkit;
  // A load that sets scoreboard 2, an instruction that waits for it or not, an arrival.
  const auto listing = [](const char* between) {
    const auto line = [](const char* text, const char* control) {
      return std::string("        /*0050*/  ") + text + " ;  /* 0x0000000000000000 */\n" +
             "                                   /* " + control + " */\n";
    };
    return "        .text.small:\n//## File \".nv_debug_ptx_txt\", line 18\n" +
           line("LDS.128 R4, [R2]", "0x0000800000000000") + line("IADD3 R1, R4, R5, RZ", between) +
           line("@!P0 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R3+URZ+0x20], RZ", "0x0000000000000000");
  };
  const auto arrivals = [&](const char* between) {
    toolkit.list(listing(between));
    const ChildResult result = toolkit.run("sass", {toolkit.directory / "small.ptx", "--arrivals"});
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string early = "consumer: st.global.b32 [d], r; with pending:\n"
                            "  18: st.global.b32 [d], r;\n";
  CHECK(arrivals("0x0000000000000000") == early);
  CHECK(arrivals("0x0040000000000000").empty());  // waits for scoreboard 2: bit 13 of the control
  CHECK(arrivals("0x0020000000000000") == early); // for scoreboard 1
}

TEST_CASE("sass-summary counts per role and compares with golden files", "[host][sass]") {
  if (!has_python()) WL_SKIP("no python3");
  SassToolkit toolkit;
  const std::string file = toolkit.directory / "small.ptx";
  const ChildResult result = toolkit.run("sass-summary", {file});
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  CHECK(result.out == "# sass-summary, ptxas 13.0.88\n"
                      "small  sm_100a  registers 64  spill bytes 8  instructions 6  main loop 2\n"
                      "small  prologue  move 1\n"
                      "small  loader  tma 1\n"
                      "small  consumer  tensor 1  memory 1  branch 2\n");

  toolkit.take_kernels({"dual_gemm_sm100_n64_f16", "dual_gemm_sm90_t32_f16", "quantize_sm100_f16",
                        "quantize_sm90_bf16", "quantize_sm90_f16"});
  const std::vector<std::string> golden = {"--golden", toolkit.directory / "golden"};
  const auto run_known = [&](const std::string& option) {
    return toolkit.run("sass-summary", {option, golden[0], golden[1]});
  };
  const auto run = [&](const std::string& option) {
    return toolkit.run("sass-summary", {option, "--all", golden[0], golden[1]});
  };
  CHECK(run_known("--check").status == 3);
  const ChildResult first = run_known("--update");
  REQUIRE(first.status == 0);
  CHECK_THAT(first.out, ContainsSubstring(": 5 kernels, 5 assembled"));
  const ChildResult all = run("--check");
  CHECK(all.status == 0);
  CHECK_THAT(all.out, ContainsSubstring("; 5 of them were assembled"));
  std::string changed = wltest::sass_listing;
  changed.replace(changed.find("STG.E"), 5, "STL.E");
  toolkit.list(changed);
  // What has the text that the golden file names is not assembled, any other is.
  const ChildResult known = run_known("--check");
  CHECK(known.status == 0);
  CHECK_THAT(known.out, ContainsSubstring("; 0 of them were assembled"));
  toolkit.change("quantize_sm90_f16", "// another line\n");
  const ChildResult one = run_known("--check");
  CHECK(one.status == 1);
  CHECK_THAT(one.out, ContainsSubstring("+quantize_sm90_f16") && ContainsSubstring("spill 1") &&
                          !ContainsSubstring("+quantize_sm90_bf16"));
  toolkit.list(wltest::sass_listing);
  CHECK(run_known("--check").status == 0); // other text, the same code
  CHECK_THAT(run_known("--update").out, ContainsSubstring(": 5 kernels, 1 assembled"));
  CHECK_THAT(run_known("--update").out, ContainsSubstring(": 5 kernels, 0 assembled"));
  // Nor are golden lines believed that somebody has changed.
  const std::string page = toolkit.directory / "golden/sass-ptxas-13.0.88.txt";
  const std::string written = wltest::read_text(page);
  std::string edited = written;
  edited.replace(edited.find("registers 64"), 12, "registers 63");
  wltest::write_text(page, edited);
  const ChildResult not_so = run_known("--check");
  CHECK(not_so.status == 1);
  CHECK_THAT(not_so.out, ContainsSubstring("registers 63"));
  wltest::write_text(page, written);
  toolkit.change_tools();
  CHECK_THAT(run_known("--check").out, ContainsSubstring("; 5 of them were assembled"));
  // What other tools wrote stays, without its text, when some kernels are written.
  const std::string two = "quantize_sm90";
  CHECK(toolkit.run("sass-summary", {"--update", two, golden[0], golden[1]}).status == 0);
  CHECK_THAT(run_known("--check").out, ContainsSubstring("; 3 of them were assembled"));
  REQUIRE(run_known("--update").status == 0);
  toolkit.list(changed);
  const ChildResult different = run("--check");
  CHECK(different.status == 1);
  CHECK_THAT(different.out, ContainsSubstring("spill 1"));

  // The changed lines of some kernels: those and no others are written.
  const auto lines_of = [&](const std::string& prefix, bool those) {
    std::istringstream text(wltest::read_text(toolkit.directory / "golden/sass-ptxas-13.0.88.txt"));
    std::string line, found;
    while (std::getline(text, line))
      if ((line.compare(0, prefix.size(), prefix) == 0) == those) found += line + "\n";
    return found;
  };
  const std::string some = "quantize_sm90", before = lines_of(some, true),
                    others = lines_of(some, false);
  REQUIRE(!before.empty());
  REQUIRE(toolkit.run("sass-summary", {"--update", "--all", some, golden[0], golden[1]}).status ==
          0);
  CHECK(lines_of(some, false) == others);
  CHECK(lines_of(some, true) != before);
  CHECK(run("--check").status == 1);
  CHECK(toolkit.run("sass-summary", {"--update", file, golden[0], golden[1]}).status == 2);

  // 13 instructions around the one MMA; the head of the Blackwell kernels allows 12.125.
  std::string longer = wltest::sass_listing;
  const std::string loop = ".L_x_1:\n";
  for (int i = 0; i < 11; ++i)
    longer.insert(longer.find(loop) + loop.size(), "        /*0018*/  UIADD3 UR4, UR4, 1 ;\n");
  toolkit.list(longer);
  const ChildResult over = run("--update");
  CHECK(over.status == 1);
  CHECK_THAT(over.out,
             ContainsSubstring("dual_gemm_sm100_n64_f16: 13.00 instructions an MMA in the "
                               "main loop, its head allows 12.125"));
  CHECK(over.out.find("dual_gemm_sm90") == std::string::npos);
}

TEST_CASE("sass-diff compares two assemblers", "[host][sass]") {
  if (!has_python()) WL_SKIP("no python3");
  const SassToolkit toolkit;
  const std::string ptxas = toolkit.directory / "bin/ptxas";
  const ChildResult same = toolkit.run(
      "sass-diff", {toolkit.directory / "small.ptx", "--ptxas", ptxas, "--ptxas", ptxas});
  INFO(same.out << same.err);
  CHECK(same.status == 0);
  CHECK_THAT(same.out, ContainsSubstring("the code is the same (6 instructions)"));
  CHECK(toolkit.run("sass-diff", {toolkit.directory / "small.ptx"}).status == 2);
}

TEST_CASE("without a disassembler there is one sentence and a failure", "[host][sass]") {
  if (!has_python()) WL_SKIP("no python3");
  if (std::filesystem::exists("/usr/local/cuda/bin/nvdisasm")) WL_SKIP("a toolkit is installed");
  TemporaryDirectory empty;
  const std::string python =
      wltest::run_child({"python3", "-c", "import sys; print(sys.executable)"}).out;
  for (const char* tool : {"sass", "sass-summary"}) {
    const ChildResult result = wltest::run_child(
        {python.substr(0, python.find('\n')), "-S",
         wltest::source_file(std::string("tools/sass/") + tool), "dual_gemm_sm100_n64_f16"},
        {{"PATH", empty.path()}, {"CUDA_HOME", ""}, {"CUDA_PATH", ""}, {"PYTHONPATH", ""}});
    INFO(result.out << result.err);
    CHECK(result.status == 3);
    CHECK_THAT(result.err,
               ContainsSubstring("nvdisasm was not found in CUDA_HOME, CUDA_PATH, PATH"));
  }
}
