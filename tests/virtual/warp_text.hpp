// One warp with words of its own in every lane: in from memory, through a body of PTX, and out.
#pragma once

#include "tests/virtual/lane_ops.hpp"

namespace lane_ops {

// One warp: `in` words of each lane in %r10.., `out` words from %r30...
inline wltest::RunResult warp(const std::string& body, const std::vector<uint32_t>& in,
                              uint32_t in_words, uint32_t out_words, std::vector<uint32_t>& out,
                              uint32_t threads = 32) {
  wltest::Vgpu gpu;
  uint64_t from = gpu.upload(in), to = gpu.allocate(4 * 32 * out_words + 4);
  std::string text = "ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; mov.u32 %r0, %laneid;\n"
                     "mul.wide.u32 %rd2, %r0, " +
                     std::to_string(4 * in_words) +
                     "; add.u64 %rd2, %rd0, %rd2;\n"
                     "mul.wide.u32 %rd3, %r0, " +
                     std::to_string(4 * out_words) + "; add.u64 %rd3, %rd1, %rd3;\n";
  for (uint32_t k = 0; k < in_words; ++k)
    text +=
        "ld.global.u32 %r" + std::to_string(10 + k) + ", [%rd2+" + std::to_string(4 * k) + "];\n";
  text += body + "\n";
  for (uint32_t k = 0; k < out_words; ++k)
    text +=
        "st.global.u32 [%rd3+" + std::to_string(4 * k) + "], %r" + std::to_string(30 + k) + ";\n";
  wltest::Launch l;
  l.block = {threads, 1, 1};
  wltest::RunResult r =
      gpu.run(wltest::module_text(text + "ret;", ".param .u64 in, .param .u64 out"),
              wltest::Params().u64(from).u64(to), l);
  out = gpu.download<uint32_t>(to, 32 * out_words);
  return r;
}

inline std::vector<uint32_t> words(size_t n, uint32_t seed = kSeed) {
  std::mt19937 g(seed);
  std::vector<uint32_t> v(n);
  for (uint32_t& x : v) x = g();
  return v;
}

inline std::vector<uint32_t> must(const std::string& body, const std::vector<uint32_t>& in,
                                  uint32_t in_words, uint32_t out_words) {
  std::vector<uint32_t> out;
  wltest::RunResult r = warp(body, in, in_words, out_words, out);
  INFO(body);
  INFO(r.text);
  REQUIRE(r.ok);
  return out;
}

} // namespace lane_ops
