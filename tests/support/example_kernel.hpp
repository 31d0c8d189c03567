// A kernel on the fake driver: one parameter of 8 bytes, and dynamic shared memory that launches
// have to opt into.
#pragma once

#include "runtime/src/module.hpp"
#include "tests/support/fake_gpu.hpp"

namespace wltest {

inline const warpline::Kernel& example_kernel(FakeGpu& gpu) {
  gpu.fake->param_count = 1;
  gpu.fake->param_size[0] = 8;
  const warpline::Image image =
      warpline::make_image("example", "example",
                           ".version 8.8\n.target sm_100f\n"
                           ".visible .entry example(.param .u64 count)\n{\n  ret;\n}\n");
  const warpline::Kernel* kernel = nullptr;
  REQUIRE(warpline::load_kernel(gpu.context(), image, {{{"count", 0, 8}}, 100000, false},
                                &kernel) == WL_SUCCESS);
  return *kernel;
}

} // namespace wltest
