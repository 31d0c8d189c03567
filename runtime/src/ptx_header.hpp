// What the directives of a PTX text say up to its entry's body. The library reads a caller's text
// with it, runtime/embed the texts that go into the library.
#pragma once

#include <string>
#include <string_view>

namespace warpline {

struct PtxHeader {
  std::string target;       // first name of .target, e.g. "sm_100f"; "" when there is none
  int major = 0, minor = 0; // .version
  int params = 0;           // of the first .entry
};

PtxHeader read_ptx_header(std::string_view text);

// Reads a decimal number at *position and moves past it. 0 when there is none.
int number_at(std::string_view text, size_t* position);

} // namespace warpline
