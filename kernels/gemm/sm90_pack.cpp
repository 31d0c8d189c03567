// Plans of Hopper products whose scales lie in plain rows: sm90_pack.ptx, then the product.
#include "kernels/gemm/engine.hpp"
#include "runtime/src/module.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>

WL_EMBEDDED_PTX(gemm_sm90_pack);

namespace warpline::gemm {

namespace {

constexpr int64_t most_warps = 32;
constexpr int shared_bytes = 200 << 10; // as products take, so that SMs stay divided as they are

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

PackParams pack_params(const Problem& problem, const Places& places, const void* packed,
                       int b_tensors) {
  const Operands& o = problem.operands;
  PackParams params{};
  params.packed = address_of(packed);
  params.plain0 = address_of(o.sfa);
  params.plain1 = address_of(o.sfb[0]);
  params.plain2 = address_of(o.sfb[1]);
  params.at0 = static_cast<uint64_t>(places.a);
  params.at1 = static_cast<uint64_t>(places.b[0]);
  params.at2 = static_cast<uint64_t>(places.b[1]);
  const Groups& groups = problem.groups;
  params.group_ends = address_of(groups.ends);
  params.group_sizes = address_of(groups.sizes);
  params.ids = address_of(groups.ids);
  params.id_count = static_cast<uint32_t>(std::min(problem.m, Groups::most_routed));
  params.first_id = static_cast<uint32_t>(groups.first_id);
  const int64_t row_bytes = problem.k / 16;
  params.stride0 = static_cast<uint64_t>(problem.m * row_bytes);
  params.stride1 = params.stride2 =
      static_cast<uint64_t>(groups.count != 0 ? groups.sfb_stride : problem.n * row_bytes);
  params.rows0 = static_cast<uint32_t>(problem.m);
  params.rows1 = params.rows2 = static_cast<uint32_t>(problem.n);
  params.k_atoms = static_cast<uint32_t>(problem.k / 64);
  params.l = static_cast<uint32_t>(problem.b_entries());
  params.span_atoms = row_bytes % 16 == 0 ? 32 : 8;
  params.spans = divide_up(params.k_atoms, params.span_atoms);
  const auto units = [&](int64_t rows) {
    return static_cast<uint32_t>(8 * divide_up(rows, 128) * params.spans);
  };
  params.units0 = problem.plain_sfa ? units(problem.m) : 0;
  params.units1 = problem.plain_sfb ? units(problem.n) : 0;
  params.units2 = b_tensors == 2 ? params.units1 : 0;
  return params;
}

// Below 2^32: B's tensors would take terabytes with more.
int64_t all_units(const PackParams& params) {
  return int64_t{params.l} * (int64_t{params.units0} + params.units1 + params.units2);
}

LaunchConfig pack_launch(const PackParams& params, int64_t sms) {
  LaunchConfig launch;
  const int64_t units = all_units(params);
  const int64_t warps = std::min(divide_up(units, sms), most_warps);
  launch.block[0] = static_cast<unsigned>(32 * warps);
  launch.grid[0] = static_cast<unsigned>(std::min(divide_up(units, warps), sms));
  launch.dynamic_shared_bytes = shared_bytes;
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
    needs.dynamic_shared_bytes = shared_bytes;
    const Kernel* kernel = nullptr;
    WL_TRY(load_kernel(*context, WL_IMAGE(gemm_sm90_pack), needs, &kernel));
    const PackParams params = pack_params(problem, places_, nullptr, config->b_tensors);
    launch_ = pack_launch(params, std::max(context->limits.sm_count, 1));
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
    const PackParams params = pack_params(other, places_, workspace, config->b_tensors);
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
