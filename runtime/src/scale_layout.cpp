// Block scales between the plain [rows, ceil(k / 16)] layout and WL_SF_128x4 (warpline.h).
#include "runtime/src/status.hpp"

#include <cinttypes>
#include <cstring>

namespace warpline {

namespace {

constexpr int64_t atom_rows = 128, atom_columns = 4, atom_bytes = 512;

int64_t ceil_div(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0);
}

struct Shape {
  int64_t rows, columns; // of the plain layout
  int64_t row_atoms, column_atoms;

  Shape(int64_t r, int64_t k)
      : rows(r), columns(ceil_div(k, 16)), row_atoms(ceil_div(r, atom_rows)),
        column_atoms(ceil_div(columns, atom_columns)) {}

  // False when the packed size does not fit in 63 bits.
  bool bytes(int64_t* result) const {
    return !__builtin_mul_overflow(row_atoms, column_atoms, result) &&
           !__builtin_mul_overflow(*result, atom_bytes, result);
  }

  int64_t offset(int64_t r, int64_t s) const {
    return (r / atom_rows * column_atoms + s / atom_columns) * atom_bytes + r % 32 * 16 +
           r % atom_rows / 32 * 4 + s % atom_columns;
  }
};

wl_status check(wl_sf_layout layout, int64_t rows, int64_t k, const void* plain,
                const void* packed) {
  if (layout != WL_SF_128x4)
    return fail(WL_ERROR_INVALID_ARGUMENT, "layout = %d must be WL_SF_128x4 (0)",
                static_cast<int>(layout));
  if (rows < 1)
    return fail(WL_ERROR_INVALID_ARGUMENT, "rows = %" PRId64 " must be at least 1 (nearest: 1)",
                rows);
  if (k < 1)
    return fail(WL_ERROR_INVALID_ARGUMENT, "k = %" PRId64 " elements must be at least 1", k);
  int64_t bytes = 0;
  if (!Shape(rows, k).bytes(&bytes))
    return fail(WL_ERROR_INVALID_ARGUMENT,
                "rows = %" PRId64 " and k = %" PRId64 " need more than 2^63 bytes of scales", rows,
                k);
  if (!plain) return fail(WL_ERROR_INVALID_ARGUMENT, "plain: pointer is null, must be host memory");
  if (!packed)
    return fail(WL_ERROR_INVALID_ARGUMENT, "packed: pointer is null, must be host memory");
  return WL_SUCCESS;
}

} // namespace

} // namespace warpline

size_t wl_sf_bytes(wl_sf_layout layout, int64_t rows, int64_t k) {
  int64_t bytes = 0;
  if (layout == WL_SF_PLAIN && rows >= 1 && k >= 1) {
    const bool large = __builtin_mul_overflow(rows, warpline::ceil_div(k, 16), &bytes);
    return large ? 0 : static_cast<size_t>(bytes);
  }
  if (layout != WL_SF_128x4 || rows < 1 || k < 1 || !warpline::Shape(rows, k).bytes(&bytes))
    return 0;
  return static_cast<size_t>(bytes);
}

wl_status wl_sf_pack(wl_sf_layout layout, int64_t rows, int64_t k, const uint8_t* plain,
                     uint8_t* packed, uint8_t padding) {
  using namespace warpline;
  return api("wl_sf_pack", [&]() -> wl_status {
    WL_TRY(check(layout, rows, k, plain, packed));
    const Shape shape(rows, k);
    std::memset(packed, padding, wl_sf_bytes(layout, rows, k));
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t s = 0; s < shape.columns; ++s)
        packed[shape.offset(r, s)] = plain[r * shape.columns + s];
    return WL_SUCCESS;
  });
}

wl_status wl_sf_unpack(wl_sf_layout layout, int64_t rows, int64_t k, const uint8_t* packed,
                       uint8_t* plain) {
  using namespace warpline;
  return api("wl_sf_unpack", [&]() -> wl_status {
    WL_TRY(check(layout, rows, k, plain, packed));
    const Shape shape(rows, k);
    for (int64_t r = 0; r < shape.rows; ++r)
      for (int64_t s = 0; s < shape.columns; ++s)
        plain[r * shape.columns + s] = packed[shape.offset(r, s)];
    return WL_SUCCESS;
  });
}
