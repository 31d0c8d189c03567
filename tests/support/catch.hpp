// Catch2 version 2 (one header) or version 3, whichever is installed, with our way to skip a test.
//
// WL_SKIP("reason") ends a test case that cannot run here (no GPU of the right kind, no ptxas). It
// is counted as skipped, unless an assertion of the same test case failed, and its reason is
// printed in the summary. Use it in the body of a TEST_CASE or SECTION, not inside a called
// function.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define WL_CATCH_VERSION 3
namespace wltest {
using Approximate = Catch::Approx;
using Catch::Matchers::ContainsSubstring;
} // namespace wltest
#elif __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#define WL_CATCH_VERSION 2
namespace wltest {
using Approximate = Catch::Detail::Approx;
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
} // namespace wltest
#else
#error "Catch2 is not installed: on Debian and Ubuntu, apt-get install catch2"
#endif

#include <string>

namespace wltest {
// Marks the running test case as skipped.
void note_skip(const std::string& reason);
} // namespace wltest

// The succeeding assertion keeps "-w NoAssertions" quiet about a skipped test case.
#define WL_SKIP(reason)                                                                            \
  do {                                                                                             \
    ::wltest::note_skip(reason);                                                                   \
    SUCCEED("skipped");                                                                            \
    return;                                                                                        \
  } while (false)
