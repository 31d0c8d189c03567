// The making of packed texts (runtime/src/packed_text.hpp): first what each consists of, then, of
// all texts of a sort, the codes, and then the bits.
#pragma once

#include "runtime/src/packed_text.hpp"

#include <array>

namespace warpline {

// A base and where its words stand: once for all texts that are packed against it. The base's text
// stays where it is.
struct PackBase {
  explicit PackBase(std::string_view base);
  std::string_view text;
  std::vector<uint32_t> latest, previous; // by hash; by position, the one of the same hash before
};

struct Piece {
  size_t literals, length, distance; // length and distance are 0 at the end
};
struct Pieces {
  std::vector<Piece> list;
  size_t cost = 0; // in bits, with the codes of a whole library
};

// What costs less than `limit` comes whole; else some pieces, of no less than `limit`, that say
// nothing.
Pieces find_pieces(const PackBase& base, std::string_view text, size_t limit = SIZE_MAX);

class PackCounts {
public:
  void add(const Pieces& pieces, std::string_view text);
  // Codes for all that was added.
  PackCodes codes() const;

private:
  std::array<std::array<size_t, PackCodes::symbols>, PackCodes::kinds> counts_{};
};

std::string write_pieces(const PackCodes& codes, const Pieces& pieces, std::string_view text);

} // namespace warpline
