// The effect of a wgmma.mma_async. Register fragments: PTX ISA 9.7.15.5.1.1.
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/ops/wgmma.hpp"

namespace vgpu::ops {

using tensor::MmaResult;

namespace {
constexpr uint32_t kRows = 64, kRowBytes = 32; // of A

struct Buffers { // of a thread, kept from one MMA to the next
  std::vector<uint8_t> a_rows, b_rows;
  std::vector<uint32_t> tile;
};
[[gnu::noipa]] Buffers& buffers_of_thread() {
  thread_local Buffers buffers;
  return buffers;
}
} // namespace

void WarpgroupMma::reserve(Cluster& cluster) {
  auto shared = [&](OperandSpan s) {
    cluster.touch(
        Access{Space::Shared, Proxy::Async, false, false, cta, s.lo, s.hi - s.lo, 16, this},
        origin);
    ranges.push_back(Range{Space::Shared, false, cta, s.lo, s.hi, 0, 128});
  };
  if (!data->a_in_registers) shared(a_span);
  shared(b_span);
}

void WarpgroupMma::gather(Cluster& cluster, bool is_a, std::vector<uint8_t>& out) {
  const tensor::PlainMma& shape = data->shape;
  const tensor::OperandDesc& desc = is_a ? a : b;
  const OperandSpan span = is_a ? a_span : b_span;
  const uint32_t rows = is_a ? kRows : static_cast<uint32_t>(shape.n);
  const uint32_t row_bytes = is_a ? kRowBytes : data->b_row_bytes();
  out.resize(size_t(rows) * row_bytes);
  const uint8_t* base = cluster.touch(Access{Space::Shared, Proxy::Async, false, false, cta,
                                             span.lo, span.hi - span.lo, 16, this},
                                      origin) -
                        span.lo;
  auto load = [base](uint32_t address) { return base + address; };
  if (is_a ? data->a_mn_major : data->b_mn_major)
    tensor::gather_mn_major(desc, rows, is_a ? data->a_k() : static_cast<uint32_t>(shape.k),
                            tensor::type_bits(is_a ? shape.a : shape.b) / 8, load, out.data());
  else
    tensor::gather_k_major(desc, rows, row_bytes, load, out.data());
}

void WarpgroupMma::read_codes(Cluster& cluster, const std::vector<uint8_t>& a_rows,
                              std::vector<uint8_t>& kept) const {
  const int bits = tensor::type_bits(data->shape.a);
  const tensor::Sparsity form = tensor::sparsity_of_bits(bits);
  const uint32_t chunks = static_cast<uint32_t>(data->shape.k / tensor::chunk_k(form));
  kept.resize(size_t(kRows) * data->a_k());
  uint8_t* out = kept.data();
  for (uint32_t r = 0; r < kRows; ++r)
    for (uint32_t j = 0; j < chunks; ++j, out += data->a_k() / chunks) {
      const tensor::CodeLane p = tensor::code_lane(bits, r % 16, j, chunks, data->selector);
      const uint32_t code = codes[r / 16][p.lane] >> 4 * p.nibble & 15;
      const uint32_t each = kRowBytes / chunks;
      if (!(tensor::meaningful_codes(form, tensor::CodeSet::any_pair) >> code & 1) &&
          !tensor::all_zero(a_rows.data() + size_t(r) * kRowBytes + j * each, each))
        cluster.violation(origin, check::Rule::metadata, exec::FaultCode::launch_failed, [&] {
          return "metadata of row " + std::to_string(r) + ", chunk " + std::to_string(j) + " is " +
                 hex(code) + " (warp " + std::to_string(r / 16) + " of the warpgroup, lane " +
                 std::to_string(p.lane) + ", bits " + std::to_string(4 * p.nibble) +
                 " on), which has no meaning";
        });
      tensor::kept_positions(form, code, static_cast<int>(j), out);
    }
}

// Register i of lane l in warp w: 4 bytes of row 16 w + l div 4 + 8 (i mod 2), at byte
// 4 (l mod 4) + 16 (i div 2) of K.
void WarpgroupMma::gather_registers(std::vector<uint8_t>& out) {
  out.resize(size_t(kRows) * kRowBytes);
  for (uint32_t w = 0; w < 4; ++w)
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t* lanes = unit->warps[w]->lanes<uint32_t>(data->a[i]);
      for (uint32_t l = 0; l < 32; ++l)
        std::memcpy(out.data() + (16 * w + l / 4 + 8 * (i % 2)) * kRowBytes + 4 * (l % 4) +
                        16 * (i / 2),
                    &lanes[l], 4);
    }
}

bool WarpgroupMma::perform(Cluster& cluster) {
  const tensor::PlainMma& shape = data->shape;
  uint32_t n = static_cast<uint32_t>(shape.n);
  Buffers& buffers = buffers_of_thread();
  std::vector<uint8_t>& a_rows = buffers.a_rows;
  std::vector<uint8_t>& b_rows = buffers.b_rows;
  std::vector<uint32_t>& tile = buffers.tile;
  if (data->a_in_registers)
    gather_registers(a_rows);
  else
    gather(cluster, true, a_rows);
  gather(cluster, false, b_rows);

  // Element e of lane l in warp w: row 16 w + l div 4 + 8 ((e div 2) mod 2), column
  // 8 (e div 4) + 2 (l mod 4) + e mod 2. A register holds one, or two of 16 bits.
  bool halves = shape.d == MmaResult::f16;
  tile.resize(size_t(kRows) * n);
  auto each = [&](auto&& fn) {
    for (uint32_t w = 0; w < 4; ++w)
      for (uint32_t r = 0; r < data->d.size(); ++r) {
        uint32_t* lanes = unit->warps[w]->lanes<uint32_t>(data->d[r]);
        uint32_t e = halves ? 2 * r : r;
        uint32_t* row = tile.data() + (16 * w + 8 * (e / 2 % 2)) * size_t(n) + 8 * (e / 4) + e % 2;
        for (uint32_t l = 0; l < 32; ++l) fn(lanes[l], row + l / 4 * size_t(n) + 2 * (l % 4));
      }
  };
  auto widen = [](uint32_t v) {
    return std::bit_cast<uint32_t>(num::f16_to_f32(static_cast<uint16_t>(v)));
  };
  auto narrow = [](uint32_t v) { return uint32_t(num::f32_to_f16(std::bit_cast<float>(v))); };
  if (accumulate) {
    if (halves)
      each([&](uint32_t& reg, uint32_t* p) {
        p[0] = widen(reg & 0xFFFF);
        p[1] = widen(reg >> 16);
      });
    else
      each([](uint32_t& reg, uint32_t* p) { *p = reg; });
  }
  tensor::PlainMma op = shape;
  op.accumulate = accumulate;
  std::vector<uint8_t> kept;
  if (data->sparse) {
    read_codes(cluster, a_rows, kept);
    op.kept = kept.data();
  }
  if (cluster.spec.hopper_sums) tensor::hopper_accumulation(op);
  if (data->integer)
    tensor::mma_integer(op, data->saturate, a_rows.data(), b_rows.data(),
                        reinterpret_cast<int32_t*>(tile.data()), n);
  else
    tensor::mma_plain(op, a_rows.data(), b_rows.data(), reinterpret_cast<float*>(tile.data()), n);
  if (halves)
    each([&](uint32_t& reg, uint32_t* p) { reg = narrow(p[0]) | narrow(p[1]) << 16; });
  else
    each([](uint32_t& reg, uint32_t* p) { reg = *p; });

  ++cluster.stats.mma;
  cluster.stats.mma_flops += 2ull * kRows * n * static_cast<uint64_t>(shape.k);
  ++unit->completed;
  for (auto& w : unit->per_warp) cluster.wake(w.waiters);
  return true;
}

std::string WarpgroupMma::describe() const {
  std::string s = "wgmma.mma_async m64n" + std::to_string(data->shape.n) + "k" +
                  std::to_string(data->shape.k) + " of warps " +
                  std::to_string(unit->warps[0]->index) + ".." +
                  std::to_string(unit->warps[3]->index);
  if (!data->a_in_registers) s += ", A in shared " + hex(a_span.lo) + ".." + hex(a_span.hi - 1);
  return s + ", B in shared " + hex(b_span.lo) + ".." + hex(b_span.hi - 1);
}

} // namespace vgpu::ops
