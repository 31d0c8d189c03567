// warpline rules: the constraint tables as Markdown, for kernels/RULES.md.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/grouped/grouped.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/moe/moe.hpp"
#include "kernels/norm_linear/norm_linear.hpp"
#include "kernels/quantize/quantize.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/options.hpp"

#include <algorithm>
#include <cstdio>

namespace warpline::cli {
namespace {

struct Line {
  std::vector<std::string> arguments;
  std::string text;
  RuleKind kind;
};

// Arguments under one rule share a line, and so do the tensors that one argument may not overlap.
std::vector<Line> in_lines(const std::vector<RuleRow>& rows) {
  const std::string overlap = "must not overlap ";
  std::vector<Line> lines;
  for (const RuleRow& row : rows) {
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return line.kind == row.kind &&
             (line.text == row.text ||
              (row.text.rfind(overlap, 0) == 0 && line.arguments[0] == row.argument));
    });
    if (same == lines.end())
      lines.push_back({{row.argument}, row.text, row.kind});
    else if (same->text == row.text)
      same->arguments.push_back(row.argument);
    else
      same->text += ", " + row.text.substr(overlap.size());
  }
  return lines;
}

struct Operation {
  const char* name; // of the command
  std::vector<RuleRow> rules;
};
std::vector<Operation> operations() {
  return {{"dual-gemm", dual_gemm::rules().rows()},
          {"gemm", linear::rules().rows()},
          {"grouped-gemm", grouped::linear_rules().rows()},
          {"grouped-dual-gemm", grouped::dual_rules().rows()},
          {"quantize", quantize::rules().rows()},
          {"norm-linear", norm_linear::rules().rows()},
          {"moe", moe::rules().rows()}};
}

} // namespace

ExitStatus run_rules(const Arguments& arguments) {
  std::string name = "dual-gemm";
  std::vector<std::string> names;
  for (const Operation& operation : operations()) names.push_back(operation.name);
  Options options("rules",
                  "Prints the rules that wl_OPERATION_check applies, as a Markdown table.");
  options.choice("--operation", "default dual-gemm", name, names);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  std::string text = "| argument | rule | kind |\n|---|---|---|\n";
  for (const Operation& operation : operations()) {
    if (operation.name != name) continue;
    for (const Line& line : in_lines(operation.rules)) {
      std::string arguments_text;
      for (const std::string& argument : line.arguments)
        arguments_text += (arguments_text.empty() ? "`" : ", `") + argument + "`";
      text +=
          "| " + arguments_text + " | " + line.text + " | " + rule_kind_name(line.kind) + " |\n";
    }
  }
  std::fputs(text.c_str(), stdout);
  return exit_right;
}

} // namespace warpline::cli
