// Cases that run one instruction on many lanes, a row of operands each.
#pragma once

#include "tests/hardware/oracle_families.hpp"
#include "tests/virtual/lane_ops.hpp"

namespace wltest::oracle {

using lane_ops::Column;

// "{a0, a1}"
inline std::string list(const char* name, uint32_t n) {
  std::string s = "{";
  for (uint32_t i = 0; i < n; ++i) s += (i ? ", " : "") + (name + std::to_string(i));
  return s + "}";
}

struct Lanes {
  std::vector<Case>& cases;
  std::string family;
  Compare compare = Compare::bits;

  // Row i: 8 bytes for d, then the i-th value of each column.
  void row(const std::string& op, const std::string& d, const std::vector<std::string>& src,
           const std::vector<Column>& in) const {
    size_t n = (in[0].size() + 127) / 128 * 128, width = src.size() + 1;
    std::vector<uint64_t> rows(n * width, 0);
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < src.size(); ++k) rows[i * width + k + 1] = in[k][i % in[k].size()];
    Case c;
    c.family = family;
    c.name = op;
    c.body = lane_ops::kernel(op, d, src);
    c.block = {128, 1, 1};
    c.grid = {uint32_t(n / 128), 1, 1};
    c.scheduled = false;
    c.compare = compare;
    c.row_bytes = uint32_t(8 * width);
    c.operands = uint32_t(src.size());
    c.out("rows", bytes_of(rows));
    cases.push_back(std::move(c));
  }
  void op1(const std::string& op, const std::string& d, const std::string& a,
           const Column& x) const {
    row(op, d, {a}, {x});
  }
  void op2(const std::string& op, const std::string& d, const std::string& a, const std::string& b,
           const Column& x, const Column& y) const {
    Column u, v;
    lane_ops::cross(x, y, u, v);
    row(op, d, {a, b}, {u, v});
  }
  // All pairs, with a third operand that walks through its values.
  void op3(const std::string& op, const std::string& d, const std::string& a, const std::string& b,
           const std::string& c, const Column& x, const Column& y, const Column& z) const {
    Column u, v, w;
    for (size_t shift = 0; shift < 3; ++shift) {
      size_t before = u.size();
      lane_ops::cross(x, y, u, v);
      for (size_t i = before; i < u.size(); ++i)
        w.push_back(z[(i * (2 * shift + 1) + i / 7) % z.size()]);
    }
    row(op, d, {a, b, c}, {u, v, w});
  }
};

} // namespace wltest::oracle
