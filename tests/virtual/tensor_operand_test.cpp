// Instruction descriptors against evaluated constants, and matrix operands: a tile that a tensor
// copy placed in shared memory is what the matrix descriptor reads back.
#include "tests/support/catch.hpp"
#include "tools/vgpu/tensor/instr_desc.hpp"
#include "tools/vgpu/tensor/mma_operand.hpp"
#include "tools/vgpu/tensor/tma.hpp"

#include <cstring>
#include <random>
#include <vector>

using namespace vgpu::tensor;

namespace {

InstrForm form(MmaKind kind, int group, int block) {
  return {group, block ? kind_k(kind) / block : 0};
}

InstrDesc decode(MmaKind kind, uint32_t desc, int group, int block) {
  InstrDesc d;
  INFO(kind_name(kind) << " 0x" << std::hex << desc);
  REQUIRE(decode_instr_desc(kind, desc, form(kind, group, block), d) == "");
  return d;
}

void refuse(MmaKind kind, uint32_t desc, int group, int block, const char* part) {
  InstrDesc d;
  std::string error = decode_instr_desc(kind, desc, form(kind, group, block), d);
  INFO("expected '" << part << "' in '" << error << "'");
  REQUIRE(error.find(part) != std::string::npos);
}

// Shared window with a matrix of rows x row_bytes copied in by tensor copies of `box_bytes` wide
// boxes of all rows.
struct Window {
  std::vector<unsigned char> bytes = std::vector<unsigned char>(1 << 18);
  std::vector<unsigned char> matrix;
  void fill(uint32_t rows, uint32_t row_bytes, uint32_t box_bytes, uint8_t mode, uint8_t atomicity,
            uint32_t at) {
    std::mt19937 random(rows * 31 + row_bytes);
    // Tensor maps take addresses of 16-byte multiples.
    matrix.resize(size_t(rows) * row_bytes + 16);
    for (unsigned char& b : matrix) b = uint8_t(random());
    uint64_t base = (reinterpret_cast<uintptr_t>(matrix.data()) + 15) / 16 * 16;
    matrix_data = reinterpret_cast<unsigned char*>(base);
    TensorMap m;
    m.rank = 2;
    m.address = base;
    m.dim[0] = row_bytes, m.dim[1] = rows;
    m.stride[0] = row_bytes;
    m.box[0] = box_bytes, m.box[1] = rows;
    m.swizzle_mode = mode;
    m.swizzle_atomicity = atomicity;
    for (uint32_t x = 0; x < row_bytes; x += box_bytes) {
      TmaAccess access;
      access.map = &m;
      access.coordinate[0] = int32_t(x);
      access.shared = at + x * rows;
      REQUIRE(check(access) == "");
      for_each_segment(access, [&](const Segment& s) {
        std::memcpy(&bytes[s.shared], reinterpret_cast<const void*>(s.global), s.bytes);
      });
    }
  }
  auto loader() {
    return [this](uint32_t address) { return &bytes[address]; };
  }
  unsigned char* matrix_data = nullptr;
};

uint64_t tcgen05_desc(uint32_t start, uint32_t lbo, uint32_t sbo, uint64_t layout) {
  return uint64_t(start >> 4) | uint64_t(lbo >> 4) << 16 | uint64_t(sbo >> 4) << 32 |
         uint64_t(1) << 46 | layout << 61;
}

} // namespace

TEST_CASE("instruction descriptors decode to their fields", "[virtual][tensor]") {
  InstrDesc d = decode(MmaKind::f16, 0x08400010, 1, 0);
  REQUIRE((d.m == 128 && d.n == 256 && d.k == 16 && d.d == MmaResult::f32));
  REQUIRE((d.a == MmaType::f16 && d.b == MmaType::f16 && !d.a_mn_major && !d.b_mn_major));
  d = decode(MmaKind::f16, 0x08410490, 1, 0);
  REQUIRE((d.a == MmaType::bf16 && d.b == MmaType::bf16 && !d.a_mn_major && d.b_mn_major));
  d = decode(MmaKind::f16, 0x10400010, 2, 0);
  REQUIRE((d.m == 256 && d.n == 256));
  d = decode(MmaKind::mxf4nvf4, 0x08200480, 1, 16);
  REQUIRE((d.m == 128 && d.n == 128 && d.k == 64 && d.scale == ScaleType::ue4m3));
  REQUIRE((d.a == MmaType::e2m1 && d.b == MmaType::e2m1 && d.sfa_id == 0 && d.sfb_id == 0));
  d = decode(MmaKind::mxf4nvf4, 0x08400480, 1, 16);
  REQUIRE(d.n == 256);
  d = decode(MmaKind::mxf4nvf4, 0x10400480, 2, 16);
  REQUIRE((d.m == 256 && d.n == 256));
  d = decode(MmaKind::mxf4, 0x08a00480 | 2u << 29 | 2u << 4, 1, 32);
  REQUIRE((d.scale == ScaleType::ue8m0 && d.sfa_id == 2 && d.sfb_id == 2));
  d = decode(MmaKind::mxf8f6f4, 0x08a00400 | 3u << 29 | 1u << 4, 1, 32);
  REQUIRE((d.a == MmaType::e4m3 && d.b == MmaType::e5m2 && d.sfa_id == 3 && d.sfb_id == 1));
  d = decode(MmaKind::i8, 2u << 4 | 1u << 7 | 1u << 3 | 6u << 17 | 4u << 24, 1, 0);
  REQUIRE((d.a == MmaType::s8 && d.b == MmaType::u8 && d.saturate && d.n == 48 && d.m == 64));
  d = decode(MmaKind::tf32, 1u << 4 | 2u << 7 | 2u << 10 | 3u << 13 | 1u << 17 | 4u << 24, 1, 0);
  REQUIRE((d.k == 8 && d.n == 8 && d.m == 64 && d.negate_a && d.negate_b));
}

TEST_CASE("instruction descriptors that are refused", "[virtual][tensor]") {
  refuse(MmaKind::mxf4nvf4, 0x08200484, 1, 16, "sparse");
  refuse(MmaKind::mxf4nvf4, 0x88200480, 1, 16, "K = 96");
  refuse(MmaKind::mxf4nvf4, 0x04200480, 1, 16, "reserved bits 24-26");
  refuse(MmaKind::mxf4nvf4, 0x10200480, 1, 16, "M = 256");
  refuse(MmaKind::mxf4nvf4, 0x08200480 | 1u << 15, 1, 16, "must be K-major");
  refuse(MmaKind::mxf4nvf4, 0x08200480 | 2u << 29, 1, 16, "scale ids 2");
  refuse(MmaKind::mxf4, 0x08a00480 | 1u << 4, 1, 32, "multiples of 2");
  refuse(MmaKind::mxf4, 0x08a00480, 1, 16, "no scale for every 16");
  refuse(MmaKind::mxf4, 0x08200480, 1, 32, "ue8m0");
  refuse(MmaKind::mxf4nvf4, 0x08200080, 1, 16, "B type 0");
  refuse(MmaKind::f16, 0x08400010 | 1u << 3, 1, 0, "saturate");
  refuse(MmaKind::f16, 0x08400010 | 2u << 4, 1, 0, "D type 3");
  refuse(MmaKind::f16, 0x08400010 | 1u << 6, 1, 0, "bit 6");
  refuse(MmaKind::f16, 0x08400010 | 1u << 30, 1, 0, ".ws");
  refuse(MmaKind::f16, 0x08400010 & ~(63u << 17), 1, 0, "N = 0");
  refuse(MmaKind::f16, 0x08000010 | 33u << 17, 1, 0, "N = 264");
  refuse(MmaKind::f16, 0x10000010 | 3u << 17, 2, 0, "N = 24");
  refuse(MmaKind::f16, 0x08400000 | 1u << 7, 1, 0, "f16 D");
  refuse(MmaKind::f8f6f4, 0x08020010 | 1u << 16, 1, 0, "N-major 8-bit B");
  refuse(MmaKind::f8f6f4, 0x08400010 | 5u << 7 | 1u << 15, 1, 0, "A has 4- or 6-bit");
  refuse(MmaKind::i8, 0x08000020 | 5u << 17, 1, 0, "N = 40");
  refuse(MmaKind::i8, 0x08400020 | 1u << 13, 1, 0, "negate");
}

TEST_CASE("matrix descriptors", "[virtual][tensor]") {
  OperandDesc d;
  REQUIRE(decode_tcgen05_desc(0x4000404000010000ull | 0x40, d) == "");
  REQUIRE((d.start == 1024 && d.leading == 16 && d.stride == 1024 && d.swizzle == Swizzle::b128));
  REQUIRE(decode_tcgen05_desc(0x0000400800010000ull, d) == "");
  REQUIRE((d.stride == 128 && d.swizzle == Swizzle::none));
  REQUIRE(decode_wgmma_desc(0x4000004000010000ull, d) == "");
  REQUIRE((d.stride == 1024 && d.swizzle == Swizzle::b128));
  auto has = [](const std::string& error, const char* part) {
    INFO(error);
    REQUIRE(error.find(part) != std::string::npos);
  };
  has(decode_tcgen05_desc(0x4000004000010000ull, d), "wgmma descriptor");
  has(decode_wgmma_desc(0x4000404000010000ull, d), "tcgen05 descriptor");
  has(decode_tcgen05_desc(0x4000404000010000ull | uint64_t(1) << 49, d), "base offset 1");
  has(decode_tcgen05_desc(0x6000404000010000ull, d), "layout type 3");
  has(decode_tcgen05_desc(0x4010404000010000ull, d), "absolute leading");
  has(decode_tcgen05_desc(0x4000404000018000ull, d), "reserved bits 14-15");
  d.swizzle = Swizzle::b128_atom32;
  has(check_operand(d, false, 32, false), "MN-major tf32");
  has(check_operand(d, true, 16, false), "MN-major tf32");
  REQUIRE(check_operand(d, true, 32, false) == "");
  d.swizzle = Swizzle::b128;
  has(check_operand(d, true, 32, false), "32B atoms");
  has(check_operand(d, true, 4, false), "K-major");
  has(check_operand(d, true, 8, true), "wgmma");
  REQUIRE(check_operand(d, true, 8, false) == "");
}

TEST_CASE("K-major operands are the tile that was copied in", "[virtual][tensor]") {
  struct Case {
    uint8_t mode;
    uint32_t span;
    uint64_t layout;
  };
  for (Case c : {Case{1, 32, 6}, Case{2, 64, 4}, Case{3, 128, 2}}) {
    for (uint32_t rows : {8u, 64u, 128u, 256u}) {
      uint32_t at = 4096;
      Window w;
      w.fill(rows, c.span, c.span, c.mode, 0, at);
      for (uint32_t step = 0; step * 32 < c.span; ++step) {
        OperandDesc d;
        uint64_t desc = tcgen05_desc(at, 16, 8 * c.span, c.layout) + 2 * step;
        REQUIRE(decode_tcgen05_desc(desc, d) == "");
        std::vector<unsigned char> got(rows * 32);
        gather_k_major(d, rows, 32, w.loader(), got.data());
        for (uint32_t r = 0; r < rows; ++r) {
          INFO("swizzle " << c.span << " row " << r << " step " << step);
          REQUIRE(std::memcmp(&got[r * 32], w.matrix_data + r * c.span + step * 32, 32) == 0);
        }
      }
    }
  }
}

TEST_CASE("K-major operands without swizzle are 8 x 16 byte core matrices", "[virtual][tensor]") {
  Window w;
  for (size_t i = 0; i < w.bytes.size(); ++i) w.bytes[i] = uint8_t(i * 7 + i / 251);
  OperandDesc d;
  REQUIRE(decode_tcgen05_desc(tcgen05_desc(2048, 4096, 128, 0), d) == "");
  std::vector<unsigned char> got(128 * 32);
  gather_k_major(d, 128, 32, w.loader(), got.data());
  for (uint32_t r = 0; r < 128; ++r)
    for (uint32_t b = 0; b < 32; ++b) {
      uint32_t core = 2048 + r / 8 * 128 + b / 16 * 4096;
      REQUIRE(got[r * 32 + b] == w.bytes[core + r % 8 * 16 + b % 16]);
    }
}

TEST_CASE("MN-major operands are the transposed tile", "[virtual][tensor]") {
  struct Case {
    uint8_t mode, atomicity;
    uint32_t span, group;
    uint64_t layout;
    int element_bytes;
  };
  for (Case c : {Case{1, 0, 32, 8, 6, 2}, Case{2, 0, 64, 8, 4, 2}, Case{3, 0, 128, 8, 2, 2},
                 Case{3, 0, 128, 8, 2, 1}, Case{3, 1, 128, 4, 1, 4}}) {
    uint32_t e = uint32_t(c.element_bytes);
    uint32_t k_rows = 64, mn = 256, at = 8192;
    Window w;
    w.fill(k_rows, mn * e, c.span, c.mode, c.atomicity, at);
    uint32_t k = 32 / e; // K of one instruction
    for (uint32_t step = 0; step < k_rows / k; ++step) {
      for (uint32_t rows : {64u, 128u, 256u}) {
        OperandDesc d;
        // Next MN chunk: a whole box; next group of K rows: `group` lines of the box.
        uint64_t desc =
            tcgen05_desc(at + step * k * c.span, k_rows * c.span, c.group * c.span, c.layout);
        REQUIRE(decode_tcgen05_desc(desc, d) == "");
        std::vector<unsigned char> got(rows * 32);
        gather_mn_major(d, rows, k, c.element_bytes, w.loader(), got.data());
        bool same = true;
        for (uint32_t r = 0; r < rows; ++r)
          for (uint32_t kk = 0; kk < k; ++kk)
            same = same && std::memcmp(&got[r * 32 + kk * e],
                                       w.matrix_data + (step * k + kk) * mn * e + r * e, e) == 0;
        INFO("span " << c.span << " element " << e << " rows " << rows << " step " << step);
        REQUIRE(same);
      }
    }
  }
}
