#include "tools/cli/commands.hpp"
#include "tools/cli/dual_gemm_files.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/quantize_files.hpp"
#include "tools/cli/run.hpp"

#include <cstdio>

namespace warpline::cli {

ExitStatus run_make_example(const Arguments& arguments) {
  std::string path;
  int64_t m = 128, n = 256, k = 512, l = 1;
  uint64_t seed = 1;
  std::string type = "nvfp4";
  Options options("make-example",
                  "Writes a safetensors file with random tensors for\n"
                  "  warpline dual-gemm --input FILE --output OUT.safetensors --verify\n"
                  "or, of type f16 or bf16, for warpline quantize");
  options.positional("FILE", "the file to write; not to stdout", path);
  options.integer("-m", "rows of a (default 128)", m, 1, 1 << 20);
  options.integer("-n", "rows of b1 and b2, a multiple of 8 (default 256)", n, 1, 1 << 20);
  options.integer("-k", "values in a row, a multiple of 64 (default 512)", k, 1, 1 << 20);
  options.integer("-l", "batch (default 1)", l, 1, 1 << 16);
  options.choice("--type", "of a, b1 and b2 (default nvfp4)", type, {"nvfp4", "f16", "bf16"});
  options.unsigned64("--seed", "seed of the random tensors (default 1)", seed);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  if (path == "-")
    throw Failure(exit_usage, "make-example: FILE is '-', must be a file's name: nothing goes to "
                              "standard output (a file of that name is ./-)");
  check_outputs("make-example", {{"FILE", path}});
  auto require_multiple = [](const char* name, int64_t value, int64_t unit) {
    if (value % unit == 0) return;
    const int64_t below = value / unit * unit;
    throw Failure(exit_usage,
                  std::string("make-example: ") + name + " is " + std::to_string(value) +
                      ", must be a multiple of " + std::to_string(unit) +
                      " (nearest: " + (below > 0 ? std::to_string(below) + " or " : "") +
                      std::to_string(below + unit) + ")");
  };
  require_multiple("-n", n, 8);
  require_multiple("-k", k, 64);
  const double values = double(l) * (double(m) + 2 * double(n)) * double(k);
  check_memory("make-example", "-m, -n, -k, -l", values * (type == "nvfp4" ? 9.0 / 16 : 2));
  const Progress progress("making and writing the tensors");
  if (type != "nvfp4") {
    const auto of = type == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
    std::vector<NamedMatrix> matrices;
    for (const char* name : {"a", "b1", "b2"})
      matrices.push_back(
          {name, l > 1,
           wltest::random_matrix(*name == 'a' ? m : n, k, l, of, 3 * seed + matrices.size())});
    write_matrices(path, matrices);
    std::printf("wrote %s: a [%lld, %lld], b1 and b2 [%lld, %lld] of %s\n", path.c_str(),
                static_cast<long long>(m), static_cast<long long>(k), static_cast<long long>(n),
                static_cast<long long>(k), type.c_str());
    return exit_right;
  }
  wltest::Problem problem =
      wltest::make_problem(m, n, k, l, wltest::InputKind::public_problem, seed);
  problem.alpha1 = 0.25f;
  problem.alpha2 = 0.125f;
  write_problem(path, problem);
  std::printf("wrote %s: a [%lld, %lld], b1 and b2 [%lld, %lld] bytes of NVFP4, their scales, "
              "alpha1, alpha2\n",
              path.c_str(), static_cast<long long>(m), static_cast<long long>(k / 2),
              static_cast<long long>(n), static_cast<long long>(k / 2));
  return exit_right;
}

} // namespace warpline::cli
