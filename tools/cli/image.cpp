#include "tools/cli/image.hpp"

#include <algorithm>
#include <cstring>

namespace warpline::cli {
namespace {

// visit(byte of the image, byte of the dense tensor, bytes) of each row, in the image's order.
template <class Visit>
void for_each_row(const Image& image, Visit visit) {
  const Strided& s = image.layout;
  const size_t bytes = image.element * static_cast<size_t>(s.columns);
  size_t dense = 0;
  for (int64_t entry = 0; entry < s.entries; ++entry)
    for (int64_t row = 0; row < s.rows; ++row, dense += bytes)
      visit(image.element * static_cast<size_t>(entry * s.entry_stride() + row * s.row_stride()),
            dense, bytes);
}

} // namespace

std::vector<uint8_t> Image::placed(const std::vector<uint8_t>& dense) const {
  std::vector<uint8_t> image(element * static_cast<size_t>(layout.extent()), 0xFF);
  if (dense.empty()) return image;
  for_each_row(*this, [&](size_t at, size_t from, size_t bytes) {
    std::memcpy(&image[at], &dense[from], bytes);
  });
  return image;
}

std::vector<uint8_t> Image::gathered(const std::vector<uint8_t>& image, int64_t* strayed) const {
  std::vector<uint8_t> dense(element *
                             static_cast<size_t>(layout.entries * layout.rows * layout.columns));
  *strayed = 0;
  size_t end = 0; // of the row before
  for_each_row(*this, [&](size_t at, size_t to, size_t bytes) {
    *strayed += std::count_if(image.begin() + static_cast<std::ptrdiff_t>(end),
                              image.begin() + static_cast<std::ptrdiff_t>(at),
                              [](uint8_t byte) { return byte != 0xFF; });
    std::memcpy(&dense[to], &image[at], bytes);
    end = at + bytes;
  });
  return dense;
}

} // namespace warpline::cli
