// A layer of experts on random operands, for the programs of this folder.
#pragma once

#include "tools/bench/problem.hpp"

namespace bench {

struct LayerShape {
  int64_t tokens, hidden, intermediate, experts, top_k;
};

// BF16 tokens and result; `quantised`: multiplied as NVFP4, else as they are.
class Layer {
public:
  Layer(wl_context* context, const LayerShape& shape, bool quantised, uint64_t* state);
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  void make_plan(uint32_t flags = 0); // in place of the one before
  void run(wl_stream stream) const;
  const wl_plan_info& info() const { return info_; }

private:
  wl_context* context_;
  std::unique_ptr<Memory> x_, ids_, w_gate_, w_up_, w_down_, sf_gate_, sf_up_, sf_down_, x_scale_,
      y_, workspace_;
  wl_moe_args args_{};
  wl_plan* plan_ = nullptr;
  wl_plan_info info_{};
};

} // namespace bench
