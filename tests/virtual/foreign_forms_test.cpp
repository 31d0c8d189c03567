// Every opcode that nvcc's front end emits in a corpus of 17 example files for sm_90a and sm_100a
// (foreign/opcodes.txt, by census) has a form that is executed.
#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"

#include "tools/vgpu/isa/pattern.hpp"

#include <fstream>

using namespace vgpu;

TEST_CASE("every opcode of the compilers' corpus has a form that is executed", "[virtual][forms]") {
  std::vector<isa::Pattern> patterns;
  for (const isa::Form& f : isa::forms())
    if (f.status != isa::Status::refused) patterns.push_back(isa::Pattern::compile(f.pattern));
  std::ifstream in(wltest::source_file("tests/virtual/foreign/opcodes.txt"));
  size_t opcodes = 0;
  for (std::string line; std::getline(in, line); ++opcodes) {
    std::vector<std::string> tokens(1);
    for (char c : line)
      if (c == '.')
        tokens.emplace_back();
      else
        tokens.back() += c;
    const bool known = std::any_of(patterns.begin(), patterns.end(), [&](const isa::Pattern& p) {
      isa::Match match;
      size_t reached = 0;
      return p.match(tokens, match, reached);
    });
    INFO(line);
    CHECK(known);
  }
  CHECK(opcodes == 276);
}
