// What the programs of build/tests refuse before they run anything.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"

#include <string>
#include <vector>

using namespace wltest;

TEST_CASE("test programs refuse values that are missing or no numbers", "[virtual][cli]") {
  struct Refusal {
    const char* program;
    std::vector<std::string> arguments;
    const char* says;
  };
  const Refusal refusals[] = {
      {"problems", {"--jobs"}, "problems: --jobs needs a value\n"},
      {"problems", {"--jobs", "two"}, "problems: --jobs \"two\": a whole number from 1 to "},
      {"problems", {"--problems", "0"}, "problems: --problems \"0\": a whole number from 1 to "},
      {"problems", {"--only", "-1"}, "problems: --only \"-1\": a whole number from 0 to "},
      {"problems", {"--limit", "4294967296"}, " a whole number from 1 to 4294967295\n"},
      {"problems", {"--seed", ""}, "problems: --seed \"\": a whole number from 0 to "},
      {"problems", {"--seed", "0x"}, "problems: --seed \"0x\": a whole number from 0 to "},
      {"problems", {"--prolbems", "1"}, "problems: unknown option --prolbems ("},
      {"mutation", {"--line", "7b"}, "mutation: --line \"7b\": a whole number from 1 to "},
      {"mutation", {"--part", "3"}, "mutation: --part 3: I/N, I from 1 to N\n"},
      {"mutation", {"--part", "3/2"}, "mutation: --part 3/2: I/N, I from 1 to N\n"},
      {"mutation", {"--part", "1/x"}, "mutation: --part \"x\": a whole number from 1 to "},
      {"mutation", {"--from", "/nowhere"}, "mutation: --from /nowhere: no such file\n"},
      {"mutation", {"--all", "--lsit"}, "mutation: unknown option --lsit ("},
      {"semantic", {"--rounds", "1.5"}, "semantic: --rounds \"1.5\": a whole number from 0 to "},
      {"semantic", {"--kernels"}, "semantic: --kernels needs a value\n"},
      {"semantic", {"1"}, "semantic: unknown option 1 ("},
      {"sweep", {"--sizes", "-2"}, "sweep: --sizes \"-2\": a whole number from 1 to "},
      {"sweep", {"--out"}, "sweep: --out needs a value\n"},
      {"sweep", {"--draws", "1"}, "sweep: unknown option --draws ("},
      {"planted", {"--program"}, "planted: --program needs a value\n"},
      {"planted", {"--every"}, "planted: unknown option --every ("},
      {"kernel-coverage", {"--open"}, "kernel-coverage: --open needs a value\n"},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<std::string> command = {build_file("tests/" + std::string(refusal.program))};
    command.insert(command.end(), refusal.arguments.begin(), refusal.arguments.end());
    const ChildResult child = run_child(command);
    CAPTURE(refusal.program, refusal.arguments, child.out);
    CHECK(child.status == 2);
    CHECK(child.out.empty());
    CHECK_THAT(child.err, ContainsSubstring(refusal.says));
  }
}

TEST_CASE("test programs take numbers in both bases", "[virtual][cli]") {
  for (const char* seed : {"16", "0x10"}) {
    const ChildResult child =
        run_child({build_file("tests/mutation"), "--list", "--draw", "1", "--seed", seed, "--part",
                   "1/1", "--kernels", "dual_gemm_sm90_small_t1_f16"});
    CAPTURE(seed, child.err);
    CHECK(child.status == 0);
  }
}
