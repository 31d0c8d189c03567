// A tensor [entries, rows, columns] as it lies in memory at strides.
#pragma once

#include "runtime/src/strided.hpp"

#include <cstdint>
#include <vector>

namespace warpline::cli {

struct Image {
  Strided layout; // within its rules
  size_t element; // bytes

  // Dense rows at their places; 0xFF, NaN in every type, between them, and everywhere where `dense`
  // is empty.
  std::vector<uint8_t> placed(const std::vector<uint8_t>& dense) const;
  // Dense rows of an image of the above; `strayed` counts bytes between rows that are no longer
  // 0xFF.
  std::vector<uint8_t> gathered(const std::vector<uint8_t>& image, int64_t* strayed) const;
};

} // namespace warpline::cli
