// warpline rules: the constraint tables as Markdown, for the README.
#include "kernels/dual_gemm/dual_gemm.hpp"
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
std::vector<Line> grouped(const std::vector<RuleRow>& rows) {
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

} // namespace

ExitStatus run_rules(const Arguments& arguments) {
  Options options("rules",
                  "Prints the rules that wl_dual_gemm_check applies, as a Markdown table.");
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  std::string text = "| argument | rule | kind |\n|---|---|---|\n";
  for (const Line& line : grouped(dual_gemm::rules().rows())) {
    std::string names;
    for (const std::string& argument : line.arguments)
      names += (names.empty() ? "`" : ", `") + argument + "`";
    text += "| " + names + " | " + line.text + " | " + rule_kind_name(line.kind) + " |\n";
  }
  std::fputs(text.c_str(), stdout);
  return exit_right;
}

} // namespace warpline::cli
