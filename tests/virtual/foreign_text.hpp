// PTX of other compilers, by the name of its file in foreign/: loaded and run.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/vgpu_run.hpp"

#include "tools/vgpu/check/options.hpp"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace wltest {

inline std::string foreign_text(const std::string& name) {
  std::ifstream in(source_file("tests/virtual/foreign/" + name + ".ptx"));
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Foreign {
  explicit Foreign(const std::string& name, const std::string& profile = "h200")
      : gpu(profile), text(foreign_text(name)) {}
  RunResult run(const std::string& entry, const Params& p, Launch l) {
    l.entry = entry;
    // Of one cluster each: what several do to global memory at once is theirs to order.
    l.checks = vgpu::check::kDefinedness | vgpu::check::kBarriers;
    l.schedule = "random:5";
    return gpu.run(text, p, l);
  }
  void must(const std::string& entry, const Params& p, const Launch& l) {
    RunResult r = run(entry, p, l);
    INFO(entry << ": " << r.text);
    REQUIRE(r.ok);
  }
  Vgpu gpu;
  std::string text;
};

inline std::vector<int> numbers(size_t n, unsigned seed) {
  std::vector<int> v(n);
  for (int& x : v) x = int((seed = seed * 1664525u + 1013904223u) >> 12) % 1000 - 500;
  return v;
}

} // namespace wltest
