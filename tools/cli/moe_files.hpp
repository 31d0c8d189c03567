// Layers of experts: random ones, and those of safetensors files as checkpoints name them.
//
// Weights in NVFP4, scales in the plain layout, of the projections gate, up and down, which are
// named gate_proj, up_proj and down_proj, or w1, w3 and w2, behind the layer's name and a dot:
//   of each expert  experts.3.w1.weight (U8 or F4, [rows, K/2]), .weight_scale (F8_E4M3,
//                   [rows, K/16]) and, where there are, .weight_scale_2 and .input_scale (F32)
//   of all experts  w1 or w1.weight, with a leading dimension more, and the same endings;
//                   _scale_2 may have a number for each expert
// Tokens and their experts, where there are: x (F16 or BF16, [T, H]), ids (I32 or I64, [T, top_k])
// and weights (F32, likewise).
#pragma once

#include "tests/reference/quantize.hpp"
#include "tools/cli/product_files.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace warpline::cli {

struct LayerSizes {
  int64_t tokens = 64, hidden = 2048, intermediate = 768, experts = 128, top_k = 8, first = 0;
  std::string type = "bf16"; // of tokens
  bool skewed = false;       // half of all tokens choose the first expert
};

// What is not there is empty.
struct LayerTensors {
  wltest::Matrix x;
  std::vector<int32_t> ids;
  std::vector<float> weights;
  wltest::Operand w[3]; // gate, up, down: an entry for each expert
  std::vector<float> alpha[3];
  // Of x and of h as NVFP4: the largest of the experts'.
  std::optional<float> input_scale[2];
  std::vector<float> shared;
  std::vector<uint8_t> shared_bytes; // the same in y's type
};

// Draws the tensors that are empty, but for `shared`.
void draw_layer(const LayerSizes& sizes, uint64_t seed, LayerTensors* tensors);

// The file's tensors, and their sizes into `sizes`; those of tokens only where it has them.
// `layer`: what stands ahead of the weights' names, without the dot, "" for nothing. Experts are
// numbered from sizes.first on. Says on stderr which tensors are not used. Refusals name the file.
LayerTensors read_layer(const std::string& path, const std::string& layer, LayerSizes* sizes,
                        const std::function<void(double fraction)>& progress);
// With names of each expert.
void write_layer(const std::string& path, const LayerTensors& tensors);

} // namespace warpline::cli
