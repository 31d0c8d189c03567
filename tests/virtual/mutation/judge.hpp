// A kernel with a problem to run it on, and its run in a process of its own.
#pragma once

#include "runtime/src/images.hpp"
#include "tests/support/dual_gemm_run.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace wltest {

// A list of checkers without the ledger: of kernels that have none, and of runs that launch others
// with ledgers of their own.
std::string without_ledger(std::string checks);

struct Kernel {
  std::string name, config, profile;
  std::string text;
  std::string names;    // with values, for the check of the kernel's BARRIER LEDGER
  bool ledger = true;   // one set of names holds for all kernels of a run
  DualGemmCase problem; // more K tiles than stages
  // Of a second run, with biases, where what one tile leaves behind meets the next.
  int64_t short_k = 192;
  int sms = 1;
  double work = 1; // of a run, to be compared with that of kernels of the same target
  // What the kernel is run as: a dual GEMM with 16-bit outputs, or with D in NVFP4; a wl_gemm with
  // D of any type; a quantisation with another behind it; a kernel of wl_norm_linear, ahead of a
  // product; or the problems drawn for it.
  enum class Run {
    dual_gemm,
    dual_gemm_nvfp4,
    linear,
    quantize,
    norm_linear,
    drawn
  } run = Run::dual_gemm;
  wl_dtype d_type = WL_F16; // of a wl_gemm
};

struct Verdict {
  std::string by; // checker/rule, "result", "ptx", "time", "crash"; "" = survived
  std::string schedule;
};

struct Child {
  pid_t pid = 0;
  int pipe = -1;
  size_t index = 0;
  std::string output;
};

struct Outcome {
  Verdict verdict;
  std::string report;
};

extern const std::vector<std::string> kSchedules;
// For what has passed those: operations that stay behind for whole tiles.
constexpr int kHoldSeeds = 32;
std::vector<std::string> hold_schedules(int seeds);

// A copy of the virtual GPU that nobody rebuilds meanwhile; "" = the one that was built.
extern std::string driver_path;

Kernel make_kernel(const warpline::Image& image);
// The configuration of the product behind a kernel of wl_norm_linear.
const char* product_of(const Kernel& kernel);

// The kernel as it is, or with `text` in its place, under all the schedules. start() begins it in a
// child, finish() waits for that, take_ended() for whichever ends first.
Child start(const Kernel& kernel, const std::string& text, const std::string& check,
            const std::vector<std::string>& schedules, size_t index);
Child take_ended(std::vector<Child>& running);
Outcome finish(Child& child);

} // namespace wltest
