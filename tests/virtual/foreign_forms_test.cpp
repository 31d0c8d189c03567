// Every opcode that nvcc's front end emits in a corpus of 17 example files for sm_90a and sm_100a
// (foreign/opcodes.txt, by census), and every one in the inline PTX of CUDA 13.0's headers
// (foreign/opcodes_headers.txt), has a form that is executed.
#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"

#include "tools/vgpu/isa/forms.hpp"

#include <fstream>

using namespace vgpu;

namespace {

void check(const char* file, size_t count) {
  std::ifstream in(wltest::source_file(file));
  size_t opcodes = 0;
  for (std::string line; std::getline(in, line); ++opcodes) {
    std::vector<std::string> tokens(1);
    for (char c : line)
      if (c == '.')
        tokens.emplace_back();
      else
        tokens.back() += c;
    INFO(line);
    CHECK(isa::find_opcode(tokens));
  }
  CHECK(opcodes == count);
}

} // namespace

TEST_CASE("every opcode of the compilers' corpus has a form that is executed", "[virtual][forms]") {
  check("tests/virtual/foreign/opcodes.txt", 276);
}

TEST_CASE("every opcode of CUDA's headers has a form that is executed", "[virtual][forms]") {
  check("tests/virtual/foreign/opcodes_headers.txt", 799);
}
