#include "runtime/src/tensor_map.hpp"
#include "tests/support/fake_gpu.hpp"

using namespace warpline;
using namespace cuapi;
using wltest::ContainsSubstring;
using wltest::FakeGpu;

namespace {

// A [L, M, K] NVFP4 operand: the map the dual GEMM uses.
TensorMapDesc operand() {
  TensorMapDesc desc;
  desc.name = "A";
  desc.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  desc.rank = 3;
  desc.address = reinterpret_cast<const void*>(uintptr_t{0x7f0000000000});
  desc.dims[0] = 7168, desc.dims[1] = 256, desc.dims[2] = 1;
  desc.strides[0] = 3584, desc.strides[1] = 3584 * 256;
  desc.box[0] = 256, desc.box[1] = 128;
  desc.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  return desc;
}

// A type that pads shared memory to 16 bytes per 16 values.
TensorMapDesc gapped_operand() {
  TensorMapDesc desc = operand();
  desc.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
  desc.box[0] = 128;
  return desc;
}

TensorMapDesc half_matrix() {
  TensorMapDesc desc = operand();
  desc.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  desc.rank = 2;
  desc.dims[0] = 100, desc.dims[1] = 10;
  desc.strides[0] = 208;
  desc.box[0] = 64, desc.box[1] = 8;
  return desc;
}

const void* address(uintptr_t value) { return reinterpret_cast<const void*>(value); }

} // namespace

TEST_CASE("legal tensor maps violate nothing", "[host][tensor_map]") {
  CHECK(tensor_map_violations(operand()).empty());
  CHECK(tensor_map_violations(gapped_operand()).empty());
  CHECK(tensor_map_violations(half_matrix()).empty());

  // The scales' map: one 512-byte atom as 256 values of 16 bits, atoms along K, row blocks, batch.
  TensorMapDesc scales;
  scales.name = "SFA";
  scales.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
  scales.rank = 4;
  scales.address = address(0x1000);
  scales.dims[0] = 256, scales.dims[1] = 112, scales.dims[2] = 2, scales.dims[3] = 3;
  scales.strides[0] = 512, scales.strides[1] = 512 * 112, scales.strides[2] = 512 * 112 * 2;
  scales.box[0] = 256, scales.box[1] = 4;
  CHECK(tensor_map_violations(scales).empty());

  // One row may have any stride to the next one, zero included.
  TensorMapDesc row = half_matrix();
  row.dims[1] = 1, row.strides[0] = 0;
  CHECK(tensor_map_violations(row).empty());
}

TEST_CASE("each rule of a tensor map refuses with value and nearest", "[host][tensor_map]") {
  const struct {
    TensorMapDesc desc;
    void (*bend)(TensorMapDesc&);
    const char* message;
  } cases[] = {
      {operand(), [](TensorMapDesc& d) { d.rank = 0; }, "rank = 0 dimensions must be from 1 to 5"},
      {operand(), [](TensorMapDesc& d) { d.rank = 6; }, "rank = 6 dimensions"},
      {operand(), [](TensorMapDesc& d) { d.type = static_cast<CUtensorMapDataType>(16); },
       "element type = 16"},
      {operand(), [](TensorMapDesc& d) { d.swizzle = static_cast<CUtensorMapSwizzle>(7); },
       "swizzle = 7"},
      {operand(), [](TensorMapDesc& d) { d.address = nullptr; }, "address is null"},
      {operand(), [](TensorMapDesc& d) { d.address = address(0x1008); },
       "address 0x1008 is 8 modulo 16 bytes, must be 0"},
      {gapped_operand(), [](TensorMapDesc& d) { d.address = address(0x1010); },
       "address 0x1010 is 16 modulo 32 bytes, must be 0 with type 16U4_ALIGN16B"},
      {operand(), [](TensorMapDesc& d) { d.dims[1] = 0; },
       "dimension 1 = 0 elements must be from 1 to 2^32 (nearest: 1)"},
      {operand(), [](TensorMapDesc& d) { d.dims[2] = (uint64_t{1} << 32) + 1; },
       "dimension 2 = 4294967297 elements"},
      {operand(), [](TensorMapDesc& d) { d.dims[0] = 7167; },
       "dimension 0 = 7167 elements must be a multiple of 2 elements with type 16U4_ALIGN8B "
       "(nearest: 7166, 7168)"},
      {gapped_operand(), [](TensorMapDesc& d) { d.dims[0] = 192; },
       "dimension 0 = 192 elements must be a multiple of 128 elements with type 16U4_ALIGN16B "
       "(nearest: 128, 256)"},
      {operand(), [](TensorMapDesc& d) { d.strides[0] = 3592; },
       "stride of dimension 1 = 3592 bytes must be a multiple of 16 bytes (nearest: 3584, 3600)"},
      {gapped_operand(), [](TensorMapDesc& d) { d.strides[0] = 3600; },
       "must be a multiple of 32 bytes with type 16U4_ALIGN16B (nearest: 3584, 3616)"},
      {operand(), [](TensorMapDesc& d) { d.strides[1] = uint64_t{1} << 40; },
       "stride of dimension 2 = 1099511627776 bytes must be less than 2^40"},
      {operand(), [](TensorMapDesc& d) { d.strides[0] = 3568; },
       "stride of dimension 1 = 3568 bytes must be at least 3584 bytes"},
      {operand(), [](TensorMapDesc& d) { d.box[1] = 0; },
       "box of dimension 1 = 0 elements must be from 1 to 256 (nearest: 1)"},
      {operand(), [](TensorMapDesc& d) { d.box[1] = 257; },
       "box of dimension 1 = 257 elements must be from 1 to 256 (nearest: 256)"},
      {operand(), [](TensorMapDesc& d) { d.box[0] = 48; },
       "box of dimension 0 = 48 elements (24 bytes) must be a multiple of 16 bytes, 32 elements "
       "(nearest: 32, 64)"},
      {gapped_operand(), [](TensorMapDesc& d) { d.box[0] = 64; },
       "box of dimension 0 = 64 elements must be 128 with type 16U4_ALIGN16B"},
      {half_matrix(), [](TensorMapDesc& d) { d.box[0] = 72; },
       "box of dimension 0 = 72 elements (144 bytes) must be at most 128 bytes with swizzle 128B "
       "(nearest: 64 elements)"},
      {half_matrix(), [](TensorMapDesc& d) { d.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; },
       "must be at most 32 bytes with swizzle 32B (nearest: 16 elements)"},
      {operand(), [](TensorMapDesc& d) { d.element_strides[1] = 9; },
       "element stride of dimension 1 = 9 must be from 1 to 8 (nearest: 8)"},
      {half_matrix(), [](TensorMapDesc& d) { d.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; },
       "rank = 2 dimensions must be at least 3 with interleave 16B"},
      {operand(), [](TensorMapDesc& d) { d.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; },
       "swizzle 128B must be 32B with interleave 32B"},
      {gapped_operand(), [](TensorMapDesc& d) { d.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; },
       "swizzle 64B must be none, 128B or 128B_ATOM_32B with type 16U4_ALIGN16B"},
      {operand(),
       [](TensorMapDesc& d) { d.oob_fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; },
       "out-of-bounds fill NaN must be zero with type 16U4_ALIGN8B"},
  };
  for (const auto& one : cases) {
    TensorMapDesc desc = one.desc;
    one.bend(desc);
    const std::vector<std::string> violations = tensor_map_violations(desc);
    std::string text;
    for (const std::string& violation : violations) text += violation + "\n";
    CHECK_THAT(text, ContainsSubstring(one.message));
  }
}

TEST_CASE("a tensor map is made aligned, and never from bad values", "[host][tensor_map]") {
  FakeGpu gpu;
  CHECK(alignof(CUtensorMap) == 128);
  CHECK(sizeof(CUtensorMap) == 128);
  CUtensorMap map{};
  CHECK(make_tensor_map(gpu.context(), operand(), &map) == WL_SUCCESS);
  CHECK(map.opaque[15] == 0xA5A5A5A5A5A5A5A5u);
  CHECK(gpu.fake->encodes == 1);

  TensorMapDesc bad = operand();
  bad.address = address(0x7f0000000008);
  bad.strides[0] = 3592;
  CHECK(make_tensor_map(gpu.context(), bad, &map) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(gpu.fake->encodes == 1);
  CHECK_THAT(wl_last_error(), ContainsSubstring("tensor map A: address 0x7f0000000008") &&
                                  ContainsSubstring("3592") &&
                                  ContainsSubstring("2 rules violated, nothing was launched"));

  gpu.fake->encode_result = CUDA_ERROR_INVALID_VALUE;
  CHECK(make_tensor_map(gpu.context(), operand(), &map) == WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("cuTensorMapEncodeTiled failed") &&
                                  ContainsSubstring("dims (elements) [7168, 256, 1]"));
}

TEST_CASE("bit 85 is cleared of Blackwell's maps over less than 128 KiB, and no other",
          "[host][tensor_map]") {
  const uint64_t made = 0xA5A5A5A5A5A5A5A5u, cleared = made & ~(uint64_t{1} << 21);
  // Spans of 131072 bytes and of 16 less, by the rows and by a stride behind them.
  TensorMapDesc dense = half_matrix(), apart = half_matrix();
  dense.dims[0] = 64, dense.strides[0] = 128, dense.dims[1] = 1024;
  apart.dims[0] = 8, apart.strides[0] = 131072 - 16, apart.dims[1] = 2;
  TensorMapDesc dense_less = dense, apart_less = apart;
  dense_less.dims[0] = 56;
  apart_less.strides[0] -= 16;
  const struct {
    int major, minor;
    bool mended;
  } devices[] = {{9, 0, false}, {10, 0, true}, {10, 3, true}, {11, 0, false}, {12, 0, false}};
  for (const auto& device : devices) {
    FakeGpu gpu;
    wl_context& context = gpu.context();
    context.limits.compute_major = device.major;
    context.limits.compute_minor = device.minor;
    INFO(device.major << "." << device.minor);
    for (const auto& [desc, small] :
         {std::pair{dense, false}, {apart, false}, {dense_less, true}, {apart_less, true}}) {
      CUtensorMap map{};
      REQUIRE(make_tensor_map(context, desc, &map) == WL_SUCCESS);
      CHECK(map.opaque[1] == (device.mended && small ? cleared : made));
      for (const int word : {0, 2, 15}) CHECK(map.opaque[word] == made);
    }
  }
}

TEST_CASE("bytes of a box", "[host][tensor_map]") {
  CHECK(box_row_bytes(operand()) == 128);
  CHECK(box_transaction_bytes(operand()) == 128 * 128);
  CHECK(box_row_bytes(gapped_operand()) == 128);
  CHECK(box_transaction_bytes(gapped_operand()) == 64 * 128);
  CHECK(box_row_bytes(half_matrix()) == 128);
  TensorMapDesc strided = half_matrix();
  strided.element_strides[1] = 3; // ceil(8 / 3) = 3 rows
  CHECK(box_transaction_bytes(strided) == 128 * 3);
}
