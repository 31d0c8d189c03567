#include "tests/support/catch.hpp"
#include "tools/cli/options.hpp"

using namespace warpline::cli;
using wltest::ContainsSubstring;

namespace {

struct Values {
  int64_t m = 7;
  uint64_t seed = 1;
  std::optional<float> alpha;
  std::string out = "f16", json, file;
  bool verify = false;
};

Options declare(Values& v, bool positional = false) {
  Options o("test", "A command.");
  o.integer("-m", "rows", v.m, 1, 100);
  o.unsigned64("--seed", "seed", v.seed);
  o.real("--alpha1", "scale", v.alpha);
  o.choice("--out", "type", v.out, {"f16", "bf16"});
  o.text("--json", "FILE", "report", v.json);
  o.flag("--verify", "compare", v.verify);
  if (positional) o.positional("FILE", "the file to write", v.file);
  return o;
}

// First line of the refusal, "accepted" when there was none.
std::string error_of(const std::vector<std::string>& arguments, bool positional = false) {
  Values values;
  Options options = declare(values, positional);
  try {
    options.parse(arguments);
  } catch (const Failure& failure) {
    CHECK(failure.status == exit_usage);
    const std::string text = failure.what();
    CHECK_THAT(text, ContainsSubstring("\nSee: warpline test --help"));
    return text.substr(0, text.find('\n'));
  }
  return "accepted";
}

} // namespace

TEST_CASE("integers of other types, and options that may be repeated", "[host]") {
  int jobs = 2;
  unsigned limit = 300;
  size_t count = 0;
  Options o("test", "A program.", "");
  o.integer("--jobs", "processes", jobs, 1);
  o.integer("--limit", "seconds", limit, 1);
  o.integer("--count", "of them", count, 0);
  CHECK_THROWS_WITH(o.parse({"--jobs", "2147483648"}),
                    "test: option --jobs is '2147483648', must be a whole number from 1 to "
                    "2147483647\nSee: test --help");
  CHECK(jobs == 2);
  CHECK_THROWS_AS(o.parse({"--limit", "0"}), Failure);
  o.repeated();
  CHECK(o.parse({"--limit=4294967295", "--jobs", "3", "--count", "9223372036854775807", "--jobs",
                 "2147483647"}));
  CHECK(jobs == 2147483647);
  CHECK(limit == 4294967295u);
  CHECK(count == 9223372036854775807u);
}

TEST_CASE("options fill their targets", "[host]") {
  Values v;
  Options o = declare(v, true);
  CHECK(o.parse({"-m", "42", "--seed=18446744073709551615", "x.safetensors", "--alpha1", "-0.5",
                 "--out", "bf16", "--json=-", "--verify"}));
  CHECK(v.m == 42);
  CHECK(v.seed == 18446744073709551615u);
  CHECK(v.alpha == -0.5f);
  CHECK(v.out == "bf16");
  CHECK(v.json == "-");
  CHECK(v.verify);
  CHECK(v.file == "x.safetensors");
  CHECK(o.given("-m"));
  CHECK_FALSE(o.given("-n"));
}

TEST_CASE("defaults stay without arguments", "[host]") {
  Values v;
  Options o = declare(v);
  CHECK(o.parse({}));
  CHECK(v.m == 7);
  CHECK_FALSE(v.alpha.has_value());
}

TEST_CASE("behind -- all are positional", "[host]") {
  for (const char* name : {"-m", "--help", "--", "x"}) {
    Values v;
    CHECK(declare(v, true).parse({"-m", "42", "--", name}));
    CHECK(v.m == 42);
    CHECK(v.file == name);
  }
  Values v; // an option's value comes first
  CHECK(declare(v, true).parse({"--json", "--", "x", "-m", "9"}));
  CHECK(v.json == "--");
  CHECK(v.m == 9);
}

TEST_CASE("--help wins over everything", "[host]") {
  Values v;
  Options o = declare(v, true);
  CHECK_FALSE(o.parse({"--nonsense", "--help"}));
  const std::string help = o.help();
  for (const char* text : {"Usage: warpline test FILE [options]", "A command.", "--out f16|bf16",
                           "-m N", "--verify", "-h, --help"})
    CHECK_THAT(help, ContainsSubstring(text));
}

TEST_CASE("every refusal names argument, value and rule", "[host]") {
  CHECK(error_of({"--sed", "1"}) == "test: unknown option --sed (did you mean --seed?)");
  CHECK(error_of({"--completely-else"}) == "test: unknown option --completely-else");
  CHECK(error_of({"-q"}) == "test: unknown option -q");
  CHECK(error_of({"--seed"}) == "test: option --seed needs a value: N");
  CHECK(error_of({"-m", "12x"}) ==
        "test: option -m is '12x', must be a whole number from 1 to 100");
  CHECK(error_of({"-m", ""}) == "test: option -m is '', must be a whole number from 1 to 100");
  CHECK(error_of({"-m", "0"}) == "test: option -m is '0', must be a whole number from 1 to 100");
  CHECK(error_of({"-m", "99999999999999999999"}) ==
        "test: option -m is '99999999999999999999', must be a whole number from 1 to 100");
  CHECK(error_of({"-m", "-3"}) == "test: option -m is '-3', must be a whole number from 1 to 100");
  CHECK(error_of({"--seed", "-1"}) ==
        "test: option --seed is '-1', must be a whole number from 0 to 18446744073709551615");
  CHECK(error_of({"--alpha1", "nan"}) ==
        "test: option --alpha1 is 'nan', must be a finite number that fits FP32");
  CHECK(error_of({"--alpha1", "1e99"}) ==
        "test: option --alpha1 is '1e99', must be a finite number that fits FP32");
  CHECK(error_of({"--out", "f32"}) == "test: option --out is 'f32', must be f16 or bf16");
  CHECK(error_of({"--json="}) == "test: option --json is '', must be not empty");
  CHECK(error_of({"--verify=1"}) == "test: option --verify takes no value");
  CHECK(error_of({"-m", "1", "-m", "2"}) == "test: option -m is given twice");
  CHECK(error_of({"--help=1"}) == "test: option --help takes no value");
  CHECK(error_of({"--", "-m"}) == "test: unexpected argument '-m'");
  CHECK(error_of({"--", "--help"}) == "test: unexpected argument '--help'");
  CHECK(error_of({"--out", std::string(5000000, 'x')}) ==
        "test: option --out is '" + std::string(77, 'x') + "...', must be f16 or bf16");
  CHECK(error_of({"stray"}) == "test: unexpected argument 'stray'");
  CHECK(error_of({}, true) == "test: missing argument FILE: the file to write");
}

TEST_CASE("nearest name", "[host]") {
  CHECK(nearest_name("dual-gem", {"dual-gemm", "devices"}) == "dual-gemm");
  CHECK(nearest_name("device", {"dual-gemm", "devices"}) == "devices");
  CHECK(nearest_name("zzzzzz", {"dual-gemm", "devices"}).empty());
  CHECK(nearest_name("x", {}).empty());
}

TEST_CASE("schedules", "[host]") {
  for (const char* right :
       {"eager", "lazy", "reverse", "random:0", "random:18446744073709551615", "starve:3", "hold:3",
        "stagger:3", "explore:20", "explore:@4", "explore:@4,17"})
    CHECK(check_schedule(right).empty());
  for (const char* wrong :
       {"", "fast", "random", "random:", "random:x", "random:-1", "lazy ",
        "starve:", "hold:", "stagger:", "explore:0", "explore:@4,", "explore:@x"})
    CHECK(check_schedule(wrong) ==
          "eager, lazy, reverse, random:SEED, starve:WARP, hold:SEED, "
          "stagger:SEED, explore:RUNS or explore:@POINT,POINT... with whole numbers");
}

TEST_CASE("devices", "[host]") {
  for (const char* right : {"auto", "gpu", "gpu:0", "gpu:12", "virtual", "virtual:b200",
                            "virtual:b300", "virtual:h200"})
    CHECK(check_device(right).empty());
  for (const char* wrong : {"", "gpu:", "gpu:-1", "gpu:x", "cuda", "virtual:"})
    CHECK_FALSE(check_device(wrong).empty());
  CHECK_THAT(check_device("virtual:b100"), ContainsSubstring("(did you mean virtual:b"));
}
