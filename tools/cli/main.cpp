// The program `warpline`: finds the command, turns every failure into a message and an exit status.
#include "runtime/include/warpline/warpline.h"
#include "tools/cli/commands.hpp"
#include "tools/cli/options.hpp"

#include <cstdio>
#include <new>

namespace warpline::cli {
namespace {

struct Command {
  const char* name;
  ExitStatus (*run)(const Arguments&);
  const char* summary;
};

ExitStatus run_version(const Arguments& arguments) {
  Options options("version", "Prints the version.");
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  const int version = wl_version();
  std::printf("warpline %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  return exit_right;
}

constexpr Command commands[] = {
    {"dual-gemm", run_dual_gemm, "run D = silu(alpha1 A.B1^T) * (alpha2 A.B2^T) and check it"},
    {"gemm", run_gemm, "run D = act(row * alpha * A.B^T + bias) + residual and check it"},
    {"grouped-gemm", run_grouped_gemm, "run gemm for groups of rows, each with a B of its own"},
    {"grouped-dual-gemm", run_grouped_dual_gemm, "run dual-gemm for groups of rows"},
    {"quantize", run_quantize, "turn FP16 or BF16 matrices into NVFP4 and check them"},
    {"norm-linear", run_norm_linear, "run D = act(norm(X) . W^T + bias) and check it"},
    {"moe", run_moe, "run a layer of experts and check it"},
    {"configs", run_configs, "list the configurations for a problem and why one wins"},
    {"devices", run_devices, "list the real and virtual devices and the kernels for each"},
    {"doctor", run_doctor, "collect versions, devices and what is wrong, for a bug report"},
    {"rules", run_rules, "print the rules for arguments as a Markdown table"},
    {"types", run_types, "print the types that a product takes as a Markdown table"},
    {"make-example", run_make_example, "write a safetensors file for --input"},
    {"version", run_version, "print the version; --version does, too"},
};

std::string help_text() {
  std::string text = "warpline: NVFP4 kernels written by hand in PTX, on a GPU or on the virtual "
                     "GPU\n\nUsage: warpline COMMAND [options]\n\n";
  for (const Command& command : commands) {
    std::string name = command.name;
    name.resize(19, ' ');
    text += "  " + name + command.summary + "\n";
  }
  return text + "\nwarpline COMMAND --help   the options of a command\n"
                "\n"
                "Exit status: 0 right, 1 wrong results, 2 usage or bad input, 3 device or driver "
                "error\n";
}

ExitStatus dispatch(Arguments arguments) {
  if (arguments.empty()) {
    std::fputs(help_text().c_str(), stderr);
    return exit_usage;
  }
  const auto asks_for_help = [](const std::string& word) {
    return word == "help" || word == "--help" || word == "-h";
  };
  if (asks_for_help(arguments[0]) && arguments.size() == 2 && !asks_for_help(arguments[1]))
    arguments = {arguments[1], "--help"};
  const std::string name = arguments[0] == "--version" ? "version" : arguments[0];
  if (asks_for_help(name)) {
    if (arguments.size() > 2)
      throw Failure(exit_usage, "help takes one command, not " +
                                    std::to_string(arguments.size() - 1) + " words");
    std::fputs(help_text().c_str(), stdout);
    return exit_right;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (name == command.name) return command.run({arguments.begin() + 1, arguments.end()});
    names.push_back(command.name);
  }
  const std::string near = nearest_name(name, names);
  throw Failure(exit_usage, "unknown command " + shortened(name) +
                                (near.empty() ? "" : " (did you mean " + near + "?)") +
                                "\nSee: warpline --help");
}

int guarded(const Arguments& arguments) {
  try {
    const ExitStatus status = dispatch(arguments);
    if (std::fflush(stdout) != 0) throw Failure(exit_usage, "standard output cannot be written");
    return status;
  } catch (const Failure& failure) {
    std::fflush(stdout);
    std::fprintf(stderr, "warpline: %s\n", failure.what());
    return failure.status;
  } catch (const std::bad_alloc&) {
    std::fputs("warpline: there is not enough memory for tensors of this size\n", stderr);
    return exit_usage;
  } catch (const std::length_error&) {
    std::fputs("warpline: tensors of this size cannot be held in memory\n", stderr);
    return exit_usage;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "warpline: %s\n", error.what());
    return exit_device;
  }
}

} // namespace
} // namespace warpline::cli

int main(int argc, char** argv) { return warpline::cli::guarded({argv + 1, argv + argc}); }
