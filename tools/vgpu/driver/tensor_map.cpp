// cuTensorMap*: the encodings of tools/vgpu/tensor behind the driver's names.
#include "tools/vgpu/tensor/tensor_map.hpp"

#include "tools/vgpu/driver/state.hpp"

namespace vgpu::driver {

namespace {

void check_place(Call& c, const CUtensorMap* map) {
  c.require(map, "tensorMap is null");
  c.require(reinterpret_cast<uintptr_t>(map) % 64 == 0,
            "tensorMap = " + hex(reinterpret_cast<uint64_t>(map)) + " must be aligned to 64 bytes");
}

void check_result(Call& c, const std::string& error) {
  if (!error.empty()) c.refuse(CUDA_ERROR_INVALID_VALUE, error);
}

tensor::MapArguments common(CUtensorMapDataType type, uint32_t rank, const void* address,
                            const uint64_t* dims, const uint64_t* strides,
                            const uint32_t* element_strides, CUtensorMapInterleave interleave,
                            CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                            CUtensorMapFloatOOBfill fill) {
  return {int(type),       rank,         address, dims,     strides, element_strides,
          int(interleave), int(swizzle), int(l2), int(fill)};
}

} // namespace

VGPU_API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, uint32_t rank,
                                         void* address, const uint64_t* dims,
                                         const uint64_t* strides, const uint32_t* box,
                                         const uint32_t* element_strides,
                                         CUtensorMapInterleave interleave,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                         CUtensorMapFloatOOBfill fill) {
  return entry("cuTensorMapEncodeTiled", Need::Init, [&](Call& c) {
    check_place(c, map);
    const tensor::TiledArguments a{
        common(type, rank, address, dims, strides, element_strides, interleave, swizzle, l2, fill),
        box};
    check_result(c, tensor::encode_tiled(a, compute_capability(*c.s.profile), map));
  });
}

VGPU_API CUresult cuTensorMapEncodeIm2col(
    CUtensorMap* map, CUtensorMapDataType type, uint32_t rank, void* address, const uint64_t* dims,
    const uint64_t* strides, const int* lower, const int* upper, uint32_t channels, uint32_t pixels,
    const uint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
  return entry("cuTensorMapEncodeIm2col", Need::Init, [&](Call& c) {
    check_place(c, map);
    const tensor::Im2colArguments a{
        common(type, rank, address, dims, strides, element_strides, interleave, swizzle, l2, fill),
        lower,
        upper,
        channels,
        pixels,
        0};
    check_result(c, tensor::encode_im2col(a, compute_capability(*c.s.profile), map));
  });
}

// `mode` 0 walks along W, 1 is W128.
VGPU_API CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap* map, CUtensorMapDataType type, uint32_t rank, void* address, const uint64_t* dims,
    const uint64_t* strides, int lower, int upper, uint32_t channels, uint32_t pixels,
    const uint32_t* element_strides, CUtensorMapInterleave interleave, int mode,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
  return entry("cuTensorMapEncodeIm2colWide", Need::Init, [&](Call& c) {
    check_place(c, map);
    c.require(mode == 0 || mode == 1, "mode = " + std::to_string(mode) + " must be 0 or 1");
    const tensor::Im2colArguments a{
        common(type, rank, address, dims, strides, element_strides, interleave, swizzle, l2, fill),
        &lower,
        &upper,
        channels,
        pixels,
        mode + 1};
    check_result(c, tensor::encode_im2col(a, compute_capability(*c.s.profile), map));
  });
}

VGPU_API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return entry("cuTensorMapReplaceAddress", Need::Init, [&](Call& c) {
    check_place(c, map);
    check_result(c, tensor::replace_address(map, address));
  });
}

} // namespace vgpu::driver
