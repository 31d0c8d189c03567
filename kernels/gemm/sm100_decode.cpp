// Plans of Blackwell products of 16-bit activations with NVFP4 weights: sm100_decode.ptx, then the
// product of 16-bit operands.
#include "kernels/gemm/engine.hpp"
#include "runtime/src/module.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>

WL_EMBEDDED_PTX(gemm_sm100_decode);

namespace warpline::gemm {

namespace {

constexpr unsigned decode_threads = 512; // the scales of an atom: 128 rows x 64 of K
constexpr int64_t decode_ctas = 4;       // that an SM holds
constexpr int64_t most_ctas_y = 65535;

// The parameter block of the contract in sm100_decode.ptx.
struct DecodeParams {
#define PARAM WL_PARAM_FIELD
#include "kernels/gemm/sm100_decode_params.def"
};

std::vector<Param> decode_param_layout() {
  using Block = DecodeParams;
  return {
#define PARAM WL_PARAM_LAYOUT
#include "kernels/gemm/sm100_decode_params.def"
  };
}

int64_t decoded_bytes(const Problem& problem) { return problem.l * problem.n * problem.k * 2; }

DecodeParams decode_params(const Problem& problem, const void* weights) {
  const Operands& o = problem.operands;
  DecodeParams params{};
  params.b1 = address_of(o.b[0]);
  params.b2 = address_of(o.b[1]);
  params.sfb1 = address_of(o.sfb[0]);
  params.sfb2 = address_of(o.sfb[1]);
  params.weights = address_of(weights);
  params.tensor_bytes = static_cast<uint64_t>(decoded_bytes(problem));
  params.n = static_cast<uint32_t>(problem.n);
  params.k_atoms = static_cast<uint32_t>(problem.k / 64);
  params.l = static_cast<uint32_t>(problem.l);
  params.entry_atoms = static_cast<uint32_t>(divide_up(problem.n, 128)) * params.k_atoms;
  params.per_atoms = reciprocal(params.k_atoms);
  params.bf16 = problem.types.a == WL_OPERAND_BF16 ? 1 : 0;
  return params;
}

LaunchConfig decode_launch(const DecodeParams& params, int b_tensors, int sms) {
  LaunchConfig launch;
  launch.block[0] = decode_threads;
  launch.grid[1] = static_cast<unsigned>(std::min<int64_t>(params.l, most_ctas_y));
  launch.grid[2] = static_cast<unsigned>(b_tensors);
  const int64_t share =
      divide_up(std::max(sms, 1) * decode_ctas, int64_t{launch.grid[1]} * launch.grid[2]);
  launch.grid[0] = static_cast<unsigned>(std::min<int64_t>(params.entry_atoms, share));
  launch.programmatic_dependent = true;
  return launch;
}

// Decoded weights from the workspace's start on, then what the product takes of it.
class DecodedProduct final : public PlannedProduct {
public:
  using PlannedProduct::PlannedProduct;

  wl_status make(wl_context* context, wl_plan* whole) {
    KernelNeeds needs;
    needs.params = decode_param_layout();
    const Kernel* kernel = nullptr;
    WL_TRY(load_kernel(*context, WL_IMAGE(gemm_sm100_decode), needs, &kernel));
    const DecodeParams params = decode_params(problem, nullptr);
    launch_ = decode_launch(params, config->b_tensors, context->limits.sm_count);
    decode_ = std::make_unique<wl_plan>(context);
    WL_TRY(decode_->add(*kernel, launch_, params));

    // Maps of the plan are of the codes' addresses, each run moves its own to the workspace.
    wl_plan* product = nullptr;
    WL_TRY(make_sm100_plan(context,
                           decoded_problem(problem, problem.operands.b[0], config->b_tensors),
                           *config, &product));
    product_.reset(product);

    whole->info = product->info;
    whole->info.launches += decode_->info.launches;
    whole->info.load_ms += decode_->info.load_ms;
    whole->info.precompiled = whole->info.precompiled && decode_->info.precompiled;
    whole->info.workspace_bytes += product_at();
    return WL_SUCCESS;
  }

  wl_status run(const wl_plan&, const Problem& other, void* workspace,
                wl_stream stream) const override {
    const DecodeParams params = decode_params(other, workspace);
    const wl_plan::Instead instead[] = {{&params, &launch_}};
    WL_TRY(decode_->run(nullptr, stream, instead));
    const auto& product = static_cast<const PlannedProduct&>(*product_->problem);
    return product.run(*product_, decoded_problem(other, workspace, config->b_tensors),
                       static_cast<std::byte*>(workspace) + product_at(), stream);
  }

private:
  size_t product_at() const {
    return static_cast<size_t>(divide_up(config->b_tensors * decoded_bytes(problem), 256) * 256);
  }

  LaunchConfig launch_;
  std::unique_ptr<wl_plan> decode_, product_;
};

} // namespace

Problem decoded_problem(const Problem& problem, const void* weights, int b_tensors) {
  Problem product = problem;
  product.types.b = problem.types.a;
  for (int i = 0; i < b_tensors; ++i) {
    product.operands.b[i] = static_cast<const std::byte*>(weights) + i * decoded_bytes(problem);
    product.operands.sfb[i] = nullptr;
  }
  return product;
}

wl_status make_decoding_plan(wl_context* context, const Problem& problem, const Config& config,
                             wl_plan** plan) {
  return plan_with_kernels_ahead<DecodedProduct>(context, problem, config, plan);
}

} // namespace warpline::gemm
