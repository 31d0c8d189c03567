#include "runtime/embed/pack.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <random>
#include <vector>

using namespace warpline;

namespace {

// In codes of its own.
struct Packed {
  PackCodes codes;
  std::string bits;
  Packed(std::string_view base, std::string_view text)
      : Packed(find_pieces(PackBase(base), text), text) {}
  Packed(const Pieces& pieces, std::string_view text) {
    PackCounts counts;
    counts.add(pieces, text);
    codes = counts.codes();
    bits = write_pieces(codes, pieces, text);
  }
  bool unpack(std::string_view base, std::string_view packed, size_t size,
              std::string* text) const {
    return Unpacker(codes).unpack(base, packed, size, text);
  }
};

size_t packed_bytes(std::string_view base, std::string_view text) {
  return Packed(base, text).bits.size();
}

std::string round_trip(std::string_view base, std::string_view text) {
  const Packed packed(base, text);
  std::string result;
  REQUIRE(packed.unpack(base, packed.bits, text.size(), &result));
  return result;
}

} // namespace

TEST_CASE("packed texts come back as they were", "[host][images]") {
  std::mt19937 random(1);
  std::string noise, lines;
  for (int i = 0; i < 5000; ++i) noise += static_cast<char>(random());
  for (int i = 0; i < 400; ++i) lines += "  mov.b32 register" + std::to_string(i % 7) + ", 0;\n";
  for (const std::string& text : {std::string(), std::string("x"), std::string(4096, 'a'), noise,
                                  lines, noise + lines + noise, std::string("\0\0\0", 3)})
    for (const std::string& base : {std::string(), text, lines, lines + noise}) {
      INFO("text of " << text.size() << " bytes on a base of " << base.size());
      CHECK(round_trip(base, text) == text);
    }
  CHECK(packed_bytes(lines, lines) < 16);
  CHECK(packed_bytes("", lines) < lines.size() / 40);
  CHECK(packed_bytes("", noise) < noise.size() + noise.size() / 50);
  // A single letter that differs costs its place, itself, and a match as far back as the one
  // before.
  std::string other = noise;
  for (size_t i = 50; i < other.size(); i += 100) other[i] = static_cast<char>(~other[i]);
  CHECK(round_trip(noise, other) == other);
  CHECK(packed_bytes(noise, other) <= 3 * (other.size() / 100) + 8);
  // Between letters that differ further apart, of matches in the base only the ends are looked for
  // again: a second copy costs no more than the first. A base serves many texts.
  std::string apart = noise;
  for (size_t i = 500; i < apart.size(); i += 1000) apart[i] = static_cast<char>(~apart[i]);
  CHECK(round_trip(noise, apart + apart) == apart + apart);
  CHECK(packed_bytes(noise, apart + apart) <= 2 * packed_bytes(noise, apart) + 8);
  const PackBase base(noise);
  for (const std::string& text : {apart, lines, other}) {
    const Pieces pieces = find_pieces(base, text);
    CHECK(Packed(pieces, text).bits == Packed(noise, text).bits);
    CHECK(find_pieces(base, text, pieces.cost).cost >= pieces.cost);
  }
}

TEST_CASE("codes of all texts serve each, however rare a symbol", "[host][images]") {
  // Symbol i about 2^-i of all, which would take codes of up to 31 bits.
  std::mt19937 random(3);
  std::vector<std::string> texts(40);
  for (std::string& text : texts)
    for (int i = 0; i < 400; ++i) text += static_cast<char>(std::countr_zero(random() | 1u << 31));
  texts.emplace_back();
  for (int i = 0; i < 256; ++i) texts.back() += static_cast<char>(i);
  PackCounts counts;
  std::vector<Pieces> pieces;
  for (const std::string& text : texts) {
    pieces.push_back(find_pieces(PackBase(""), text));
    counts.add(pieces.back(), text);
  }
  const PackCodes codes = counts.codes();
  for (const auto& lengths : codes.lengths) {
    size_t room = 0; // of all beginnings, those taken
    for (const uint8_t length : lengths) {
      CHECK(length <= PackCodes::longest);
      if (length != 0) room += size_t{1} << (PackCodes::longest - length);
    }
    CHECK(room <= size_t{1} << PackCodes::longest);
  }
  const Unpacker unpacker(codes);
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string result;
    CHECK(unpacker.unpack("", write_pieces(codes, pieces[i], texts[i]), texts[i].size(), &result));
    CHECK(result == texts[i]);
  }
}

TEST_CASE("a packed text that is cut or bent is refused", "[host][images]") {
  const std::string text = "the same again, the same again, the same again";
  const Packed packed("", text);
  std::string result;
  for (size_t length = 0; length < packed.bits.size(); ++length)
    CHECK_FALSE(packed.unpack("", packed.bits.substr(0, length), text.size(), &result));
  CHECK_FALSE(packed.unpack("", packed.bits, text.size() - 1, &result));
  CHECK_FALSE(packed.unpack("", packed.bits, text.size() + 1, &result));
  CHECK_FALSE(packed.unpack("", packed.bits + "x", text.size(), &result));
  CHECK_FALSE(packed.unpack("", packed.bits + std::string(1, '\0'), text.size(), &result));
  CHECK_FALSE(packed.unpack("", "", text.size(), &result));
  CHECK_FALSE(packed.unpack("", "x", 0, &result));
  // The first match cannot be as far back as the one before.
  const Packed first({{{1, 4, 0}}, 0}, "x????");
  CHECK_FALSE(first.unpack("base", first.bits, 5, &result));
  // Nor further than the base goes.
  const Packed far({{{1, 4, 6}}, 0}, "x????");
  CHECK_FALSE(far.unpack("base", far.bits, 5, &result));
  CHECK(far.unpack("bases", far.bits, 5, &result));
  CHECK(result == "xbase");
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string bent = packed.bits;
    bent[random() % bent.size()] = static_cast<char>(random());
    packed.unpack("base", bent, text.size(), &result);
    CHECK(result.size() <= text.size());
  }
  // With codes for everything, so that whatever stands there is read.
  PackCodes all;
  for (auto& lengths : all.lengths) std::fill(std::begin(lengths), std::end(lengths), uint8_t{8});
  const Unpacker unpacker(all);
  for (int i = 0; i < 2000; ++i) {
    std::string noise;
    for (size_t bytes = random() % 64; bytes > 0; --bytes) noise += static_cast<char>(random());
    unpacker.unpack("base", noise, text.size(), &result);
    CHECK(result.size() <= text.size());
  }
}
