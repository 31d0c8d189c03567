// The effect of a tcgen05.mma: operands out of shared and tensor memory, the product into tensor
// memory. Layouts of D: PTX ISA 9.7.16.10.5; of scales: 9.7.16.10.7.
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/ops/tcgen05_mma.hpp"

namespace vgpu::ops {

using tensor::MmaResult;
using tensor::MmaType;
using tensor::Packing;

namespace {

constexpr uint32_t kRowBytes = 32; // of A
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
    tensor::gather_k_major(desc, count, &desc == &a ? kRowBytes : b_row_bytes(), load, out);
  else
    tensor::gather_mn_major(desc, count, &desc == &a ? a_k() : static_cast<uint32_t>(id.k),
                            static_cast<int>(element_bytes(&desc == &a ? id.a : id.b)), load, out);
}

// B of all CTAs, with the shift and the zero columns of .ws.
void TensorMma::gather_b(Cluster& cluster) {
  const size_t row = b_row_bytes();
  b_rows_.resize(size_t(set.count) * b_rows() * row);
  for (uint32_t i = 0; i < set.count; ++i)
    gather(cluster, set.first + i, b, b_span, id.b_mn_major, b_rows(),
           b_rows_.data() + size_t(i) * b_rows() * row);
  b_rows_.erase(b_rows_.begin(), b_rows_.begin() + ptrdiff_t(zero_columns.shift * row));
  for (uint32_t c = 0; c < static_cast<uint32_t>(id.n); ++c)
    if (zero_columns.zero(c)) std::memset(b_rows_.data() + c * row, 0, row);
}

// Row r of A in tensor memory: 8 columns of the lane that D's row takes.
void TensorMma::gather_tensor(Cluster& cluster, uint32_t rank, uint32_t bank) {
  cluster.touch_tensor(rank, 0, kLanes, a_column, kRowBytes / 4, false, this, origin);
  TensorMemory& memory = cluster.ctas[rank]->tensor;
  for (uint32_t r = 0; r < rows(); ++r)
    std::memcpy(a_rows_.data() + size_t(r) * kRowBytes, memory.row(lane(r, bank)) + a_column,
                kRowBytes);
}

void TensorMma::read_codes(Cluster& cluster, uint32_t rank, uint32_t bank) {
  const tensor::Sparsity form = tensor::sparsity_of(id.kind);
  const uint32_t chunks = static_cast<uint32_t>(id.k / tensor::chunk_k(form));
  cluster.touch_tensor(rank, 0, kLanes, codes + static_cast<uint32_t>(id.selector), code_columns(),
                       false, this, origin);
  TensorMemory& memory = cluster.ctas[rank]->tensor;
  kept_.resize(size_t(rows()) * a_k());
  uint8_t* out = kept_.data();
  for (uint32_t r = 0; r < rows(); ++r)
    for (uint32_t j = 0; j < chunks; ++j, out += a_k() / chunks) {
      tensor::CodePlace p =
          tensor::code_place(id.kind, lane(r, bank), j, static_cast<uint32_t>(id.selector));
      uint32_t code = memory.row(p.lane)[codes + p.column] >> 4 * p.nibble & 15;
      const uint32_t each = kRowBytes / chunks;
      if (!(tensor::meaningful_codes(form, tensor::CodeSet::tcgen05) >> code & 1) &&
          !tensor::all_zero(a_rows_.data() + size_t(r) * kRowBytes + j * each, each))
        cluster.violation(origin, check::Rule::metadata, FaultCode::launch_failed, [&] {
          return "metadata of row " + std::to_string(r) + ", chunk " + std::to_string(j) + " is " +
                 hex(code) + " (lane " + std::to_string(p.lane) + ", column " +
                 std::to_string(codes + p.column) + ", bits " + std::to_string(4 * p.nibble) +
                 " on), which has no meaning";
        });
      tensor::kept_positions(form, code, static_cast<int>(j), out);
    }
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
  uint32_t per_row = scales;
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

// D of one bank, rows() x d_columns() words with `ld` from row to row.
void TensorMma::compute(uint32_t bank, uint32_t* words, ptrdiff_t ld) {
  float* out = reinterpret_cast<float*>(words);
  const int m = static_cast<int>(rows()), n = static_cast<int>(d_columns());
  const uint8_t* b_bank = b_rows_.data() + size_t(bank) * d_columns() * b_row_bytes();
  const float* b_scales = scale_b_.data() + size_t(bank) * d_columns() * scales;
  if (id.kind == tensor::MmaKind::mxf4 || id.kind == tensor::MmaKind::mxf4nvf4) {
    // e2m1 has neither Inf nor NaN: zeros in a sparse row change nothing.
    std::vector<uint8_t> dense;
    if (sparse) {
      dense.resize(size_t(rows()) * b_row_bytes());
      for (size_t i = 0; i < kept_.size(); ++i) {
        const uint32_t value = a_rows_[i / 2] >> 4 * (i % 2) & 15;
        dense[i / a_k() * b_row_bytes() + kept_[i] / 2] |=
            static_cast<uint8_t>(value << 4 * (kept_[i] % 2));
      }
    }
    const ptrdiff_t row = b_row_bytes();
    tensor::ScaledOperand x{sparse ? dense.data() : a_rows_.data(), row, scale_a_.data(), scales,
                            id.negate_a};
    tensor::ScaledOperand y{b_bank, row, b_scales, scales, id.negate_b};
    tensor::mma_block_scaled(x, y, m, n, id.k, id.k / static_cast<int>(scales), out, ld,
                             accumulate);
    return;
  }
  tensor::PlainMma op;
  op.m = m;
  op.n = n;
  op.k = id.k;
  op.a = id.a;
  op.b = id.b;
  op.d = id.d;
  op.negate_a = id.negate_a;
  op.negate_b = id.negate_b;
  op.accumulate = accumulate;
  op.scale_d = static_cast<int>(scale_d);
  if (sparse) op.kept = kept_.data();
  if (narrow(id.a)) op.a_packing = a_in_tensor ? Packing::holders : Packing::padded16;
  if (narrow(id.b)) op.b_packing = Packing::padded16;
  if (scales != 0)
    tensor::mma_mxf8(op, a_rows_.data(), b_bank, scale_a_.data(), b_scales, out, ld);
  else if (id.kind == tensor::MmaKind::i8)
    tensor::mma_integer(op, id.saturate, a_rows_.data(), b_bank, reinterpret_cast<int32_t*>(words),
                        ld);
  else
    tensor::mma_plain(op, a_rows_.data(), b_bank, out, ld);
}

void TensorMma::multiply(Cluster& cluster, uint32_t rank, uint32_t bank) {
  TensorMemory& memory = cluster.ctas[rank]->tensor;
  const uint32_t m = rows(), n = d_columns(), in_set = rank - set.first;
  // D in place, when its rows are lanes and all of them are written.
  if (m == 128 && !masked && id.d != MmaResult::f16)
    return compute(bank, memory.row(0) + d.column, TensorMemory::kColumns);
  std::vector<uint32_t> tile(size_t(m) * n);
  auto row_of_d = [&](uint32_t r) { return memory.row(lane(r, bank)) + d.column; };
  if (accumulate)
    for (uint32_t r = 0; r < m; ++r)
      for (uint32_t c = 0; c < n; ++c) {
        uint32_t v = row_of_d(r)[c];
        if (id.d == MmaResult::f16)
          v = std::bit_cast<uint32_t>(num::f16_to_f32(static_cast<uint16_t>(v)));
        tile[size_t(r) * n + c] = v;
      }
  compute(bank, tile.data(), n);
  for (uint32_t r = 0; r < m; ++r) {
    if (!writes_lane(in_set, lane(r, bank))) continue;
    for (uint32_t c = 0; c < n; ++c) {
      uint32_t v = tile[size_t(r) * n + c];
      if (id.d == MmaResult::f16) v = num::f32_to_f16(std::bit_cast<float>(v));
      row_of_d(r)[c] = v;
    }
  }
}

bool TensorMma::perform(Cluster& cluster) {
  gather_b(cluster);
  a_rows_.resize(size_t(rows()) * kRowBytes);
  for (uint32_t i = 0; i < set.count; ++i) {
    uint32_t rank = set.first + i;
    if (!a_in_tensor) gather(cluster, rank, a, a_span, id.a_mn_major, rows(), a_rows_.data());
    if (scales != 0) read_scales(cluster, rank);
    cluster.touch_tensor(rank, 0, kLanes, d.column, d_columns(), true, this, origin);
    for (uint32_t bank = 0; bank < banks(); ++bank) {
      if (a_in_tensor) gather_tensor(cluster, rank, bank);
      if (sparse) read_codes(cluster, rank, bank);
      multiply(cluster, rank, bank);
    }
    // Chosen: .ashift moves the rows in tensor memory once this product has read them. The ISA says
    // that they are shifted, and forbids to keep or to reuse them in the collector meanwhile.
    if (shifts_a)
      for (uint32_t at = 0; at < kLanes; at += 32)
        shift_rows(cluster.ctas[rank]->tensor, at, a_column);
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
      columns(rank, a_column, kRowBytes / 4, shifts_a);
    else
      shared(rank, a_span);
    shared(rank, b_span);
    if (sparse) columns(rank, codes + static_cast<uint32_t>(id.selector), code_columns(), false);
    if (scales != 0) {
      columns(rank, sfa, scale_columns_a(), false);
      columns(rank, sfb, scale_columns_b(), false);
    }
    columns(rank, d.column, d_columns(), true);
  }
}

std::string TensorMma::name() const {
  return std::string("tcgen05.mma") + (weights ? ".ws" : "") + (sparse ? ".sp" : "") +
         " kind::" + tensor::kind_name(id.kind) + " " + std::to_string(id.m) + "x" +
         std::to_string(id.n) + "x" + std::to_string(id.k);
}

std::string TensorMma::describe() const {
  std::string s = name() + (accumulate ? ", D += A B" : ", D = A B");
  s += ", D in columns " + std::to_string(d.column) + ".." +
       std::to_string(d.column + d_columns() - 1);
  if (!a_in_tensor) s += ", A in shared " + hex(a_span.lo) + ".." + hex(a_span.hi - 1);
  s += ", B in shared " + hex(b_span.lo) + ".." + hex(b_span.hi - 1);
  if (sparse) s += ", metadata from column " + std::to_string(codes);
  if (scales != 0)
    s += ", scales in columns " + std::to_string(sfa) + " and " + std::to_string(sfb);
  return s;
}

} // namespace vgpu::ops
