// Several modules made one, as nvlink does: what one declares .extern another defines.
#pragma once

#include "tools/vgpu/ptx/ast.hpp"

#include <stdexcept>
#include <vector>

namespace vgpu::ptx {

struct LinkError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Names that a module keeps to itself get another one where two modules have the same; of weak
// definitions the first stays. Lines count on from one module to the next. Throws LinkError for a
// name that two modules define for all. What nobody defines is refused where it is used.
Module link(std::vector<Module> modules);

} // namespace vgpu::ptx
