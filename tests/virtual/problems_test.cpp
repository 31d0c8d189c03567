// Problems over the whole contract of every operation, on the virtual GPU: build/tests/problems,
// which `make mutation` takes its problems from too.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"

using namespace wltest;

TEST_CASE("drawn problems over the whole contract", "[virtual][problems]") {
  const ChildResult r = run_child({build_file("tests/problems")}, {}, 3000);
  INFO(r.out << r.err);
  CHECK(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring(": 0 wrong"));
}
