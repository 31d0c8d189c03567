#include "tools/cli/commands.hpp"
#include "tools/cli/dual_gemm_files.hpp"
#include "tools/cli/gemm_files.hpp"
#include "tools/cli/moe_files.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/quantize_files.hpp"
#include "tools/cli/run.hpp"

#include <algorithm>
#include <cstdio>

namespace warpline::cli {

namespace {

struct ExampleRequest {
  std::string path, operation = "dual-gemm", type = "nvfp4";
  int64_t m = 128, n = 256, k = 512, l = 1;
  Beside beside;
  uint64_t seed = 1;

  bool gemm() const { return operation == "gemm"; }
  bool moe() const { return operation == "moe"; }
  std::vector<std::string> names() const {
    return gemm() ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"a", "b1", "b2"};
  }
};

Options declare(ExampleRequest& r) {
  Options o("make-example", "Writes a safetensors file with random tensors for\n"
                            "  warpline dual-gemm --input FILE --output OUT.safetensors --verify\n"
                            "or, with --operation gemm, for warpline gemm,\n"
                            "or, with --operation moe, for warpline moe,\n"
                            "or, of type f16 or bf16, for warpline quantize and warpline gemm");
  o.positional("FILE", "the file to write; not to stdout", r.path);
  o.choice("--operation", "default dual-gemm", r.operation, {"dual-gemm", "gemm", "moe"});
  o.integer("-m", "rows of a, or tokens (default 128)", r.m, 1, 1 << 20);
  o.integer("-n",
            "rows of b, or of b1 and b2, a multiple of 8; of an expert's gate and up, of 64\n"
            "(default 256)",
            r.n, 1, 1 << 20);
  o.integer("-k", "values in a row, a multiple of 64 (default 512)", r.k, 1, 1 << 20);
  o.integer("-l", "batch, or experts, of which a token has two (default 1)", r.l, 1, 1 << 16);
  o.choice("--type", "of a and b, or of a, b1 and b2 (default nvfp4)", r.type,
           {"nvfp4", "f16", "bf16"});
  o.choice("--bias", "a bias of this type, or two", r.beside.bias, {"f32", "f16", "bf16"});
  o.flag("--row", "gemm: factors of rows", r.beside.row);
  o.choice("--residual", "gemm: a residual of this type, which is D's then", r.beside.residual,
           {"f16", "bf16", "f32"});
  o.unsigned64("--seed", "seed of the random tensors (default 1)", r.seed);
  return o;
}

void require_multiple(const char* name, int64_t value, int64_t unit) {
  if (value % unit == 0) return;
  const int64_t below = value / unit * unit;
  throw Failure(exit_usage, std::string("make-example: ") + name + " is " + std::to_string(value) +
                                ", must be a multiple of " + std::to_string(unit) +
                                " (nearest: " + (below > 0 ? std::to_string(below) + " or " : "") +
                                std::to_string(below + unit) + ")");
}

void check(const Options& options, const ExampleRequest& r) {
  if (r.path == "-")
    throw Failure(exit_usage, "make-example: FILE is '-', must be a file's name: nothing goes to "
                              "standard output (a file of that name is ./-)");
  for (const std::string name : {"--bias", "--row", "--residual"}) {
    if (!options.given(name)) continue;
    if (!r.gemm() && name != "--bias")
      throw Failure(exit_usage, "make-example: " + name + " is for --operation gemm");
    if (r.type != "nvfp4")
      throw Failure(exit_usage,
                    "make-example: " + name + " is for --type nvfp4, --type is " + r.type);
  }
  if (r.moe() && (r.type != "nvfp4" || options.given("--bias")))
    throw Failure(exit_usage, "make-example: --operation moe has neither --type nor --bias");
  check_outputs("make-example", {{"FILE", r.path}});
  require_multiple("-n", r.n, r.moe() ? 64 : 8);
  require_multiple("-k", r.k, 64);
  const double m = double(r.m), n = double(r.n), l = double(r.l);
  const double weights = r.moe() ? 3 : double(r.names().size() - 1);
  const double values = l * (m + weights * n) * double(r.k);
  const double residual = r.beside.residual.empty() ? 0 : 2 * l * m * n * double(sizeof(float));
  check_memory("make-example", "-m, -n, -k, -l",
               values * (r.type == "nvfp4" ? 9.0 / 16 : 2) + residual);
}

void write_wide(const ExampleRequest& r) {
  const auto of = r.type == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  std::vector<NamedMatrix> matrices;
  for (const std::string& name : r.names())
    matrices.push_back({name, r.l > 1,
                        wltest::random_matrix(name == "a" ? r.m : r.n, r.k, r.l, of,
                                              3 * r.seed + matrices.size())});
  write_matrices(r.path, matrices);
}

void write_dual_gemm(const ExampleRequest& r) {
  DualGemmProblem problem = make_dual_gemm_problem(r.m, r.n, r.k, r.l, r.beside.bias, r.seed);
  problem.product.alpha1 = 0.25f;
  problem.product.alpha2 = 0.125f;
  write_dual_gemm_problem(r.path, problem);
}

void write_gemm(const ExampleRequest& r) {
  GemmProblem problem = make_gemm_problem(r.m, r.n, r.k, r.l, r.beside, r.seed);
  problem.product.alpha1 = 0.25f;
  write_gemm_problem(r.path, problem);
}

LayerSizes layer_of(const ExampleRequest& r) {
  LayerSizes sizes;
  sizes.tokens = r.m, sizes.hidden = r.k, sizes.intermediate = r.n, sizes.experts = r.l;
  sizes.top_k = std::min<int64_t>(r.l, 2);
  return sizes;
}

void write_moe(const ExampleRequest& r) {
  LayerTensors tensors;
  draw_layer(layer_of(r), r.seed, &tensors);
  // The largest magnitude of a token is 1; of h about 8.
  tensors.input_scale[0] = 1.0f / (6 * 448), tensors.input_scale[1] = 8.0f / (6 * 448);
  write_layer(r.path, tensors);
}

// "a [128, 256], b1 and b2 [256, 256]": rows and `columns`.
std::string shapes_text(const ExampleRequest& r, int64_t columns) {
  return format("a [%lld, %lld], %s [%lld, %lld]", static_cast<long long>(r.m),
                static_cast<long long>(columns), r.gemm() ? "b" : "b1 and b2",
                static_cast<long long>(r.n), static_cast<long long>(columns));
}

} // namespace

ExitStatus run_make_example(const Arguments& arguments) {
  ExampleRequest request;
  Options options = declare(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  check(options, request);
  const Progress progress("making and writing the tensors");
  std::string text;
  if (request.moe()) {
    write_moe(request);
    text = format("x [%lld, %lld], ids, weights; gate_proj, up_proj and down_proj of %lld experts",
                  static_cast<long long>(request.m), static_cast<long long>(request.k),
                  static_cast<long long>(request.l));
  } else if (request.type != "nvfp4") {
    write_wide(request);
    text = shapes_text(request, request.k) + " of " + request.type;
  } else {
    request.gemm() ? write_gemm(request) : write_dual_gemm(request);
    text = shapes_text(request, request.k / 2) + " bytes of NVFP4, their scales, " +
           (request.gemm() ? "alpha" : "alpha1, alpha2");
    if (!request.beside.bias.empty()) text += request.gemm() ? ", bias" : ", bias1, bias2";
    if (request.beside.row) text += ", row";
    if (!request.beside.residual.empty()) text += ", residual";
  }
  std::printf("wrote %s: %s\n", request.path.c_str(), text.c_str());
  return exit_right;
}

} // namespace warpline::cli
