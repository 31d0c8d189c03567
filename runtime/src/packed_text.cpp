#include "runtime/src/packed_text.hpp"

#include <algorithm>

namespace warpline {

namespace {

bool read_number(std::string_view* packed, size_t* value) {
  *value = 0;
  for (int shift = 0; shift < 63; shift += 7) {
    if (packed->empty()) return false;
    const auto byte = static_cast<unsigned char>(packed->front());
    packed->remove_prefix(1);
    *value |= static_cast<size_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

} // namespace

bool unpack_text(std::string_view base, std::string_view packed, size_t size, std::string* text) {
  text->clear();
  text->reserve(size);
  size_t before = 0;
  while (text->size() < size) {
    size_t literals, length, distance;
    if (!read_number(&packed, &literals) || literals > packed.size() ||
        literals > size - text->size())
      return false;
    text->append(packed.substr(0, literals));
    packed.remove_prefix(literals);
    if (text->size() == size) break;
    if (!read_number(&packed, &length) || !read_number(&packed, &distance)) return false;
    if (distance == 0) distance = before;
    before = distance;
    if (length > size - text->size() || distance == 0 || distance > base.size() + text->size())
      return false;
    if (distance > text->size()) {
      const std::string_view from = base.substr(base.size() + text->size() - distance);
      const size_t part = std::min(length, from.size());
      text->append(from.substr(0, part));
      length -= part;
    }
    // A match that overlaps its own output repeats it; there is room for `size` bytes.
    while (length > 0) {
      const size_t part = std::min(length, distance);
      text->append(text->data() + text->size() - distance, part);
      length -= part;
    }
  }
  return packed.empty();
}

} // namespace warpline
