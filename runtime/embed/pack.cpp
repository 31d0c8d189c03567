// pack_text of runtime/src/packed_text.hpp: matching over chains of equal hashes, each of as many
// bytes as the shortest match has, with a look at the next position.
#include "runtime/src/packed_text.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace warpline {

namespace {

constexpr size_t least_match = 6; // below it, length and distance cost about as much as literals
constexpr size_t least_again = 4; // at the distance of the match before, which costs a byte
constexpr size_t long_match = 64; // taken without a look at the next position
// Of a longer match in the base only the end is looked for again: the base has it, too.
constexpr size_t known_match = 256, known_end = 64;
constexpr int longest_chain = 48;
constexpr uint32_t none = UINT32_MAX;

constexpr int hash_bits = 17;
size_t hash_at(std::string_view text, size_t position) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, text.data() + position, least_match);
  return static_cast<size_t>((bytes * 0x9E3779B97F4A7C15u) >> (64 - hash_bits));
}

// Equal bytes of `a` and `b`, of which `most` are there. Words hold the first byte in their low
// bits.
size_t equal_bytes(const char* a, const char* b, size_t most) {
  static_assert(std::endian::native == std::endian::little);
  size_t length = 0;
  for (; length + 8 <= most; length += 8) {
    uint64_t x, y;
    std::memcpy(&x, a + length, sizeof x);
    std::memcpy(&y, b + length, sizeof y);
    if (x != y) return length + static_cast<size_t>(std::countr_zero(x ^ y)) / 8;
  }
  while (length < most && a[length] == b[length]) ++length;
  return length;
}

void put_number(std::string* out, size_t value) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}

} // namespace

PackBase::PackBase(std::string_view base)
    : text(base), latest(size_t{1} << hash_bits, none), previous(base.size(), none) {
  for (size_t i = 0; i + least_match <= base.size(); ++i) {
    uint32_t& head = latest[hash_at(base, i)];
    previous[i] = head;
    head = static_cast<uint32_t>(i);
  }
}

std::string pack_text(std::string_view base, std::string_view text, size_t limit) {
  return pack_text(PackBase(base), text, limit);
}

std::string pack_text(const PackBase& indexed, std::string_view text, size_t limit) {
  const std::string_view base = indexed.text;
  const std::string all = std::string(base) + std::string(text);
  std::vector<uint32_t> latest = indexed.latest, previous(all.size(), none);
  std::copy(indexed.previous.begin(), indexed.previous.end(), previous.begin());
  // Positions before it are in the chains.
  size_t known = base.size() < least_match ? 0 : base.size() - least_match + 1;
  const auto remember = [&](size_t position) {
    if (position < known || position + least_match > all.size()) return;
    known = position + 1;
    uint32_t& head = latest[hash_at(all, position)];
    previous[position] = head;
    head = static_cast<uint32_t>(position);
  };
  for (size_t i = known; i < base.size(); ++i) remember(i);

  struct Match {
    size_t length = 0, from = 0;
  };
  size_t distance = 0; // of the match before
  const auto longest = [&](size_t at) {
    Match best;
    uint32_t candidate = at + least_match <= all.size() ? latest[hash_at(all, at)] : none;
    const size_t most = all.size() - at;
    for (int tries = 0; candidate != none && tries < longest_chain; ++tries) {
      // Only what differs first behind the best is longer.
      if (best.length < most && all[candidate + best.length] == all[at + best.length]) {
        const size_t length = equal_bytes(all.data() + candidate, all.data() + at, most);
        if (length > best.length) best = {length, candidate};
      }
      candidate = previous[candidate];
    }
    if (distance != 0 && at < all.size()) {
      const size_t from = at - distance;
      const size_t length = equal_bytes(all.data() + from, all.data() + at, most);
      // Two bytes less to say.
      if (length >= least_again && length + 2 >= best.length) best = {length, from};
    }
    return best;
  };

  std::string out;
  size_t literals_from = base.size();
  for (size_t at = base.size(); at < all.size() && out.size() < limit;) {
    Match match = longest(at);
    if (match.length < (at - match.from == distance ? least_again : least_match)) {
      remember(at++);
      continue;
    }
    // One literal more may lead to a longer match.
    while (match.length < long_match) {
      remember(at);
      const Match next = longest(at + 1);
      if (next.length <= match.length + 1) break;
      match = next;
      ++at;
    }
    put_number(&out, at - literals_from);
    out.append(all, literals_from, at - literals_from);
    put_number(&out, match.length);
    put_number(&out, at - match.from == distance ? 0 : at - match.from);
    distance = at - match.from;
    const size_t end = at + match.length;
    if (match.length > known_match && match.from < base.size()) at = end - known_end;
    while (at < end) remember(at++);
    literals_from = at;
  }
  if (literals_from < all.size()) {
    put_number(&out, all.size() - literals_from);
    out.append(all, literals_from);
  }
  return out;
}

} // namespace warpline
