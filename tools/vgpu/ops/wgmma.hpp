// The matrix unit of a warpgroup: wgmma operations in flight. PTX ISA 9.7.15.
//
// The four warps execute every wgmma instruction; an operation starts when the last of them has
// issued it, and operations of a warpgroup complete in order.
#pragma once

#include "tools/vgpu/ops/tcgen05.hpp"
#include "tools/vgpu/tensor/mma.hpp"
#include "tools/vgpu/tensor/mma_operand.hpp"
#include "tools/vgpu/tensor/sparse.hpp"

#include <array>
#include <deque>
#include <vector>

namespace vgpu::ops {

struct WgmmaData {
  tensor::PlainMma shape; // types, m, n, k, negations
  bool integer = false, saturate = false;
  bool a_in_registers = false, a_mn_major = false, b_mn_major = false;
  std::vector<uint32_t> d, a; // registers; a is empty with a descriptor
  uint32_t a_desc = exec::kNoSlot, b_desc = exec::kNoSlot;
  uint32_t scale_d = exec::kNoSlot; // predicate: D is added
  bool scale_d_negated = false;
  bool sparse = false;
  uint32_t codes = exec::kNoSlot; // register of the metadata
  uint32_t selector = 0;
  // Values of K that a row of A holds, bytes of a row of B.
  uint32_t a_k() const { return static_cast<uint32_t>(sparse ? shape.k / 2 : shape.k); }
  uint32_t b_row_bytes() const { return sparse ? 64 : 32; }
};

class WarpgroupMma;

struct WarpgroupUnit {
  exec::Pipe pipe;
  std::array<exec::Warp*, 4> warps{};
  std::deque<std::unique_ptr<WarpgroupMma>> joining; // not all four warps have issued them
  uint64_t joined = 0;                               // operations that went to the pipe
  struct PerWarp {
    uint64_t issued = 0; // operations this warp has issued
    bool fenced = false;
    std::deque<std::vector<const exec::Inst*>> groups; // committed, not waited for; oldest first
    std::deque<uint64_t> group_end;                    // operations issued when each was committed
    std::vector<const exec::Inst*> open;
    std::vector<uint16_t> accumulators; // by slot / 8: unwaited operations that write it
    exec::WaitList waiters;
  };
  std::array<PerWarp, 4> per_warp;
  uint64_t completed = 0; // operations, in order
};

// One wgmma.mma_async of a warpgroup.
class WarpgroupMma : public exec::AsyncOp {
public:
  WarpgroupUnit* unit = nullptr;
  const WgmmaData* data = nullptr;
  const exec::Inst* inst = nullptr;
  uint32_t arrived = 0; // bit per warp
  bool accumulate = false;
  uint64_t a_bits = 0, b_bits = 0;
  tensor::OperandDesc a, b;
  OperandSpan a_span, b_span;
  uint32_t cta = 0;
  std::array<std::array<uint32_t, 32>, 4> codes{}; // metadata, by warp and lane

  bool perform(exec::Cluster& cluster) override;
  std::string describe() const override;
  void reserve(exec::Cluster& cluster); // ranges, with all checks

private:
  void gather(exec::Cluster& cluster, bool is_a, std::vector<uint8_t>& out);
  void gather_registers(std::vector<uint8_t>& out);
  void read_codes(exec::Cluster& cluster, const std::vector<uint8_t>& a_rows,
                  std::vector<uint8_t>& kept) const;
};

} // namespace vgpu::ops
