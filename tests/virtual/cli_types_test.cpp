// Operand types of `warpline gemm`, `dual-gemm` and `configs` as their users name them.
#include "tests/support/cli.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/gemm_files.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/product.hpp"

#include <unistd.h>

using namespace warpline::cli;
using namespace wltest;

namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json json_of(const Words& arguments) {
  const ChildResult child = warpline_cli(arguments + Words{"--json", "-"});
  INFO_CHILD(child);
  REQUIRE(child.status == 0);
  return parse_json(child.out);
}

struct Pair {
  const char *device, *a, *b;
};
// Every type, and pairs of two; K is the shortest that has an edge in a stage.
const Pair pairs[] = {{"virtual:b200", "nvfp4", "nvfp4"},
                      {"virtual:b200", "f16", "f16"},
                      {"virtual:b300", "bf16", "bf16"},
                      {"virtual:b200", "f16", "nvfp4"},
                      {"virtual:b300", "bf16", "nvfp4"},
                      {"virtual:b200", "tf32", "tf32"},
                      {"virtual:b200", "e4m3", "e5m2"},
                      {"virtual:b300", "e5m2", "e4m3"},
                      {"virtual:b200", "int8", "int8"},
                      {"virtual:b200", "mxfp8_e4m3", "mxfp4"},
                      {"virtual:b300", "mxfp8_e5m2", "mxfp6_e2m3"},
                      {"virtual:b200", "mxfp4", "mxfp6_e3m2"},
                      {"virtual:h200", "f16", "f16"},
                      {"virtual:h200", "bf16", "bf16"},
                      {"virtual:h200", "tf32", "tf32"},
                      {"virtual:h200", "e4m3", "e5m2"},
                      {"virtual:h200", "int8", "int8"},
                      {"virtual:h200", "f16", "nvfp4"},
                      {"virtual:h200", "bf16", "nvfp4"}};

const Words small_sizes = {"-m", "33", "-n", "72", "-k", "384"};

} // namespace

TEST_CASE("cli: gemm multiplies operands of every type and says which", "[virtual][cli]") {
  for (const Pair& c : pairs) {
    const std::string a = c.a, b = c.b;
    Words words =
        Words{"gemm", "--device", c.device, "--a-type", a, "--check", "all"} + small_sizes;
    if (b != a) words = words + Words{"--b-type", b};
    const ChildResult child = warpline_cli(words);
    INFO_CHILD(child);
    CHECK(child.status == 0);
    CHECK(last_line(child.out) == "PASS");
    CHECK_THAT(child.out, ContainsSubstring("operand types        A " + a + ", B " + b + "\n"));
    const Json report = json_of(words + Words{"-l", "2", "--act", "relu", "--bias", "f16"});
    CHECK(report.find("a_type")->text == a);
    CHECK(report.find("b_type")->text == b);
    CHECK(report.find("result")->text == "PASS");
    CHECK(report.find("outputs")->integer == 2 * 33 * 72);
    CHECK(report.find("wrong")->integer == 0);
    CHECK(report.find("out")->text == (a == "bf16" ? "bf16" : a == "tf32" ? "f32" : "f16"));
    CHECK(report.find("alpha")->number == (a == "int8" ? 0x1p-12 : 1));
    // The list of configurations for the pair begins with the one that ran.
    Words list =
        Words{"configs", "--operation", "gemm", "--device", c.device, "--a-type", a} + small_sizes;
    if (b != a) list = list + Words{"--b-type", b};
    const ChildResult table = warpline_cli(list);
    CHECK(table.status == 0);
    CHECK_THAT(table.out, ContainsSubstring(", A " + a + ", B " + b + ", D "));
    const Json configs = json_of(list);
    REQUIRE(!configs.items.empty());
    CHECK(configs.items[0].find("chosen")->boolean);
    CHECK(json_of(words).find("config")->text == configs.items[0].find("name")->text);
  }
}

TEST_CASE("cli: a K that no block of NVFP4 has, and what INT8's alpha is", "[virtual][cli]") {
  CHECK(json_of({"gemm", "-m", "3", "-n", "8", "-k", "20", "--a-type", "tf32", "--out", "f32",
                 "--device", "virtual:b200"})
            .find("result")
            ->text == "PASS");
  const Words int8 = {"gemm", "-m",       "3",    "-n",       "8",           "-k",
                      "48",   "--a-type", "int8", "--device", "virtual:b200"};
  CHECK(json_of(int8 + Words{"--alpha", "0.5"}).find("alpha")->number == 0.5);
}

TEST_CASE("cli: dual-gemm multiplies operands of every type and says which", "[virtual][cli]") {
  size_t i = 0;
  for (const Pair& c : pairs) {
    const std::string a = c.a, b = c.b;
    const Words types = Words{"--device", c.device, "--a-type", a, "--b-type", b} + small_sizes;
    const Words gates[] = {{}, {"--gate", "gelu_tanh", "--bias", "f16"}, {"--gate", "clamped"}};
    const Json report =
        json_of(Words{"dual-gemm", "--check", "all", "-l", "2"} + types + gates[i++ % 3]);
    CHECK(report.find("a_type")->text == a);
    CHECK(report.find("b_type")->text == b);
    CHECK(report.find("result")->text == "PASS");
    CHECK(report.find("wrong")->integer == 0);
    CHECK(report.find("out")->text == (a == "bf16" ? "bf16" : "f16"));
    const Json configs = json_of(Words{"configs", "-l", "2"} + types);
    REQUIRE(!configs.items.empty());
    CHECK(configs.items[0].find("name")->text == report.find("config")->text);
  }
}

TEST_CASE("cli: dual-gemm takes 16-bit activations", "[virtual][cli]") {
  for (const auto& [device, a] : {std::pair<std::string, std::string>{"virtual:h200", "f16"},
                                  {"virtual:h200", "bf16"},
                                  {"virtual:b200", "f16"},
                                  {"virtual:b300", "bf16"}}) {
    const Words sizes = Words{"--device", device} + small_sizes;
    const Words words = Words{"dual-gemm", "--a-type", a} + sizes;
    const Json report = json_of(words + Words{"--check", "all", "--gate", "clamped"});
    CHECK(report.find("result")->text == "PASS");
    CHECK(report.find("a_type")->text == a);
    CHECK(report.find("b_type")->text == "nvfp4");
    CHECK(report.find("out")->text == a);
    const Json configs = json_of(Words{"configs", "--a-type", a} + sizes);
    REQUIRE(!configs.items.empty());
    CHECK(configs.items[0].find("name")->text == json_of(words).find("config")->text);
  }
}

TEST_CASE("cli: gemm with factors of columns, and with the tensor core's own sums",
          "[virtual][cli]") {
  for (const auto& [type, device] : {std::pair<const char*, const char*>{"e4m3", "virtual:h200"},
                                     {"int8", "virtual:h200"},
                                     {"e4m3", "virtual:b200"},
                                     {"int8", "virtual:b200"},
                                     {"e5m2", "virtual:b300"}}) {
    const Words words = {"gemm", "-m", "20",       "-n", "72",       "-k",  "128",
                         "-l",   "2",  "--a-type", type, "--device", device};
    for (const Words& more : {Words{"--col"}, Words{"--col", "--row", "--act", "silu"}}) {
      const Json report = json_of(words + more);
      CHECK(report.find("result")->text == "PASS");
      CHECK(report.find("col")->boolean);
    }
    CHECK_FALSE(json_of(words).find("col")->boolean);
  }
  for (const auto& [type, device] : {std::pair<const char*, const char*>{"f16", "virtual:h200"},
                                     {"f16", "virtual:b200"},
                                     {"nvfp4", "virtual:b200"},
                                     {"mxfp8_e4m3", "virtual:b200"}})
    check_refusal(warpline_cli({"gemm", "-m", "20", "-n", "72", "-k", "128", "--a-type", type,
                                "--col", "--device", device}),
                  2, "must be null but for FP8 and INT8 operands (nearest: null)");

  // The flag reaches the library, which takes such sums where they are faster.
  const ChildResult logged =
      run_child({build_file("warpline"), "gemm", "-m", "4", "-n", "64", "-k", "128", "--a-type",
                 "e4m3", "--fast-accumulation", "--device", "virtual:h200"},
                {{"WARPLINE_LOG_LEVEL", "3"}});
  CHECK_THAT(logged.err, ContainsSubstring("flags 0x4,"));
}

TEST_CASE("cli: gemm of files whose tensors have other types", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in", output = directory / "out";
  for (const Pair& c : pairs) {
    const wl_operand a = operand_of(c.a), b = operand_of(c.b);
    if (a >= WL_OPERAND_MXFP8_E4M3) continue; // no files of these
    const GemmProblem p = make_gemm_problem(20, 72, 128, 2, {"f32", false, ""}, 3, {a, b});
    write_gemm_problem(input, p);
    const Words words = {"gemm", "--input",  input,      "--output",
                         output, "--verify", "--device", c.device};
    const ChildResult run = warpline_cli(words);
    INFO_CHILD(run);
    CHECK(run.status == 0);
    CHECK(last_line(run.out) == "PASS");
    CHECK_THAT(run.out,
               ContainsSubstring(std::string("types        A ") + c.a + ", B " + c.b + "\n"));
    CHECK_THAT(run.err, !ContainsSubstring("not used"));
    CHECK(SafetensorsFile(output).find("d")->dtype == (a == WL_OPERAND_BF16   ? "BF16"
                                                       : a == WL_OPERAND_TF32 ? "F32"
                                                                              : "F16"));
  }
  for (const char* option : {"--a-type", "--b-type"})
    check_refusal(warpline_cli({"gemm", "--input", input, option, "bf16"}), 2,
                  std::string("gemm: ") + option +
                      " cannot be given with --input, the file says it\n");
  REQUIRE(warpline_cli({"make-example", input}).status == 0);
  check_refusal(warpline_cli({"dual-gemm", "--input", input, "--a-type", "f16"}), 2,
                "dual-gemm: --a-type cannot be given with --input, the file says it\n");
  // What make-example writes for quantize.
  REQUIRE(warpline_cli({"make-example", input, "--operation", "gemm", "--type", "bf16"}).status ==
          0);
  for (const char* device : {"virtual:b200", "virtual:h200"})
    CHECK(
        json_of({"gemm", "--input", input, "--verify", "--device", device}).find("result")->text ==
        "PASS");
  REQUIRE(warpline_cli({"make-example", input, "--type", "f16"}).status == 0);
  check_refusal(warpline_cli({"dual-gemm", "--input", input, "--b-type", "f16"}), 2,
                "dual-gemm: --b-type cannot be given with --input, the file says it\n");
  for (const char* device : {"virtual:b200", "virtual:h200"})
    CHECK(json_of({"dual-gemm", "--input", input, "--verify", "--device", device})
              .find("result")
              ->text == "PASS");
}

TEST_CASE("cli: --stats counts operands of other types by their bytes", "[virtual][cli]") {
  struct Case {
    const char *a, *b;
    double a_bytes, b_bytes, scale_block; // of an element; 0: none
  };
  for (const Case& c : {Case{"f16", "f16", 2, 2, 0}, Case{"e4m3", "e5m2", 1, 1, 0},
                        Case{"tf32", "tf32", 4, 4, 0}, Case{"mxfp8_e4m3", "mxfp4", 1, 0.5, 32}}) {
    const Json stats = json_of({"gemm", "-m", "256", "-n", "128", "-k", "1024", "--device",
                                "virtual:b200", "--a-type", c.a, "--b-type", c.b, "--stats"});
    INFO(c.a << " " << c.b);
    const double a = 256 * 1024 * c.a_bytes, b = 128 * 1024 * c.b_bytes;
    const double scales = c.scale_block == 0 ? 0 : (256 + 128) * 1024 / c.scale_block;
    CHECK(stats.find("least_bytes")->number == a + b + scales);
    CHECK(stats.find("tma_A")->find("read_bytes")->number >= a);
    CHECK(stats.find("tma_B")->find("read_bytes")->number >= b);
    CHECK(stats.find("l2_read_bytes")->number < 4 * (a + b + scales));
    CHECK((stats.find("tma_SFA") != nullptr) == (c.scale_block != 0));
    CHECK((stats.find("tma_SFB") != nullptr) == (c.scale_block != 0));
  }
  // Decoded weights, of 2 bytes, come from the workspace.
  const Json stats = json_of({"gemm", "-m", "256", "-n", "128", "-k", "1024", "--device",
                              "virtual:b200", "--a-type", "f16", "--b-type", "nvfp4", "--stats"});
  CHECK(stats.find("tma_B") == nullptr);
  CHECK(stats.find("tma_workspace")->find("read_bytes")->number == 2 * 128 * 1024);
}

TEST_CASE("cli: what is refused of operand types", "[virtual][cli]") {
  struct Case {
    Words words;
    int status;
    const char* text;
  };
  const char* all = "must be nvfp4, f16, bf16, tf32, e4m3, e5m2, int8, mxfp8_e4m3, mxfp8_e5m2, "
                    "mxfp6_e2m3, mxfp6_e3m2 or mxfp4\n";
  const std::string of_a = std::string("gemm: option --a-type is 'fp16', ") + all,
                    of_b = std::string("gemm: option --b-type is 'F16', ") + all,
                    of_configs = std::string("configs: option --a-type is 'half', ") + all,
                    of_dual = std::string("dual-gemm: option --a-type is 'fp8', ") + all;
  const Words sizes = {"-m", "33", "-n", "136", "-k", "128"};
  const Case cases[] = {
      {{"gemm", "--a-type", "fp16"}, 2, of_a.c_str()},
      {{"gemm", "--b-type", "F16"}, 2, of_b.c_str()},
      {{"configs", "--a-type", "half"}, 2, of_configs.c_str()},
      {{"dual-gemm", "--a-type", "fp8"}, 2, of_dual.c_str()},
      {{"dual-gemm", "--a-type", "int8", "--b-type", "int8", "--device", "virtual:b300"},
       2,
       "wl_dual_gemm_check: a_type, b_type = WL_OPERAND_INT8 (6), WL_OPERAND_INT8 (6) must be "
       "types"},
      {{"dual-gemm", "--a-type", "mxfp4", "--b-type", "mxfp4", "--device", "virtual:h200"},
       2,
       "wl_dual_gemm_check: a_type, b_type = WL_OPERAND_MXFP4 (11), WL_OPERAND_MXFP4 (11) must be "
       "types"},
      {{"gemm", "--a-type", "f16", "--b-type", "bf16", "--device", "virtual:b200"},
       2,
       "wl_gemm_check: a_type, b_type = WL_OPERAND_F16 (1), WL_OPERAND_BF16 (2) must be types that "
       "the device has kernels for (nearest: WL_OPERAND_F16 (1), WL_OPERAND_NVFP4 (0); "
       "WL_OPERAND_F16 (1), WL_OPERAND_F16 (1); WL_OPERAND_BF16 (2), WL_OPERAND_BF16 (2)); 1 rule "
       "violated, nothing was launched\n"},
      {{"gemm", "--b-type", "f16", "--device", "virtual:b200"},
       2,
       "wl_gemm_check: a_type, b_type = WL_OPERAND_NVFP4 (0), WL_OPERAND_F16 (1) must be types"},
      {{"gemm", "--a-type", "int8", "--device", "virtual:b300"},
       2,
       "wl_gemm_check: a_type, b_type = WL_OPERAND_INT8 (6), WL_OPERAND_INT8 (6) must be types"},
      {{"gemm", "--a-type", "mxfp4", "--device", "virtual:h200"},
       2,
       "wl_gemm_check: a_type, b_type = WL_OPERAND_MXFP4 (11), WL_OPERAND_MXFP4 (11) must be "
       "types"},
      {{"dual-gemm", "--a-type", "e4m3", "--device", "virtual:b200"},
       2,
       "wl_dual_gemm_check: a_type, b_type = WL_OPERAND_E4M3 (4), WL_OPERAND_NVFP4 (0) must be "
       "types that the device has kernels for"},
      {Words{"configs", "--b-type", "f16", "--device", "virtual:b200"} + sizes, 2,
       "wl_dual_gemm_list_configs: a_type, b_type = WL_OPERAND_NVFP4 (0), WL_OPERAND_F16 (1) must"},
      {Words{"configs", "--operation", "gemm", "--a-type", "int8", "--device", "virtual:b300"} +
           sizes,
       2,
       "wl_gemm_list_configs: a_type, b_type = WL_OPERAND_INT8 (6), WL_OPERAND_INT8 (6) must be"},
      {{"gemm", "--a-type", "f16", "-k", "100", "--device", "virtual:b200"},
       2,
       "K = 100 must be a multiple of 4 elements of 32 bits, 8 of 16, 16 of 8, 32 of MXFP8 and 128 "
       "of MXFP6 and MXFP4, without NVFP4 (nearest: 96, 104)"},
  };
  const TemporaryDirectory directory;
  for (const Case& c : cases) {
    INFO(c.text);
    Words words = c.words;
    if (words[0] != "configs") words = words + Words{"--output", directory / "d"};
    check_refusal(warpline_cli(words), c.status, c.text);
    CHECK(directory.file_count() == 0);
  }
}

TEST_CASE("cli: gemm counts the memory of operands by their type", "[virtual][cli]") {
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  // 9 elements for each k, here and on the virtual device: 18 bytes of E4M3, 72 of TF32.
  const std::string batch = std::to_string(static_cast<int64_t>(memory / (60.0 * (1 << 20))));
  check_refusal(warpline_cli({"gemm", "--device", "virtual:b200", "-m", "1", "-n", "8", "-k",
                              "1048576", "-l", batch, "--a-type", "tf32"}),
                2, "host memory, this machine has");
}

TEST_CASE("cli: CTAs that tell each other of sums in a workspace pass all checks",
          "[virtual][cli]") {
  const std::vector<std::vector<std::string>> products = {
      {"gemm", "-k", "1024", "--config", "gemm_sm90_t64_spread4_f16"},
      {"gemm", "-k", "2048", "--a-type", "f16", "--b-type", "f16", "--config",
       "gemm_sm90_f16_t16c64_stream_f16"}};
  for (std::vector<std::string> words : products) {
    words.insert(words.end(),
                 {"-m", "60", "-n", "264", "--device", "virtual:h200", "--check", "all"});
    const ChildResult result = warpline_cli(words);
    INFO_CHILD(result);
    CHECK(result.status == 0);
    CHECK(last_line(result.out) == "PASS");
  }
}

TEST_CASE("what no kernel does is a wrong request, no failure of the device", "[virtual][cli]") {
  for (const Words& words :
       {Words{"gemm", "-m", "16", "-n", "64", "-k", "64", "--out", "nvfp4"},
        Words{"gemm", "-m", "16", "-n", "64", "-k", "64", "--a-type", "f16", "--config",
              "gemm_sm90_f16_t64c64_mn_f16"},
        Words{"gemm", "-m", "16", "-n", "64", "-k", "64", "--a-type", "mxfp4", "--b-type", "mxfp4"},
        Words{"gemm", "-m", "16", "-n", "64", "-k", "16", "--a-type", "mxfp8_e5m2", "--b-type",
              "mxfp8_e5m2", "--device", "virtual:b200"}}) {
    const bool says = words.back() == "virtual:b200";
    const ChildResult child =
        warpline_cli(says ? words : words + Words{"--device", "virtual:h200"});
    INFO_CHILD(child);
    CHECK(child.status == 2);
    CHECK(child.out == "");
    CHECK(child.err.starts_with("warpline: wl_gemm_"));
  }
}
