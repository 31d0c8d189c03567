// warpline types: what the products multiply and make, as Markdown, for kernels/gemm/README.md.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/linear/linear.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/product.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>

namespace warpline::cli {
namespace {

using Configs = std::vector<const gemm::Config*>;

// Pairs of types that the same configurations multiply, all of one target.
struct Line {
  Configs configs;
  std::vector<gemm::Types> pairs;
};

// By target, in the order of the table.
std::vector<Configs> configs_for(const gemm::Table& table, const gemm::Types& types) {
  std::vector<Configs> by_target;
  for (const gemm::Config& config : table) {
    if (!config.takes(types)) continue;
    const auto same = std::ranges::find_if(by_target, [&](const Configs& configs) {
      return std::string_view(configs[0]->target) == config.target;
    });
    if (same == by_target.end())
      by_target.push_back({&config});
    else
      same->push_back(&config);
  }
  return by_target;
}

std::vector<Line> lines_of(const gemm::Table& table) {
  std::vector<Line> lines;
  for (int a = WL_OPERAND_NVFP4; a <= WL_OPERAND_MXFP4; ++a)
    for (int b = WL_OPERAND_NVFP4; b <= WL_OPERAND_MXFP4; ++b)
      for (const auto& [a_layout, b_layout] : {std::pair{WL_K_MAJOR, WL_K_MAJOR},
                                               {WL_MN_MAJOR, WL_K_MAJOR},
                                               {WL_K_MAJOR, WL_MN_MAJOR},
                                               {WL_MN_MAJOR, WL_MN_MAJOR}}) {
        const gemm::Types pair{static_cast<wl_operand>(a), static_cast<wl_operand>(b), a_layout,
                               b_layout};
        for (const Configs& configs : configs_for(table, pair)) {
          const auto same = std::ranges::find(lines, configs, &Line::configs);
          if (same == lines.end())
            lines.push_back({configs, {pair}});
          else
            same->pairs.push_back(pair);
        }
      }
  return lines;
}

std::string names_of(const Line& line, wl_operand gemm::Types::*operand,
                     wl_layout gemm::Types::*layout) {
  std::vector<std::string> names;
  for (const gemm::Types& pair : line.pairs) {
    const std::string name =
        name_of(pair.*operand) + (pair.*layout == WL_MN_MAJOR ? " MN-major" : "");
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// B's types where A's may be several and B is of the same one, or of another that any A goes with.
std::string b_beside_own(const Line& line) {
  Line others{line.configs, {}};
  std::ranges::copy_if(line.pairs, std::back_inserter(others.pairs),
                       [](const gemm::Types& pair) { return pair.a != pair.b; });
  const std::string names = names_of(others, &gemm::Types::b, &gemm::Types::b_layout);
  return names.empty() ? "A's" : "A's, " + names;
}

std::string text_of(const Line& line) {
  const bool same = line.pairs.size() > 1 && line.configs[0]->one_type;
  std::string outputs;
  for (const wl_dtype type : {WL_F16, WL_BF16, WL_F32, WL_NVFP4})
    if (std::ranges::find(line.configs, type, &gemm::Config::d_type) != line.configs.end())
      outputs += (outputs.empty() ? "" : ", ") + std::string(name_of(type));
  return "| " + names_of(line, &gemm::Types::a, &gemm::Types::a_layout) + " | " +
         (same ? b_beside_own(line) : names_of(line, &gemm::Types::b, &gemm::Types::b_layout)) +
         " | " + outputs + " | `" + line.configs[0]->target + "` | " +
         std::to_string(line.configs.size()) + " |\n";
}

std::string table_of(const gemm::Table& table) {
  std::string text = "| A | B | D | target | configurations |\n|---|---|---|---|---|\n";
  for (const Line& line : lines_of(table)) text += text_of(line);
  return text;
}

} // namespace

ExitStatus run_types(const Arguments& arguments) {
  std::string operation = "dual-gemm";
  Options options("types",
                  "Prints the types that a product multiplies and makes, by the target of its\n"
                  "kernels, as a Markdown table. Any A of a line goes with any B.");
  options.choice("--operation", "default dual-gemm", operation, {"dual-gemm", "gemm"});
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  std::fputs(table_of(operation == "gemm" ? linear::configs() : dual_gemm::configs()).c_str(),
             stdout);
  return exit_right;
}

} // namespace warpline::cli
