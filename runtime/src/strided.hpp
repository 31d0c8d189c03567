// Tensors [entries, rows, columns] whose rows and entries lie at strides, both of which a caller
// may leave 0 for dense ones, and the rules for such strides. Counts are elements.
#pragma once

#include "runtime/src/rules.hpp"

namespace warpline {

// Device addresses have 47 usable bits.
constexpr int64_t address_space = int64_t{1} << 47;

struct Strided {
  int64_t rows, columns, entries;
  int64_t ld, batch_stride; // as the caller gave them
  bool sized;               // rows, columns and entries are in their ranges

  int64_t row_stride() const { return ld != 0 ? ld : columns; }
  int64_t entry_stride() const; // 0 when the dense one does not fit in 63 bits
  // Of a tensor map, whose strides have a limit: dense where there is one row, or one entry, as the
  // caller's, which may be any number, leads nowhere then.
  int64_t map_row_stride() const { return rows > 1 ? row_stride() : columns; }
  int64_t map_entry_stride() const; // 0 likewise
  // From the first element to one past the last; 0 when the sizes or strides are out of range.
  int64_t extent() const;
};

// Both strides are multiples of this many elements.
constexpr int64_t stride_multiple = 8;

// Each holds where another rule speaks of what is wrong.
Verdict ld_covers(const Strided& tensor);
Verdict ld_multiple(const Strided& tensor);
Verdict batch_stride_covers(const Strided& tensor);
Verdict batch_stride_multiple(const Strided& tensor);
Verdict fits_address_space(const Strided& tensor, int64_t element_bytes, const char* name);

// `bytes` of a whole batch; 0 says that they do not fit in 63 bits.
Verdict batch_fits_address_space(uint64_t bytes);

} // namespace warpline
