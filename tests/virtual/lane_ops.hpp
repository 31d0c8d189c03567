// Runs one instruction on many lanes with given operands, and compares with a plain C++ function.
//
//   check_op("add.s32 d, a, b;", "b32", {"b32", "b32"}, values32(), [](uint64_t a, uint64_t b) ...)
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lane_ops {

using Column = std::vector<uint64_t>;

// The registers d, a, b, c, e; "pred" operands are loaded from and stored as 0 and 1.
inline std::string kernel(const std::string& op, const std::string& dst,
                          const std::vector<std::string>& src) {
  static const char* const names[] = {"a", "b", "c", "e", "f"};
  std::string row = std::to_string(8 * (src.size() + 1));
  std::string text = ".reg .b64 row, wide;\n.reg .b32 thread, block, word;\n.reg ." + dst + " d;\n";
  text += "mov.u32 thread, %tid.x;\nmov.u32 block, %ctaid.x;\n"
          "mad.lo.u32 thread, block, 128, thread;\nmul.wide.u32 wide, thread, " +
          row + ";\nld.param.u64 row, [rows];\nadd.u64 row, row, wide;\n";
  for (size_t k = 0; k < src.size(); ++k) {
    std::string at = "[row+" + std::to_string(8 * (k + 1)) + "]", name = names[k];
    text += ".reg ." + src[k] + " " + name + ";\n";
    if (src[k] == "pred")
      text += "ld.global.u32 word, " + at + ";\nsetp.ne.u32 " + name + ", word, 0;\n";
    else
      text += "ld.global." + src[k] + " " + name + ", " + at + ";\n";
  }
  text += op + "\n";
  if (dst == "pred")
    text += "selp.u32 word, 1, 0, d;\nst.global.u32 [row], word;\n";
  else
    text += "st.global." + dst + " [row], d;\n";
  return text + "ret;\n";
}

// Results by row; all columns have the same length.
inline Column run_op(const std::string& op, const std::string& dst,
                     const std::vector<std::string>& src, const std::vector<Column>& in,
                     const std::string& target = "sm_100a") {
  size_t n = (in[0].size() + 127) / 128 * 128, width = src.size() + 1;
  std::vector<uint64_t> rows(n * width, 0);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < src.size(); ++k) rows[i * width + k + 1] = in[k][i % in[k].size()];
  wltest::Vgpu gpu;
  uint64_t address = gpu.upload(rows);
  wltest::Launch launch;
  launch.block = {128, 1, 1};
  launch.grid = {uint32_t(n / 128), 1, 1};
  wltest::RunResult r =
      gpu.run(wltest::module_text(kernel(op, dst, src), ".param .u64 rows", target),
              wltest::Params().u64(address), launch);
  INFO(op);
  INFO(r.text);
  REQUIRE(r.ok);
  rows = gpu.download<uint64_t>(address, rows.size());
  Column out(in[0].size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = rows[i * width];
  return out;
}

// Every combination of two lists' values.
inline void cross(const Column& x, const Column& y, Column& a, Column& b) {
  for (uint64_t u : x)
    for (uint64_t v : y) {
      a.push_back(u);
      b.push_back(v);
    }
}

constexpr uint32_t kSeed = 20261;

// Edge values and random bits of a width.
inline Column integers(uint32_t bits, size_t random = 40) {
  uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  uint64_t top = 1ull << (bits - 1);
  Column v = {0,  1,   2,       3,   7,       31,   32,       33,      63,
              64, 100, top - 1, top, top + 1, mask, mask - 1, mask / 3};
  std::mt19937_64 g(kSeed + bits);
  for (size_t k = 0; k < random; ++k) v.push_back(g() >> (g() % bits));
  for (uint64_t& x : v) x &= mask;
  return v;
}
inline Column floats32(size_t random = 40) {
  Column v = {0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000,
              0xFFC00001, 0x7F800001, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000,
              0x80800000, 0x00800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x3FC00000, 0x40200000,
              0xC0200000, 0x4F000000, 0x4F800000, 0x5F000000, 0xCF000000, 0x33800000, 0x33800001,
              0x3F7FFFFF, 0x3F800001, 0x38800000, 0x387FFFFF, 0x477FE000, 0x477FF000, 0x7E800000};
  std::mt19937 g(kSeed);
  for (size_t k = 0; k < random; ++k)
    v.push_back(k % 2 ? g() : std::bit_cast<uint32_t>(float(int32_t(g())) * 0x1p-28f));
  return v;
}
inline Column floats64(size_t random = 40) {
  Column v;
  for (double x : {0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e300, -1e300, 1e-310, 4.9e-324, 3e9,
                   -3e9, 1e19, -1e19, 0.1, 1.0 / 3.0})
    v.push_back(std::bit_cast<uint64_t>(x));
  v.push_back(0x7FF0000000000000);
  v.push_back(0xFFF0000000000000);
  std::mt19937_64 g(kSeed);
  for (size_t k = 0; k < random; ++k)
    v.push_back(std::bit_cast<uint64_t>(double(int64_t(g())) * 0x1p-50));
  return v;
}
inline Column halves(size_t random = 30) {
  Column v = {0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x0001, 0x8001,
              0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3800, 0x3E00, 0x3F80, 0x7F80, 0x4080, 0x0080};
  std::mt19937 g(kSeed);
  for (size_t k = 0; k < random; ++k) v.push_back(g() & 0xFFFF);
  return v;
}

template <class F>
void check_op1(const std::string& op, const std::string& d, const std::string& a, const Column& x,
               F&& expected) {
  Column out = run_op(op, d, {a}, {x});
  for (size_t i = 0; i < x.size(); ++i) {
    INFO(op << " a=0x" << std::hex << x[i] << " got 0x" << out[i]);
    if (out[i] != uint64_t(expected(x[i]))) REQUIRE(out[i] == uint64_t(expected(x[i])));
  }
  SUCCEED(op);
}

template <class F>
void check_op2(const std::string& op, const std::string& d, const std::string& a,
               const std::string& b, const Column& x, const Column& y, F&& expected) {
  Column u, v;
  cross(x, y, u, v);
  Column out = run_op(op, d, {a, b}, {u, v});
  for (size_t i = 0; i < u.size(); ++i) {
    if (out[i] == uint64_t(expected(u[i], v[i]))) continue;
    INFO(op << " a=0x" << std::hex << u[i] << " b=0x" << v[i] << " got 0x" << out[i]);
    REQUIRE(out[i] == uint64_t(expected(u[i], v[i])));
  }
  SUCCEED(op);
}

// Three operands: all pairs with a third that walks through its list.
template <class F>
void check_op3(const std::string& op, const std::string& d, const std::string& a,
               const std::string& b, const std::string& c, const Column& x, const Column& y,
               const Column& z, F&& expected) {
  Column u, v, t;
  for (size_t shift = 0; shift < 3; ++shift) {
    size_t before = u.size();
    cross(x, y, u, v);
    for (size_t i = before; i < u.size(); ++i)
      t.push_back(z[(i * (2 * shift + 1) + i / 7) % z.size()]);
  }
  Column out = run_op(op, d, {a, b, c}, {u, v, t});
  for (size_t i = 0; i < u.size(); ++i) {
    if (out[i] == uint64_t(expected(u[i], v[i], t[i]))) continue;
    INFO(op << " a=0x" << std::hex << u[i] << " b=0x" << v[i] << " c=0x" << t[i] << " got 0x"
            << out[i]);
    REQUIRE(out[i] == uint64_t(expected(u[i], v[i], t[i])));
  }
  SUCCEED(op);
}

} // namespace lane_ops
