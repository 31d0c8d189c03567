// warpline moe as a child process on the virtual GPUs.
#include "tests/support/catch.hpp"
#include "tests/support/cli.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace wltest;

namespace {

// A small layer; an option of `more` takes the place of its own.
std::vector<std::string> small(const std::string& device, const std::vector<std::string>& more) {
  const std::vector<std::pair<std::string, std::string>> own = {
      {"--tokens", "9"}, {"--hidden", "128"},     {"--intermediate", "64"}, {"--experts", "8"},
      {"--top-k", "3"},  {"--first-expert", "2"}, {"--device", device}};
  std::vector<std::string> all = {"moe"};
  for (const auto& [option, value] : own)
    if (std::find(more.begin(), more.end(), option) == more.end())
      all.insert(all.end(), {option, value});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

} // namespace

TEST_CASE("cli: a layer of experts is right on both families", "[virtual][cli][moe]") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> runs = {
      {"virtual:h200", {"--shared", "--out", "f32", "--type", "f16"}},
      {"virtual:h200", {"--a-type", "nvfp4", "--routing", "skewed", "--graph"}},
      {"virtual:b200", {"--shared", "--gate", "clamped", "--out", "f16"}}};
  for (const auto& [device, more] : runs) {
    const ChildResult r = warpline_cli(small(device, more));
    INFO(device << "\n" << r.out << r.err);
    CHECK(r.status == 0);
    CHECK_THAT(r.out, ContainsSubstring("outputs wrong    0 of 1152"));
    CHECK_THAT(r.out, ContainsSubstring("PASS"));
  }
}

TEST_CASE("cli: what moe refuses", "[virtual][cli][moe]") {
  const auto refused = [](const std::vector<std::string>& more, int status, const char* sentence) {
    check_refusal(warpline_cli(small("virtual:b200", more)), status, sentence);
  };
  refused({"--hidden", "100"}, 2, "H = 100 must be a multiple of 64 elements (nearest: 64, 128)");
  refused({"--a-type", "bf16"}, 3, "a_type = 2 on compute capability 10.0 must be multiplied with");
  refused({"--tokens", "0"}, 2, "T = 0 must be from 1 to 2^30 tokens (nearest: 1)");
  refused({"--output", "x"}, 2, "random tensors are compared and not written");
  refused({"--experts", "512", "--hidden", "131072", "--intermediate", "131072"}, 2,
          "moe: tokens, hidden, intermediate, experts, top_k need about ");
}
