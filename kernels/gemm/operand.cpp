#include "kernels/gemm/operand.hpp"

#include "runtime/src/status.hpp"

namespace warpline::gemm {

const Format& format_of(wl_operand type) {
  static const Format formats[] = {
      {"WL_OPERAND_NVFP4", 4, 16, 64, 64},   {"WL_OPERAND_F16", 16, 0, 8},
      {"WL_OPERAND_BF16", 16, 0, 8},         {"WL_OPERAND_TF32", 32, 0, 4},
      {"WL_OPERAND_E4M3", 8, 0, 16},         {"WL_OPERAND_E5M2", 8, 0, 16},
      {"WL_OPERAND_INT8", 8, 0, 16},         {"WL_OPERAND_MXFP8_E4M3", 8, 32, 32},
      {"WL_OPERAND_MXFP8_E5M2", 8, 32, 32},  {"WL_OPERAND_MXFP6_E2M3", 6, 32, 128},
      {"WL_OPERAND_MXFP6_E3M2", 6, 32, 128}, {"WL_OPERAND_MXFP4", 4, 32, 128},
  };
  return formats[type];
}

std::string name_of(const Types& types) {
  const auto one = [](wl_operand type, wl_layout layout) {
    return format("%s%s (%d)", layout == WL_K_MAJOR ? "" : "WL_MN_MAJOR ", format_of(type).name,
                  static_cast<int>(type));
  };
  return one(types.a, types.a_layout) + ", " + one(types.b, types.b_layout);
}

} // namespace warpline::gemm
