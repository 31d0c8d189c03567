#include "tests/virtual/mutation/drawn.hpp"

#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/grouped/grouped.hpp"
#include "kernels/linear/linear.hpp"
#include "tests/problems/products.hpp"
#include "tests/virtual/mutation/rewrite.hpp"

#include <algorithm>

namespace wltest {

namespace {

// What grids around the problem's may write while those start or end: weights, where nobody says
// that they are static and no decoder has waited for them.
bool may_be_written(const problems::Problem& problem, const problems::Configuration& configuration,
                    const std::string& name) {
  if (problem.alone) return false;
  const bool weights = name.starts_with("b") ? !name.starts_with("bias")
                                             : name.starts_with("sfb") || name.starts_with("w_") ||
                                                   name.starts_with("sf_");
  return !weights || !(problem.static_weights || (configuration.profile == "h200" &&
                                                  !problems::of_one_launch(configuration)));
}

bool right(wl_context* context, const Drawn& drawn, uint64_t seed, size_t number,
           std::string& message) {
  const problems::Problem problem =
      problems::make_problem(*drawn.operation, *drawn.configuration, seed, number);
  // The library's choice may be another kernel.
  if (problem.config.empty() && find_config(drawn.configuration->name) != nullptr) return true;
  const auto neighbour = [&](const problems::Regions& regions, problems::Side side) {
    std::vector<std::pair<void*, size_t>> written;
    for (const auto& [name, region] : regions)
      if (may_be_written(problem, *drawn.configuration, name)) written.push_back(region);
    (side == problems::Side::ahead ? rewrite : rewrite_behind)(written);
  };
  const std::string wrong = problems::run(context, problem, neighbour);
  // What is wrong with bytes is no message of the driver's.
  if (!wrong.empty() && wrong.find(" byte ") == std::string::npos) message = wrong;
  return wrong.empty();
}

} // namespace

const warpline::gemm::Config* find_config(const std::string& name) {
  for (const warpline::gemm::Table* table :
       {&warpline::linear::configs(), &warpline::dual_gemm::configs(),
        &warpline::grouped::linear_configs(), &warpline::grouped::dual_configs()})
    for (const warpline::gemm::Config& config : *table)
      if (name == config.name) return &config;
  return nullptr;
}

Drawn drawn_for(const std::string& kernel) {
  // Behind a product whose grid knows the routes.
  if (kernel == "moe_combine_sm90_f16") return drawn_for("moe_down_sm90_f16");
  Drawn first;
  for (const problems::Operation& operation : problems::operations())
    for (const problems::Configuration& c : operation.configurations) {
      if (std::find(c.kernels.begin(), c.kernels.end(), kernel) == c.kernels.end()) continue;
      if (c.name == kernel) return {&operation, &c};
      if (first.operation == nullptr) first = {&operation, &c};
    }
  return first;
}

Drawn layers_with(const std::string& kernel) {
  // Beside the order of experts, which a product of few rows waits for.
  if (kernel == "moe_encode_sm90_f16") return layers_with("grouped_dual_gemm_sm90_small_t16_f16");
  if (kernel == "moe_encode_sm90_bf16") return layers_with("grouped_dual_gemm_sm90_small_t16_bf16");
  for (const problems::Operation& operation : problems::operations())
    for (const problems::Configuration& c : operation.configurations)
      if (c.name == problems::layer_with + kernel) return {&operation, &c};
  return {};
}

bool right_drawn(wl_context* context, const std::string& kernel, uint64_t seed,
                 std::string& message) {
  static size_t runs = 0;
  const Drawn drawn = drawn_for(kernel);
  const std::vector<size_t>& list = drawn.configuration->problems;
  const warpline::gemm::Config* product = find_config(drawn.configuration->name);
  // Bare products, the last of a list, wait for what the loops below show.
  const auto bare = std::find(list.begin(), list.end(), problems::first_of_bare);
  const auto waiting = static_cast<size_t>(bare - list.begin());
  const size_t length = product != nullptr ? waiting : std::min<size_t>(list.size(), 6);
  const bool all = runs == 0 || product == nullptr;
  const size_t first = 2 * runs, count = all ? length : 2;
  const bool with_loops = runs == 0;
  ++runs;
  const std::vector<size_t>& loops = drawn.configuration->of_loops;
  const size_t behind = problems::of_rings + 2; // outputs of tiles of little K behind each other
  if (!all && std::find(loops.begin(), loops.end(), behind) != loops.end() &&
      !right(context, drawn, seed, behind, message))
    return false;
  for (size_t i = first; i < first + count; ++i) {
    if (!all && product->later && list[i % length] == problems::all_sizes) continue;
    if (!right(context, drawn, seed, list[i % length], message)) return false;
  }
  return !with_loops || right_loops(context, drawn, seed, message);
}

bool right_layers(wl_context* context, const Drawn& drawn, uint64_t seed, std::string& message) {
  static size_t runs = 0;
  const std::vector<size_t>& list = drawn.configuration->problems;
  const size_t first = runs, count = runs == 0 ? list.size() : 1;
  ++runs;
  for (size_t i = first; i < first + count; ++i)
    if (!right(context, drawn, seed, list[i % list.size()], message)) return false;
  return true;
}

bool right_loops(wl_context* context, const Drawn& drawn, uint64_t seed, std::string& message) {
  std::vector<size_t> list = drawn.configuration->of_loops;
  for (size_t i = 0; i < drawn.configuration->fitted.size(); ++i)
    list.push_back(problems::first_of_fitted + i);
  if (drawn.configuration->has_whole_tiles) list.push_back(problems::of_whole_tiles);
  return std::all_of(list.begin(), list.end(),
                     [&](size_t number) { return right(context, drawn, seed, number, message); });
}

} // namespace wltest
