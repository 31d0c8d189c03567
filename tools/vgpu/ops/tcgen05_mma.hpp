// One tcgen05.mma in flight: what it was issued with, and its effect. PTX ISA 9.7.16.10.
#pragma once

#include "tools/vgpu/ops/tcgen05.hpp"
#include "tools/vgpu/tensor/instr_desc.hpp"
#include "tools/vgpu/tensor/mma.hpp"

#include <array>
#include <vector>

namespace vgpu::ops {

class TensorMma : public exec::AsyncOp {
public:
  tensor::InstrDesc id;
  CtaSet set;
  tensor::OperandDesc a, b;
  OperandSpan a_span, b_span;
  bool a_in_tensor = false;
  uint32_t a_column = 0;
  TensorPlace d;
  bool accumulate = false;
  uint32_t block = 0;            // K elements of one scale, 0: no scales
  uint32_t sfa = 0, sfb = 0;     // columns
  uint32_t scale_d = 0;          // D * 2^-scale_d
  std::array<uint32_t, 8> off{}; // disable-output-lane, 128 bits a CTA
  bool masked = false;

  // Rows of D and of A in one CTA, rows of B in one CTA, columns that D takes.
  uint32_t rows() const { return static_cast<uint32_t>(id.m) / set.count; }
  uint32_t b_rows() const { return static_cast<uint32_t>(id.n) / set.count; }
  // M = 128 of a pair: 64 rows a CTA, N in two halves one below the other (layout B).
  bool halves() const { return set.count == 2 && id.m == 128; }
  uint32_t d_columns() const { return static_cast<uint32_t>(halves() ? id.n / 2 : id.n); }
  uint32_t scale_columns_a() const { return (rows() + 31) / 32; }
  uint32_t scale_columns_b() const { return (d_columns() + 31) / 32; }

  bool perform(exec::Cluster& cluster) override;
  std::string describe() const override;

  // Reserves everything it will touch; faults when something cannot be.
  void reserve(exec::Cluster& cluster);

private:
  // Where element (row, column) of D lies, relative to (d.lane, d.column).
  TensorPlace place(uint32_t row, uint32_t column) const {
    if (halves()) return {row + 64 * (column >= d_columns()), column % d_columns()};
    if (rows() == 64) return {row % 16 + row / 16 * 32, column};
    return {row, column};
  }
  void gather(exec::Cluster& cluster, uint32_t rank, const tensor::OperandDesc& desc,
              OperandSpan span, bool mn_major, uint32_t rows, uint8_t* out);
  void gather_tensor(exec::Cluster& cluster, uint32_t rank, uint8_t* out);
  void read_scales(exec::Cluster& cluster, uint32_t rank);
  void multiply(exec::Cluster& cluster, uint32_t rank);
  bool writes_lane(uint32_t in_set, uint32_t lane) const {
    return !(off[in_set * 4 + lane / 32] >> lane % 32 & 1);
  }
  std::string name() const;

  std::vector<uint8_t> a_rows_, b_rows_; // dense, 32 bytes a row
  std::vector<float> scale_a_, scale_b_; // [row][K / block]
};

} // namespace vgpu::ops
