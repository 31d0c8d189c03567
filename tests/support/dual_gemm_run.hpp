// Runs one dual GEMM problem through the C ABI, on the driver that WARPLINE_DRIVER names, with
// everything around the data that may show a mistake: NaN in the scale padding, guard bytes before
// and after D and between its rows and entries, D filled with NaN.
#pragma once

#include "tests/reference/inputs.hpp"
#include "tests/reference/linear.hpp"
#include "warpline/warpline.h"

#include <string>
#include <utility>
#include <vector>

namespace wltest {

struct DualGemmCase {
  InputKind kind = InputKind::exact;
  int64_t m = 1, n = 8, k = 64, l = 1;
  OutputType out = OutputType::f16;
  int a_type = -1;    // wl_operand; -1: the first that the configuration takes
  std::string config; // configuration to force, "" = the library's choice
  uint64_t seed = 1;
  int64_t ldd = 0;              // 0 = n
  int64_t entry_gap = 0;        // elements between the entries of D, multiple of 8
  bool alphas = false;          // pass alpha pointers although they are 1
  float alpha1 = 0, alpha2 = 0; // 0 = the problem's own
  Gate gate{};
  // Biases are whole numbers from -32 to 31 times these, exact in every type; 0 = none.
  float bias1 = 0, bias2 = 0;
  wl_dtype bias_type = WL_F32;
  int runs = 1;           // the plan is run this often into fresh outputs: bits must agree
  int in_a_row = 1;       // a run is the plan so often, one behind the other
  bool graph = false;     // the runs are launches of one captured graph
  bool quantised = false; // A and B1 are what quantisations ahead of the first run write
  // D, the workspace and the scales' padding are what the allocation holds, for checkers that know
  // who wrote a byte. (Where CTAs poll flags in the workspace, it has been written: a flag is up
  // when it holds the launch's 64 bits, whatever lay there before.)
  bool unwritten = false;
  // Called ahead of the runs in a row, with the memory of A, B1, bias1, the factors and D.
  void (*ahead)(const std::vector<std::pair<void*, size_t>>&) = nullptr;
};

// Whether CTAs of the configuration poll flags in the workspace.
inline bool polls_workspace(const std::string& config) {
  return config.find("_stream") != std::string::npos;
}

struct DualGemmResult {
  wl_status status = WL_SUCCESS;
  std::string message; // why not, "" when it ran
  std::string config;
  wl_plan_info info{};
  bool guards_intact = true;
  bool runs_agree = true;
  Comparison bound; // against the double reference, the public bound
  Comparison exact; // against the FP32 replay, bit for bit
};

// A configuration's first type of A; NVFP4 where `config` is "" or names none.
wl_operand first_a_type(const std::string& config);

// "m 1 n 8 k 64 ... seed 1" with all that is needed to repeat the case.
std::string describe(const DualGemmCase& c);

DualGemmResult run_dual_gemm(wl_context* context, const DualGemmCase& c);

// The same where many cases have one problem: `p` is the case's, `sums` are accumulate(p).
Problem problem_of(const DualGemmCase& c);
GatedOperands gated_operands(const DualGemmCase& c, const Problem& p);
DualGemmResult run_dual_gemm(wl_context* context, const DualGemmCase& c, const Problem& p,
                             const Sums& sums);

} // namespace wltest
