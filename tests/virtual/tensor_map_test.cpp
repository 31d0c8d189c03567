// Tensor map encoding: round trip, CUDA's validity rules one by one, tensormap.replace.
#include "tests/support/catch.hpp"
#include "tools/vgpu/tensor/tensor_map.hpp"

#include <cstring>
#include <vector>

using namespace vgpu::tensor;

namespace {

// A legal tiled map that each test spoils in one place.
struct Tiled {
  uint64_t dim[5] = {512, 300, 7, 3, 2};
  uint64_t stride[4] = {1024, 1024 * 300, 1024 * 2100, 1024 * 6300};
  uint32_t box[5] = {64, 128, 1, 1, 1};
  uint32_t element_stride[5] = {1, 1, 1, 1, 1};
  TiledArguments a;
  Tiled() {
    a.type = int(ElementType::f16);
    a.rank = 3;
    a.address = reinterpret_cast<void*>(0x7f0000000400);
    a.dim = dim;
    a.stride = stride;
    a.box = box;
    a.element_stride = element_stride;
    a.swizzle = 3;
  }
};

struct alignas(64) Bytes {
  unsigned char byte[128] = {};
};

std::string encode(const Tiled& t, int capability = 100) {
  Bytes out;
  std::string error = encode_tiled(t.a, capability, out.byte);
  // Nothing is written on failure.
  static const Bytes zero;
  if (!error.empty()) REQUIRE(std::memcmp(out.byte, zero.byte, 128) == 0);
  return error;
}

} // namespace

TEST_CASE("tiled maps keep every field", "[virtual][tensor]") {
  Tiled t;
  t.a.rank = 5;
  t.element_stride[3] = 2;
  t.box[3] = 2;
  t.dim[1] = uint64_t(1) << 32;
  t.a.l2_promotion = 2;
  t.a.fill = 1;
  Bytes out;
  REQUIRE(encode_tiled(t.a, 90, out.byte) == "");
  TensorMap m;
  REQUIRE(load(out.byte, m) == "");
  REQUIRE(m.mode == MapMode::tiled);
  REQUIRE(m.type == ElementType::f16);
  REQUIRE(m.rank == 5);
  REQUIRE(m.address == 0x7f0000000400);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(m.dim[i] == t.dim[i]);
    REQUIRE(m.box[i] == t.box[i]);
    REQUIRE(m.element_stride[i] == t.element_stride[i]);
    if (i < 4) REQUIRE(m.stride[i] == t.stride[i]);
  }
  REQUIRE(m.swizzle() == Swizzle::b128);
  REQUIRE(m.l2_promotion == 2);
  REQUIRE(m.fill == OobFill::nan);
  REQUIRE(validate(m) == "");
}

TEST_CASE("bytes that are no map, or a changed map, do not decode", "[virtual][tensor]") {
  Tiled t;
  Bytes out;
  TensorMap m;
  REQUIRE(load(out.byte, m).find("no tensor map") != std::string::npos);
  REQUIRE(encode_tiled(t.a, 90, out.byte) == "");
  // Bit 85 is the one that programs clear themselves.
  REQUIRE((out.byte[85 / 8] >> 85 % 8 & 1) == 1);
  for (int i = 0; i < 8 * 128; ++i) {
    Bytes changed = out;
    changed.byte[i / 8] ^= static_cast<unsigned char>(1 << i % 8);
    INFO("bit " << i);
    REQUIRE((load(changed.byte, m) == "") == (i == 85));
    if (i == 85) REQUIRE(m.address == 0x7f0000000400);
  }
}

TEST_CASE("tiled rules: each is accepted at its edge and refused beyond", "[virtual][tensor]") {
  REQUIRE(encode(Tiled()) == "");
  auto refuses = [](const char* part, auto spoil) {
    Tiled t;
    spoil(t);
    std::string error = encode(t);
    INFO("expected '" << part << "' in '" << error << "'");
    REQUIRE(error.find(part) != std::string::npos);
  };
  auto accepts = [](auto change) {
    Tiled t;
    change(t);
    REQUIRE(encode(t) == "");
  };
  refuses("tensorDataType = 16", [](Tiled& t) { t.a.type = 16; });
  refuses("tensorRank = 0", [](Tiled& t) { t.a.rank = 0; });
  refuses("tensorRank = 6", [](Tiled& t) { t.a.rank = 6; });
  refuses("globalDim is null", [](Tiled& t) { t.a.dim = nullptr; });
  refuses("globalStrides is null", [](Tiled& t) { t.a.stride = nullptr; });
  refuses("boxDim is null", [](Tiled& t) { t.a.box = nullptr; });
  refuses("elementStrides is null", [](Tiled& t) { t.a.element_stride = nullptr; });
  refuses("multiple of 16 bytes", [](Tiled& t) { t.a.address = reinterpret_cast<void*>(0x1008); });
  accepts([](Tiled& t) { t.a.address = reinterpret_cast<void*>(0x1010); });
  refuses("globalDim[1] = 0", [](Tiled& t) { t.dim[1] = 0; });
  refuses("globalDim[1]", [](Tiled& t) { t.dim[1] = (uint64_t(1) << 32) + 1; });
  refuses("globalStrides[0] = 1032", [](Tiled& t) { t.stride[0] = 1032; });
  refuses("2^40", [](Tiled& t) { t.stride[1] = uint64_t(1) << 40; });
  accepts([](Tiled& t) { t.stride[1] = (uint64_t(1) << 40) - 16; });
  accepts([](Tiled& t) { t.stride[1] = 0; }); // one batch, broadcast
  refuses("boxDim[1] = 0", [](Tiled& t) { t.box[1] = 0; });
  refuses("boxDim[1] = 257", [](Tiled& t) { t.box[1] = 257; });
  accepts([](Tiled& t) { t.box[1] = 256; });
  refuses("more than the 128", [](Tiled& t) { t.box[0] = 72; });
  refuses("more than the 32", [](Tiled& t) { t.a.swizzle = 1; });
  accepts([](Tiled& t) {
    t.box[0] = 72;
    t.a.swizzle = 0;
  });
  refuses("multiple of 16 bytes", [](Tiled& t) { t.box[0] = 60; });
  refuses("elementStrides[1] = 9", [](Tiled& t) { t.element_stride[1] = 9; });
  refuses("elementStrides[1] = 0", [](Tiled& t) { t.element_stride[1] = 0; });
  accepts([](Tiled& t) { t.element_stride[1] = 8; });
  refuses("interleave = 3", [](Tiled& t) { t.a.interleave = 3; });
  refuses("swizzle = 7", [](Tiled& t) { t.a.swizzle = 7; });
  refuses("l2Promotion = 4", [](Tiled& t) { t.a.l2_promotion = 4; });
  refuses("oobFill = 2", [](Tiled& t) { t.a.fill = 2; });
  refuses("NaN fill", [](Tiled& t) {
    t.a.type = int(ElementType::u16);
    t.a.fill = 1;
  });
  refuses("interleave 32B needs swizzle 32B", [](Tiled& t) { t.a.interleave = 2; });
  refuses("needs 3, 4 or 5", [](Tiled& t) {
    t.a.interleave = 1;
    t.a.rank = 2;
  });
  Tiled two;
  two.a.rank = 7;
  two.a.swizzle = 9;
  std::string both = encode(two);
  REQUIRE(both.find("tensorRank") != std::string::npos);
  REQUIRE(both.find("swizzle") != std::string::npos);
}

TEST_CASE("packed sub-byte types", "[virtual][tensor]") {
  Tiled t;
  t.a.type = int(ElementType::b4x16);
  t.box[0] = 256;
  REQUIRE(encode(t) == "");
  REQUIRE(encode(t, 90).find("needs compute capability 10.0") != std::string::npos);
  t.box[0] = 240;
  REQUIRE(encode(t).find("multiple of 16 bytes") != std::string::npos);
  t.box[0] = 256;
  t.dim[0] = 511;
  REQUIRE(encode(t).find("multiple of 2") != std::string::npos);
  for (ElementType type : {ElementType::b4x16_p64, ElementType::b6x16_p32}) {
    Tiled p;
    p.a.type = int(type);
    p.box[0] = 128;
    REQUIRE(encode(p) == "");
    p.box[0] = 64;
    REQUIRE(encode(p).find("must be 128") != std::string::npos);
    p.box[0] = 128;
    p.dim[0] = 448;
    REQUIRE(encode(p).find("multiple of 128") != std::string::npos);
    p.dim[0] = 512;
    p.stride[0] = 1040;
    REQUIRE(encode(p).find("multiple of 32") != std::string::npos);
    p.stride[0] = 1024;
    p.a.address = reinterpret_cast<void*>(0x1010);
    REQUIRE(encode(p).find("multiple of 32") != std::string::npos);
    p.a.address = reinterpret_cast<void*>(0x1020);
    p.a.swizzle = 4; // 32-byte atoms
    REQUIRE(encode(p) == "");
    p.a.swizzle = 5;
    REQUIRE(encode(p).find("cannot be used") != std::string::npos);
    p.a.swizzle = 6;
    REQUIRE((encode(p) == "") == (type == ElementType::b6x16_p32));
    p.a.swizzle = 1;
    REQUIRE(encode(p).find("cannot be used") != std::string::npos);
  }
}

TEST_CASE("im2col maps", "[virtual][tensor]") {
  uint64_t dim[5] = {64, 14, 9, 64, 2};
  uint64_t stride[4] = {128, 128 * 14, 128 * 14 * 9, 128 * 14 * 9 * 64};
  uint32_t ones[5] = {1, 1, 1, 1, 1};
  int lower[3] = {-1, -2, -3}, upper[3] = {-1, 2, 3};
  Im2colArguments a;
  a.type = int(ElementType::f16);
  a.rank = 4;
  a.address = reinterpret_cast<void*>(0x10000);
  a.dim = dim;
  a.stride = stride;
  a.lower = lower;
  a.upper = upper;
  a.channels_per_pixel = 64;
  a.pixels_per_column = 128;
  a.element_stride = ones;
  a.swizzle = 3;
  Bytes out;
  REQUIRE(encode_im2col(a, 90, out.byte) == "");
  TensorMap m;
  REQUIRE(load(out.byte, m) == "");
  REQUIRE(m.mode == MapMode::im2col);
  REQUIRE(m.lower[0] == -2); // CUDA's order is {D, H, W}, ours W first
  REQUIRE(m.lower[1] == -1);
  REQUIRE(m.upper[0] == 2);
  REQUIRE(m.upper[1] == -1);
  REQUIRE(m.channels_per_pixel == 64);
  REQUIRE(m.pixels_per_column == 128);
  auto error = [&] { return encode_im2col(a, 90, out.byte); };
  a.rank = 2;
  REQUIRE(error().find("3, 4 or 5") != std::string::npos);
  a.rank = 4;
  a.pixels_per_column = 1025;
  REQUIRE(error().find("pixelsPerColumn = 1025") != std::string::npos);
  a.pixels_per_column = 1024;
  REQUIRE(error() == "");
  a.channels_per_pixel = 257;
  REQUIRE(error().find("channelsPerPixel = 257") != std::string::npos);
  a.channels_per_pixel = 64;
  lower[0] = -129;
  REQUIRE(error().find("-129 is outside -128..127") != std::string::npos);
  lower[0] = 10;
  REQUIRE(error().find("is empty") != std::string::npos);
  lower[0] = -1;
  a.wide = 1;
  REQUIRE(error().find("10.0") != std::string::npos);
  REQUIRE(encode_im2col(a, 100, out.byte) == "");
  a.swizzle = 1;
  a.channels_per_pixel = 16;
  REQUIRE(encode_im2col(a, 100, out.byte).find("im2col wide needs swizzle") != std::string::npos);
}

TEST_CASE("tensormap.replace", "[virtual][tensor]") {
  Tiled t;
  Bytes out;
  REQUIRE(encode_tiled(t.a, 90, out.byte) == "");
  TensorMap m;
  REQUIRE(load(out.byte, m) == "");
  REQUIRE(replace_field(m, MapField::global_address, 0, 0x2000) == "");
  REQUIRE(replace_field(m, MapField::rank, 0, 1) == "");
  REQUIRE(replace_field(m, MapField::global_dim, 1, 77) == "");
  REQUIRE(replace_field(m, MapField::global_dim, 0, 0) == "");
  REQUIRE(replace_field(m, MapField::global_stride, 0, 4096) == "");
  REQUIRE(replace_field(m, MapField::box_dim, 1, 32) == "");
  REQUIRE(replace_field(m, MapField::element_stride, 1, 2) == "");
  REQUIRE(replace_field(m, MapField::elemtype, 0, 10) == "");
  REQUIRE(replace_field(m, MapField::swizzle_mode, 0, 3) == "");
  REQUIRE(replace_field(m, MapField::swizzle_atomicity, 0, 1) == "");
  REQUIRE(replace_field(m, MapField::fill_mode, 0, 1) == "");
  REQUIRE(replace_field(m, MapField::interleave_layout, 0, 0) == "");
  store(m, out.byte);
  TensorMap n;
  REQUIRE(load(out.byte, n) == "");
  REQUIRE(n.address == 0x2000);
  REQUIRE(n.rank == 2);
  REQUIRE(n.dim[0] == uint64_t(1) << 32);
  REQUIRE(n.dim[1] == 77);
  REQUIRE(n.stride[0] == 4096);
  REQUIRE(n.box[1] == 32);
  REQUIRE(n.element_stride[1] == 2);
  REQUIRE(n.type == ElementType::bf16);
  REQUIRE(n.swizzle() == Swizzle::b128_atom32);
  REQUIRE(n.fill == OobFill::nan);
  REQUIRE(validate(n) == "");
  REQUIRE(replace_field(m, MapField::rank, 0, 5) != "");
  REQUIRE(replace_field(m, MapField::elemtype, 0, 16) != "");
  REQUIRE(replace_field(m, MapField::global_stride, 4, 16) != "");
  REQUIRE(replace_field(m, MapField::global_stride, 0, 8) != "");
  REQUIRE(replace_field(m, MapField::box_dim, 0, 257) != "");
  REQUIRE(replace_address(out.byte, reinterpret_cast<void*>(0x2008)) != "");
  REQUIRE(replace_address(out.byte, reinterpret_cast<void*>(0x3000)) == "");
  REQUIRE(load(out.byte, n) == "");
  REQUIRE(n.address == 0x3000);
}
