#include "tools/vgpu/forms/oracle.hpp"

#include <set>
#include <string_view>
#include <utility>

namespace vgpu::forms {

namespace {

using Name = std::pair<std::string_view, std::string_view>;

const std::set<Name>& ran_on_h200() {
  static const std::set<Name> names{
#define RAN(pattern, operands) {pattern, operands},
#include "tools/vgpu/forms/h200.def"
#undef RAN
  };
  return names;
}

// Sections whose results a test of tests/virtual computes another way. The longest match counts.
struct Second {
  std::string_view section, test;
};
constexpr Second kSecond[] = {
    {"9.7.1.", "alu_test.cpp"},        {"9.7.3.", "alu_float_test.cpp"},
    {"9.7.4.", "alu_float_test.cpp"},  {"9.7.5.", "alu_float_test.cpp"},
    {"9.7.6.", "alu_test.cpp"},        {"9.7.8.", "alu_test.cpp"},
    {"9.7.9.21", "convert_test.cpp"},  {"9.7.9.27.1.2", "tma_test.cpp"},
    {"9.7.12.", "control_test.cpp"},   {"9.7.15.", "wgmma_sparse_test.cpp"},
    {"9.7.13.17", "clc_test.cpp"},     {"9.7.13.18", "clc_test.cpp"},
    {"9.7.13.12", "warp_test.cpp"},    {"9.7.14.4.", "wmma_test.cpp"},
    {"9.7.14.5.", "warp_test.cpp"},    {"9.7.14.6.", "warp_sparse_test.cpp"},
    {"9.7.17.", "stack_test.cpp"},     {"9.7.18.", "video_test.cpp"},
    {"9.7.16.7", "tcgen05_test.cpp"},  {"9.7.16.8", "tcgen05_test.cpp"},
    {"9.7.16.9", "tcgen05_test.cpp"},  {"9.7.16.10", "tcgen05_kinds_test.cpp"},
    {"9.7.16.12", "tcgen05_test.cpp"},
};

} // namespace

std::string oracle(const isa::Form& form) {
  if (form.status == isa::Status::refused) return form.why;
  if (ran_on_h200().contains({form.pattern, form.operands})) return "ran on H200 on 2026-11-21";
  const std::string_view section = form.section;
  std::string_view test;
  size_t longest = 0;
  for (const Second& s : kSecond)
    if (section.starts_with(s.section) && s.section.size() > longest) {
      longest = s.section.size();
      test = s.test;
    }
  return test.empty() ? "text only" : "second formulation, tests/virtual/" + std::string(test);
}

} // namespace vgpu::forms
