#include "tests/support/catch.hpp"
#include "warpline/warpline.h"

#include <cstring>
#include <vector>

using wltest::ContainsSubstring;

namespace {

// The layout a second way: the packed bytes as the nested array
// [row atom][column atom][32 rows][4 row groups][4 columns], filled in the order of memory.
std::vector<uint8_t> pack_by_walking(int64_t rows, int64_t columns,
                                     const std::vector<uint8_t>& plain, uint8_t padding) {
  std::vector<uint8_t> packed;
  for (int64_t row_atom = 0; row_atom * 128 < rows; ++row_atom)
    for (int64_t column_atom = 0; column_atom * 4 < columns; ++column_atom)
      for (int64_t lane = 0; lane < 32; ++lane)
        for (int64_t group = 0; group < 4; ++group)
          for (int64_t column = 0; column < 4; ++column) {
            const int64_t r = row_atom * 128 + group * 32 + lane;
            const int64_t s = column_atom * 4 + column;
            packed.push_back(r < rows && s < columns ? plain[static_cast<size_t>(r * columns + s)]
                                                     : padding);
          }
  return packed;
}

} // namespace

TEST_CASE("sizes of the 128x4 scale layout", "[host][scale_layout]") {
  CHECK(wl_sf_bytes(WL_SF_128x4, 1, 16) == 512);
  CHECK(wl_sf_bytes(WL_SF_128x4, 128, 64) == 512);
  CHECK(wl_sf_bytes(WL_SF_128x4, 129, 64) == 1024);
  CHECK(wl_sf_bytes(WL_SF_128x4, 128, 65) == 1024);
  CHECK(wl_sf_bytes(WL_SF_128x4, 256, 7168) == 256 * 448);
  CHECK(wl_sf_bytes(WL_SF_128x4, 0, 64) == 0);
  CHECK(wl_sf_bytes(WL_SF_128x4, 64, -1) == 0);
  CHECK(wl_sf_bytes(WL_SF_128x4, INT64_MAX, INT64_MAX) == 0);
  CHECK(wl_sf_bytes(WL_SF_PLAIN, 128, 64) == 512);
  CHECK(wl_sf_bytes(WL_SF_PLAIN, 3, 65) == 15);
  CHECK(wl_sf_bytes(WL_SF_PLAIN, 0, 64) == 0);
  CHECK(wl_sf_bytes(WL_SF_PLAIN, INT64_MAX, 64) == 0);
  CHECK(wl_sf_bytes(static_cast<wl_sf_layout>(2), 128, 64) == 0);
}

TEST_CASE("packing agrees with a walk through memory and unpacks again", "[host][scale_layout]") {
  for (const int64_t rows : {1, 31, 32, 33, 127, 128, 129, 300}) {
    for (const int64_t k : {16, 17, 48, 64, 192, 256, 1040}) {
      INFO("rows " << rows << ", k " << k);
      const int64_t columns = (k + 15) / 16;
      std::vector<uint8_t> plain(static_cast<size_t>(rows * columns));
      for (size_t i = 0; i < plain.size(); ++i)
        plain[i] = static_cast<uint8_t>(i * 37 + i / 256 * 11);
      const size_t bytes = wl_sf_bytes(WL_SF_128x4, rows, k);
      // Guard bytes on both sides of what may be written.
      std::vector<uint8_t> packed(bytes + 32, 0xEE);
      REQUIRE(wl_sf_pack(WL_SF_128x4, rows, k, plain.data(), packed.data() + 16, 0x7F) ==
              WL_SUCCESS);
      const std::vector<uint8_t> body(packed.begin() + 16, packed.end() - 16);
      CHECK(body == pack_by_walking(rows, columns, plain, 0x7F));
      for (size_t i = 0; i < 16; ++i)
        CHECK((packed[i] == 0xEE && packed[packed.size() - 1 - i] == 0xEE));
      std::vector<uint8_t> back(plain.size() + 16, 0xEE);
      REQUIRE(wl_sf_unpack(WL_SF_128x4, rows, k, body.data(), back.data()) == WL_SUCCESS);
      CHECK(std::memcmp(back.data(), plain.data(), plain.size()) == 0);
      CHECK(back[plain.size()] == 0xEE);
    }
  }
}

TEST_CASE("wrong scale arguments are refused by name", "[host][scale_layout]") {
  uint8_t plain[4] = {1, 2, 3, 4}, packed[512] = {};
  CHECK(wl_sf_pack(static_cast<wl_sf_layout>(3), 1, 64, plain, packed, 0) ==
        WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("wl_sf_pack: layout = 3"));
  CHECK(wl_sf_pack(WL_SF_128x4, 0, 64, plain, packed, 0) == WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("rows = 0 must be at least 1"));
  CHECK(wl_sf_unpack(WL_SF_128x4, 1, -64, packed, plain) == WL_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("wl_sf_unpack: k = -64"));
  CHECK(wl_sf_pack(WL_SF_128x4, 1, 64, nullptr, packed, 0) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_sf_unpack(WL_SF_128x4, 1, 64, nullptr, plain) == WL_ERROR_INVALID_ARGUMENT);
  CHECK(wl_sf_pack(WL_SF_128x4, INT64_MAX, INT64_MAX, plain, packed, 0) ==
        WL_ERROR_INVALID_ARGUMENT);
}
