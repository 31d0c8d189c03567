// Plans of Hopper products whose scales lie in plain rows: sm90_pack.ptx, then the product.
#include "kernels/gemm/engine.hpp"
#include "runtime/src/module.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>

WL_EMBEDDED_PTX(gemm_sm90_pack);

namespace warpline::gemm {

namespace {

constexpr unsigned pack_threads = 256, pack_warps = pack_threads / 32;
constexpr int64_t pack_ctas = 8;  // that an SM holds
constexpr int64_t span_atoms = 8; // that a warp brings, one behind the other
constexpr int64_t most_ctas_y = 65535;

// The parameter block of the contract in sm90_pack.ptx.
struct PackParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm90_pack_params.def"
};

std::vector<Param> pack_param_layout() {
  using Block = PackParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm90_pack_params.def"
  };
}

int64_t packed_entry(const Problem& problem, int64_t rows) {
  return static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, rows, problem.k));
}
// Where the scales of A, B1 and B2 lie in a workspace of `problem`, and where what is behind them
// does. A run of fewer rows has them there, too.
struct Places {
  int64_t a = 0, b[2] = {}, end = 0;

  Places(const Problem& problem, int b_tensors) {
    if (problem.plain_sfa) end += problem.l * packed_entry(problem, problem.m);
    for (int i = 0; problem.plain_sfb && i < b_tensors; ++i) {
      b[i] = end;
      end += problem.b_entries() * packed_entry(problem, problem.n);
    }
    end = divide_up(end, 256) * 256; // of atoms of 512 bytes
  }
};

PackParams pack_params(const Problem& problem, const Places& places, const void* packed) {
  const Operands& o = problem.operands;
  PackParams params{};
  params.packed = address_of(packed);
  params.plain0 = problem.plain_sfa ? address_of(o.sfa) : 0;
  params.plain1 = problem.plain_sfb ? address_of(o.sfb[0]) : 0;
  params.plain2 = problem.plain_sfb ? address_of(o.sfb[1]) : 0;
  params.at0 = static_cast<uint64_t>(places.a);
  params.at1 = static_cast<uint64_t>(places.b[0]);
  params.at2 = static_cast<uint64_t>(places.b[1]);
  const int64_t row_bytes = problem.k / 16;
  params.stride0 = static_cast<uint64_t>(problem.m * row_bytes);
  params.stride1 = params.stride2 = static_cast<uint64_t>(
      problem.groups.count != 0 ? problem.groups.sfb_stride : problem.n * row_bytes);
  params.rows0 = static_cast<uint32_t>(problem.m);
  params.rows1 = params.rows2 = static_cast<uint32_t>(problem.n);
  params.k_atoms = static_cast<uint32_t>(problem.k / 64);
  params.l = static_cast<uint32_t>(problem.b_entries());
  params.spans = static_cast<uint32_t>(divide_up(problem.k / 64, span_atoms));
  params.per_spans = reciprocal(params.spans);
  return params;
}

LaunchConfig pack_launch(const Problem& problem, const PackParams& params, int sms) {
  LaunchConfig launch;
  launch.block[0] = pack_threads;
  launch.grid[1] = static_cast<unsigned>(std::min<int64_t>(params.l, most_ctas_y));
  launch.grid[2] = 3;
  const int64_t units = divide_up(std::max(problem.m, problem.n), 128) * params.spans;
  const int64_t share = divide_up(std::max(sms, 1) * pack_ctas, int64_t{launch.grid[1]});
  launch.grid[0] = static_cast<unsigned>(std::min(divide_up(units, pack_warps), share));
  launch.programmatic_dependent = true;
  return launch;
}

// The product's own problem, whose scales are packed from `packed` on: by the grid ahead, so that
// they are not static.
Problem packed_problem(const Problem& problem, const Places& places, const void* packed) {
  Problem product = problem;
  const auto* const base = static_cast<const std::byte*>(packed);
  Operands& o = product.operands;
  if (problem.plain_sfa) o.sfa = base + places.a;
  if (problem.plain_sfb) {
    for (int i = 0; i < 2; ++i)
      if (o.sfb[i] != nullptr) o.sfb[i] = base + places.b[i];
    product.groups.sfb_stride = packed_entry(problem, problem.n);
  }
  product.plain_sfa = product.plain_sfb = false;
  product.flags &= ~static_cast<uint32_t>(WL_STATIC_WEIGHTS);
  return product;
}

// Packed scales from the workspace's start on, then what the product takes of it.
class PackedProduct final : public PlannedProduct {
public:
  PackedProduct(const Problem& problem_, const Config& config_)
      : PlannedProduct(problem_, config_), places_(problem_, config_.b_tensors) {}

  wl_status make(wl_context* context, wl_plan* whole) {
    KernelNeeds needs;
    needs.params = pack_param_layout();
    const Kernel* kernel = nullptr;
    WL_TRY(load_kernel(*context, WL_IMAGE(gemm_sm90_pack), needs, &kernel));
    const PackParams params = pack_params(problem, places_, nullptr);
    launch_ = pack_launch(problem, params, context->limits.sm_count);
    pack_ = std::make_unique<wl_plan>(context);
    WL_TRY(pack_->add(*kernel, launch_, params));

    // Maps of the plan are of addresses behind B's, each run moves its own to the workspace.
    wl_plan* product = nullptr;
    WL_TRY(make_product_plan(context, packed_problem(problem, places_, problem.operands.b[0]),
                             *config, &product));
    product_.reset(product);

    whole->info = product->info;
    whole->info.launches += pack_->info.launches;
    whole->info.load_ms += pack_->info.load_ms;
    whole->info.precompiled = whole->info.precompiled && pack_->info.precompiled;
    whole->info.workspace_bytes += static_cast<size_t>(places_.end);
    return WL_SUCCESS;
  }

  wl_status run(const wl_plan&, const Problem& other, void* workspace,
                wl_stream stream) const override {
    const PackParams params = pack_params(other, places_, workspace);
    const wl_plan::Instead instead[] = {{&params, &launch_}};
    WL_TRY(pack_->run(nullptr, stream, instead));
    const auto& product = static_cast<const PlannedProduct&>(*product_->problem);
    return product.run(*product_, packed_problem(other, places_, workspace),
                       static_cast<std::byte*>(workspace) + places_.end, stream);
  }

private:
  const Places places_;
  LaunchConfig launch_;
  std::unique_ptr<wl_plan> pack_, product_;
};

} // namespace

wl_status make_packing_plan(wl_context* context, const Problem& problem, const Config& config,
                            wl_plan** plan) {
  return plan_with_kernels_ahead<PackedProduct>(context, problem, config, plan);
}

} // namespace warpline::gemm
