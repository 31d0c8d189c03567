#include "kernels/moe/parts.hpp"

#include "runtime/src/configs.hpp"
#include "runtime/src/launch.hpp"
#include "runtime/src/module.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>
#include <memory>

#define SM100_PERMUTE_CONFIG(name) WL_EMBEDDED_PTX(name);
#define SM100_ENCODE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM100_COMBINE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_PERMUTE_CONFIG(name) WL_EMBEDDED_PTX(name);
#define SM90_ENCODE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#define SM90_SPREAD_CONFIG(name) WL_EMBEDDED_PTX(name);
#define SM90_COMBINE_CONFIG(name, ...) WL_EMBEDDED_PTX(name);
#include "kernels/moe/configs.def"

namespace warpline::moe {

namespace {

// The parameter blocks of the contracts.
struct PermuteParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/moe/permute_params.def"
};
struct QuantizeParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/moe/encode_params.def"
};
struct SpreadParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/moe/spread_params.def"
};
struct CombineParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/moe/combine_params.def"
};

constexpr int64_t most_warps = 8;   // of a CTA that quantises or combines: .maxntid
constexpr int64_t sorters = 32;     // warps of a CTA that permutes
constexpr int64_t sorters_step = 4; // they are added up four at a time
constexpr int quantizing_ctas = 6, copying_ctas = 8, combining_ctas = 3; // .minnctapersm
constexpr int64_t quantized_piece = 512, copied_piece = 512, combined_piece = 256;

// ---- permute

struct Permuting {
  using Params = PermuteParams;
  static constexpr Part part = Part::permute;
  static std::vector<Param> layout() {
    using Block = Params;
    return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/moe/permute_params.def"
    };
  }
  static wl_dtype type_of(const Permutation&) { return WL_F16; }
  static int shared_bytes(const Permutation& work, int64_t warps) {
    return static_cast<int>(4 * ((warps + 2) * work.experts + 32));
  }
  static int most_shared_bytes(const Permutation& work) { return shared_bytes(work, sorters); }
  static void fill(const Permutation& work, const DeviceLimits& device, Params* params,
                   LaunchConfig* launch) {
    const int64_t slots = work.tokens * work.top_k, sms = std::max(device.sm_count, 1);
    const int64_t needed = std::max(divide_up(slots, 32), divide_up(work.experts, 32));
    const int64_t warps = std::min(sorters_step * divide_up(needed, sorters_step), sorters);
    // A warp's 32 slots, or more where SMs would get a second CTA.
    const int64_t share = 32 * divide_up(slots, 32 * warps * sms);
    params->ids = address_of(work.ids);
    params->group_ends = address_of(work.group_ends);
    params->rows = address_of(work.rows);
    params->positions = address_of(work.positions);
    params->cleared = address_of(work.cleared);
    params->cleared_words = static_cast<uint32_t>(work.zero_bytes / 4 + 2);
    params->slots = static_cast<uint32_t>(slots);
    params->top_k = static_cast<uint32_t>(work.top_k);
    params->experts = static_cast<uint32_t>(work.experts);
    params->first = static_cast<uint32_t>(work.first);
    params->share = static_cast<uint32_t>(share);
    launch->grid[0] = static_cast<unsigned>(divide_up(slots, warps * share));
    launch->block[0] = static_cast<unsigned>(32 * warps);
    launch->dynamic_shared_bytes = static_cast<unsigned>(shared_bytes(work, warps));
  }
};

// ---- quantise and combine: pieces of tokens

// Few pieces are spread over the SMs, a warp each, before CTAs get more warps.
void share_out(int64_t units, int ctas_an_sm, const DeviceLimits& device, LaunchConfig* launch) {
  const int64_t sms = std::max(device.sm_count, 1);
  const int64_t warps = std::clamp<int64_t>(divide_up(units, sms), 1, most_warps);
  launch->grid[0] = static_cast<unsigned>(std::min(divide_up(units, warps), sms * ctas_an_sm));
  launch->block[0] = static_cast<unsigned>(32 * warps);
}

template <class Params>
int64_t fill_pieces(int64_t tokens, int64_t columns, int64_t piece, Params* params) {
  params->pieces = static_cast<uint32_t>(divide_up(columns, piece));
  params->per_piece = UINT32_MAX / params->pieces;
  return tokens * params->pieces;
}

struct Quantizing {
  using Params = QuantizeParams;
  static constexpr Part part = Part::encode;
  static std::vector<Param> layout() {
    using Block = Params;
    return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/moe/encode_params.def"
    };
  }
  static wl_dtype type_of(const Quantisation& work) { return work.x_type; }
  static int most_shared_bytes(const Quantisation&) { return 0; }
  static void fill(const Quantisation& work, const DeviceLimits& device, Params* params,
                   LaunchConfig* launch) {
    const Permutation& order = work.order;
    params->x = address_of(work.x);
    params->ids = address_of(order.ids);
    params->group_ends = address_of(order.group_ends);
    params->positions = address_of(order.positions);
    params->d = address_of(work.d);
    params->sfd = address_of(work.sfd);
    params->d_scale = address_of(work.d_scale);
    params->ldx = static_cast<uint64_t>(work.ldx);
    params->tokens = static_cast<uint32_t>(order.tokens);
    params->row_count = static_cast<uint32_t>(order.tokens * order.top_k);
    params->blocks = static_cast<uint32_t>(work.k / 16);
    params->top_k = static_cast<uint32_t>(order.top_k);
    params->first = static_cast<uint32_t>(order.first);
    const int64_t units = fill_pieces(order.tokens, work.k, quantized_piece, params);
    share_out(units, quantizing_ctas, device, launch);
  }
};

struct CopyingTokens {
  using Params = SpreadParams;
  static constexpr Part part = Part::spread;
  static std::vector<Param> layout() {
    using Block = Params;
    return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/moe/spread_params.def"
    };
  }
  static wl_dtype type_of(const Spreading&) { return WL_F16; }
  static int most_shared_bytes(const Spreading&) { return 0; }
  static void fill(const Spreading& work, const DeviceLimits& device, Params* params,
                   LaunchConfig* launch) {
    const Permutation& order = work.order;
    params->x = address_of(work.x);
    params->positions = address_of(order.positions);
    params->d = address_of(work.d);
    params->tokens = static_cast<uint32_t>(order.tokens);
    params->row_count = static_cast<uint32_t>(order.tokens * order.top_k);
    params->columns = static_cast<uint32_t>(work.columns);
    params->top_k = static_cast<uint32_t>(order.top_k);
    const int64_t units = fill_pieces(order.tokens, work.columns, copied_piece, params);
    share_out(units, copying_ctas, device, launch);
  }
};

struct Combining {
  using Params = CombineParams;
  static constexpr Part part = Part::combine;
  static std::vector<Param> layout() {
    using Block = Params;
    return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/moe/combine_params.def"
    };
  }
  static wl_dtype type_of(const Combination& work) { return work.rows_type; }
  static int most_shared_bytes(const Combination&) { return 0; }
  static void fill(const Combination& work, const DeviceLimits& device, Params* params,
                   LaunchConfig* launch) {
    params->rows = address_of(work.rows);
    params->positions = address_of(work.positions);
    params->weights = address_of(work.weights);
    params->addend = address_of(work.addend);
    params->y = address_of(work.y);
    params->ld_addend = static_cast<uint64_t>(work.ld_addend);
    params->ldy = static_cast<uint64_t>(work.ldy);
    params->row_count = static_cast<uint32_t>(work.row_count);
    params->tokens = static_cast<uint32_t>(work.tokens);
    params->columns = static_cast<uint32_t>(work.columns);
    params->top_k = static_cast<uint32_t>(work.top_k);
    params->known = work.known ? 1 : 0;
    params->y_type = static_cast<uint32_t>(work.y_type);
    // Of few rows a token two pieces at once, so that more is under way, where all warps have some.
    // Devices of few SMs, as tests have, do it always.
    const int64_t batch = work.rows_type == WL_F32 ? 4 : 8, sms = std::max(device.sm_count, 1);
    const int64_t pieces = work.tokens * divide_up(work.columns, combined_piece);
    const bool many = sms < 16 || pieces >= 2 * most_warps * combining_ctas * sms;
    params->two_pieces = 2 * work.top_k <= batch && many ? 1 : 0;
    const int64_t piece = params->two_pieces != 0 ? 2 * combined_piece : combined_piece;
    const int64_t units = fill_pieces(work.tokens, work.columns, piece, params);
    share_out(units, combining_ctas, device, launch);
  }
};

// ---- plans

const Config* config_for(Part part, wl_dtype type, const DeviceLimits& device) {
  for (const Config& config : configs())
    if (config.part == part && config.type == type && target_mismatch(config, device).empty())
      return &config;
  return nullptr;
}

template <class Kind, class Work>
void fill(const wl_context& context, const Work& work, typename Kind::Params* params,
          LaunchConfig* launch) {
  launch->programmatic_dependent = true;
  Kind::fill(work, context.limits, params, launch);
}

template <class Kind, class Work>
wl_status make(wl_context* context, const Work& work, wl_plan** plan) {
  const Config* config = config_for(Kind::part, Kind::type_of(work), context->limits);
  if (config == nullptr)
    return fail(WL_ERROR_NOT_SUPPORTED, "no kernel for rows of type %d on %s",
                static_cast<int>(Kind::type_of(work)), context->limits.name.c_str());
  auto made = std::make_unique<wl_plan>(context);
  KernelNeeds needs;
  needs.params = Kind::layout();
  needs.dynamic_shared_bytes = Kind::most_shared_bytes(work);
  const Kernel* kernel = nullptr;
  WL_TRY(load_kernel(*context, config->image(), needs, &kernel));
  typename Kind::Params params{};
  LaunchConfig launch;
  fill<Kind>(*context, work, &params, &launch);
  WL_TRY(made->add(*kernel, launch, params));
  report_launch(config->name, *kernel, launch, &made->info);
  *plan = made.release();
  return WL_SUCCESS;
}

template <class Kind, class Work>
wl_status run(const wl_plan& plan, const Work& work, wl_stream stream) {
  typename Kind::Params params{};
  LaunchConfig launch;
  fill<Kind>(*plan.context, work, &params, &launch);
  const wl_plan::Instead instead[] = {{&params, &launch}};
  return plan.run(nullptr, stream, instead);
}

} // namespace

const std::vector<Config>& configs() {
  constexpr wl_dtype F16 = WL_F16, BF16 = WL_BF16, F32 = WL_F32;
#define ENTRY(name, target, part, type) {#name, target, part, type, [] { return WL_IMAGE(name); }},
#define SM100_PERMUTE_CONFIG(name) ENTRY(name, "sm_100f", Part::permute, F16)
#define SM100_ENCODE_CONFIG(name, in) ENTRY(name, "sm_100f", Part::encode, in)
#define SM100_COMBINE_CONFIG(name, rows) ENTRY(name, "sm_100f", Part::combine, rows)
#define SM90_PERMUTE_CONFIG(name) ENTRY(name, "sm_90a", Part::permute, F16)
#define SM90_ENCODE_CONFIG(name, in) ENTRY(name, "sm_90a", Part::encode, in)
#define SM90_SPREAD_CONFIG(name) ENTRY(name, "sm_90a", Part::spread, F16)
#define SM90_COMBINE_CONFIG(name, rows) ENTRY(name, "sm_90a", Part::combine, rows)
  static const std::vector<Config> table = {
#include "kernels/moe/configs.def"
  };
#undef ENTRY
  return table;
}

wl_status make_part_plan(wl_context* context, const Permutation& work, wl_plan** plan) {
  return make<Permuting>(context, work, plan);
}
wl_status make_part_plan(wl_context* context, const Quantisation& work, wl_plan** plan) {
  return make<Quantizing>(context, work, plan);
}
wl_status make_part_plan(wl_context* context, const Spreading& work, wl_plan** plan) {
  return make<CopyingTokens>(context, work, plan);
}
wl_status make_part_plan(wl_context* context, const Combination& work, wl_plan** plan) {
  return make<Combining>(context, work, plan);
}

wl_status run_part(const wl_plan& plan, const Permutation& work, wl_stream stream) {
  return run<Permuting>(plan, work, stream);
}
wl_status run_part(const wl_plan& plan, const Quantisation& work, wl_stream stream) {
  return run<Quantizing>(plan, work, stream);
}
wl_status run_part(const wl_plan& plan, const Spreading& work, wl_stream stream) {
  return run<CopyingTokens>(plan, work, stream);
}
wl_status run_part(const wl_plan& plan, const Combination& work, wl_stream stream) {
  return run<Combining>(plan, work, stream);
}

} // namespace warpline::moe
