// `warpline gemm` as its users run it: exit status, messages, JSON, files.
#include "tests/reference/linear.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/gemm_files.hpp"
#include "tools/cli/json.hpp"

#include <cstring>
#include <filesystem>
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

const std::pair<const char*, wl_activation> kActivations[] = {
    {"none", WL_ACTIVATION_NONE},           {"relu", WL_ACTIVATION_RELU},
    {"relu2", WL_ACTIVATION_RELU_SQUARED},  {"silu", WL_ACTIVATION_SILU},
    {"gelu_tanh", WL_ACTIVATION_GELU_TANH}, {"gelu_erf", WL_ACTIVATION_GELU_ERF}};

// "d" of a file of outputs, in FP16, BF16 or FP32.
std::vector<float> read_d(const std::string& path) {
  const SafetensorsFile file(path);
  const Tensor& d = *file.find("d");
  return values_of({d.dtype == "F16"    ? WL_F16
                    : d.dtype == "BF16" ? WL_BF16
                                        : WL_F32,
                    file.read(d)});
}

LinearOperands operands_of(const GemmProblem& p, wl_activation activation) {
  return {activation, p.product.alpha1, values_of(p.row), values_of(p.bias), values_of(p.residual)};
}

const Words kSmall = {"gemm", "-m", "5", "-n", "24", "-k", "64", "--device", "virtual:b200"};

} // namespace

TEST_CASE("cli: gemm passes on every virtual device, with all there is, and says so",
          "[virtual][cli]") {
  struct Case {
    const char *device, *out, *schedule, *act, *bias, *kernels;
    bool in_place;
  };
  for (const Case& c :
       {Case{"virtual:b200", "f16", "eager", "silu", "f32", "gemm_sm100", false},
        Case{"virtual:b200", "f32", "lazy", "relu2", "bf16", "gemm_sm100", true},
        Case{"virtual:b300", "bf16", "random:3", "gelu_erf", "f16", "gemm_sm100", true},
        Case{"virtual:h200", "f16", "random:4", "gelu_tanh", "bf16", "gemm_sm90", true},
        Case{"virtual:h200", "bf16", "eager", "relu", "f32", "gemm_sm90", false},
        Case{"virtual:h200", "f32", "lazy", "none", "f16", "gemm_sm90", false}}) {
    const TemporaryDirectory directory;
    const std::string path = directory / "report.json";
    Words words = {"gemm",  "-m",         "33",       "-n",     "136",     "-k",     "320",
                   "-l",    "2",          "--device", c.device, "--out",   c.out,    "--seed",
                   "5",     "--schedule", c.schedule, "--act",  c.act,     "--bias", c.bias,
                   "--row", "--residual", "--ldd",    "144",    "--alpha", "0.5",    "--check",
                   "all",   "--json",     path};
    if (c.in_place) words.emplace_back("--in-place");
    const ChildResult child = warpline_cli(words);
    INFO_CHILD(child);
    CHECK(child.status == 0);
    CHECK(last_line(child.out) == "PASS");
    const std::string where = c.in_place ? "in place" : "apart";
    CHECK_THAT(child.out, ContainsSubstring(std::string(c.act) + ", bias in " + c.bias +
                                            ", factors of rows, residual " + where + "\n"));
    CHECK_THAT(child.out, ContainsSubstring("rows 144, entries 4752 elements\n"));
    const Json report = parse_json(read_text(path));
    const auto text = [&](const char* key) {
      INFO(key);
      REQUIRE(report.find(key) != nullptr);
      return report.find(key)->text;
    };
    const auto integer = [&](const char* key) {
      INFO(key);
      REQUIRE(report.find(key) != nullptr);
      return report.find(key)->integer;
    };
    CHECK(text("command") == "gemm");
    CHECK(text("result") == "PASS");
    CHECK(text("out") == c.out);
    CHECK(text("act") == c.act);
    CHECK(text("bias") == c.bias);
    CHECK(text("residual") == where);
    CHECK(report.find("row")->boolean);
    CHECK(text("schedule") == c.schedule);
    CHECK(text("config").rfind(c.kernels, 0) == 0);
    CHECK(report.find("alpha")->number == 0.5);
    CHECK(integer("ldd") == 144);
    CHECK(integer("batch_stride_d") == 33 * 144);
    CHECK(integer("ldr") == (c.in_place ? 144 : 136));
    CHECK(integer("batch_stride_r") == 33 * (c.in_place ? 144 : 136));
    CHECK(integer("outputs") == 2 * 33 * 136);
    CHECK(integer("wrong") == 0);
    CHECK(integer("seed") == 5);
    REQUIRE(report.find("problem")->items.size() == 4);
    CHECK(report.find("problem")->items[1].integer == 136);
    CHECK(report.find("margin")->number > 0);
  }
  // Without any of it.
  const Json plain = json_of(kSmall);
  CHECK(plain.find("act")->text == "none");
  CHECK(plain.find("bias")->kind == Json::Kind::null);
  CHECK(plain.find("residual")->kind == Json::Kind::null);
  CHECK_FALSE(plain.find("row")->boolean);
  CHECK(plain.find("ldr") == nullptr);
  CHECK(plain.find("ldd")->integer == 24);
  CHECK(plain.find("batch_stride_d")->integer == 5 * 24);
  CHECK(plain.find("alpha")->number == 1);
}

TEST_CASE("cli: each option of gemm has its effect", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "d";
  const auto d = [&](const Words& more) {
    const ChildResult child = warpline_cli(kSmall + Words{"--output", path} + more);
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    return read_d(path);
  };
  const std::vector<float> plain = d({});
  const auto plus = [&](auto value) {
    std::vector<float> sums = plain;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = value(sums[i], i);
    return sums;
  };
  const GemmProblem p = make_gemm_problem(5, 24, 64, 1, {"f32", true, "f16"}, 1);
  const std::vector<float> bias = values_of(p.bias), row = values_of(p.row),
                           residual = values_of(p.residual);
  // D of one option alone is next to the plain D with the option's own number applied.
  const auto near = [](const std::vector<float>& x, const std::vector<float>& y) {
    size_t wrong = x.size() != y.size();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      wrong += std::fabs(x[i] - y[i]) > 0.01 + 0.002 * std::fabs(y[i]);
    return wrong == 0;
  };
  const std::vector<float> with_bias = plus([&](float x, size_t i) { return x + bias[i % 24]; });
  for (const char* type : {"f32", "f16", "bf16"}) CHECK(near(d({"--bias", type}), with_bias));
  const std::vector<float> with_residual = plus([&](float x, size_t i) { return x + residual[i]; });
  CHECK(near(d({"--residual"}), with_residual));
  CHECK(d({"--residual", "--in-place"}) == d({"--residual"}));
  CHECK(near(d({"--row"}), plus([&](float x, size_t i) { return x * row[i / 24]; })));
  CHECK(near(d({"--alpha", "-2"}), plus([](float x, size_t) { return -2 * x; })));
  CHECK(near(d({"--act", "relu"}), plus([](float x, size_t) { return std::max(x, 0.0f); })));
  CHECK_FALSE(near(plain, with_bias));
  CHECK_FALSE(near(plain, with_residual));
  CHECK_FALSE(near(d({"--seed", "2"}), plain));
  // Strides change nothing but the places.
  CHECK(d({"--ldd", "32", "--batch-stride-d", "800"}) == plain);
  CHECK(d({"--residual", "--ldr", "40", "--batch-stride-r", "400"}) == d({"--residual"}));
  CHECK(d({"--residual", "--in-place", "--ldd", "32"}) == d({"--residual"}));
  CHECK(d({"--config", "gemm_sm100_n128_f16"}) == plain);
  CHECK(json_of(kSmall + Words{"--config", "gemm_sm100_n128_f16"}).find("config")->text ==
        "gemm_sm100_n128_f16");
}

TEST_CASE("cli: gemm of a safetensors file with bias, factors and residual", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in", output = directory / "out";
  struct Case {
    const char *batch, *bias, *residual, *device;
  };
  for (const Case& c :
       {Case{"1", "f32", "f16", "virtual:b200"}, Case{"2", "bf16", "bf16", "virtual:h200"},
        Case{"3", "f16", "f32", "virtual:b300"}}) {
    const ChildResult made = warpline_cli({"make-example", input, "--operation", "gemm", "-m", "20",
                                           "-n", "72", "-k", "128", "-l", c.batch, "--seed", "9",
                                           "--bias", c.bias, "--row", "--residual", c.residual});
    INFO_CHILD(made);
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("a [20, 64], b [72, 64] bytes of NVFP4, their scales, "
                                           "alpha, bias, row, residual\n"));
    const GemmFile file = read_gemm_problem(input);
    const GemmProblem& p = file.problem;
    const Sums sums = accumulate(p.product);
    for (const auto& [name, activation] : kActivations) {
      const Words place = activation % 2 ? Words{"--in-place"} : Words{};
      const ChildResult run = warpline_cli(Words{"gemm", "--input", input, "--output", output,
                                                 "--device", c.device, "--act", name, "--verify"} +
                                           place);
      INFO_CHILD(run);
      REQUIRE(run.status == 0);
      CHECK(last_line(run.out) == "PASS");
      CHECK_THAT(run.out, ContainsSubstring(std::string(name) + ", bias in " + c.bias +
                                            ", factors of rows, residual "));
      const SafetensorsFile result(output);
      // D has the residual's type where --out is silent.
      CHECK(result.find("d")->dtype == file_dtype(p.residual.type));
      CHECK(result.find("d")->shape == matrix_shape(file.batched, p.product.l, 20, 72));
      const std::vector<float> d = read_d(output);
      // BF16 keeps 8 bits.
      const Comparison comparison =
          compare(sums, linear(sums, operands_of(p, activation)), d.data(), 72, 20 * 72);
      if (p.residual.type != WL_BF16) CHECK(comparison.passed());
      CHECK(comparison.worst_relative < 0.005);
    }
  }
}

TEST_CASE("cli: what gemm makes of a file, and does not", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in", output = directory / "out";
  REQUIRE(warpline_cli({"make-example", input, "--operation", "gemm", "-m", "20", "-n", "72", "-k",
                        "128", "--residual", "f32"})
              .status == 0);
  SECTION("without --verify nothing is claimed") {
    const ChildResult run =
        warpline_cli({"gemm", "--input", input, "--output", output, "--device", "virtual:b200"});
    INFO_CHILD(run);
    CHECK(run.status == 0);
    CHECK_THAT(run.out, !ContainsSubstring("PASS"));
    CHECK_THAT(last_line(run.out), ContainsSubstring("DONE, not verified"));
  }
  SECTION("what the file says cannot be said again") {
    for (const Words& option :
         {Words{"-m", "20"}, Words{"-n", "72"}, Words{"-k", "128"}, Words{"-l", "3"},
          Words{"--seed", "1"}, Words{"--bias", "f32"}, Words{"--row"}, Words{"--residual"}})
      check_refusal(warpline_cli(Words{"gemm", "--input", input} + option), 2,
                    "gemm: " + option[0] + " cannot be given with --input, the file says it\n");
  }
  SECTION("the residual's type is D's") {
    check_refusal(warpline_cli({"gemm", "--input", input, "--out", "f16"}), 2,
                  input +
                      ": tensor \"residual\" is F32, --out is f16: the residual has D's type\n");
    check_refusal(warpline_cli({"gemm", "--input", input, "--out", "nvfp4"}), 2,
                  "gemm: --out is nvfp4, must be f16, bf16 or f32 with a residual\n");
  }
  SECTION("the output is not the input") {
    const std::string before = read_text(input);
    check_refusal(warpline_cli({"gemm", "--input", input, "--output", input}), 2,
                  "--input and --output are the same file");
    CHECK(read_text(input) == before);
  }
  SECTION("a truncated file, and none") {
    const std::string bytes = read_text(input), cut = directory / "cut";
    write_text(cut, bytes.substr(0, bytes.size() - 1));
    std::filesystem::remove(output);
    check_refusal(warpline_cli({"gemm", "--input", cut, "--output", output}), 2, "truncated");
    check_refusal(warpline_cli({"gemm", "--input", directory / "none", "--output", output}), 2,
                  "cannot be opened");
    CHECK_FALSE(std::filesystem::exists(output));
  }
  SECTION("the dual GEMM's file lacks a tensor") {
    REQUIRE(warpline_cli({"make-example", input}).status == 0);
    check_refusal(warpline_cli({"gemm", "--input", input}), 2, "has no tensor \"b\" (it has \"b");
  }
}

TEST_CASE("cli: gemm of tensors that a file has beside, and of special numbers", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in";
  GemmProblem p = make_gemm_problem(4, 64, 64, 1, {"f32", false, ""}, 3);
  SECTION("a NaN bias is NaN in its column, a NaN scale in its row") {
    p.product.a.scales[4] = nan_padding; // of row 1
    const float values[] = {NAN, -HUGE_VALF, HUGE_VALF};
    std::memcpy(p.bias.bytes.data(), values, sizeof values);
    write_gemm_problem(input, p);
    for (const char* device : {"virtual:b200", "virtual:h200"})
      for (const auto& [act, activation] : kActivations)
        for (const char* out : {"f16", "bf16", "f32"}) {
          const ChildResult run = warpline_cli({"gemm", "--input", input, "--device", device,
                                                "--out", out, "--act", act, "--verify"});
          INFO_CHILD(run);
          CHECK(run.status == 0);
          // Column 0, row 1 and column 2; and column 1 where the activation leaves it infinite.
          const int special = 4 + 63 + 3 + (activation == WL_ACTIVATION_NONE ? 3 : 0);
          CHECK_THAT(run.out, ContainsSubstring(std::to_string(special) +
                                                " outputs are NaN or infinite in the reference"));
          CHECK_THAT(run.out, ContainsSubstring(" 0 of 256\n"));
        }
  }
  SECTION("a name that is not used is said, and nothing of it is read") {
    const std::vector<uint8_t> bytes(12);
    std::vector<OutputTensor> tensors = {{"biases", "F32", {3}, bytes.data(), 12}};
    add_operand(&tensors, "a", false, p.product.a);
    add_operand(&tensors, "b", false, p.product.b1);
    write_safetensors(input, tensors, {});
    const ChildResult run =
        warpline_cli({"gemm", "--input", input, "--device", "virtual:h200", "--verify"});
    INFO_CHILD(run);
    CHECK(run.status == 0);
    CHECK_THAT(run.err, ContainsSubstring(input + ": not used: \"biases\"\n"));
    CHECK_THAT(run.out, ContainsSubstring("\nepilogue             none\n"));
  }
}

TEST_CASE("cli: gemm's D in NVFP4 is the A of a next one", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in", output = directory / "out";
  for (const char* batch : {"1", "2"}) {
    REQUIRE(warpline_cli({"make-example", input, "--operation", "gemm", "-m", "20", "-n", "128",
                          "-k", "128", "-l", batch, "--bias", "f16", "--row"})
                .status == 0);
    const ChildResult first = warpline_cli(
        {"gemm", "--input", input, "--output", output, "--device", "virtual:b200", "--out", "nvfp4",
         "--d-scale", "0.5", "--act", "relu2", "--verify", "--check", "all"});
    INFO_CHILD(first);
    REQUIRE(first.status == 0);
    CHECK_THAT(first.out, ContainsSubstring("codes wrong          0 of ") &&
                              ContainsSubstring("codes of the reference, moved by") &&
                              !ContainsSubstring("largest error"));
    CHECK(last_line(first.out) == "PASS");
    const SafetensorsFile d(output);
    CHECK(d.read(*d.find("d_tensor_scale")) == std::vector<uint8_t>{0, 0, 0, 0x3F});
    const GemmFile before = read_gemm_problem(input);
    CHECK(d.find("d")->shape == matrix_shape(before.batched, before.problem.product.l, 20, 64));
    CHECK(d.find("d_scale")->shape ==
          matrix_shape(before.batched, before.problem.product.l, 20, 8));
    GemmProblem next =
        make_gemm_problem(20, 40, 128, before.problem.product.l, {"", false, "f16"}, 4);
    next.product.alpha1 = 0.5f * 0x1p-6f;
    next.product.a.values = d.read(*d.find("d"));
    next.product.a.scales = d.read(*d.find("d_scale"));
    // The codes stand for what the first product is, as far as 4 bits say it.
    const Sums sums = accumulate(before.problem.product);
    const std::vector<double> exact =
        linear(sums, operands_of(before.problem, WL_ACTIVATION_RELU_SQUARED));
    double error = 0, all = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      const double value = decode_e2m1(nibble(next.product.a.values.data(), int64_t(i))) *
                           decode_e4m3(next.product.a.scales[i / 16]) * 0.5;
      error += (value - exact[i]) * (value - exact[i]);
      all += exact[i] * exact[i];
    }
    CHECK(error < 0.02 * all);
    write_gemm_problem(input, next);
    for (const char* device : {"virtual:b200", "virtual:h200"}) {
      const ChildResult second =
          warpline_cli({"gemm", "--input", input, "--device", device, "--in-place", "--verify"});
      INFO_CHILD(second);
      CHECK(second.status == 0);
    }
  }
}

TEST_CASE("cli: matrices in BF16 are quantised and multiplied by gemm", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string wide = directory / "wide", narrow = directory / "narrow";
  const ChildResult made = warpline_cli({"make-example", "--operation", "gemm", "--type", "bf16",
                                         "-m", "20", "-n", "40", "-k", "128", wide});
  INFO_CHILD(made);
  REQUIRE(made.status == 0);
  CHECK_THAT(made.out, ContainsSubstring(": a [20, 128], b [40, 128] of bf16\n"));
  REQUIRE(warpline_cli({"quantize", "--input", wide, "--output", narrow, "--verify", "--device",
                        "virtual:h200"})
              .status == 0);
  const ChildResult run =
      warpline_cli({"gemm", "--input", narrow, "--device", "virtual:h200", "--verify"});
  INFO_CHILD(run);
  CHECK(run.status == 0);
  CHECK_THAT(run.err, !ContainsSubstring("not used"));
  const GemmFile file = read_gemm_problem(narrow);
  CHECK(file.problem.product.n == 40);
  CHECK(file.problem.product.alpha1 != 1);
}

// Hopper takes a factor of 2^114 and more for infinite, as warpline.h says; the reference does not.
TEST_CASE("cli: wrong outputs of gemm end with status 1 and write nothing", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string output = directory / "d", json = directory / "json";
  const ChildResult child = warpline_cli({"gemm",
                                          "-m",
                                          "3",
                                          "-n",
                                          "16",
                                          "-k",
                                          "64",
                                          "--device",
                                          "virtual:h200",
                                          "--out",
                                          "f32",
                                          "--config",
                                          "gemm_sm90_t64_f32",
                                          "--row",
                                          "--alpha",
                                          "5e34",
                                          "--output",
                                          output,
                                          "--json",
                                          json});
  INFO_CHILD(child);
  CHECK(child.status == 1);
  CHECK(last_line(child.out) == "FAIL");
  CHECK_THAT(child.out,
             ContainsSubstring("written              nothing: the results are wrong\n") &&
                 ContainsSubstring("first wrong          (l 0, m 0, n 0): got "));
  CHECK_FALSE(std::filesystem::exists(output));
  const Json report = parse_json(read_text(json));
  CHECK(report.find("result")->text == "FAIL");
  CHECK(report.find("wrong")->integer > 0);
  CHECK(report.find("output") == nullptr);
}

TEST_CASE("cli: what gemm refuses, with nothing written", "[virtual][cli]") {
  struct Case {
    Words words;
    int status;
    const char* text;
  };
  const Words sized = {"-m", "33", "-n", "136", "-k", "128"};
  const std::string see = "\nSee: warpline gemm --help\n";
  const Case cases[] = {
      {{"--act", "gelu"},
       2,
       "gemm: option --act is 'gelu', must be none, relu, relu2, silu, gelu_tanh or gelu_erf\n"},
      {{"--bias", "nvfp4"}, 2, "gemm: option --bias is 'nvfp4', must be f32, f16 or bf16\n"},
      {{"--bias"}, 2, "gemm: option --bias needs a value: f32|f16|bf16\n"},
      {{"--out", "f64"}, 2, "gemm: option --out is 'f64', must be f16, bf16, f32 or nvfp4\n"},
      {{"--alpha", "inf"},
       2,
       "gemm: option --alpha is 'inf', must be a finite number that fits FP32\n"},
      {{"--alpha1", "2"}, 2, "gemm: unknown option --alpha1 (did you mean --alpha?)\n"},
      {{"--in-place"},
       2,
       "gemm: --in-place needs a residual: --residual, or one in the input file\n"},
      {{"--ldr", "136"}, 2, "gemm: --ldr needs a residual: --residual, or one in the input file\n"},
      {{"--batch-stride-r", "8"},
       2,
       "gemm: --batch-stride-r needs a residual: --residual, or one in the input file\n"},
      {{"--residual", "--out", "nvfp4"},
       2,
       "gemm: --out is nvfp4, must be f16, bf16 or f32 with a residual\n"},
      {{"--d-scale", "2"}, 2, "gemm: --d-scale is for --out nvfp4, --out is f16\n"},
      {{"--out", "nvfp4", "--d-scale", "0"},
       2,
       "gemm: --d-scale is 0, must be a positive normal FP32 number (nearest: 1.17549435e-38)\n"},
      {{"--out", "nvfp4", "--d-scale", "1e-40"}, 2, "gemm: --d-scale is 1e-40, must be a positive"},
      {{"--stamps"}, 2, "gemm: --stamps needs --trace PREFIX, where the timeline goes\n"},
      {{"--output", "-"}, 2, "gemm: --output is '-', must be a file's name"},
      {{"-m", "0"}, 2, "M = 0 must be from 1 to 2^30 rows (nearest: 1)"},
      {{"-n", "12"}, 2, "N = 12 must be a multiple of 8 columns (nearest: 8, 16)"},
      {{"-n", "72", "--out", "nvfp4"},
       2,
       "N = 72 must be a multiple of 64 columns for WL_NVFP4 (nearest: 64, 128)"},
      {{"-k", "100"}, 2, "K = 100 must be a multiple of 64 elements with NVFP4 (nearest: 64, 128)"},
      {{"-m", "9223372036854775807"}, 2, "M = 9223372036854775807 must be from 1 to 2^30 rows"},
      {{"-l", "-1"}, 2, "L = -1 must be from 1 to 2^20 batch entries"},
      {sized + Words{"--ldd", "100"}, 2,
       "wl_gemm_check: ldd = 100 must be 0 or at least N elements (nearest: 0, 136); 1 rule "
       "violated, nothing was launched\n"},
      {sized + Words{"--ldd", "-8"}, 2, "ldd = -8 must be 0 or at least N elements"},
      {sized + Words{"--ldd", "137"}, 2,
       "ldd = 137 must be a multiple of 8 elements (nearest: 136, 144)"},
      {sized + Words{"--batch-stride-d", "40"}, 2,
       "batch_stride_d = 40 must be 0 or at least (M - 1) * ldd + N elements (nearest: 0, 4488)"},
      {sized + Words{"--residual", "--ldr", "128"}, 2,
       "ldr = 128 must be 0 or at least N elements"},
      {sized + Words{"--residual", "--batch-stride-r", "4489"}, 2,
       "batch_stride_r = 4489 must be a multiple of 8 elements"},
      {sized + Words{"--residual", "--in-place", "--ldd", "144", "--ldr", "152"}, 2,
       "must not overlap the residual, unless it is the residual, with its strides"},
      {sized + Words{"--ldd", "140737488355328"}, 2, "must be below 2^47 bytes"},
      {sized + Words{"--ldd", "9223372036854775800"}, 2, "must be below 2^47 bytes"},
      {sized + Words{"--config", "gemm_sm100_n64"}, 2, "must name a configuration (nearest: gemm_"},
      {sized + Words{"--config", "dual_gemm_sm100_n64_f16"}, 2, "must name a configuration"},
      {sized + Words{"--config", "gemm_sm100_n64_bf16"}, 2,
       "config = \"gemm_sm100_n64_bf16\", but it writes WL_BF16, must be a configuration for this "
       "device and output"},
      {sized + Words{"--config", "gemm_sm90_t64_f16"}, 2,
       "must be a configuration for this device and output"},
      {sized + Words{"--ldd", "1099511627776"}, 2, "gemm: m, n, k, l and strides need about "},
      {sized + Words{"--residual", "--ldr", "1099511627776"}, 2, " of host memory, this machine"},
      {{"-m", "10000000", "-n", "800000", "-k", "64"}, 2, "host memory"},
  };
  const TemporaryDirectory directory;
  for (const Case& c : cases) {
    INFO(c.text);
    Words words = {"gemm", "--device", "virtual:b200"};
    words = words + c.words;
    const bool output = c.text != std::string_view("gemm: --output is '-', must be a file's name");
    if (output) words = words + Words{"--output", directory / "d"};
    // "--bias" takes what follows, so it comes last.
    if (c.words == Words{"--bias"})
      words = {"gemm", "--output", directory / "d", "--device", "virtual:b200", "--bias"};
    check_refusal(warpline_cli(words), c.status, c.text);
    CHECK(directory.file_count() == 0);
  }
  check_refusal(warpline_cli({"gemm", "-m", "8", "-n", "64", "-k", "64", "--out", "nvfp4",
                              "--device", "virtual:h200"}),
                2, "wl_gemm_plan: no configuration makes WL_NVFP4 on warpline virtual H200: ");
  check_refusal(warpline_cli({"gem"}), 2, "unknown command gem (did you mean gemm?)");
  check_refusal(warpline_cli({"gemm", "--device", "gpu"}, "/nonexistent/libcuda.so"), 3,
                "/nonexistent/libcuda.so");
  for (const Words& words : {Words{"--bias", "f32"}, Words{"--row"}, Words{"--residual", "f16"}}) {
    if (words[0] != "--bias") // which the dual GEMM has too
      check_refusal(warpline_cli(Words{"make-example", directory / "x"} + words), 2,
                    "make-example: " + words[0] + " is for --operation gemm\n");
    check_refusal(
        warpline_cli(
            Words{"make-example", directory / "x", "--operation", "gemm", "--type", "f16"} + words),
        2, "make-example: " + words[0] + " is for --type nvfp4, --type is f16\n");
  }
  CHECK(directory.file_count() == 0);
}

TEST_CASE("cli: gemm counts the padding of scales as memory", "[virtual][cli]") {
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  const auto batch = [&](double bytes_of_entry) {
    return std::to_string(static_cast<int64_t>(memory / bytes_of_entry));
  };
  // One row and 8 columns: 10 bytes for each k with the copies of the virtual GPU; 16 more, and 8
  // on the way there, when the scales of both operands are padded to 128 rows.
  check_refusal(warpline_cli({"gemm", "--device", "virtual:b200", "-m", "1", "-n", "8", "-k",
                              "1048576", "-l", batch(30.0 * (1 << 20))}),
                2, "host memory, this machine has");
}

TEST_CASE("cli: gemm --stats counts what moved, by operand", "[virtual][cli]") {
  const Json stats = json_of({"gemm", "-m", "256", "-n", "128", "-k", "2048", "--device",
                              "virtual:b200", "--config", "gemm_sm100_pair_n64_f16", "--stats"});
  // 8 K tiles of one pair's tile of 256 x 128; scales of 256 rows, and of 128 in halves of 64.
  const double a = 8 * 256 * 128, b = 8 * 128 * 128, sfa = 8 * 256 * 16, sfb = 8 * 128 * 16;
  CHECK(stats.find("tma_A")->find("read_bytes")->number == a);
  CHECK(stats.find("tma_B")->find("read_bytes")->number == b);
  CHECK(stats.find("tma_SFA")->find("read_bytes")->number == sfa);
  CHECK(stats.find("tma_SFB")->find("read_bytes")->number == sfb);
  CHECK(stats.find("l2_read_bytes")->number == a + b + sfa + sfb);
  CHECK(stats.find("least_bytes")->number == (256 + 128) * 2048.0 * 9 / 16);
  CHECK(stats.find("times_least")->number == 1);
  CHECK(stats.find("mma")->number == 8 * 8);
  CHECK(stats.find("tmem_columns")->number == 2 * 128 + 8 * 32);
  CHECK(stats.find("stored_bytes")->number == 256 * 128 * 2);
  CHECK(stats.find("partial_sectors")->number == 0);

  // Hopper's small kernel keeps the stages of so short a K: there is no average to give.
  const Words small = {"gemm",
                       "-m",
                       "16",
                       "-n",
                       "128",
                       "-k",
                       "256",
                       "--device",
                       "virtual:h200",
                       "--config",
                       "gemm_sm90_small_t1_f16",
                       "--stats"};
  const ChildResult child = warpline_cli(small);
  INFO_CHILD(child);
  CHECK(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("MMAs ") && !ContainsSubstring("nan"));
  CHECK(json_of(small).find("stages_filled") == nullptr);
}

TEST_CASE("cli: gemm --trace draws the timeline, of events and of stamps", "[virtual][cli]") {
  for (const Words& more : {Words{}, Words{"--stamps"}}) {
    const TemporaryDirectory directory;
    const std::string config = "gemm_sm100_n64_f16", prefix = directory / "new/t";
    const ChildResult child =
        warpline_cli(kSmall + Words{"--config", config, "--trace", prefix} + more);
    INFO_CHILD(child);
    CHECK(child.status == 0);
    CHECK_THAT(read_text(prefix + "." + config + ".svg"), ContainsSubstring("</svg>"));
    CHECK(parse_json(read_text(prefix + "." + config + ".json")).kind == Json::Kind::object);
  }
  const TemporaryDirectory directory;
  write_text(directory / "file", "");
  check_refusal(warpline_cli(kSmall + Words{"--trace", directory / "file/t"}), 2,
                "is not a directory");
}

TEST_CASE("cli: configs lists gemm's, the one that gemm takes first", "[virtual][cli]") {
  for (const auto& [device, out] :
       {std::pair{"virtual:b200", "nvfp4"}, {"virtual:b200", "f32"}, {"virtual:h200", "bf16"}}) {
    const Words shape = {"-m", "40", "-n", "128", "-k", "512", "--out", out, "--device", device};
    const ChildResult table = warpline_cli(Words{"configs", "--operation", "gemm"} + shape);
    INFO_CHILD(table);
    CHECK(table.status == 0);
    CHECK(table.out.rfind("gemm on warpline virtual ", 0) == 0);
    const Json list = json_of(Words{"configs", "--operation", "gemm"} + shape);
    REQUIRE(!list.items.empty());
    CHECK(list.items[0].find("chosen")->boolean);
    for (const Json& config : list.items) CHECK(config.find("name")->text.rfind("gemm_sm", 0) == 0);
    CHECK(json_of(Words{"gemm"} + shape).find("config")->text == list.items[0].find("name")->text);
  }
  check_refusal(warpline_cli({"configs", "--operation", "gemm", "-m", "1", "-n", "7", "-k", "64",
                              "--device", "virtual:b200"}),
                2, "wl_gemm_list_configs: N = 7 must be from 8");
  check_refusal(warpline_cli({"configs", "-m", "1", "-n", "8", "-k", "64", "--out", "f32"}), 2,
                "configs: --out is f32, must be f16, bf16 or nvfp4 with --operation dual-gemm\n");
}
