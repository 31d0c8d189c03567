// The packed form of an embedded text or machine code. A kernel's expanded PTX differs little from
// others of its source, so a text is stored as pieces of a base text, of itself, and literal
// bytes:
//   repeat: literal count, that many bytes, match length, distance back (absent at the end)
// Distances count back from the current position in base + output, in bytes, 0 as far as the match
// before, since texts that differ in single words go on as they did; a match may overlap its own
// output. All of it is a stream of bits, a byte's lowest first, of symbols in prefix codes, one for
// each kind of symbol (PackCodes):
//   a literal: the byte itself; its kind is its place in the text modulo 16, as an instruction of
//     machine code has 16 bytes, whose fields differ in what they hold
//   a count or a length: the width of the number, and as bits what is below its highest one
//   a distance: 0, or 1 + the width of its sixteenth and what is below the highest one of that, and
//     then the distance modulo 16
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline {

// The lengths in bits of each kind's canonical prefix codes, 0 for symbols without one: shorter
// codes come first, of equally long ones the lower symbol. One set serves all texts of a sort.
struct PackCodes {
  enum : int { literal = 0, count = 16, length, distance, distance_low, kinds };
  static constexpr int longest = 11, symbols = 256;
  uint8_t lengths[kinds][symbols];
};

// Bits of each kind's codes, a code's first bit lowest, by symbol.
std::vector<uint16_t> code_bits(const uint8_t (&lengths)[PackCodes::symbols]);

class Unpacker {
public:
  explicit Unpacker(const PackCodes& codes);
  // False when `packed` does not describe `size` bytes.
  bool unpack(std::string_view base, std::string_view packed, size_t size, std::string* text) const;

private:
  friend class PackedBits;
  struct Entry {
    uint8_t symbol, length; // 0: no code begins so
  };
  std::vector<Entry> entries_; // by kind and by the next `longest` bits
};

} // namespace warpline
