// vgpu-forms: prints the instruction table of the virtual GPU.
//   vgpu-forms            Markdown
//   vgpu-forms --json     one array of objects
//   vgpu-forms --check F  reads opcodes from file F, one a line, and prints those without a form
#include "tools/vgpu/forms/oracle.hpp"
#include "tools/vgpu/isa/forms.hpp"
#include "tools/vgpu/isa/pattern.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

namespace {

using vgpu::isa::Form;
using vgpu::isa::Status;

const char* status_name(Status s) {
  static constexpr const char* names[] = {"exact", "chosen", "as the H200 does", "refused"};
  return names[int(s)];
}

// "mbarrier try_wait parity?" as it is written in PTX: mbarrier.try_wait{.parity}
std::string written(const Form& form) {
  std::string text;
  for (const auto& item : vgpu::isa::Pattern::compile(form.pattern).items) {
    std::string words;
    for (std::string_view w : item.words) {
      if (!words.empty()) words += ", ";
      words += (text.empty() ? "" : ".") + std::string(w);
    }
    if (item.rest) words = ".*";
    const bool choice = item.words.size() > 1 || item.optional;
    text += choice ? "{" + words + "}" : words;
    if (item.optional) text += "?";
  }
  return text;
}

void print_markdown() {
  size_t counts[4] = {};
  std::map<std::string, size_t> oracles;
  std::cout << "| instruction | operands | status | PTX ISA | target | oracle |\n"
            << "|---|---|---|---|---|---|\n";
  for (const Form& f : vgpu::isa::forms()) {
    ++counts[int(f.status)];
    std::cout << "| `" << written(f) << "` | " << f.operands << " | " << status_name(f.status)
              << " | " << f.section << " | " << (*f.target ? f.target : "any") << " | "
              << vgpu::forms::oracle(f) << " |\n";
    ++oracles[vgpu::forms::oracle(f).substr(0, 3)];
  }
  std::cout << "\n"
            << vgpu::isa::forms().size() << " forms: " << counts[0] << " exact, " << counts[1]
            << " chosen, " << counts[2] << " as the H200 does, " << counts[3]
            << " refused.\nOracle: " << oracles["ran"] << " ran on an H200, bit-equal; "
            << oracles["sec"] << " second formulation; " << oracles["tex"] << " text only.\n";
}

void print_json() {
  const char* separator = "[\n";
  for (const Form& f : vgpu::isa::forms()) {
    std::cout << separator << "  {\"form\": \"" << written(f) << "\", \"operands\": \""
              << f.operands << "\", \"status\": \"" << status_name(f.status)
              << "\", \"section\": \"" << f.section << "\", \"target\": \"" << f.target
              << "\", \"oracle\": \"" << vgpu::forms::oracle(f) << "\"}";
    separator = ",\n";
  }
  std::cout << (*separator == ',' ? "\n]\n" : "[]\n");
}

int check(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::cerr << "vgpu-forms: cannot read " << path << "\n";
    return 2;
  }
  size_t total = 0, missing = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find_first_of(" \t\r");
    if (end != std::string::npos) line.resize(end);
    if (line.empty()) continue;
    ++total;
    std::vector<std::string> tokens;
    for (size_t pos = 0; pos <= line.size();) {
      const size_t dot = std::min(line.find('.', pos), line.size());
      tokens.push_back(line.substr(pos, dot - pos));
      pos = dot + 1;
    }
    if (vgpu::isa::find_opcode(tokens)) continue;
    ++missing;
    std::cout << line << "\n";
  }
  std::cerr << missing << " of " << total << " opcodes have no form\n";
  return missing ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    print_markdown();
    return 0;
  }
  if (argc == 2 && !std::strcmp(argv[1], "--json")) {
    print_json();
    return 0;
  }
  if (argc == 3 && !std::strcmp(argv[1], "--check")) return check(argv[2]);
  std::cerr << "usage: vgpu-forms [--json | --check FILE]\n";
  return 2;
}
