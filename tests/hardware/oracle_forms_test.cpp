// Which forms of the instruction table the oracle's cases execute: tools/vgpu/forms/h200.def holds
// those of the recorded run (results/h200.md). WL_ORACLE_FORMS=FILE writes the list anew; that
// belongs to a run on the card.
#include "tests/hardware/oracle_families.hpp"
#include "tests/support/catch.hpp"

#include "tools/vgpu/isa/forms.hpp"
#include "tools/vgpu/ptx/parser.hpp"

#include <cstdlib>
#include <fstream>
#include <set>

using namespace wltest;

namespace {

using FormName = std::pair<std::string, std::string>; // pattern, operands

std::set<FormName> executed() {
  std::vector<oracle::Case> cases;
  oracle::add_sync_cases(cases);
  oracle::add_tensor_cases(cases);
  oracle::add_copy_cases(cases);
  oracle::add_wgmma_cases(cases);
  oracle::add_warp_cases(cases);
  oracle::add_mma_cases(cases);
  oracle::add_memory_cases(cases);
  oracle::add_convert_cases(cases);
  oracle::add_integer_cases(cases);
  oracle::add_float_cases(cases);
  std::set<FormName> names;
  for (const oracle::Case& c : cases) {
    // A question to the card alone is no comparison, and an approximation is no equality.
    if (!c.refused.empty() || c.compare != oracle::Compare::bits) continue;
    const vgpu::ptx::Module module = vgpu::ptx::parse(oracle::ptx_text(c));
    for (const auto& f : module.functions)
      for (const auto& s : f.statements) {
        vgpu::isa::Match match;
        if (const auto* form = vgpu::isa::find_form(s, match, nullptr))
          names.emplace(form->pattern, form->operands);
      }
  }
  return names;
}

} // namespace

TEST_CASE("forms said to have run on an H200 are executed by the oracle's cases", "[hardware]") {
  const std::set<FormName> names = executed();
  if (const char* path = std::getenv("WL_ORACLE_FORMS")) {
    std::ofstream out(path);
    out << "// Forms whose results on an H200 were bit-equal, 2026-11-21, driver 580.159.04:\n"
           "// tests/hardware/results/h200.md. Made by tests/hardware/oracle_forms_test.cpp.\n";
    for (const auto& [pattern, operands] : names)
      out << "RAN(\"" << pattern << "\", \"" << operands << "\")\n";
  }
  static const FormName listed[] = {
#define RAN(pattern, operands) {pattern, operands},
#include "tools/vgpu/forms/h200.def"
#undef RAN
  };
  for (const auto& name : listed) {
    INFO(name.first << " | " << name.second);
    CHECK(names.contains(name));
  }
}
