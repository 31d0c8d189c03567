// What problems of every operation on the engine of kernels/gemm draw alike: sizes at the edges of
// a configuration's tiles, factors, and a D of rows and entries at strides.
#pragma once

#include "kernels/gemm/config.hpp"
#include "tests/problems/nvfp4.hpp"
#include "tests/reference/dual_gemm.hpp"
#include "tests/reference/linear.hpp"

#include <array>
#include <type_traits>

namespace wltest::problems {

constexpr size_t all_sizes = 7; // kinds of sizes
// From this problem on tiles of little K, six in a row with all activations: one whole tile, or
// with an odd number some with an edge in every direction.
constexpr size_t first_of_tiles = 102;
// From this problem on what shows what loops wait for: tiles whose K brings the stages round, of
// up to four pairs of types with an even and an odd number of blocks, eight problems; then so many
// tiles that all rings come round, with a residual, without it and with rows that are gathered,
// and, of groups on Hopper, without both.
constexpr size_t first_of_loops = 108, all_loops = 8, of_rings = first_of_loops + all_loops;
// And tiles with edges of what most calls ask for, bare products: without an activation, of a K
// that brings the stages round, and with gelu of tanh.
constexpr size_t first_of_bare = of_rings + 3, all_bare = 2;
// And tiles of fewer rows than there may be, for each number of tokens that their MMAs may have, of
// a K that brings the stages round: one row tile, or with an even number two.
constexpr size_t first_of_fitted = first_of_bare + all_bare;
// Whole tiles of a configuration beside which another has no others, with relu, of little K and
// without a residual: either orders the outputs of a cluster's tiles behind each other.
constexpr size_t of_whole_tiles = first_of_fitted + 7;
bool is_of_loops(const Draw& draw);
bool is_of_rings(const Draw& draw);
bool is_of_whole_tiles(const Draw& draw);
int64_t k_of_loops(const Configuration& configuration, const Draw& draw);
int64_t tiles_of_rings(const Configuration& configuration);
// Products without factors of rows and residual, which have a text of their own for no activation
// and one for a sigmoid: the last problems of rings, half of those of loops, and those behind.
bool is_bare(const Draw& draw);
bool is_first(const Draw& draw);
// Two of these, with edges and without, have a whole tile of K.
bool has_whole_k(const Draw& draw);
// Problems of few outputs, for values under which most outputs are alike.
bool is_small(const Draw& draw);
bool chooses_config(const Draw& draw); // instead of naming it

// `decoder` and `permuter`: the kernels that bring A, in NVFP4 and in 16 bits, to the product's
// order for the configurations that need one.
Configuration configuration_of(const warpline::gemm::Config& config, const char* decoder,
                               const char* permuter);

// Types of A and B: problems go through those of the configuration.
warpline::gemm::Types draw_types(const Configuration& configuration, Draw& draw);

struct Sizes {
  int64_t m, n, k, l;
  int64_t most_m = INT64_MAX;                              // that the kernel takes
  int64_t blocked_k() const { return (k + 63) / 64 * 64; } // whole blocks of NVFP4
};
Sizes draw_sizes(const Configuration& configuration, const warpline::gemm::Types& types,
                 Draw& draw);

// The configuration's name, or "" where the library chooses, as Problem::config.
std::string draw_config(const Configuration& configuration, Draw& draw);

// A factor in device memory, another in each run; null stands for 1.
struct Factor {
  bool given = false;
  size_t misalignment = 0;
  float runs[2] = {1, 1};
  void add_to(const std::string& name, std::vector<Input>* inputs) const;
};
// `fitting` brings sums to the order of 1; sums that are `large` no other would.
Factor draw_alpha(Draw& draw, const std::string& name, float fitting, float huge,
                  bool large = false);
Factor draw_d_scale(Draw& draw);

// A vector or tensor of one type, as bytes and as the numbers that they stand for.
struct Numbers {
  Bytes bytes;
  std::vector<float> values;
};

// Numbers of the order of `magnitude`, and some of every bit pattern, zeros and large ones.
Numbers draw_numbers(size_t count, wl_dtype type, double magnitude, uint64_t seed);

// One that the type holds.
Numbers same_numbers(size_t count, wl_dtype type, float value);

// Device memory of other numbers in each run.
void add_numbers(const char* name, size_t misalignment, const Numbers& first, const Numbers& second,
                 bool filled, Problem* problem);

// Of which type biases are. The arguments may say anything where there are none.
struct BiasType {
  bool given;
  wl_dtype type, said;
};
BiasType draw_bias_type(Draw& draw, bool none);

// Scales of A and of B, whose product brings sums over K to the order of 1 without an alpha.
constexpr uint8_t base_a = 0x18;
constexpr uint8_t fitting_b = 0x08;

// Of a longer K the scales of operands keep to one binade: sums then stay exact in any order.
constexpr int64_t long_sums = 8192;

// From here on many sums of INT8 have more digits than FP32.
constexpr int64_t large_integers = 1064;
bool has_large_integers(const warpline::gemm::Types& types, const Sizes& sizes);

// A's rows are 1 at one k and 0 elsewhere, so that an output is a product of factors and one value
// of B; and B's values have the magnitudes of four codes and scales of 1 or 2.
void make_one_hot(Operand* a, uint64_t seed);
void make_powers(Operand* b, const uint8_t (&code)[4], uint64_t seed);

// The first k elements of each row of an NVFP4 operand in another type, which holds them exactly.
// Some rows become one element and zeros: a very large one, a very small one or an infinity. Of
// NVFP4 it is the operand itself. With `all_bits` some rows of FP8 have numbers that use all bits
// of their type, in seven binades, and half the rows of INT8 numbers next to its lowest one: FP32
// does not hold their sums exactly.
Operand retyped(const Operand& nvfp4, wl_operand type, int64_t k, uint64_t seed,
                bool all_bits = false);

// Of one batch entry.
Operand first_rows(const Operand& operand, int64_t rows);

// A.B^T as the configuration's device adds it: exactly, but for FP8 on Hopper. `config`: that of
// the problem, "" where the library chooses.
Sums sums_of(const Configuration& configuration, const std::string& config,
             const wltest::Problem& problem);

// Of operands with scales, on Hopper plain rows too.
wl_sf_layout draw_sf_layout(const Configuration& c, const warpline::gemm::Types& types, Draw& draw);
// Values and scales of an operand of both runs, which are empty where they are not filled.
void add_operand(const char* values, const char* scales, wl_operand type, wl_sf_layout layout,
                 const Operand (&runs)[2], uint8_t padding, bool filled, Draw& draw,
                 Problem* problem);

// The input lies at the beginning of another's memory.
void lie_within(const std::string& name, const std::string& other, Problem* problem);

// A tensor [L, M, N] of 2- or 4-byte elements as it lies in memory.
struct Layout {
  Sizes sizes{};
  size_t element = 2;
  int64_t ld = 0, batch_stride = 0; // as the arguments say, 0 for dense
  int64_t pitch() const { return ld == 0 ? sizes.n : ld; }
  int64_t entry() const { return batch_stride == 0 ? sizes.m * pitch() : batch_stride; }
  size_t bytes() const;
  // Dense rows `from` at their places of `image`, and which bytes these are.
  void place(const void* from, Bytes* image, std::vector<bool>* written = nullptr) const;
};
// D without its bytes. In the first problem it starts in the middle of 32 bytes.
Output draw_d(wl_dtype type, Draw& draw);
// `ld` and `stride` are the fields' names, `tensor` the name in "entries of D".
Layout draw_layout(const Sizes& sizes, size_t element, const char* ld, const char* stride,
                   const std::string& tensor, Draw& draw);
// D in NVFP4 has no gaps.
Layout draw_dense_layout(const Sizes& sizes, Draw& draw);

// The way in which the plan is run; its flags.
uint32_t draw_product_way(const Sizes& sizes, Draw& draw, Problem* problem);

// Rows of the plan where runs bring their own operands, to a plan for as many rows or more; 0:
// runs have the plan's. Notes those of `weights` that are the plan's as well.
int64_t draw_planned_rows(const Sizes& sizes, const std::set<std::string>& weights, Draw& draw,
                          Problem* problem);

// Runs may differ in what their arguments say: they bring their own, and no graph keeps the first
// one's.
inline bool runs_differ(int64_t planned_rows, const Problem& problem) {
  return planned_rows != 0 && problem.way != Way::captured;
}
// What the two runs say: every activation has another one.
struct Activations {
  wl_activation runs[2];
  bool exponentials() const { return runs[0] >= WL_ACTIVATION_SILU; }
};
Activations draw_activations(bool differ, size_t turn, Draw& draw);
// What a GPU's own ex2 and rcp may change of these results of an activation, in D's type.
Bytes slack_of(std::vector<float> activated, wl_dtype type);
// Another one for the second run, with a limit if the first one has none.
Gate other_gate(const Gate& gate, Draw& draw);
std::array<Gate, 2> draw_gates(bool differ, Draw& draw);

// Of a plan whose runs bring their own: another activation or gate, and biases that come or go.
inline void other_epilogue(wl_dual_gemm_args* args) {
  const bool biased = args->bias1 != nullptr || args->bias2 != nullptr;
  args->bias1 = args->bias2 = biased ? nullptr : args->b1;
  args->bias_type = WL_F16;
  args->gate = args->gate == WL_GATE_SILU ? WL_GATE_GELU_TANH : WL_GATE_SILU;
  args->gate_limit = 0;
}
inline void other_epilogue(wl_gemm_args* args) {
  args->bias = args->bias != nullptr ? nullptr : args->b;
  args->bias_type = WL_F16;
  args->row = nullptr;
  args->col = nullptr;
  args->residual = nullptr;
  args->activation =
      args->activation == WL_ACTIVATION_NONE ? WL_ACTIVATION_GELU_ERF : WL_ACTIVATION_NONE;
}
inline void other_epilogue(wl_quantize_args* args) {
  args->gamma = args->beta = args->residual = nullptr;
  args->sum = nullptr;
  args->d_scale = nullptr;
  if (args->norm != WL_NORM_NONE) args->eps *= 2;
}
inline void other_epilogue(wl_norm_linear_args* args) {
  args->gamma = args->beta = args->residual = nullptr;
  args->sum = nullptr;
  args->alpha = args->a_scale = nullptr;
  args->eps *= 2;
  args->bias = args->bias != nullptr ? nullptr : args->w;
  args->bias_type = WL_F16;
  args->activation =
      args->activation == WL_ACTIVATION_NONE ? WL_ACTIVATION_GELU_ERF : WL_ACTIVATION_NONE;
}

// Plan and run by the operation's functions, `args_of` making arguments of addresses, and of the
// run's number where runs differ. Strides of a plan for other memory are the default ones; what is
// the plan's alone, a run gives wrong.
template <class Args, class ArgsOf>
void set_calls(int64_t planned_rows, const ArgsOf& args_of,
               wl_status (*plan)(wl_context*, const Args*, wl_plan**),
               wl_status (*run)(const wl_plan*, const Args*, void*, size_t, wl_stream),
               Problem* problem) {
  const auto args_of_run = [=](const Addresses& at, int number) {
    if constexpr (std::is_invocable_v<ArgsOf, const Addresses&, int>)
      return args_of(at, number);
    else
      return args_of(at);
  };
  problem->plan = [=](wl_context* context, const Addresses& at, wl_plan** made) {
    Args args = args_of_run(at, 0);
    if (planned_rows != 0) {
      args.m = planned_rows;
      if constexpr (requires { args.ldx; }) args.ldx = 0;
      if constexpr (requires { args.batch_stride_x; }) args.batch_stride_x = 0;
      if constexpr (requires { args.ldr; }) args.ldr = 0;
      if constexpr (requires { args.batch_stride_r; }) args.batch_stride_r = 0;
      if constexpr (requires { args.ldd; }) args.ldd = 0;
      if constexpr (requires { args.batch_stride_d; }) args.batch_stride_d = 0;
      other_epilogue(&args);
    }
    return plan(context, &args, made);
  };
  if (planned_rows == 0) return;
  problem->run_with = [=](int number, const wl_plan* made, const Addresses& at, void* workspace,
                          size_t bytes, wl_stream stream) {
    Args args = args_of_run(at, number);
    args.config = "the plan's";
    args.flags = ~0u;
    return run(made, &args, workspace, bytes, stream);
  };
}

} // namespace wltest::problems
