// wl_grouped_gemm and wl_grouped_dual_gemm: wl_gemm and wl_dual_gemm for groups of rows. Their
// configurations and the rules of their arguments; the public contract is in warpline.h.
#pragma once

#include "kernels/gemm/engine.hpp"
#include "runtime/src/reachable.hpp"
#include "runtime/src/rules.hpp"

#include <vector>

namespace warpline::grouped {

// Most groups: the kernels keep a table of them in shared memory.
constexpr int64_t most_groups = 512;

// The arguments of the product with the groups beside them, so that the rules of every product
// find the fields that they know.
template <class Product>
struct View : Product {
  wl_groups groups;
  View(const Product& product, const wl_groups& of) : Product(product), groups(of) {}
};
struct LinearArgs : View<wl_gemm_args> {
  LinearArgs(const wl_grouped_gemm_args& a) : View(a.gemm, a.groups) {}
};
struct DualArgs : View<wl_dual_gemm_args> {
  DualArgs(const wl_grouped_dual_gemm_args& a) : View(a.gemm, a.groups) {}
};

template <class Args>
struct SubjectOf {
  const Args args;
  const DeviceLimits& device;
  ContextMemory context{};
};
using LinearSubject = SubjectOf<LinearArgs>;
using DualSubject = SubjectOf<DualArgs>;

const gemm::Table& linear_configs();
const gemm::Table& dual_configs();
const RuleTable<LinearSubject>& linear_rules();
const RuleTable<DualSubject>& dual_rules();

// What the arguments point to.
std::vector<Extent> operands(const wl_grouped_gemm_args& args);
std::vector<Extent> operands(const wl_grouped_dual_gemm_args& args);

gemm::Problem problem_of(const LinearArgs& args);
gemm::Problem problem_of(const DualArgs& args);

} // namespace warpline::grouped
