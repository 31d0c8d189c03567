#include "tools/vgpu/tensor/instr_desc.hpp"

#include <cstdio>

namespace vgpu::tensor {
namespace {

template <class... T>
std::string sentence(const char* format, T... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return std::string("instruction descriptor: ") + line;
}

uint32_t bits(uint32_t desc, int low, int count) { return desc >> low & ((1u << count) - 1); }

bool f8f6f4_type(uint32_t code, MmaType& type) {
  switch (code) {
  case 0:
    type = MmaType::e4m3;
    return true;
  case 1:
    type = MmaType::e5m2;
    return true;
  case 3:
    type = MmaType::e2m3;
    return true;
  case 4:
    type = MmaType::e3m2;
    return true;
  case 5:
    type = MmaType::e2m1;
    return true;
  default:
    return false;
  }
}

bool operand_type(MmaKind kind, uint32_t code, MmaType& type) {
  switch (kind) {
  case MmaKind::f16:
    type = code == 0 ? MmaType::f16 : MmaType::bf16;
    return code <= 1;
  case MmaKind::tf32:
    type = MmaType::tf32;
    return code == 2;
  case MmaKind::i8:
    type = code == 0 ? MmaType::u8 : MmaType::s8;
    return code <= 1;
  case MmaKind::f8f6f4:
  case MmaKind::mxf8f6f4:
    return f8f6f4_type(code, type);
  case MmaKind::mxf4:
  case MmaKind::mxf4nvf4:
    type = MmaType::e2m1;
    return code == 1;
  }
  return false;
}

std::string check_weights_shape(const InstrDesc& d, const InstrForm& form) {
  bool fine = (d.m == 32 || d.m == 64 || d.m == 128) &&
              (d.n == 64 || d.n == 128 || (d.n == 256 && !form.sparse));
  if (fine) return {};
  return sentence("%d x %d is not a shape of tcgen05.mma.ws%s: M is 32, 64 or 128, N %s", d.m, d.n,
                  form.sparse ? ".sp" : "", form.sparse ? "64 or 128" : "64, 128 or 256");
}

std::string check_shape(const InstrDesc& d, const InstrForm& form) {
  if (form.weights) return check_weights_shape(d, form);
  const int cta_group = form.cta_group;
  const char* name = kind_name(d.kind);
  bool pair = cta_group == 2;
  bool m_fine =
      pair ? (d.m == 128 || d.m == 256) : (d.m == 128 || (d.m == 64 && !is_block_scaled(d.kind)));
  if (!m_fine)
    return sentence("M = %d is not a shape of kind::%s with cta_group::%d", d.m, name, cta_group);
  int step = pair ? 16 : 8;
  bool b8_mn = d.b_mn_major && type_bits(d.b) == 8;
  if (b8_mn) step = pair ? 32 : 16;
  bool n_fine = d.n >= step && d.n <= 256 && d.n % step == 0;
  if (d.kind == MmaKind::i8) {
    if (pair)
      n_fine = d.n >= 32 && d.n <= 256 && d.n % 32 == 0;
    else if (!b8_mn)
      n_fine = n_fine && (d.n <= 32 || d.n % 16 == 0);
  }
  if (!n_fine)
    return sentence("N = %d is not a shape of kind::%s with cta_group::%d%s", d.n, name, cta_group,
                    b8_mn ? " and an N-major 8-bit B" : "");
  return {};
}

std::string check_major(const InstrDesc& d) {
  for (int side = 0; side < 2; ++side) {
    bool mn = side == 0 ? d.a_mn_major : d.b_mn_major;
    MmaType type = side == 0 ? d.a : d.b;
    if (!mn) continue;
    if (d.kind == MmaKind::mxf4 || d.kind == MmaKind::mxf4nvf4 || type_bits(type) < 8)
      return sentence("%c has 4- or 6-bit elements and must be K-major", "AB"[side]);
  }
  return {};
}

std::string decode_sparsity(uint32_t desc, const InstrForm& form, InstrDesc& d) {
  if (bits(desc, 2, 1) != uint32_t(form.sparse))
    return form.sparse ? sentence("the instruction is .sp, bit 2 says dense")
                       : sentence("bit 2 says sparse, the instruction has no .sp");
  d.selector = int(bits(desc, 0, 2));
  // 9.7.16.10.8.4: kinds of 16 and 32 bits choose one of two columns, the others read both.
  bool chooses = form.sparse && (d.kind == MmaKind::f16 || d.kind == MmaKind::tf32);
  if (d.selector > int(chooses))
    return sentence("bits 0-1 are %d, must be %s", d.selector, chooses ? "0 or 1" : "0");
  return {};
}

} // namespace

std::string decode_instr_desc(MmaKind kind, uint32_t desc, const InstrForm& form, InstrDesc& out) {
  InstrDesc d;
  d.kind = kind;
  d.k = kind_k(kind) * (form.sparse ? 2 : 1);
  const char* name = kind_name(kind);
  bool scaled = is_block_scaled(kind);
  bool fp4 = kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4;

  std::string error = decode_sparsity(desc, form, d);
  if (!error.empty()) return error;
  if (bits(desc, 6, 1)) return sentence("reserved bit 6 is set");
  if (!operand_type(kind, bits(desc, 7, 3), d.a))
    return sentence("A type %u does not exist for kind::%s", bits(desc, 7, 3), name);
  if (!operand_type(kind, bits(desc, 10, 3), d.b))
    return sentence("B type %u does not exist for kind::%s", bits(desc, 10, 3), name);
  d.negate_a = bits(desc, 13, 1);
  d.negate_b = bits(desc, 14, 1);
  d.a_mn_major = bits(desc, 15, 1);
  d.b_mn_major = bits(desc, 16, 1);
  d.n = int(bits(desc, 17, 6)) * 8;
  d.m = int(bits(desc, 24, 5)) * 16;

  if (scaled) {
    if (bits(desc, 3, 1)) return sentence("reserved bit 3 is set");
    d.sfb_id = int(bits(desc, 4, 2));
    d.sfa_id = int(bits(desc, 29, 2));
    d.scale = bits(desc, 23, 1) ? ScaleType::ue8m0 : ScaleType::ue4m3;
    if (bits(desc, 24, 3)) return sentence("reserved bits 24-26 are set");
    if (kind != MmaKind::mxf4nvf4 && d.scale != ScaleType::ue8m0)
      return sentence("kind::%s takes ue8m0 scales only (bit 23)", name);
    if (bits(desc, 31, 1))
      return fp4 ? sentence("K = 96 (bit 31) is not modelled: it exists on sm_103a only")
                 : sentence("reserved bit 31 is set");
    // 4X reads the whole word, 2X one half, 1X any byte.
    const int step = form.scales, block = d.k / step;
    if (step != (fp4 ? 2 : 1) && !(step == 4 && kind == MmaKind::mxf4nvf4))
      return sentence("kind::%s has no scale for every %d elements", name, block);
    if (d.sfa_id % step != 0 || d.sfb_id % step != 0)
      return sentence("scale ids %d (A) and %d (B): kind::%s with blocks of %d needs multiples "
                      "of %d",
                      d.sfa_id, d.sfb_id, name, block, step);
    d.d = MmaResult::f32;
  } else {
    d.saturate = bits(desc, 3, 1);
    if (d.saturate && kind != MmaKind::i8)
      return sentence("saturate (bit 3) exists for kind::i8 only");
    uint32_t code = bits(desc, 4, 2);
    bool fine = kind == MmaKind::i8 ? code == 2 : kind == MmaKind::tf32 ? code == 1 : code <= 1;
    if (!fine) return sentence("D type %u does not exist for kind::%s", code, name);
    d.d = MmaResult(code);
    if (d.d == MmaResult::f16 && (d.a == MmaType::bf16 || d.b == MmaType::bf16))
      return sentence("an f16 D needs f16 operands, not bf16");
    if (kind == MmaKind::i8 && (d.negate_a || d.negate_b))
      return sentence("kind::i8 cannot negate its operands");
    if (bits(desc, 23, 1)) return sentence("reserved bit 23 is set");
    if (bits(desc, 29, 1)) return sentence("reserved bit 29 is set");
    if (bits(desc, 30, 2) && !form.weights)
      return sentence("maximum shift %u is for .ws only", bits(desc, 30, 2));
    d.max_shift = bits(desc, 30, 2) ? 4 << bits(desc, 30, 2) : 0;
  }
  error = check_major(d);
  if (error.empty()) error = check_shape(d, form);
  if (error.empty()) out = d;
  return error;
}

} // namespace vgpu::tensor
