// One tcgen05.mma in flight: what it was issued with, and its effect. PTX ISA 9.7.16.10.
#pragma once

#include "tools/vgpu/ops/tcgen05.hpp"
#include "tools/vgpu/tensor/instr_desc.hpp"
#include "tools/vgpu/tensor/mma.hpp"
#include "tools/vgpu/tensor/sparse.hpp"
#include "tools/vgpu/tensor/zero_columns.hpp"

#include <array>
#include <vector>

namespace vgpu::ops {

class TensorMma : public TensorCoreOp {
public:
  TensorMma() : TensorCoreOp(check::OpKind::Mma) {}
  tensor::InstrDesc id;
  CtaSet set;
  tensor::OperandDesc a, b;
  OperandSpan a_span, b_span;
  bool a_in_tensor = false;
  uint32_t a_column = 0;
  bool shifts_a = false; // .ashift
  TensorPlace d;
  bool accumulate = false;
  bool weights = false;             // .ws
  tensor::ZeroColumns zero_columns; // of .ws
  bool sparse = false;
  uint32_t codes = 0;            // column of the metadata of a sparse A
  uint32_t scales = 0;           // of a row for this K, 0: no scales
  uint32_t sfa = 0, sfb = 0;     // columns
  uint32_t scale_d = 0;          // D * 2^-scale_d
  std::array<uint32_t, 8> off{}; // disable-output-lane, 128 bits a CTA
  bool masked = false;

  // Rows of D and of A in one CTA, rows of B in one CTA, columns that D takes.
  uint32_t rows() const { return static_cast<uint32_t>(id.m) / set.count; }
  uint32_t b_rows() const { return static_cast<uint32_t>(id.n) / set.count + zero_columns.shift; }
  // M = 128 of a pair: 64 rows a CTA, N in two halves one below the other (layout B).
  bool halves() const { return set.count == 2 && id.m == 128; }
  // Parts of N that lie one below the other: halves, or 128 / M of .ws (layouts E and G).
  uint32_t banks() const { return halves() ? 2 : weights ? 128 / rows() : 1; }
  uint32_t d_columns() const { return static_cast<uint32_t>(id.n) / banks(); }
  // Values of K that a row of A holds, bytes of a row of B.
  uint32_t a_k() const { return static_cast<uint32_t>(sparse ? id.k / 2 : id.k); }
  uint32_t b_row_bytes() const { return sparse ? 64 : 32; }
  uint32_t code_columns() const {
    return id.kind == tensor::MmaKind::f16 || id.kind == tensor::MmaKind::tf32 ? 1 : 2;
  }
  uint32_t scale_columns_a() const { return (rows() + 31) / 32; }
  uint32_t scale_columns_b() const { return (d_columns() + 31) / 32; }

  bool perform(exec::Cluster& cluster) override;
  std::string describe() const override;

  // Reserves everything it will touch; faults when something cannot be.
  void reserve(exec::Cluster& cluster);

private:
  // The lane of a row of D in a bank. What is multiplied there comes from the same lane: a row of A
  // in tensor memory, and the metadata of a sparse one.
  uint32_t lane(uint32_t row, uint32_t bank) const {
    if (banks() == 1 && rows() == 64) row = row % 16 + row / 16 * 32;
    return d.lane + row + rows() * bank;
  }
  void gather(exec::Cluster& cluster, uint32_t rank, const tensor::OperandDesc& desc,
              OperandSpan span, bool mn_major, uint32_t rows, uint8_t* out);
  void gather_b(exec::Cluster& cluster);
  void gather_tensor(exec::Cluster& cluster, uint32_t rank, uint32_t bank);
  void read_codes(exec::Cluster& cluster, uint32_t rank, uint32_t bank);
  void read_scales(exec::Cluster& cluster, uint32_t rank);
  void multiply(exec::Cluster& cluster, uint32_t rank, uint32_t bank);
  void compute(uint32_t bank, uint32_t* words, ptrdiff_t ld);
  bool writes_lane(uint32_t in_set, uint32_t lane) const {
    return !(off[in_set * 4 + lane / 32] >> lane % 32 & 1);
  }
  std::string name() const;

  std::vector<uint8_t> a_rows_, b_rows_; // as stored: 32 bytes a row, 64 of a sparse one's B
  std::vector<uint8_t> kept_;            // sparse: the K of each stored value of A
  std::vector<float> scale_a_, scale_b_; // [row][scales]
};

} // namespace vgpu::ops
