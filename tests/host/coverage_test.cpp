// What stands behind `make kernel-coverage`: labels, explanations, counts of the same code, and
// problems by need.
#include "tests/support/catch.hpp"
#include "tests/support/temporary.hpp"
#include "tests/virtual/coverage/toward.hpp"

#include <fstream>
#include <sstream>

using namespace wltest;
using namespace wltest::coverage;

namespace {

const char* const kText = R"(.visible .entry k()
{
  setp.eq.u32 p, a, 0;
role:
  {
    .reg .pred done;
  wait:
    mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0; // {
    @!done bra wait;
  }
  @p bra role;
  ret;
}
)";

std::string file_of(const TemporaryDirectory& directory, const std::string& text) {
  const std::string path = directory / "file";
  std::ofstream(path) << text;
  return path;
}

// Counts of the two branches of kText, moved down by `lines` lines of a comment.
std::string counts(int lines, int taken) {
  std::string text = kText;
  for (int i = 0; i < lines; ++i) text = "// a comment\n" + text;
  std::ostringstream s;
  s << "vgpu coverage 1\nkernel " << lines_of(text).size() << " 2 k\n" << text;
  s << 9 + lines << " 0 1 0 5\n" << 11 + lines << " 0 1 " << taken << " 5\n";
  return s.str();
}

} // namespace

TEST_CASE("coverage: a branch has the label ahead of it in its braces or around them", "[host]") {
  const std::vector<std::string> labels = labels_of(lines_of(kText));
  CHECK(labels[3].empty());
  CHECK(labels[4] == "role");
  CHECK(labels[9] == "role/wait");
  CHECK(labels[11] == "role");
}

TEST_CASE("coverage: counts hold for the same code, wherever comments stand", "[host]") {
  vgpu::trace::Coverage ran;
  for (const auto& [lines, taken] : {std::pair{0, 0}, {2, 3}}) {
    std::istringstream in(counts(lines, taken));
    REQUIRE(ran.add(in).empty());
  }
  vgpu::trace::Coverage::Kernel kernel;
  REQUIRE(counts_of(ran, "k", lines_of("// another\n" + std::string(kText)), &kernel));
  const std::vector<Way> left = ways_left(kernel);
  REQUIRE(left.size() == 1);
  CHECK(left[0].name() == "role/wait | @!done bra wait; | taken");
  CHECK(left[0].line == 10);
  std::string other = kText;
  other.replace(other.find("a, 0"), 4, "a, 1");
  CHECK_FALSE(counts_of(ran, "k", lines_of(other), &kernel));
  CHECK_FALSE(counts_of(ran, "another", lines_of(kText), &kernel));
}

TEST_CASE("coverage: explanations are of kernels with and without a text", "[host]") {
  const TemporaryDirectory directory;
  const auto read = [&](const std::string& text) {
    return read_explanations(file_of(directory, text));
  };
  const vgpu::trace::Coverage::Kernel kernel{"gemm_k", lines_of(kText), {}};
  const Way way{"role", "@p bra role;", "taken", 11};
  const struct {
    const char* line;
    bool of, covers;
  } cases[] = {
      {".*_k | role | @p bra role; | taken | a reason", true, true},
      {".*_k | role | @p bra role; | both | a reason", true, true},
      {".*_k | role | @p bra role; | passed | a reason", true, false},
      {".*_k | (role|other) | @p bra .*; | taken | a reason", true, true},
      {".*_k | rol | @p bra role; | taken | a reason", true, false},
      {"gemm | role | @p bra role; | taken | a reason", false, true},
      {".*_k; where setp.eq.u32 p, a, 0; | role | @p bra role; | taken | a reason", true, true},
      {".*_k; where setp.eq.u32 p, a, 1; | role | @p bra role; | taken | a reason", false, true},
      {".*_k; without setp.eq.u32 p | role | @p bra role; | taken | a reason", false, true},
      {".*_k; where ret; without bar.sync | role | @p bra role; | taken | a reason", true, true},
  };
  for (const auto& c : cases) {
    INFO(c.line);
    const std::vector<Explanation> all = read(std::string("# head\n\n") + c.line + "\n");
    REQUIRE(all.size() == 1);
    CHECK(all[0].of(kernel) == c.of);
    CHECK(all[0].covers(way) == c.covers);
    CHECK(all[0].reason == "a reason");
  }
  CHECK_THROWS(read("k | role | @p bra role; | never | a reason"));
  CHECK_THROWS(read("k | role | @p bra role; | taken"));
  CHECK_THROWS(read("k; if ret | role | @p bra role; | taken | a reason"));
}

TEST_CASE("coverage: choices steer towards ways", "[host]") {
  const TemporaryDirectory directory;
  const Choices choices = {{"activation", {"5"}}, {"k", {"328"}}, {"row", {"null"}}};
  const std::pair<const char*, bool> cases[] = {
      {"activation = 5", true},     {"activation = 1/5", true},    {"activation = 1/2", false},
      {"activation != 5", false},   {"activation != 1", true},     {"k % 64 = 8", true},
      {"k % 64 = 1..8", true},      {"k % 64 = 9..63", false},     {"k = 1..400", true},
      {"row = null", true},         {"row != null", false},        {"gate = 0", false},
      {"row = null; k = 8", false}, {"row = null; k = 328", true},
  };
  for (const auto& [conditions, holds] : cases) {
    INFO(conditions);
    const std::vector<Steering> all = read_steering(
        file_of(directory, std::string("label.* | @p bra .*; | taken | ") + conditions + "\n"));
    REQUIRE(all.size() == 1);
    bool met = true;
    for (const Steering::Condition& c : all[0].conditions) met = met && c.holds(choices);
    CHECK(met == holds);
  }
  CHECK_THROWS(read_steering(file_of(directory, "label | @p bra x; | taken\n")));
  CHECK_THROWS(read_steering(file_of(directory, "label | @p bra x; | taken | activation\n")));
}
