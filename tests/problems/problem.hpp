// A test problem of any operation: what a call reads and must write, and how it is run. One
// function runs them all through the C ABI; an operation says only what its arguments mean
// (dual_gemm.cpp, linear.cpp, quantize.cpp).
#pragma once

#include "kernels/gemm/operand.hpp"
#include "tests/problems/draw.hpp"
#include "warpline/warpline.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace wltest::problems {

using Bytes = std::vector<uint8_t>;

// Device memory that the call reads. Each run of the plan finds other bytes there.
struct Input {
  std::string name;    // the field of the arguments
  size_t misalignment; // of the address, modulo 512
  std::vector<Bytes> runs;
  std::string within; // the same memory as this input's first bytes; "" = its own
};

// Device memory that the call writes.
struct Output {
  std::string name;
  size_t misalignment;
  std::vector<Bytes> runs;   // what must lie there afterwards
  std::vector<bool> written; // bytes that must; the others stay as they were
  // Elements whose NaNs are all alike: the magnitude of infinity, and their bytes, 2 or 4; 0 =
  // plain bytes.
  uint32_t infinity = 0;
  size_t element = 2;
  // What lies there beforehand, where the call reads it; empty = anything.
  std::vector<Bytes> before{};
  // Of each run, where runs write other bytes; empty: `written` is of all.
  std::vector<std::vector<bool>> written_by{};
  // With exponentials, where something is added to what they make, which may take most of it away:
  // elements by which the outputs may differ (slack_of), as many bytes as the outputs.
  std::vector<Bytes> slack{};
};

// Of what an activation or gate makes, the share that a GPU's own ex2 and rcp may change: their
// relative errors are below 2^-22 each; an activation of erf has them in a polynomial.
constexpr float exponentials_change = 0x1p-19f;

// What D in NVFP4 was made of, of one run, where exponentials come in: a GPU's own may change a
// block's scale, and with it every code.
struct MadeBlocks {
  std::vector<float> values; // 16 of each block of "d"
  float d_scale = 1;
  std::vector<size_t> scales; // where a block's scale lies in "sfd"; no_scale: nowhere
};
constexpr size_t no_scale = SIZE_MAX;

// How the plan is run.
enum class Way { default_stream, own_stream, captured };

// Of inputs and outputs by name; null where there are none.
struct Addresses : std::map<std::string, void*> {
  void* at(const std::string& name) const {
    const auto found = find(name);
    return found == end() ? nullptr : found->second;
  }
};

struct Problem {
  std::string text; // all that was drawn
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  int runs = 1;
  int in_a_row = 1; // a run is the plan so often, one behind the other
  Way way = Way::default_stream;
  size_t workspace_misalignment = 0; // multiple of 256
  // The plan for the addresses of the inputs and outputs.
  std::function<wl_status(wl_context*, const Addresses&, wl_plan**)> plan;
  // Runs it with operands of the run's own, whose number comes first (a graph's runs are the first
  // one); empty: with the plan's, wl_plan_run. The plan is then made for other memory of twice the
  // size, but for inputs that are `planned`, and nothing may happen there.
  std::function<wl_status(int, const wl_plan*, const Addresses&, void*, size_t, wl_stream)>
      run_with;
  std::set<std::string> planned;
  bool static_weights = false;        // says that no grid which may still run writes them
  bool alone = false;                 // no grid that may still run touches anything of the problem
  std::string config;                 // that the plan must be of; "" = any
  std::string schedule;               // of the virtual GPU; "" = drawn
  std::string checks = "definedness"; // its checkers
  // ex2 and rcp come in, whose last places a GPU may make otherwise than the virtual one: outputs
  // may lie beside the expected ones there.
  bool exponentials = false;
  std::vector<MadeBlocks> blocks{}; // of each run
};

// Memory of the inputs and outputs by name.
using Regions = std::map<std::string, std::pair<void*, size_t>>;

// What a message starts with when there is no plan to run.
extern const char* const no_plan;
// Launches in the default stream, ahead of a run and behind it.
enum class Side { ahead, behind };
using Neighbour = std::function<void(const Regions&, Side)>;
// "" or the first thing that is wrong. With neighbours a run is launched in the default stream.
std::string run(wl_context* context, const Problem& problem, const Neighbour& neighbour = {});

// Ahead of the name of a product's configuration: layers of experts with that product.
inline const std::string layer_with = "layer_with_";

// A configuration of an operation: an entry of its table, and the device for its problems.
struct Configuration {
  std::string name, profile;
  int sms = 1;                              // mostly few, so that a cluster makes several tiles
  std::vector<std::string> kernels;         // PTX files that a run launches
  wl_dtype type = WL_F16;                   // of the output, or of the input where that varies
  wl_dtype rows_type = WL_F16;              // of the rows of experts, where the kernel says it
  std::vector<warpline::gemm::Types> types; // of operands that a product takes
  std::vector<size_t> problems;             // numbers of those that make its list
  std::vector<size_t>
      of_loops;           // and of those that show what loops wait for (tests/virtual/mutation)
  bool shares_k = false;  // ranges of K that are no whole tiles
  bool fast_sums = false; // of FP8 on Hopper without promotion
  bool column_factors = false;
  bool later = false;             // activations of later rows are made ready under the product
  int64_t most_tiles = INT64_MAX; // of a problem, where its CTAs wait for each other
  bool one_row = false;           // of tiles, of one entry
  // What the kernel treats as one piece: a cluster's rows and columns of D, a CTA's, elements of K
  // that fill its stages once and one of them, row tiles that are visited before the next column
  // tile; and elements of K after which all its loops along K have come round, and those of a long
  // tile.
  int64_t rows = 1, columns = 1, cta_rows = 1, cta_columns = 1, depth = 64, tile_k = 64, group = 1,
          turn = 64, long_k = 128;
  // Where copies of a loop along K take its blocks in turn: how many, and CTAs that share K.
  int64_t copies = 0, sharers = 1;
  // Tokens of MMAs where tiles may have fewer rows than `rows`, fewer than those; and columns of D
  // with which no more tiles of rows are made than hold them.
  std::vector<int64_t> fitted;
  int64_t fitting_columns = 0;
  bool has_whole_tiles = false; // and of_whole_tiles
};

// Its sums are those of Hopper's narrow accumulator.
bool adds_f8_on_hopper(const Configuration& configuration);
// Whether a run launches one kernel, or it behind the one that packs plain scales.
bool of_one_launch(const Configuration& configuration);

// Whether a problem gets its bytes, or is only described.
enum class Values { all, none };

struct Operation {
  std::string name;   // its configurations' names start with it
  std::string folder; // in kernels/
  std::string args;   // the struct in warpline.h; "": kernels without an entry of their own
  std::vector<Configuration> configurations;
  Problem (*make)(const Configuration&, Draw&, Values);
};
const std::vector<Operation>& operations();

// 0, 1 and so on.
std::vector<size_t> first_problems(size_t count);

// Problem `index` of a configuration.
Problem make_problem(const Operation& operation, const Configuration& configuration, uint64_t seed,
                     size_t index, Varied* varied = nullptr, Values values = Values::all);

} // namespace wltest::problems
