// The program build/warpline as its users run it: exit status, messages, JSON, files.
#include "tests/reference/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/dual_gemm_files.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/safetensors.hpp"

#include <cstring>
#include <unistd.h>

using warpline::cli::Json;
using warpline::cli::parse_json;
using wltest::check_refusal;
using wltest::ChildResult;
using wltest::ContainsSubstring;
using wltest::last_line;
using wltest::TemporaryDirectory;
using wltest::warpline_cli;

TEST_CASE("cli: help and version", "[virtual][cli]") {
  for (const char* argument : {"--help", "help", "-h"}) {
    const ChildResult child = warpline_cli({argument});
    INFO_CHILD(child);
    CHECK(child.status == 0);
    for (const char* command : {"dual-gemm", "gemm", "devices", "make-example"})
      CHECK_THAT(child.out, ContainsSubstring(command));
  }
  for (const char* command : {"dual-gemm", "gemm", "devices", "make-example"}) {
    CHECK_THAT(warpline_cli({command, "--help"}).out,
               ContainsSubstring("Usage: warpline " + std::string(command)));
    CHECK(warpline_cli({"help", command}).out == warpline_cli({command, "--help"}).out);
  }
  CHECK(warpline_cli({"--version"}).out.rfind("warpline ", 0) == 0);
}

TEST_CASE("cli: --stats counts what moved, tensor memory, stages and machine code",
          "[virtual][cli]") {
  const auto stats = [](const char* k, const std::string& config = "pair_n64") {
    const ChildResult child =
        warpline_cli({"dual-gemm", "-m", "256", "-n", "128", "-k", k, "--device", "virtual:b200",
                      "--config", "dual_gemm_sm100_" + config + "_f16", "--stats", "--json", "-"});
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    return parse_json(child.out);
  };
  // 8 K tiles of two pairs' tiles; A 256 rows, B1 and B2 64 rows, scales of 256 and 2 * 128 rows.
  const Json deep = stats("2048");
  const double read = 2 * 8 * (256 + 2 * 64) * 128 + 2 * 8 * (256 + 2 * 128) * 16;
  const double least = (256 + 2 * 128) * 2048.0 * 9 / 16;
  CHECK(deep.find("l2_read_bytes")->number == read);
  CHECK(deep.find("least_bytes")->number == least);
  CHECK(deep.find("times_least")->number == wltest::Approximate(read / least));
  CHECK(deep.find("mma")->number == 2 * 8 * 8);
  CHECK(deep.find("tensor_copies")->number == 2 * 8 * 12);
  CHECK(deep.find("tmem_columns")->number == 2 * 128 + 5 * 48);
  CHECK(deep.find("stages_filled")->number > 1);
  CHECK(deep.find("stages_filled")->number <= 7);
  // D by stores of threads and by TMA: whole sectors, banks without conflicts.
  for (const Json& one : {deep, stats("64", "pair_n128_tma")}) {
    CHECK(one.find("stored_bytes")->number == 256 * 128 * 2);
    CHECK(one.find("store_sectors")->number == 256 * 128 * 2 / 32);
    CHECK(one.find("partial_sectors")->number == 0);
    CHECK(one.find("bank_turns")->number == one.find("least_bank_turns")->number);
  }
  // A ring with one K tile in it.
  CHECK(stats("256").find("stages_filled")->number == 1);

  const TemporaryDirectory empty;
  const ChildResult child =
      wltest::run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "1", "-n", "8", "-k",
                         "64", "--device", "virtual:b200", "--stats"},
                        {{"PATH", empty.path()}, {"WARPLINE_DRIVER", ""}});
  INFO_CHILD(child);
  CHECK(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("machine code         not counted: "));
}

TEST_CASE("cli: dual-gemm passes on every schedule, type and virtual Blackwell", "[virtual][cli]") {
  struct Case {
    const char *device, *out, *schedule;
  };
  for (const Case& c : {Case{"virtual:b200", "f16", "eager"}, Case{"virtual:b200", "bf16", "lazy"},
                        Case{"virtual:b300", "f16", "random:3"}}) {
    const TemporaryDirectory directory;
    const std::string path = directory / "report.json";
    const ChildResult child = warpline_cli({"dual-gemm", "-m", "33", "-n", "136", "-k", "320", "-l",
                                            "2", "--device", c.device, "--out", c.out, "--schedule",
                                            c.schedule, "--seed", "5", "--json", path});
    INFO_CHILD(child);
    CHECK(child.status == 0);
    CHECK(last_line(child.out) == "PASS");
    for (const char* label : {"device ", "driver ", "configuration ", "grid ", "cluster ", "block ",
                              "shared bytes", "stages ", "registers ", "load time", "run time",
                              "largest error", "outputs wrong        0 of 8976\n"})
      CHECK_THAT(child.out, ContainsSubstring("\n" + std::string(label)) ||
                                Catch::Matchers::StartsWith(label));
    const Json report = parse_json(wltest::read_text(path));
    REQUIRE(report.find("result"));
    CHECK(report.find("result")->text == "PASS");
    CHECK(report.find("virtual")->boolean);
    CHECK(report.find("outputs")->integer == 2 * 33 * 136);
    CHECK(report.find("wrong")->integer == 0);
    CHECK(report.find("out")->text == c.out);
    CHECK(report.find("schedule")->text == c.schedule);
    CHECK(report.find("grid")->items.size() == 3);
    CHECK(report.find("margin")->number > 0);
  }
}

TEST_CASE("cli: the same seed gives the same figures", "[virtual][cli]") {
  auto figures = [](const char* seed) {
    const ChildResult child =
        warpline_cli({"dual-gemm", "-m", "5", "-n", "24", "-k", "64", "--device", "virtual:b200",
                      "--seed", seed, "--json", "-"});
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    const Json report = parse_json(child.out);
    return report.find("worst_absolute")->find("value")->number;
  };
  CHECK(figures("1") == figures("1"));
  CHECK(figures("1") != figures("2"));
}

TEST_CASE("cli: --device auto respects WARPLINE_DRIVER and says so", "[virtual][cli]") {
  const ChildResult child =
      warpline_cli({"dual-gemm", "-m", "1", "-n", "8", "-k", "64"}, "virtual:b300");
  INFO_CHILD(child);
  CHECK(child.status == 0);
  CHECK_THAT(child.err, ContainsSubstring("WARPLINE_DRIVER=virtual:b300"));
}

TEST_CASE("cli: usage errors end with status 2", "[virtual][cli]") {
  check_refusal(warpline_cli({"dual-gem"}), 2,
                "unknown command dual-gem (did you mean dual-gemm?)");
  check_refusal(warpline_cli({"dual-gemm", "--sede", "1"}), 2, "did you mean --seed?");
  check_refusal(warpline_cli({"dual-gemm", "-m"}), 2, "option -m needs a value");
  check_refusal(warpline_cli({"dual-gemm", "-m", "many"}), 2, "option -m is 'many'");
  check_refusal(warpline_cli({"dual-gemm", "--device", "virtual:b100"}), 2, "--device");
  check_refusal(warpline_cli({"dual-gemm", "--schedule", "fast"}), 2,
                "eager, lazy, reverse, random:SEED");
  check_refusal(warpline_cli({"dual-gemm", "--device", "virtual:b200", "--check", "rases"}), 2,
                "option --check is 'rases': vgpuSetOption: check \"rases\" is not known");
  check_refusal(warpline_cli({"dual-gemm", "--device", "gpu", "--schedule", "lazy"}), 2,
                "--schedule is for the virtual GPU");
  check_refusal(warpline_cli({"dual-gemm", "--output", "/nonexistent/d"}), 2, "cannot be written");
  check_refusal(warpline_cli({"make-example"}), 2, "missing argument FILE");
  const ChildResult child = warpline_cli({});
  CHECK(child.status == 2);
  CHECK_THAT(child.err, ContainsSubstring("Usage: warpline COMMAND"));
}

TEST_CASE("cli: words too many, and names of files that meet", "[virtual][cli]") {
  check_refusal(warpline_cli({"version", "--nope"}), 2, "version: unknown option --nope");
  check_refusal(warpline_cli({"--version", "now"}), 2, "version: unexpected argument 'now'");
  check_refusal(warpline_cli({"help", "devices", "now"}), 2, "help takes one command");
  check_refusal(warpline_cli({"help", "devises"}), 2, "did you mean devices?");
  check_refusal(warpline_cli({"devices", "--help=1"}), 2, "option --help takes no value");
  check_refusal(warpline_cli({std::string(100000, 'x')}), 2, "unknown command xxx");
  CHECK(warpline_cli({std::string(100000, 'x')}).err.size() < 200);
  CHECK(warpline_cli({"--help", "devices"}).out == warpline_cli({"devices", "--help"}).out);

  const TemporaryDirectory directory;
  const std::string input = directory / "in", link = directory / "link";
  REQUIRE(warpline_cli({"make-example", "--", input}).status == 0);
  std::filesystem::create_symlink(input, link);
  const std::string before = wltest::read_text(input);
  const auto refused = [&](const std::string& command, std::vector<std::string> options,
                           const std::string& text) {
    options.insert(options.begin(), {command, "--device", "virtual:b200"});
    check_refusal(warpline_cli(options), 2, text);
  };
  for (const char* command : {"dual-gemm", "gemm", "quantize"}) {
    const std::string out = directory / "out";
    refused(command, {"--output", out, "--json", out}, "--output and --json are the same file");
    refused(command, {"--output", "-"}, "--output is '-', must be a file's name");
  }
  refused("dual-gemm", {"--input", input, "--output", link},
          "--input and --output are the same file");
  refused("dual-gemm", {"--input", link, "--json", input}, "--input and --json are the same file");
  check_refusal(warpline_cli({"make-example", "-"}), 2, "FILE is '-', must be a file's name");
  for (const char* command : {"devices", "doctor", "configs"})
    check_refusal(
        warpline_cli({command, "-m", "1", "-n", "8", "-k", "64", "--json", directory / "no/such"}),
        2, std::string(command) == "configs" ? "cannot be written" : "option -m");
  check_refusal(warpline_cli({"doctor", "--json", directory / "no/such"}), 2, "cannot be written");
  CHECK(wltest::read_text(input) == before);
  CHECK(directory.file_count() == 2);
}

TEST_CASE("cli: --trace creates its folder, and nothing when the sizes are refused",
          "[virtual][cli]") {
  const TemporaryDirectory directory;
  const auto traced = [&](const char* n) {
    return warpline_cli({"dual-gemm", "-m", "1", "-n", n, "-k", "64", "--device", "virtual:b200",
                         "--trace", directory / "a/b/t"});
  };
  CHECK(traced("7").status == 2);
  CHECK(directory.file_count() == 0);
  const ChildResult child = traced("8");
  INFO_CHILD(child);
  CHECK(child.status == 0);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "a/b"))
    files += entry.path().filename().string().rfind("t.dual_gemm_sm100", 0) == 0;
  CHECK(files == 2);
  wltest::write_text(directory / "file", "");
  check_refusal(
      warpline_cli({"dual-gemm", "--device", "virtual:b200", "--trace", directory / "file/t"}), 2,
      "is not a directory");
}

TEST_CASE("cli: what cannot fit the memory is refused, padding of scales included",
          "[virtual][cli]") {
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  // One row and 8 columns: 19 bytes for each k with the copies of the virtual GPU; 24 more, and 8
  // on the way there, when the scales of 3 operands are padded to 128 rows.
  const auto batch = [&](double bytes_of_entry) {
    return std::to_string(static_cast<int64_t>(memory / bytes_of_entry));
  };
  const double k = 1 << 30;
  check_refusal(warpline_cli({"dual-gemm", "--device", "virtual:b200", "-m", "1", "-n", "8", "-k",
                              "1048576", "-l", batch(30.0 * (1 << 20))}),
                2, "host memory, this machine has");
  check_refusal(warpline_cli({"quantize", "--device", "virtual:b200", "-m", "1", "-k", "1073741824",
                              "-l", batch(3 * k)}),
                2, "quantize: m, k, l need about ");
  check_refusal(warpline_cli({"make-example", "-m", "1048576", "-n", "1048576", "-k", "1048576",
                              "-l", "64", "/nonexistent_never_written"}),
                2, "make-example: -m, -n, -k, -l need about ");
}

TEST_CASE("cli: sizes that the library refuses, with status 2 and nothing written",
          "[virtual][cli]") {
  struct Case {
    const char *option, *value, *text;
  };
  for (const Case& c :
       {Case{"-m", "0", "M = 0 must be from 1"}, Case{"-m", "-5", "M = -5"},
        Case{"-n", "12", "N = 12 must be a multiple of 8"},
        Case{"-k", "100", "K = 100 must be a multiple of 64"}, Case{"-k", "0", "K = 0"},
        Case{"-m", "9223372036854775807", "M = 9223372036854775807"}, Case{"-l", "0", "L = 0"},
        Case{"--config", "no_such_config", "no_such_config"}}) {
    const TemporaryDirectory directory;
    const std::string output = directory / "d.safetensors";
    const ChildResult child = warpline_cli(
        {"dual-gemm", "--device", "virtual:b200", "--output", output, c.option, c.value});
    INFO(c.option << " " << c.value);
    check_refusal(child, 2, c.text);
    CHECK(directory.file_count() == 0);
  }
  check_refusal(warpline_cli({"dual-gemm", "--device", "virtual:b200", "-m", "10000000", "-n",
                              "800000", "-k", "64"}),
                2, "host memory");
}

TEST_CASE("cli: no driver ends with status 3 and the names tried", "[virtual][cli]") {
  for (const char* device : {"auto", "gpu"})
    check_refusal(warpline_cli({"dual-gemm", "--device", device}, "/nonexistent/libcuda.so"), 3,
                  "/nonexistent/libcuda.so");
}

TEST_CASE("cli: devices lists the virtual ones", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "devices.json";
  const ChildResult child = warpline_cli({"devices", "--json", path});
  INFO_CHILD(child);
  CHECK(child.status == 0);
  for (const char* name : {"virtual:b200", "virtual:b300", "virtual:h200", "sm100"})
    CHECK_THAT(child.out, ContainsSubstring(name));
  const Json list = parse_json(wltest::read_text(path));
  REQUIRE(list.items.size() >= 4);
  int with_kernel = 0;
  for (const Json& entry : list.items) {
    REQUIRE(entry.find("option"));
    const Json* kernels = entry.find("kernels");
    with_kernel += kernels && kernels->text.find("sm100") != std::string::npos;
  }
  CHECK(with_kernel >= 2);
}

TEST_CASE("cli: a device without configurations for the output says why", "[virtual][cli]") {
  check_refusal(warpline_cli({"dual-gemm", "-m", "8", "-n", "64", "-k", "64", "--out", "nvfp4",
                              "--device", "virtual:h200"}),
                2, "no configuration makes WL_NVFP4 on warpline virtual H200: ");
  check_refusal(warpline_cli({"dual-gemm", "--d-scale", "2"}), 2, "--d-scale is for --out nvfp4");
  for (const char* scale : {"-1", "0", "1e-40", "1.1e-38"}) // zero rows would get scales of NaN
    check_refusal(warpline_cli({"dual-gemm", "--out", "nvfp4", "--d-scale", scale}), 2,
                  "--d-scale is " + std::string(scale) + ", must be a positive normal FP32 number");
}

TEST_CASE("cli: a safetensors file through the kernel", "[virtual][cli]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in.safetensors", output = directory / "out.safetensors";
  for (const char* batch : {"1", "2"}) {
    const ChildResult made = warpline_cli(
        {"make-example", input, "-m", "40", "-n", "72", "-k", "128", "-l", batch, "--seed", "9"});
    INFO_CHILD(made);
    REQUIRE(made.status == 0);
    const ChildResult run = warpline_cli({"dual-gemm", "--input", input, "--output", output,
                                          "--device", "virtual:b200", "--verify"});
    INFO_CHILD(run);
    REQUIRE(run.status == 0);
    CHECK(last_line(run.out) == "PASS");

    const warpline::cli::DualGemmFile file = warpline::cli::read_dual_gemm_problem(input);
    const wltest::Problem& p = file.problem.product;
    const warpline::cli::SafetensorsFile result(output);
    REQUIRE(result.find("d"));
    CHECK(result.find("d")->dtype == "F16");
    CHECK(result.find("d")->shape ==
          (batch[0] == '1' ? std::vector<uint64_t>{40, 72} : std::vector<uint64_t>{2, 40, 72}));
    const std::vector<uint8_t> bytes = result.read(*result.find("d"));
    std::vector<uint16_t> d(bytes.size() / 2);
    std::memcpy(d.data(), bytes.data(), bytes.size());
    const wltest::Sums sums = wltest::accumulate(p);
    const wltest::Comparison comparison = wltest::compare(
        sums, gated(sums, p.alpha1, p.alpha2), d.data(), p.n, p.m * p.n, wltest::OutputType::f16);
    INFO(describe(comparison));
    CHECK(comparison.passed());
  }
  SECTION("without --verify nothing is claimed") {
    const ChildResult run = warpline_cli({"dual-gemm", "--input", input, "--output", output,
                                          "--device", "virtual:b200", "--out", "bf16"});
    INFO_CHILD(run);
    CHECK(run.status == 0);
    CHECK_THAT(run.out, !ContainsSubstring("PASS"));
    CHECK(warpline::cli::SafetensorsFile(output).find("d")->dtype == "BF16");
  }
  SECTION("D in NVFP4 is the A of a next problem") {
    const ChildResult made =
        warpline_cli({"make-example", input, "-m", "40", "-n", "128", "-k", "128", "--seed", "6"});
    REQUIRE(made.status == 0);
    const ChildResult run =
        warpline_cli({"dual-gemm", "--input", input, "--output", output, "--device", "virtual:b200",
                      "--out", "nvfp4", "--d-scale", "0.5", "--verify", "--check", "all"});
    INFO_CHILD(run);
    CHECK(run.status == 0);
    CHECK_THAT(run.out, ContainsSubstring("PASS") && ContainsSubstring("5120 of 5120 (FP32"));
    const warpline::cli::SafetensorsFile result(output);
    CHECK(result.find("d")->shape == std::vector<uint64_t>{40, 64});
    CHECK(result.find("d_scale")->shape == std::vector<uint64_t>{40, 8});
    CHECK(result.find("d_scale")->dtype == "F8_E4M3");
    CHECK(result.read(*result.find("d_tensor_scale")) == std::vector<uint8_t>{0, 0, 0, 0x3F});
  }
  SECTION("a NaN scale is NaN in every output of its row, and said") {
    REQUIRE(warpline_cli({"make-example", input, "-m", "40", "-n", "128", "-k", "128"}).status ==
            0);
    warpline::cli::DualGemmProblem p = warpline::cli::read_dual_gemm_problem(input).problem;
    p.product.a.scales[3 * 8] = wltest::nan_padding;
    warpline::cli::write_dual_gemm_problem(input, p);
    for (const char* out : {"f16", "bf16", "nvfp4"}) {
      const ChildResult run = warpline_cli(
          {"dual-gemm", "--input", input, "--device", "virtual:b200", "--out", out, "--verify"});
      INFO_CHILD(run);
      CHECK(run.status == 0);
      CHECK_THAT(run.out, ContainsSubstring("128 outputs are NaN or infinite in the reference"));
      CHECK_THAT(run.out, ContainsSubstring(*out == 'n' ? "codes wrong          0 of 5120\n"
                                                        : "outputs wrong        0 of 5120\n"));
      CHECK((run.out.find("of what is allowed") != std::string::npos) == (*out != 'n'));
    }
  }
  SECTION("sizes belong to the file") {
    check_refusal(warpline_cli({"dual-gemm", "--input", input, "-m", "40"}), 2, "the file says it");
  }
  SECTION("a truncated file") {
    const std::string bytes = wltest::read_text(input), cut = directory / "cut.safetensors";
    wltest::write_text(cut, bytes.substr(0, bytes.size() - 1));
    const std::string never = directory / "never.safetensors";
    check_refusal(warpline_cli({"dual-gemm", "--input", cut, "--output", never}), 2, "truncated");
    check_refusal(warpline_cli({"dual-gemm", "--input", directory / "none", "--output", never}), 2,
                  "cannot be opened");
    CHECK_FALSE(std::filesystem::exists(never));
  }
}

TEST_CASE("cli: quantize a random matrix", "[virtual][cli][quantize]") {
  for (const char* type : {"f16", "bf16"}) {
    const ChildResult child = warpline_cli(
        {"quantize", "-m", "130", "-k", "192", "-l", "2", "--type", type, "--seed", "7", "--device",
         "virtual:b300", "--schedule", "random:1", "--check", "all", "--json", "-"});
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    const Json json = parse_json(child.out);
    CHECK(json.find("result")->text == "PASS");
    CHECK(json.find("wrong")->integer == 0);
    CHECK(json.find("config")->text == "quantize_sm100_" + std::string(type));
    // Half a step of E2M1, on average, of values spread evenly.
    CHECK(json.find("relative_error")->number > 0.05);
    CHECK(json.find("relative_error")->number < 0.15);
  }
}

TEST_CASE("cli: a BF16 file is quantised and multiplied", "[virtual][cli][quantize]") {
  TemporaryDirectory directory;
  const std::string wide = directory / "wide", narrow = directory / "narrow";
  for (const char* batch : {"1", "3"}) {
    REQUIRE(warpline_cli({"make-example", "--type", "bf16", "-m", "40", "-n", "72", "-k", "192",
                          "-l", batch, wide})
                .status == 0);
    const ChildResult child = warpline_cli(
        {"quantize", "--input", wide, "--output", narrow, "--verify", "--device", "virtual:b200"});
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    CHECK(last_line(child.out) == "PASS");
    CHECK_THAT(child.out, ContainsSubstring("\"b2\": m 72, k 192"));
    // The scales of the tensors go into the products' factors.
    const warpline::cli::SafetensorsFile file(narrow);
    float scale[3];
    const char* const names[3] = {"a_tensor_scale", "b1_tensor_scale", "b2_tensor_scale"};
    for (int i = 0; i < 3; ++i)
      std::memcpy(&scale[i], file.read(*file.find(names[i])).data(), sizeof scale[i]);
    const warpline::cli::DualGemmFile read = warpline::cli::read_dual_gemm_problem(narrow);
    CHECK(read.problem.product.alpha1 == scale[0] * scale[1]);
    CHECK(read.problem.product.alpha2 == scale[0] * scale[2]);
    CHECK(read.unused.empty());
    CHECK(read.batched == (*batch == '3'));
    const ChildResult product =
        warpline_cli({"dual-gemm", "--input", narrow, "--verify", "--device", "virtual:h200"});
    INFO_CHILD(product);
    CHECK(product.status == 0);
  }
}

TEST_CASE("cli: quantize with a norm", "[virtual][cli][quantize]") {
  for (const char* norm : {"rms", "layer"}) {
    std::vector<std::string> words = {
        "quantize", "-m",         "5",      "-k",       "640",          "--norm", norm, "--gamma",
        "random",   "--residual", "random", "--device", "virtual:h200", "--json", "-"};
    if (norm[0] == 'l') words.insert(words.end(), {"--beta", "random", "--eps", "0.5"});
    const ChildResult child = warpline_cli(words);
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    const Json json = parse_json(child.out);
    CHECK(json.find("wrong")->integer == 0);
    CHECK(json.find("config")->text == "quantize_" + std::string(norm) + "_sm90_bf16");
  }
  // Tensors of a file, each by its name; what is written has the sums.
  TemporaryDirectory directory;
  const std::string wide = directory / "wide", narrow = directory / "narrow";
  const std::vector<uint16_t> ones(2 * 128, 0x3F80), halves(2 * 128, 0x3F00);
  const std::vector<float> gamma(128, 2.0f);
  warpline::cli::write_safetensors(wide,
                                   {{"x", "BF16", {2, 128}, ones.data(), 512},
                                    {"r", "BF16", {2, 128}, halves.data(), 512},
                                    {"g", "F32", {128}, gamma.data(), 512},
                                    {"b", "BF16", {128}, ones.data(), 256}},
                                   {});
  const std::vector<std::string> call = {"quantize", "--input",  wide,       "--output",
                                         narrow,     "--verify", "--device", "virtual:b200"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), call.begin(), call.end());
    return warpline_cli(more);
  };
  const ChildResult right = with({"--norm", "rms", "--gamma", "g", "--residual", "r"});
  INFO_CHILD(right);
  REQUIRE(right.status == 0);
  const warpline::cli::SafetensorsFile file(narrow);
  CHECK(file.find("r") == nullptr);
  uint16_t sum = 0;
  std::memcpy(&sum, file.read(*file.find("x_sum")).data(), sizeof sum);
  CHECK(sum == 0x3FC0); // 1.5
  check_refusal(with({"--norm", "layer", "--gamma", "g", "--beta", "b"}), 2, "must be of one type");
  check_refusal(with({"--norm", "rms", "--gamma", "h"}), 2, "has no tensor \"h\"");
  check_refusal(with({"--norm", "rms", "--gamma", "x"}), 2, "must be [128] of BF16 or F32");
  check_refusal(with({"--norm", "rms", "--residual", "g"}), 2, "has no matrix \"g\"");
  check_refusal(with({"--norm", "rms", "--beta", "b"}), 2, "--beta needs --norm layer");
  check_refusal(with({"--gamma", "g"}), 2, "--gamma needs --norm rms or --norm layer");
  check_refusal(with({"--norm", "rms", "--eps", "0"}), 2, "must be positive and finite");
  check_refusal(warpline_cli({"quantize", "--norm", "rms", "--gamma", "g"}), 2,
                "must be \"random\" without --input");
}

TEST_CASE("cli: norm-linear", "[virtual][cli][norm_linear]") {
  const std::vector<std::vector<std::string>> calls = {
      {"--norm", "rms", "--bias", "--act", "gelu_tanh"},
      {"--form", "folded", "--residual"},
      {"--weights", "nvfp4", "--residual"},
      {"--type", "f16", "--out", "f32", "--form", "folded", "--mean", "4"}};
  for (size_t i = 0; i < calls.size(); ++i) {
    std::vector<std::string> words = {
        "norm-linear", "-m",       "20",
        "-n",          "72",       "-k",
        "192",         "--device", i % 2 == 0 ? "virtual:h200" : "virtual:b200",
        "--json",      "-"};
    words.insert(words.end(), calls[i].begin(), calls[i].end());
    const ChildResult child = warpline_cli(words);
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    const Json json = parse_json(child.out);
    CHECK(json.find("result")->text == "PASS");
    CHECK(json.find("relative_error")->number < (i == 2 ? 0.2 : 0.01));
  }
  check_refusal(warpline_cli({"norm-linear", "-k", "100", "--device", "virtual:h200"}), 2,
                "K = 100 must be a multiple of 64 elements (nearest: 64, 128)");
  check_refusal(warpline_cli({"norm-linear", "--form", "folded", "--weights", "nvfp4", "--device",
                              "virtual:h200"}),
                2, "w_type = 0 must have no block scales in the folded form");
  check_refusal(warpline_cli({"norm-linear", "--output", "x", "--device", "virtual:h200"}), 2,
                "--output is not taken");
}

TEST_CASE("cli: what quantize refuses", "[virtual][cli][quantize]") {
  TemporaryDirectory directory;
  check_refusal(warpline_cli({"quantize", "-m", "0", "-k", "63", "--device", "virtual:b200"}), 2,
                "M = 0 must be from 1 to 2^30 rows (nearest: 1); K = 63 must be");
  check_refusal(warpline_cli({"quantize", "--d-scale", "0"}), 2, "positive normal FP32 number");
  check_refusal(warpline_cli({"quantize", "--input", "x", "-m", "3"}), 2,
                "-m cannot be given with --input");
  check_refusal(warpline_cli({"quantize", "--config", "quantize_sm90_bf16", "--device",
                              "virtual:b200", "-m", "1", "-k", "64"}),
                2, "must be a configuration for this device");
  const std::string file = directory / "file";
  const uint16_t ones[100] = {};
  warpline::cli::write_safetensors(file, {{"narrow", "BF16", {1, 100}, ones, sizeof ones}}, {});
  check_refusal(warpline_cli({"quantize", "--input", file}), 2,
                "\"narrow\" has shape [1, 100], its rows must be a multiple of 64 values");
  // Two tensors of which one makes the other's name, and a name of 5 MB.
  const std::string long_name(5000000, 'n'), output = directory / "output";
  warpline::cli::write_safetensors(file,
                                   {{"a", "F16", {1, 64}, ones, 128},
                                    {"a_scale", "F16", {1, 64}, ones, 128},
                                    {long_name, "U8", {1}, ones, 1}},
                                   {});
  const ChildResult met =
      warpline_cli({"quantize", "--input", file, "--output", output, "--device", "virtual:b200"});
  INFO_CHILD(met);
  CHECK(met.status == 2);
  CHECK_THAT(met.err, ContainsSubstring("\"a\" and \"a_scale\" would both make \"a_scale\""));
  CHECK(met.err.size() < 500);
  CHECK_FALSE(std::filesystem::exists(output));
  const ChildResult unwritten =
      warpline_cli({"quantize", "--input", file, "--verify", "--device", "virtual:b200"});
  CHECK(unwritten.status == 0);
  warpline::cli::write_safetensors(
      file, {{long_name, "F16", {1, 64}, ones, 128}, {"k", "U8", {1}, ones, 1}}, {});
  const ChildResult long_one =
      warpline_cli({"quantize", "--input", file, "--output", output, "--device", "virtual:b200"});
  CHECK(long_one.status == 0);
  CHECK(long_one.out.size() + long_one.err.size() < 3000);
  CHECK(warpline::cli::SafetensorsFile(output).find(long_name + "_scale") != nullptr);
  warpline::cli::write_safetensors(file, {{"vector", "BF16", {100}, ones, sizeof ones}}, {});
  check_refusal(warpline_cli({"quantize", "--input", file}), 2, "has no tensor of F16 or BF16");
}
