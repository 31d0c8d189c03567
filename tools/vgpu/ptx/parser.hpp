// PTX text to syntax tree. Depends on nothing but the standard library.
#pragma once

#include "tools/vgpu/ptx/ast.hpp"

#include <stdexcept>
#include <string_view>

namespace vgpu::ptx {

struct ParseError : std::runtime_error {
  int line, column;
  ParseError(int line_, int column_, const std::string& what)
      : std::runtime_error(what), line(line_), column(column_) {}
};

// Throws ParseError. Never crashes on hostile text: nesting, lengths and counts are limited.
Module parse(std::string_view text);

} // namespace vgpu::ptx
