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
      {"problems", {"--jobs"}, "problems: option --jobs needs a value: N\n"},
      {"problems", {"--jobs", "two"}, "option --jobs is 'two', must be a whole number from 1 to "},
      {"problems", {"--problems", "0"}, "option --problems is '0', must be a whole number from 1"},
      {"problems", {"--only", "-1"}, "option --only is '-1', must be a whole number from 0 to "},
      {"problems", {"--limit", "4294967296"}, " must be a whole number from 1 to 4294967295\n"},
      {"problems", {"--seed", ""}, "option --seed is '', must be a whole number from 0 to "},
      {"problems", {"--prolbems", "1"}, "unknown option --prolbems (did you mean --problems?)"},
      {"mutation", {"--line", "7b"}, "option --line is '7b', must be a whole number from 1 to "},
      {"mutation", {"--part", "3"}, "option --part is '3', must be I/N, I from 1 to N\n"},
      {"mutation", {"--part", "0/2"}, "option --part is '0/2', must be I/N, I from 1 to N\n"},
      {"mutation", {"--part", "3/2"}, "option --part is '3/2', must be I/N, I from 1 to N\n"},
      {"mutation", {"--part", "1/x"}, "option --part is '1/x', must be I/N, I from 1 to N\n"},
      {"mutation", {"--from", "/nowhere"}, "must be files that exist; there is no /nowhere\n"},
      {"mutation", {"--all", "--lsit"}, "mutation: unknown option --lsit (did you mean --list?)"},
      {"semantic", {"--rounds", "1.5"}, "option --rounds is '1.5', must be a whole number from 0"},
      {"semantic", {"--kernels"}, "semantic: option --kernels needs a value: NAME,...\n"},
      {"semantic", {"1"}, "semantic: unexpected argument '1'\n"},
      {"sweep", {"--sizes", "-2"}, "option --sizes is '-2', must be a whole number from 1 to "},
      {"sweep", {"--out"}, "sweep: option --out needs a value: FILE\n"},
      {"sweep", {"--draws", "1"}, "sweep: unknown option --draws (did you mean --draw?)"},
      {"planted", {"--program"}, "planted: option --program needs a value: NAME\n"},
      {"planted", {"--every"}, "planted: unknown option --every"},
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

TEST_CASE("test programs take what they name", "[virtual][cli]") {
  const auto list = [](const std::string& seed) {
    const ChildResult child =
        run_child({build_file("tests/problems"), "--list", "--problems", "1", "--config",
                   "dual_gemm_sm90_small_t1_f16", "--seed=" + seed});
    CAPTURE(seed, child.err);
    CHECK(child.status == 0);
    return child.out;
  };
  CHECK(list("16") == list("016"));
  CHECK(list("16") != list("17"));
  for (const char* program : {"problems", "mutation", "semantic", "sweep", "planted"}) {
    const ChildResult child = run_child({build_file("tests/" + std::string(program)), "--help"});
    CAPTURE(program, child.err);
    CHECK(child.status == 0);
    CHECK_THAT(child.out, ContainsSubstring("Usage: " + std::string(program) + " [options]"));
  }
}
