#include "runtime/src/strided.hpp"

#include <algorithm>
#include <cinttypes>

namespace warpline {

namespace {

// `least` rounded up to a legal stride.
int64_t up_to_multiple(int64_t least) {
  return (least + stride_multiple - 1) / stride_multiple * stride_multiple;
}

// "0", and the least legal stride where there is one.
std::string dense_or(int64_t least) {
  return least > 0 && least <= INT64_MAX - stride_multiple
             ? format("0, %" PRId64, up_to_multiple(least))
             : std::string("0");
}

// From an entry's first element to one past its last; 0 where that is not known.
int64_t entry_extent(const Strided& t) {
  int64_t before_row = 0, extent = 0;
  if (!t.sized || t.row_stride() < t.columns || !product({t.rows - 1, t.row_stride()}, &before_row))
    return 0;
  return __builtin_add_overflow(before_row, t.columns, &extent) ? 0 : extent;
}

} // namespace

int64_t Strided::entry_stride() const {
  if (batch_stride != 0) return batch_stride;
  int64_t stride = 0;
  return product({rows, row_stride()}, &stride) ? stride : 0;
}

int64_t Strided::map_entry_stride() const {
  if (entries > 1) return entry_stride();
  int64_t stride = 0;
  return product({rows, map_row_stride()}, &stride) ? stride : 0;
}

int64_t Strided::extent() const {
  if (!sized) return 0;
  int64_t before_row = 0, before_entry = 0;
  if (row_stride() < columns || entry_stride() < 0) return 0;
  if (!product({rows - 1, row_stride()}, &before_row) ||
      !product({entries - 1, entry_stride()}, &before_entry))
    return 0;
  if (before_row > address_space || before_entry > address_space) return 0;
  return before_entry + before_row + columns;
}

Verdict ld_covers(const Strided& t) {
  if (t.ld == 0 || (t.ld > 0 && (!t.sized || t.ld >= t.columns))) return holds();
  return violated(format(" = %" PRId64, t.ld), dense_or(t.sized ? t.columns : 0));
}

Verdict ld_multiple(const Strided& t) {
  return multiple_of(t.ld, stride_multiple, t.sized ? t.columns : 1);
}

Verdict batch_stride_covers(const Strided& t) {
  const int64_t least = entry_extent(t);
  if (t.batch_stride == 0 || (t.batch_stride > 0 && t.batch_stride >= least)) return holds();
  return violated(format(" = %" PRId64, t.batch_stride), dense_or(least));
}

Verdict batch_stride_multiple(const Strided& t) {
  return multiple_of(t.batch_stride, stride_multiple, std::max<int64_t>(entry_extent(t), 1));
}

Verdict fits_address_space(const Strided& t, int64_t element_bytes, const char* name) {
  if (!t.sized || t.row_stride() < t.columns || t.entry_stride() < 0) return holds();
  const int64_t extent = t.extent();
  if (extent != 0 && element_bytes * extent < address_space) return holds();
  return violated(format(": %s takes 2^47 bytes or more,", name));
}

Verdict batch_fits_address_space(uint64_t bytes) {
  if (bytes != 0 && bytes < static_cast<uint64_t>(address_space)) return holds();
  return violated(bytes == 0 ? std::string(": the batch takes 2^63 bytes or more,")
                             : format(": the batch takes %" PRIu64 " bytes,", bytes));
}

} // namespace warpline
