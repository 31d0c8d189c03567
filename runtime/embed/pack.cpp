// Pieces are found by matching over chains of equal hashes, each of as many bytes as the shortest
// match has, with a look at the next position.
#include "runtime/embed/pack.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <queue>
#include <tuple>

namespace warpline {

namespace {

constexpr size_t least_match = 6; // below it, length and distance cost about as much as literals
constexpr size_t least_again = 4; // at the distance of the match before
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

// What a literal, a match at a new distance and one at the last distance cost in bits, about: of
// numbers beside the widths of what follows.
constexpr size_t literal_cost = 7, match_cost = 8, distance_cost = 6;
constexpr size_t gained_a_byte = 6; // of a longer match, whose length may take a bit more

size_t width_of(size_t number) { return static_cast<size_t>(std::bit_width(number)); }

// In the order of the packed form: symbol(kind, symbol), number(value, width) of its bits below.
template <class Symbol, class Number>
void each_symbol(const Pieces& pieces, std::string_view text, Symbol symbol, Number number) {
  const auto with_width = [&](int kind, size_t value, size_t more) {
    const size_t width = width_of(value);
    symbol(kind, width + more);
    number(value, width);
  };
  size_t at = 0, before = 0;
  for (const Piece& piece : pieces.list) {
    with_width(PackCodes::count, piece.literals, 0);
    for (const size_t end = at + piece.literals; at < end; ++at)
      symbol(static_cast<int>(at % 16), static_cast<unsigned char>(text[at]));
    if (at == text.size()) break;
    with_width(PackCodes::length, piece.length, 0);
    if (piece.distance == before) {
      symbol(PackCodes::distance, 0);
    } else {
      with_width(PackCodes::distance, piece.distance / 16, 1);
      symbol(PackCodes::distance_low, piece.distance % 16);
    }
    before = piece.distance;
    at += piece.length;
  }
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

Pieces find_pieces(const PackBase& indexed, std::string_view text, size_t limit) {
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
    size_t length = 0, from = 0, gain = 0; // gain: bits that literals would take more
  };
  size_t distance = 0; // of the match before
  const auto gained = [&](size_t length, size_t back) {
    const size_t saved = gained_a_byte * length;
    const size_t cost = back == distance ? 0 : distance_cost + width_of(back);
    return saved - std::min(saved, cost);
  };
  const auto best_at = [&](size_t at) {
    Match best;
    uint32_t candidate = at + least_match <= all.size() ? latest[hash_at(all, at)] : none;
    const size_t most = all.size() - at;
    for (int tries = 0; candidate != none && tries < longest_chain; ++tries) {
      // Only what differs first behind the best is longer.
      if (best.length < most && all[candidate + best.length] == all[at + best.length]) {
        const size_t length = equal_bytes(all.data() + candidate, all.data() + at, most);
        const size_t gain = gained(length, at - candidate);
        if (length > best.length && gain > best.gain) best = {length, candidate, gain};
      }
      candidate = previous[candidate];
    }
    if (distance != 0 && at < all.size()) {
      const size_t from = at - distance;
      const size_t length = equal_bytes(all.data() + from, all.data() + at, most);
      const size_t gain = gained(length, distance);
      if (length >= least_again && gain >= best.gain) best = {length, from, gain};
    }
    return best;
  };

  Pieces found;
  const auto put = [&](size_t literals, Match match, size_t back) {
    found.cost += literal_cost * literals + match_cost;
    found.cost += width_of(literals) + width_of(match.length);
    if (back != distance) found.cost += distance_cost + width_of(back);
    found.list.push_back({literals, match.length, back});
  };
  size_t literals_from = base.size();
  for (size_t at = base.size(); at < all.size() && found.cost < limit;) {
    Match match = best_at(at);
    if (match.length < (at - match.from == distance ? least_again : least_match)) {
      remember(at++);
      continue;
    }
    // One literal more may lead to a longer match.
    while (match.length < long_match) {
      remember(at);
      const Match next = best_at(at + 1);
      if (next.gain <= match.gain) break;
      match = next;
      ++at;
    }
    put(at - literals_from, match, at - match.from);
    distance = at - match.from;
    const size_t end = at + match.length;
    if (match.length > known_match && match.from < base.size()) at = end - known_end;
    while (at < end) remember(at++);
    literals_from = at;
  }
  if (literals_from < all.size()) put(all.size() - literals_from, {}, 0);
  return found;
}

void PackCounts::add(const Pieces& pieces, std::string_view text) {
  each_symbol(
      pieces, text, [&](int kind, size_t symbol) { ++counts_[static_cast<size_t>(kind)][symbol]; },
      [](size_t, size_t) {});
}

namespace {

// Huffman's; where a code is longer than may be, the rarest symbols count for more.
void find_lengths(std::array<size_t, PackCodes::symbols> counts,
                  uint8_t (&lengths)[PackCodes::symbols]) {
  for (;; std::for_each(counts.begin(), counts.end(), [](size_t& c) { c = (c + 1) / 2; })) {
    struct Node {
      size_t parent = 0, depth = 0;
    };
    std::vector<Node> nodes(PackCodes::symbols);
    using Item = std::tuple<size_t, size_t>; // count, node
    std::priority_queue<Item, std::vector<Item>, std::greater<>> heap;
    for (size_t symbol = 0; symbol < counts.size(); ++symbol)
      if (counts[symbol] != 0) heap.emplace(counts[symbol], symbol);
    if (heap.size() == 1) {
      lengths[std::get<1>(heap.top())] = 1;
      return;
    }
    while (heap.size() > 1) {
      const auto [few, left] = heap.top();
      heap.pop();
      const auto [more, right] = heap.top();
      heap.pop();
      nodes[left].parent = nodes[right].parent = nodes.size();
      heap.emplace(few + more, nodes.size());
      nodes.emplace_back();
    }
    size_t deepest = 0;
    for (size_t i = nodes.size(); i-- > 0;) {
      if (nodes[i].parent != 0) nodes[i].depth = nodes[nodes[i].parent].depth + 1;
      if (i < counts.size()) lengths[i] = static_cast<uint8_t>(nodes[i].depth);
      deepest = std::max(deepest, nodes[i].depth);
    }
    if (deepest <= PackCodes::longest) return;
  }
}

} // namespace

PackCodes PackCounts::codes() const {
  PackCodes codes{};
  for (size_t kind = 0; kind < counts_.size(); ++kind)
    find_lengths(counts_[kind], codes.lengths[kind]);
  return codes;
}

std::string write_pieces(const PackCodes& codes, const Pieces& pieces, std::string_view text) {
  std::vector<std::vector<uint16_t>> bits;
  for (const auto& lengths : codes.lengths) bits.push_back(code_bits(lengths));
  std::string out;
  uint64_t held = 0;
  size_t count = 0;
  const auto put = [&](size_t value, size_t width) {
    held |= uint64_t{value} << count;
    for (count += width; count >= 8; count -= 8, held >>= 8) out.push_back(static_cast<char>(held));
  };
  each_symbol(
      pieces, text,
      [&](int kind, size_t symbol) {
        put(bits[static_cast<size_t>(kind)][symbol], codes.lengths[kind][symbol]);
      },
      [&](size_t value, size_t width) {
        if (width > 1) put(value & ((size_t{1} << (width - 1)) - 1), width - 1);
      });
  if (count > 0) out.push_back(static_cast<char>(held));
  return out;
}

} // namespace warpline
