// The effect of a tcgen05.mma: operands out of shared and tensor memory, the product into tensor
// memory. Layouts of D: PTX ISA 9.7.16.10.5; of scales: 9.7.16.10.7.
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/ops/tcgen05_mma.hpp"

namespace vgpu::ops {

using exec::Access;
using exec::Cluster;
using exec::FaultCode;
using exec::Proxy;
using exec::Range;
using exec::Space;
using exec::TensorMemory;
using tensor::MmaResult;
using tensor::MmaType;
using tensor::Packing;

namespace {

constexpr uint32_t kRowBytes = 32; // of K in one instruction
constexpr uint32_t kLanes = TensorMemory::kLanes;

bool narrow(MmaType t) { return t == MmaType::e2m1 || t == MmaType::e2m3 || t == MmaType::e3m2; }

uint32_t element_bytes(MmaType t) {
  int bits = tensor::type_bits(t);
  return bits <= 8 ? 1 : static_cast<uint32_t>(bits) / 8;
}

} // namespace

void TensorMma::gather(Cluster& cluster, uint32_t rank, const tensor::OperandDesc& desc,
                       OperandSpan span, bool mn_major, uint32_t count, uint8_t* out) {
  const uint8_t* base = cluster.touch(Access{Space::Shared, Proxy::Async, false, false, rank,
                                             span.lo, span.hi - span.lo, 16, this},
                                      origin) -
                        span.lo;
  auto load = [base](uint32_t address) { return base + address; };
  if (!mn_major)
    tensor::gather_k_major(desc, count, kRowBytes, load, out);
  else
    tensor::gather_mn_major(desc, count, static_cast<uint32_t>(id.k),
                            static_cast<int>(element_bytes(&desc == &a ? id.a : id.b)), load, out);
}

// Row r of A in tensor memory: the 8 columns of lane r.
void TensorMma::gather_tensor(Cluster& cluster, uint32_t rank, uint8_t* out) {
  cluster.touch_tensor(rank, 0, kLanes, a_column, kRowBytes / 4, false, this, origin);
  TensorMemory& memory = cluster.ctas[rank]->tensor;
  for (uint32_t r = 0; r < rows(); ++r)
    std::memcpy(out + size_t(r) * kRowBytes, memory.row(r) + a_column, kRowBytes);
}

// Scale word i of an operand in subpartition q: lane 32q + i mod 32, column base + i div 32. Every
// subpartition of D reads its own copy; rows of A that lie in one subpartition need no other.
void TensorMma::read_scales(Cluster& cluster, uint32_t rank) {
  TensorMemory& memory = cluster.ctas[rank]->tensor;
  cluster.touch_tensor(rank, 0, kLanes, sfa, scale_columns_a(), false, this, origin);
  cluster.touch_tensor(rank, 0, kLanes, sfb, scale_columns_b(), false, this, origin);
  const float* table = id.scale == tensor::ScaleType::ue8m0
                           ? static_cast<const float*>(num::ue8m0_table)
                           : static_cast<const float*>(num::ue4m3_table);
  uint32_t per_row = static_cast<uint32_t>(id.k) / block;
  uint32_t used = per_row == 4 ? ~0u : (1u << 8 * per_row) - 1;
  auto word = [&](uint32_t q, uint32_t i, uint32_t column) {
    return memory.row(32 * q + i % 32)[column + i / 32];
  };
  auto put = [&](std::vector<float>& out, size_t row, uint32_t w, int first) {
    for (uint32_t j = 0; j < per_row; ++j)
      out[row * per_row + j] = table[w >> 8 * (static_cast<uint32_t>(first) + j) & 0xFF];
  };
  auto agree = [&](char operand, uint32_t i, uint32_t q0, uint32_t q1, uint32_t column, int first) {
    uint32_t x = word(q0, i, column), y = word(q1, i, column);
    if (((x ^ y) >> 8 * first & used) == 0) return;
    cluster.fault(origin, FaultCode::launch_failed, "scales",
                  std::string("scale factors of ") + operand + ", row " + std::to_string(i) +
                      ": subpartition " + std::to_string(q0) + " holds " + hex(x) +
                      " and subpartition " + std::to_string(q1) + " holds " + hex(y) +
                      " in column " + std::to_string(column + i / 32) +
                      "; they must be duplicated to all lane partitions that read them");
  };
  scale_a_.resize(size_t(rows()) * per_row);
  scale_b_.resize(size_t(id.n) * per_row);
  for (uint32_t r = 0; r < rows(); ++r) {
    put(scale_a_, r, word(r / 32, r, sfa), id.sfa_id);
    if (halves()) agree('A', r, r / 32, 2 + r / 32, sfa, id.sfa_id);
  }
  uint32_t columns = d_columns();
  for (uint32_t n = 0; n < static_cast<uint32_t>(id.n); ++n) {
    uint32_t i = n % columns, first = halves() ? 2 * (n / columns) : 0;
    put(scale_b_, n, word(first, i, sfb), id.sfb_id);
    for (uint32_t q = first + 1; q < (halves() ? first + 2 : 4); ++q)
      agree('B', i, first, q, sfb, id.sfb_id);
  }
}

void TensorMma::multiply(Cluster& cluster, uint32_t rank) {
  TensorMemory& memory = cluster.ctas[rank]->tensor;
  uint32_t m = rows(), n = static_cast<uint32_t>(id.n), in_set = rank - set.first;
  // D in place, when its rows are lanes and all of them are written.
  bool in_place = m == 128 && !masked && id.d != MmaResult::f16;
  std::vector<uint32_t> tile;
  uint32_t* words = memory.row(0) + d.column;
  ptrdiff_t ld = TensorMemory::kColumns;
  if (!in_place) {
    tile.resize(size_t(m) * n);
    words = tile.data();
    ld = n;
    if (accumulate)
      for (uint32_t r = 0; r < m; ++r)
        for (uint32_t c = 0; c < n; ++c) {
          TensorPlace p = place(r, c);
          uint32_t v = memory.row(d.lane + p.lane)[d.column + p.column];
          if (id.d == MmaResult::f16)
            v = std::bit_cast<uint32_t>(num::f16_to_f32(static_cast<uint16_t>(v)));
          tile[size_t(r) * n + c] = v;
        }
  }
  float* out = reinterpret_cast<float*>(words);
  if (block == 16 || (block == 32 && id.k == 64)) {
    tensor::ScaledOperand x, y;
    ptrdiff_t per_row = id.k / static_cast<int>(block);
    x = {a_rows_.data(), kRowBytes, scale_a_.data(), per_row, id.negate_a};
    y = {b_rows_.data(), kRowBytes, scale_b_.data(), per_row, id.negate_b};
    tensor::mma_block_scaled(x, y, static_cast<int>(m), id.n, id.k, static_cast<int>(block), out,
                             ld, accumulate);
  } else {
    tensor::PlainMma op;
    op.m = static_cast<int>(m);
    op.n = id.n;
    op.k = id.k;
    op.a = id.a;
    op.b = id.b;
    op.d = id.d;
    op.negate_a = id.negate_a;
    op.negate_b = id.negate_b;
    op.accumulate = accumulate;
    op.scale_d = static_cast<int>(scale_d);
    if (narrow(id.a)) op.a_packing = a_in_tensor ? Packing::holders : Packing::padded16;
    if (narrow(id.b)) op.b_packing = Packing::padded16;
    if (block != 0)
      tensor::mma_mxf8(op, a_rows_.data(), b_rows_.data(), scale_a_.data(), scale_b_.data(), out,
                       ld);
    else if (id.kind == tensor::MmaKind::i8)
      tensor::mma_integer(op, id.saturate, a_rows_.data(), b_rows_.data(),
                          reinterpret_cast<int32_t*>(words), ld);
    else
      tensor::mma_plain(op, a_rows_.data(), b_rows_.data(), out, ld);
  }
  if (in_place) return;
  for (uint32_t r = 0; r < m; ++r)
    for (uint32_t c = 0; c < n; ++c) {
      TensorPlace p = place(r, c);
      if (!writes_lane(in_set, d.lane + p.lane)) continue;
      uint32_t v = tile[size_t(r) * n + c];
      if (id.d == MmaResult::f16) v = num::f32_to_f16(std::bit_cast<float>(v));
      memory.row(d.lane + p.lane)[d.column + p.column] = v;
    }
}

bool TensorMma::perform(Cluster& cluster) {
  b_rows_.resize(size_t(id.n) * kRowBytes);
  for (uint32_t i = 0; i < set.count; ++i)
    gather(cluster, set.first + i, b, b_span, id.b_mn_major, b_rows(),
           b_rows_.data() + size_t(i) * b_rows() * kRowBytes);
  a_rows_.resize(size_t(rows()) * kRowBytes);
  for (uint32_t i = 0; i < set.count; ++i) {
    uint32_t rank = set.first + i;
    if (a_in_tensor)
      gather_tensor(cluster, rank, a_rows_.data());
    else
      gather(cluster, rank, a, a_span, id.a_mn_major, rows(), a_rows_.data());
    if (block != 0) read_scales(cluster, rank);
    cluster.touch_tensor(rank, 0, kLanes, d.column, d_columns(), true, this, origin);
    multiply(cluster, rank);
  }
  ++cluster.stats.mma;
  cluster.stats.mma_flops += 2ull * static_cast<uint64_t>(id.m) * static_cast<uint64_t>(id.n) *
                             static_cast<uint64_t>(id.k);
  return true;
}

void TensorMma::reserve(Cluster& cluster) {
  auto shared = [&](uint32_t rank, OperandSpan s) {
    cluster.touch(
        Access{Space::Shared, Proxy::Async, false, false, rank, s.lo, s.hi - s.lo, 16, this},
        origin);
    ranges.push_back(Range{Space::Shared, false, rank, s.lo, s.hi, 0, 128});
  };
  auto columns = [&](uint32_t rank, uint32_t first, uint32_t count, bool write) {
    cluster.touch_tensor(rank, 0, kLanes, first, count, write, this, origin);
    ranges.push_back(Range{Space::Tensor, write, rank, first, first + count, 0, kLanes});
  };
  for (uint32_t i = 0; i < set.count; ++i) {
    uint32_t rank = set.first + i;
    if (a_in_tensor)
      columns(rank, a_column, kRowBytes / 4, false);
    else
      shared(rank, a_span);
    shared(rank, b_span);
    if (block != 0) {
      columns(rank, sfa, scale_columns_a(), false);
      columns(rank, sfb, scale_columns_b(), false);
    }
    columns(rank, d.column, d_columns(), true);
  }
}

std::string TensorMma::name() const {
  return std::string("tcgen05.mma kind::") + tensor::kind_name(id.kind) + " " +
         std::to_string(id.m) + "x" + std::to_string(id.n) + "x" + std::to_string(id.k);
}

std::string TensorMma::describe() const {
  std::string s = name() + (accumulate ? ", D += A B" : ", D = A B");
  s += ", D in columns " + std::to_string(d.column) + ".." +
       std::to_string(d.column + d_columns() - 1);
  if (!a_in_tensor) s += ", A in shared " + hex(a_span.lo) + ".." + hex(a_span.hi - 1);
  s += ", B in shared " + hex(b_span.lo) + ".." + hex(b_span.hi - 1);
  if (block != 0) s += ", scales in columns " + std::to_string(sfa) + " and " + std::to_string(sfb);
  return s;
}

} // namespace vgpu::ops
