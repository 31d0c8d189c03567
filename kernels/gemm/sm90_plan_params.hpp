// The parameter blocks of the contracts in sm90.ptx and sm90_decode.ptx, for the plans of both.
#pragma once

#include "runtime/src/module.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warpline::gemm::sm90 {

struct Params {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
};
// With LAUNCHES = 1: the other's block behind map_a, and more.
struct DirectParams {
#define LAUNCHES 1
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
#undef LAUNCHES
};
// With STREAM_K: likewise more.
struct StreamParams {
#define STREAM_K 1
#define LATER 1
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
#undef LATER
};
struct DirectStreamParams {
#define LAUNCHES 1
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
#undef LAUNCHES
#undef STREAM_K
};
// With SPREAD: the same and more.
struct SpreadParams {
#define SPREAD 1
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
#undef SPREAD
};
// With HELPED: the same and more.
struct HelpedParams {
#define HELPED 1
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
#undef HELPED
};
// With LATER: the same and more.
struct LaterParams {
#define LATER 1
#define GROUPED 1
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_params.def"
#undef GROUPED
#undef LATER
};
// Of a block, what the others begin with.
constexpr size_t params_bytes = offsetof(Params, more_per_last) + sizeof(uint32_t);
static_assert(offsetof(LaterParams, more_per_last) == offsetof(Params, more_per_last));
static_assert(offsetof(SpreadParams, more_per_last) == offsetof(Params, more_per_last));
static_assert(offsetof(HelpedParams, more_per_last) == offsetof(Params, more_per_last));
static_assert(offsetof(StreamParams, more_per_last) == offsetof(Params, more_per_last));
static_assert(offsetof(DirectStreamParams, static_weights) ==
              offsetof(DirectParams, static_weights));
static_assert(offsetof(DirectParams, more_per_last) - offsetof(DirectParams, map_b1) ==
              offsetof(Params, more_per_last));
struct DecodeParams {
#define GROUPED 1
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_decode_params.def"
#undef GROUPED
};

// Without groups a block is the beginning of the one with them.
using Layout = std::vector<Param>;
inline Layout param_layout() {
  using Block = Params;
#define PARAM WL_PARAM_LAYOUT
  static const Layout layout = {
#include "kernels/gemm/sm90_params.def"
  };
  return layout;
}
inline Layout direct_param_layout() {
  using Block = DirectParams;
#define LAUNCHES 1
#define PARAM WL_PARAM_LAYOUT
  static const Layout layout = {
#include "kernels/gemm/sm90_params.def"
  };
#undef LAUNCHES
  return layout;
}
inline Layout spread_param_layout() {
  using Block = SpreadParams;
#define SPREAD 1
#define PARAM WL_PARAM_LAYOUT
  static const Layout layout = {
#include "kernels/gemm/sm90_params.def"
  };
#undef SPREAD
  return layout;
}
inline Layout helped_param_layout() {
  using Block = HelpedParams;
#define HELPED 1
#define PARAM WL_PARAM_LAYOUT
  static const Layout layout = {
#include "kernels/gemm/sm90_params.def"
  };
#undef HELPED
  return layout;
}
inline Layout stream_param_layout(bool direct) {
#define STREAM_K 1
  using Block = DirectStreamParams;
#define LAUNCHES 1
#define PARAM WL_PARAM_LAYOUT
  static const Layout in_one_launch = {
#include "kernels/gemm/sm90_params.def"
  };
#undef LAUNCHES
  {
    using Block = StreamParams;
#define LATER 1
#define PARAM WL_PARAM_LAYOUT
    static const Layout in_two = {
#include "kernels/gemm/sm90_params.def"
    };
#undef LATER
#undef STREAM_K
    return direct ? in_one_launch : in_two;
  }
}
inline Layout later_param_layout(bool grouped) {
  using Block = LaterParams;
#define LATER 1
#define PARAM WL_PARAM_LAYOUT
#define GROUPED 1
  static const Layout of_groups = {
#include "kernels/gemm/sm90_params.def"
  };
#undef GROUPED
#define PARAM WL_PARAM_LAYOUT
  static const Layout plain = {
#include "kernels/gemm/sm90_params.def"
  };
#undef LATER
  return grouped ? of_groups : plain;
}
inline Layout decode_param_layout(bool grouped) {
  using Block = DecodeParams;
#define PARAM WL_PARAM_LAYOUT
#define GROUPED 1
  static const Layout of_groups = {
#include "kernels/gemm/sm90_decode_params.def"
  };
#undef GROUPED
#define PARAM WL_PARAM_LAYOUT
  static const Layout plain = {
#include "kernels/gemm/sm90_decode_params.def"
  };
  return grouped ? of_groups : plain;
}

} // namespace warpline::gemm::sm90
