// What stands behind each form's semantics: the strongest oracle that it was compared with.
#pragma once

#include "tools/vgpu/isa/forms.hpp"

#include <string>

namespace vgpu::forms {

// "ran on H200 on 2026-11-21": bit-equal there (h200.def). "second formulation": tests/virtual/FILE
// computes the results another way. "text only": the ISA's text. For a refused form: why.
std::string oracle(const isa::Form& form);

} // namespace vgpu::forms
