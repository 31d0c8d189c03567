// What the commands of the products share, dual-gemm and gemm: options, the run of a plan, D's
// memory, and the verdict on D.
#pragma once

#include "kernels/gemm/operand.hpp"
#include "tests/reference/dual_gemm.hpp"
#include "tools/cli/config_list.hpp"
#include "tools/cli/device_memory.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/run.hpp"
#include "tools/cli/stats.hpp"
#include "tools/stamps/session.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace warpline::cli {

// In the order of wl_activation and of wl_gate.
inline const std::vector<std::string> activations = {"none", "relu",      "relu2",
                                                     "silu", "gelu_tanh", "gelu_erf"};
inline const std::vector<std::string> gates = {"silu", "gelu_tanh", "clamped"};

struct ProductRequest : RunOptions {
  int64_t m = 256, n = 4096, k = 7168, l = 1;
  std::string a_type = "nvfp4", b_type = "nvfp4", out = "f16";
  std::optional<float> d_scale;
  bool stats = false, stamps = false;

  bool quantised() const { return out == "nvfp4"; }
  wl_dtype d_type() const;
};

// Names of operand types, in the order of wl_operand.
extern const std::vector<std::string> operand_names;
wl_operand operand_of(const std::string& name);
const std::string& name_of(wl_operand type);
// "A f16, B nvfp4"
std::string operands_text(const std::string& a_type, const std::string& b_type);
constexpr const char* out_help = "type of D (default f16, of a BF16 A bf16, of gemm's TF32 f32)";
// The default of --out, where it is not given.
std::string default_out(const std::string& a_type);

// "f16" and the like.
wl_dtype dtype_of(const std::string& name);
const char* name_of(wl_dtype type);
size_t element_bytes(wl_dtype type); // of types that are no NVFP4

// -m, -n, -k, -l, --out and, where NVFP4 is among `out`, --d-scale; `rows_of_b` says what -n
// counts, in words.
void declare_sizes(Options* options, ProductRequest* r, const std::string& rows_of_b,
                   const std::vector<std::string>& out);
// --trace, --stamps and --stats.
void declare_counting(Options* options, ProductRequest* r);

// The command's sizes and types are the file's, whose tensors that it does not take are named on
// stderr.
void take_sizes(ProductRequest* r, const wltest::Problem& of_file,
                const std::vector<std::string>& unused);

// What an operand takes: its elements, its scales, and these padded to WL_SF_128x4.
struct OperandBytes {
  double values, scales, packed;
  double drawn; // what it is made of, where that is not itself
};
OperandBytes bytes_of(const ProductRequest& r, const std::string& type, int64_t rows);

// As prepare_run, and judges the options above.
Device prepare_product(const std::string& command, ProductRequest* r);

// Sizes, types and the configuration of wl_dual_gemm_args or the like; no pointers.
template <class Args>
Args sizes_of(const ProductRequest& r) {
  Args args = {};
  args.struct_size = sizeof args;
  args.m = r.m;
  args.n = r.n;
  args.k = r.k;
  args.l = r.l;
  args.sf_layout = layout_of_scales(r);
  args.d_type = r.d_type();
  args.a_type = operand_of(r.a_type);
  args.b_type = operand_of(r.b_type);
  args.config = r.config.empty() ? nullptr : r.config.c_str();
  return args;
}

// A device address far from those of other `i`, aligned, of no memory: for a check of sizes before
// anything of that size exists.
inline void* far_apart(uint64_t i) { return reinterpret_cast<void*>(i << 58); }
// Likewise of scales, null where the type has none.
inline void* scales_far_apart(uint64_t i, wl_operand type) {
  return gemm::has_scales(type) ? far_apart(i) : nullptr;
}

// D and its scales on the device, before a run of bytes that are NaN in every type: an output that
// the kernel leaves out cannot pass.
struct OutputMemory {
  // `d_bytes` of D as it lies in memory, strides and all; `scales` when D is NVFP4.
  OutputMemory(wl_context* context, const std::vector<uint8_t>& d, size_t scale_bytes);
  DeviceMemory d, sfd;
  std::vector<uint8_t> read_d() const;
  // Of D in NVFP4, [l, m, n].
  wltest::Operand read_operand(int64_t m, int64_t n, int64_t l) const;

private:
  wl_context* context_;
  size_t d_bytes_, scale_bytes_;
};

struct ProductRun {
  wl_plan_info plan = {};
  double seconds = 0;
  Counted counted; // for stats
};

// Plans and runs, with what --trace and --stats ask for.
class ProductRunner {
public:
  ProductRunner(const std::string& command, wl_context* context, const Device& device,
                const ProductRequest& r);
  // make: wl_dual_gemm_plan or the like.
  template <class Args>
  ProductRun run(const Args& args, wl_status (*make)(wl_context*, const Args*, wl_plan**)) {
    std::optional<Progress> progress("loading the kernel");
    const Plan plan(context_, args, make);
    progress.reset();
    return run(plan);
  }

private:
  ProductRun run(const Plan& plan);

  const std::string command_;
  wl_context* context_;
  const Device& device_;
  const ProductRequest& request_;
  std::unique_ptr<stamps::Session> session_; // kernels are stamped where there is one
};

// A run and what it made.
struct Outcome : ProductRun {
  std::vector<uint8_t> d;    // [l, m, n], no gaps
  int64_t strayed = 0;       // bytes written between rows
  wltest::Operand quantised; // D with --out nvfp4
};

struct Verdict {
  wltest::Comparison comparison;
  int64_t unequal = 0; // to the replay
  int64_t strayed = 0; // bytes written between D's rows
  double seconds = 0;
  bool cuts_sums = false; // FP8 on Hopper, whose tensor core keeps 14 bits of a sum
  int64_t by_sums = 0;    // outputs beyond the bound by no more than FP32 sums may lose
  bool passed() const { return comparison.passed() && strayed == 0; }
};

// Whether sums were those of FP8 on Hopper; and how far apart outputs are, 0 where that is no
// number.
bool cuts_sums(const wltest::Problem& problem, const ProductRun& run);
std::vector<double> differences(std::vector<double> one, const std::vector<double>& other);

// `compare` compares outputs with their references, from which they may differ by `more` beside the
// bound. If one is beyond, all may differ by what the form makes of sums that lost something as
// well: where a gate is near 0 and the other sum is not, that is more than the bound.
struct Compared {
  const wltest::Sums& sums;
  std::function<std::vector<double>(const wltest::Sums&)> reference;
  std::function<wltest::Sums()> lost; // the most of each
  std::function<wltest::Comparison(const std::vector<double>& more)> compare;
};
void judge_sums(const Compared& of, std::vector<double> more, Verdict* verdict);

// Compares with what the two functions make of the sums: D in double, and as the kernels compute it
// before they round it.
Verdict judge(const ProductRequest& r, const wltest::Problem& problem, const Outcome& outcome,
              const std::function<std::vector<double>(const wltest::Sums&)>& reference,
              const std::function<std::vector<float>(const wltest::Sums&)>& replay);

void report_problem(Report& report, const ProductRequest& r);
void report_verdict(Report& report, const Verdict& verdict, const ProductRequest& r);

struct End {
  ExitStatus status;
  std::string result; // "PASS"
};
// The report's end: the verdict, where there is one, and D's file, which `write` writes.
End conclude(Report& report, const ProductRequest& r, const std::optional<Verdict>& verdict,
             const std::function<void()>& write);
void write_outcome(const std::string& command, const ProductRequest& r, bool batched,
                   const Outcome& outcome);

} // namespace warpline::cli
