// The one maker of tensor maps (TMA descriptors). Every rule of cuTensorMapEncodeTiled is checked
// before the driver sees the arguments, and all violations are reported together.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/cuda_api.hpp"
#include "runtime/src/status.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace warpline {

// Dimension 0 is the innermost, contiguous one; sizes and boxes count elements.
struct TensorMapDesc {
  const char* name = ""; // for messages: "A", "SFB1"
  cuapi::CUtensorMapDataType type = cuapi::CU_TENSOR_MAP_DATA_TYPE_UINT8;
  uint32_t rank = 0;                             // 1 to 5
  const void* address = nullptr;                 // device
  uint64_t dims[5] = {1, 1, 1, 1, 1};            // tensor size
  uint64_t strides[4] = {0, 0, 0, 0};            // bytes; strides[i] is that of dimension i + 1
  uint32_t box[5] = {1, 1, 1, 1, 1};             // elements a copy moves
  uint32_t element_strides[5] = {1, 1, 1, 1, 1}; // traversal step
  cuapi::CUtensorMapInterleave interleave = cuapi::CU_TENSOR_MAP_INTERLEAVE_NONE;
  cuapi::CUtensorMapSwizzle swizzle = cuapi::CU_TENSOR_MAP_SWIZZLE_NONE;
  cuapi::CUtensorMapL2promotion l2_promotion = cuapi::CU_TENSOR_MAP_L2_PROMOTION_NONE;
  cuapi::CUtensorMapFloatOOBfill oob_fill = cuapi::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

// Every violated rule, one sentence each with value, unit and nearest legal value; empty when good.
std::vector<std::string> tensor_map_violations(const TensorMapDesc& desc);

// Checks, then encodes. The caller has made the context current (ContextScope).
wl_status make_tensor_map(const wl_context& context, const TensorMapDesc& desc,
                          cuapi::CUtensorMap* map);

// The map for other memory of the same shape, at an address that is aligned as the one before.
wl_status move_tensor_map(const wl_context& context, const void* address, cuapi::CUtensorMap* map);

// All fields in words, one line each, for the log and for dumps.
std::string describe(const TensorMapDesc& desc);

// Bits of one element in global memory.
uint32_t element_bits(cuapi::CUtensorMapDataType type);
// Bytes of a box's inner row in shared memory, gaps of the 16-byte aligned types included.
uint64_t box_row_bytes(const TensorMapDesc& desc);
// Bytes that one load of the whole box adds to its mbarrier's transaction count: the packed bytes,
// without the gaps of the 16-byte aligned types; out-of-bounds elements count too.
uint64_t box_transaction_bytes(const TensorMapDesc& desc);

const char* type_name(cuapi::CUtensorMapDataType type);
const char* swizzle_name(cuapi::CUtensorMapSwizzle swizzle);

} // namespace warpline
