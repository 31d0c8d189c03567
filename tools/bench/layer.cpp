#include "tools/bench/layer.hpp"

#include <vector>

namespace bench {

namespace {

std::unique_ptr<Memory> filled(wl_context* context, size_t bytes, uint8_t with) {
  auto memory = std::make_unique<Memory>(context, bytes);
  const std::vector<uint8_t> image(bytes, with);
  require(wl_upload(context, memory->get(), image.data(), bytes));
  return memory;
}

} // namespace

// A time of the host asks for no values: all tokens and all weights are alike.
Layer::Layer(wl_context* context, const LayerShape& s, bool quantised, uint64_t* state)
    : context_(context) {
  const auto tokens = static_cast<size_t>(s.tokens), hidden = static_cast<size_t>(s.hidden),
             intermediate = static_cast<size_t>(s.intermediate),
             experts = static_cast<size_t>(s.experts);
  constexpr uint8_t one = 0x22, scale = 0x38; // E2M1: two of 1.0; E4M3: 1.0
  const size_t up = experts * intermediate * hidden / 2;
  const size_t sf_up = experts * wl_sf_bytes(WL_SF_128x4, s.intermediate, s.hidden);
  const size_t sf_down = experts * wl_sf_bytes(WL_SF_128x4, s.hidden, s.intermediate);
  w_gate_ = filled(context, up, one), w_up_ = filled(context, up, one);
  w_down_ = filled(context, up, one);
  sf_gate_ = filled(context, sf_up, scale), sf_up_ = filled(context, sf_up, scale);
  sf_down_ = filled(context, sf_down, scale);
  x_ = filled(context, 2 * tokens * hidden, 0);
  y_ = std::make_unique<Memory>(context, 2 * tokens * hidden);
  std::vector<int32_t> ids(tokens * static_cast<size_t>(s.top_k));
  for (int32_t& id : ids) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<int32_t>((*state >> 33) % experts);
  }
  ids_ = std::make_unique<Memory>(context, 4 * ids.size());
  require(wl_upload(context, ids_->get(), ids.data(), 4 * ids.size()));
  const float unit = 1;
  x_scale_ = std::make_unique<Memory>(context, sizeof unit);
  require(wl_upload(context, x_scale_->get(), &unit, sizeof unit));

  args_.struct_size = sizeof args_;
  args_.tokens = s.tokens, args_.hidden = s.hidden, args_.intermediate = s.intermediate;
  args_.experts = s.experts, args_.top_k = s.top_k;
  args_.x = x_->get(), args_.x_type = WL_BF16;
  args_.a_type = quantised ? WL_OPERAND_NVFP4 : WL_OPERAND_BF16;
  args_.ids = static_cast<const int32_t*>(ids_->get());
  args_.w_gate = w_gate_->get(), args_.w_up = w_up_->get(), args_.w_down = w_down_->get();
  args_.sf_gate = sf_gate_->get(), args_.sf_up = sf_up_->get(), args_.sf_down = sf_down_->get();
  args_.sf_layout = WL_SF_128x4;
  if (quantised) args_.x_scale = static_cast<const float*>(x_scale_->get());
  args_.y = y_->get(), args_.y_type = WL_BF16;
}

Layer::~Layer() { wl_plan_destroy(plan_); }

void Layer::make_plan(uint32_t flags) {
  wl_plan_destroy(plan_);
  plan_ = nullptr;
  args_.flags = flags;
  require(wl_moe_plan(context_, &args_, &plan_));
  info_.struct_size = sizeof info_;
  require(wl_plan_get_info(plan_, &info_));
  workspace_ = std::make_unique<Memory>(context_, info_.workspace_bytes + 256);
}

void Layer::run(wl_stream stream) const {
  require(wl_plan_run(plan_, workspace_->get(), info_.workspace_bytes, stream));
}

} // namespace bench
