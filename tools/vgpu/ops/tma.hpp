// What loads, stores, reductions and prefetches of tensors share: operands, the tensor map, and the
// walk over global memory with one check for each contiguous run.
#pragma once

#include "tools/vgpu/ops/async_operand.hpp"
#include "tools/vgpu/tensor/tma.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace vgpu::ops {

struct TmaOperands {
  MemOperand map;
  int dims = 1; // .1d .. .5d
  tensor::TmaMode mode = tensor::TmaMode::tile;
  uint32_t coordinate[5] = {};
  int coordinates = 0;
  uint32_t offset[3] = {}; // im2col
  int offsets = 0;
};

// Reads `[map, {c0, ...}]` for the mode and dimensions of the opcode.
TmaOperands tma_operands(DecodeContext& ctx, const Statement& s, const Match& m, OperandReader& r);
// With im2col the vector of its 16-bit offsets, as many as the mode has; otherwise nothing.
void tma_offsets(DecodeContext& ctx, const Statement& s, TmaOperands& t, OperandReader& r);

// A tensor access of one thread with the map it reads. Its shared address is an offset in the
// window of the owner: swizzles look at bits below the CTA rank only.
struct TmaBox {
  tensor::TensorMap map;
  tensor::TmaAccess access;
};

// Reads and checks the map and the coordinates of a lane; faults on what the ISA forbids.
std::shared_ptr<TmaBox> tma_box(exec::Warp& w, const exec::Inst& inst, const TmaOperands& t,
                                uint32_t lane, uint32_t shared, bool store, bool reduce);

// Calls fn(segment, pointer to its global bytes); consecutive segments that are contiguous in
// global memory are checked with one access.
template <class Fn>
void for_each_checked_segment(exec::Cluster& cluster, const tensor::TmaAccess& access,
                              const exec::AsyncOp& op, bool write, bool atomic, Fn&& fn) {
  const std::vector<tensor::Segment> segments = tensor::segments(access);
  for (size_t i = 0; i < segments.size();) {
    if (segments[i].kind != tensor::SegmentKind::data) {
      fn(segments[i], static_cast<uint8_t*>(nullptr));
      ++i;
      continue;
    }
    size_t j = i;
    uint64_t end = segments[i].global;
    while (j < segments.size() && segments[j].kind == tensor::SegmentKind::data &&
           segments[j].global == end)
      end += segments[j++].bytes;
    exec::Access a{exec::Space::Global,
                   exec::Proxy::Async,
                   write,
                   atomic,
                   0,
                   segments[i].global,
                   static_cast<uint32_t>(end - segments[i].global),
                   1,
                   &op};
    uint8_t* p = cluster.touch(a, op.origin);
    for (; i < j; ++i) {
      fn(segments[i], p);
      p += segments[i].bytes;
    }
  }
}

// Ranges in the shared window of `cta` that a box takes: one, unless swizzling scatters a box whose
// rows are narrower than the pattern.
std::vector<exec::Range> tma_shared_ranges(const tensor::TmaAccess& access, uint32_t cta,
                                           bool write);

std::string tma_text(const TmaBox& box);

} // namespace vgpu::ops
