#include "runtime/src/packed_text.hpp"
#include "tests/support/catch.hpp"

#include <random>

using namespace warpline;

namespace {

std::string round_trip(const std::string& base, const std::string& text) {
  std::string result;
  REQUIRE(unpack_text(base, pack_text(base, text), text.size(), &result));
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
  CHECK(pack_text(lines, lines).size() < 16);
  CHECK(pack_text("", lines).size() < lines.size() / 20);
  // A single letter that differs costs its place, itself, and a match as far back as the one
  // before.
  std::string other = noise;
  for (size_t i = 50; i < other.size(); i += 100) other[i] = static_cast<char>(~other[i]);
  CHECK(round_trip(noise, other) == other);
  CHECK(pack_text(noise, other).size() <= 4 * (other.size() / 100) + 8);
  // Between letters that differ further apart, of matches in the base only the ends are looked for
  // again: a second copy costs no more than the first. A base serves many texts.
  std::string apart = noise;
  for (size_t i = 500; i < apart.size(); i += 1000) apart[i] = static_cast<char>(~apart[i]);
  CHECK(round_trip(noise, apart + apart) == apart + apart);
  CHECK(pack_text(noise, apart + apart).size() <= 2 * pack_text(noise, apart).size() + 8);
  const PackBase base(noise);
  for (const std::string& text : {apart, lines, other}) {
    const std::string packed = pack_text(base, text);
    CHECK(packed == pack_text(noise, text));
    CHECK(pack_text(base, text, packed.size()).size() >= packed.size());
  }
}

TEST_CASE("a packed text that is cut or bent is refused", "[host][images]") {
  const std::string text = "the same again, the same again, the same again";
  const std::string packed = pack_text("", text);
  std::string result;
  for (size_t length = 0; length < packed.size(); ++length)
    CHECK_FALSE(unpack_text("", packed.substr(0, length), text.size(), &result));
  CHECK_FALSE(unpack_text("", packed, text.size() - 1, &result));
  CHECK_FALSE(unpack_text("", packed, text.size() + 1, &result));
  CHECK_FALSE(unpack_text("", packed + "x", text.size(), &result));
  // The first match cannot be as far back as the one before.
  CHECK_FALSE(unpack_text("base", std::string("\1x\4\0", 4), 5, &result));
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string bent = packed;
    bent[random() % bent.size()] = static_cast<char>(random());
    unpack_text("base", bent, text.size(), &result);
    CHECK(result.size() <= text.size());
  }
}
