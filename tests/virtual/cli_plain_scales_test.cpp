// Scales in plain rows on the virtual H200: the same outputs, a launch more for each product.
#include "tests/support/cli.hpp"

#include <string>
#include <vector>

using namespace wltest;

namespace {

using Words = std::vector<std::string>;

// "launches             N" of a report.
int launches(const std::string& report) {
  const size_t at = report.find("\nlaunches ");
  return at == std::string::npos ? 0 : std::stoi(report.substr(at + 10));
}

} // namespace

TEST_CASE("scales in plain rows make the same outputs on a Hopper GPU", "[virtual][cli]") {
  const struct {
    Words words;
    int more; // launches: one for each product's scales
  } cases[] = {
      {{"gemm", "-m", "33", "-n", "264", "-k", "448", "-l", "2", "--bias", "f32"}, 1},
      {{"gemm", "-m", "5", "-n", "136", "-k", "1088", "--a-type", "bf16", "--b-type", "nvfp4"}, 1},
      {{"dual-gemm", "-m", "256", "-n", "136", "-k", "320", "--a-type", "f16"}, 1},
      {{"grouped-gemm", "--sizes", "200,0,9", "-n", "264", "-k", "448"}, 1},
      {{"grouped-dual-gemm", "--sizes", "3,0,9", "-n", "72", "-k", "448", "--a-type", "bf16"}, 1},
      {{"moe", "--tokens", "20", "--hidden", "320", "--intermediate", "192", "--experts", "6",
        "--top-k", "2"},
       2},
      {{"moe", "--tokens", "1", "--hidden", "320", "--intermediate", "192", "--experts", "6",
        "--top-k", "2"},
       2},
      {{"norm-linear", "-m", "140", "-n", "136", "-k", "320", "--weights", "nvfp4", "--residual"},
       1}};
  for (const auto& c : cases) {
    Words words = c.words;
    for (const char* word :
         {"--device", "virtual:h200", "--check", "all", "--schedule", "random:4"})
      words.emplace_back(word);
    const ChildResult packed = warpline_cli(words);
    words.emplace_back("--plain-scales");
    const ChildResult plain = warpline_cli(words);
    INFO_CHILD(plain);
    CHECK(plain.status == 0);
    CHECK(last_line(plain.out) == "PASS");
    CHECK(launches(packed.out) > 0);
    CHECK(launches(plain.out) == launches(packed.out) + c.more);
  }
}

TEST_CASE("scales in plain rows are refused on a Blackwell GPU", "[virtual][cli]") {
  for (const char* command : {"gemm", "dual-gemm", "grouped-gemm", "norm-linear", "moe"}) {
    const ChildResult child = warpline_cli({command, "--plain-scales", "--device", "virtual:b200"});
    INFO_CHILD(child);
    CHECK(child.status == 2);
    CHECK_THAT(child.err, ContainsSubstring("sf_layout = 1 must be WL_SF_128x4 (0), or on Hopper "
                                            "WL_SF_PLAIN (1) (nearest: 0)"));
    CHECK_THAT(child.err, ContainsSubstring("nothing was launched"));
  }
}
