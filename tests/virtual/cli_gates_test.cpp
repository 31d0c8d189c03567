// Gates and biases of `warpline dual-gemm` as its users ask for them.
#include "tests/reference/linear.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/dual_gemm_files.hpp"
#include "tools/cli/json.hpp"

#include <string>
#include <vector>

using namespace warpline::cli;
using namespace wltest;

namespace {

struct GateCase {
  const char *device, *out, *bias, *gate, *limit; // "" for an option that is not given
  wl_gate kind;
  double said; // the limit as the report has it
};
const GateCase kCases[] = {
    {"virtual:b200", "f16", "f16", "clamped", "", WL_GATE_CLAMPED, 7},
    {"virtual:b300", "bf16", "bf16", "clamped", "0.5", WL_GATE_CLAMPED, 0.5},
    {"virtual:b200", "nvfp4", "f32", "gelu_tanh", "", WL_GATE_GELU_TANH, 0},
    {"virtual:h200", "f16", "f32", "gelu_tanh", "1.5", WL_GATE_GELU_TANH, 1.5},
    {"virtual:h200", "bf16", "", "silu", "2", WL_GATE_SILU, 2},
    {"virtual:b200", "f16", "bf16", "", "", WL_GATE_SILU, 0},
};

std::vector<std::string> with_gate(std::vector<std::string> words, const GateCase& c) {
  for (const auto& [option, value] : {std::pair{"--gate", c.gate},
                                      {"--gate-limit", c.limit},
                                      {"--device", c.device},
                                      {"--out", c.out}})
    if (*value != 0) words.insert(words.end(), {option, value});
  return words;
}

} // namespace

TEST_CASE("cli: gates and random biases", "[virtual][cli]") {
  for (const GateCase& c : kCases) {
    std::vector<std::string> words = with_gate({"dual-gemm", "-m", "33", "-n", "192", "-k", "128",
                                                "-l", "2", "--seed", "5", "--json", "-"},
                                               c);
    if (*c.bias != 0) words.insert(words.end(), {"--bias", c.bias});
    const ChildResult child = warpline_cli(words);
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    const Json report = parse_json(child.out);
    CHECK(report.find("result")->text == "PASS");
    CHECK(report.find("gate")->text == (*c.gate != 0 ? c.gate : "silu"));
    CHECK(report.find("same_bits")->integer == 2 * 33 * 192);
    REQUIRE(report.find("gate_limit") != nullptr);
    if (c.said != 0)
      CHECK(report.find("gate_limit")->number == c.said);
    else
      CHECK(report.find("gate_limit")->kind == Json::Kind::null);
    REQUIRE(report.find("bias") != nullptr);
    if (*c.bias != 0)
      CHECK(report.find("bias")->text == c.bias);
    else
      CHECK(report.find("bias")->kind == Json::Kind::null);
  }
  const ChildResult table =
      warpline_cli({"dual-gemm", "-m", "5", "-n", "24", "-k", "64", "--device", "virtual:b200",
                    "--gate", "clamped", "--bias", "f16"});
  CHECK_THAT(table.out, ContainsSubstring("clamped, limit 7, biases in f16\n"));
}

// Judged here, by the file's numbers, and not by the command's own verdict.
TEST_CASE("cli: gates of biases from a file", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in", output = directory / "out";
  for (const GateCase& c : kCases) {
    if (std::string(c.out) == "nvfp4") continue;
    std::vector<std::string> make = {"make-example", input, "-m",  "40", "-n",
                                     "72",           "-k",  "128", "-l", "2"};
    if (*c.bias != 0) make.insert(make.end(), {"--bias", c.bias});
    const ChildResult made = warpline_cli(make);
    INFO_CHILD(made);
    REQUIRE(made.status == 0);
    CHECK((made.out.find("bias1, bias2") != std::string::npos) == (*c.bias != 0));
    const ChildResult child =
        warpline_cli(with_gate({"dual-gemm", "--input", input, "--output", output}, c));
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    const DualGemmProblem p = read_dual_gemm_problem(input).problem;
    const Sums sums = accumulate(p.product);
    const GatedOperands operands{{c.kind, static_cast<float>(c.said)},
                                 p.product.alpha1,
                                 p.product.alpha2,
                                 values_of(p.bias1),
                                 values_of(p.bias2)};
    const wl_dtype type = std::string(c.out) == "f16" ? WL_F16 : WL_BF16;
    const SafetensorsFile result(output);
    CHECK(result.read(*result.find("d")) == rounded(gated_replayed(sums, operands), type));
  }
  // One of the two.
  DualGemmProblem p = read_dual_gemm_problem(input).problem;
  p.bias2 = {};
  write_dual_gemm_problem(input, p);
  const ChildResult child = warpline_cli(
      {"dual-gemm", "--input", input, "--device", "virtual:h200", "--gate", "clamped", "--verify"});
  INFO_CHILD(child);
  CHECK(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("clamped, limit 7, biases in bf16\n"));
}

TEST_CASE("cli: gates and biases that are refused", "[virtual][cli]") {
  const auto refused = [](std::vector<std::string> words, const std::string& sentence) {
    words.insert(words.begin(),
                 {"dual-gemm", "-m", "1", "-n", "8", "-k", "64", "--device", "virtual:b200"});
    check_refusal(warpline_cli(words), 2, sentence);
  };
  refused({"--gate", "swiglu"}, "option --gate is 'swiglu', must be silu, gelu_tanh or clamped");
  refused({"--bias", "f8"}, "option --bias is 'f8', must be f32, f16 or bf16");
  refused({"--gate", "clamped", "--gate-limit", "0"},
          "gate_limit = 0 must be positive for WL_GATE_CLAMPED (nearest: 7, as GPT-OSS has it)");
  refused({"--gate-limit", "-2"}, "gate_limit = -2 must be positive, or 0 for none (nearest: 0)");
  refused({"--gate-limit", "nan"}, "must be a finite number");
  const TemporaryDirectory directory;
  const std::string input = directory / "in";
  REQUIRE(warpline_cli({"make-example", input}).status == 0);
  check_refusal(warpline_cli({"dual-gemm", "--input", input, "--bias", "f32"}), 2,
                "the file says it");
  check_refusal(warpline_cli({"make-example", input, "--bias", "f32", "--type", "f16"}), 2,
                "--bias is for --type nvfp4");
}
