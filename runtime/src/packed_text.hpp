// The packed form of an embedded text or machine code. A kernel's expanded PTX differs little from
// others of its source, so a text is stored as pieces of a base text, of itself, and literal
// bytes:
//   repeat: literal count, that many bytes, match length, distance back (absent at the end)
// Numbers are little-endian base 128, the high bit saying that more follows. Distances count back
// from the current position in base + output, in bytes, 0 as far as the match before, since texts
// that differ in single words go on as they did; a match may overlap its own output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline {

// A base and where its words stand: once for all texts that are packed against it. The base's text
// stays where it is.
struct PackBase {
  explicit PackBase(std::string_view base);
  std::string_view text;
  std::vector<uint32_t> latest, previous; // by hash; by position, the one of the same hash before
};

// runtime/embed, at build time. What is packed in less than `limit` bytes comes whole; else some
// bytes, no fewer than `limit`, that say nothing.
std::string pack_text(const PackBase& base, std::string_view text, size_t limit = SIZE_MAX);
std::string pack_text(std::string_view base, std::string_view text, size_t limit = SIZE_MAX);

// False when `packed` does not describe `size` bytes.
bool unpack_text(std::string_view base, std::string_view packed, size_t size, std::string* text);

} // namespace warpline
