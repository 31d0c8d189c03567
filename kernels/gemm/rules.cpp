#include "kernels/gemm/rules.hpp"

#include "runtime/src/status.hpp"

#include <cinttypes>

namespace warpline::gemm {

namespace {

// cuTensorMapEncodeTiled: a stride is below 2^40 bytes.
constexpr int64_t stride_limit = int64_t{1} << 40;
constexpr int64_t tile_limit = int64_t{1} << 31;

uint64_t batch_bytes(int64_t entry, int64_t l) {
  int64_t bytes = 0;
  return product({entry, l}, &bytes) ? static_cast<uint64_t>(bytes) : 0;
}

} // namespace

uint64_t operand_bytes(int64_t rows, int64_t k, int64_t l) {
  return batch_bytes(rows * (k / 2), l);
}
uint64_t scale_bytes(int64_t rows, int64_t k, int64_t l) {
  return batch_bytes(static_cast<int64_t>(wl_sf_bytes(WL_SF_128x4, rows, k)), l);
}

Verdict bias_type(wl_dtype type, bool given) {
  // A number that a caller wrote may be no enumerator.
  const int number = static_cast<int>(type);
  if (!given || number == WL_F16 || number == WL_BF16 || number == WL_F32) return holds();
  return violated(format(" = %d", number), "0, 1, 3");
}

bool Shape::sized() const {
  return m >= 1 && m <= largest_extent && n >= 1 && n <= largest_extent && k >= 1 &&
         k <= largest_extent && l >= 1 && l <= largest_batch;
}

uint64_t Shape::d_bytes() const {
  const auto elements = static_cast<uint64_t>(d().extent());
  return nvfp4() ? elements / 2 : elements * static_cast<uint64_t>(element_bytes(d_type));
}

Verdict entry_below_limit(const Shape& s, int64_t extent, const char* name, int64_t multiple) {
  if (!s.sized() || extent * (s.k / 2) < stride_limit) return holds();
  const int64_t most = (stride_limit - 1) / (s.k / 2) / multiple * multiple;
  return violated(format(": an entry takes %" PRId64 " bytes,", extent * (s.k / 2)),
                  format("%s = %" PRId64, name, most));
}

Verdict batch_below_limit(const Shape& s, int64_t extent) {
  return s.sized() ? batch_fits_address_space(s.bytes_of(extent)) : holds();
}

Verdict columns(const Shape& s, bool nvfp4) {
  if (s.nvfp4() != nvfp4) return holds();
  return multiple_of(s.n, s.column_multiple(), 8, largest_extent);
}

Verdict tiles_fit(const Shape& s) {
  int64_t tiles = 0;
  if (!s.sized() ||
      (product({(s.m + 127) / 128, (s.n + 63) / 64, s.l}, &tiles) && tiles < tile_limit))
    return holds();
  return violated(format(" = %" PRId64 ", %" PRId64 ", %" PRId64, s.m, s.n, s.l));
}

Verdict with_gaps(const Shape& s, Verdict (*rule)(const Strided&)) {
  return s.nvfp4() ? holds() : rule(s.d());
}

Verdict nvfp4_dense(const Shape& s, int64_t found, int64_t rows) {
  const bool sized = s.sized();
  if (!s.nvfp4() || found == 0 || (found > 0 && !sized)) return holds();
  const int64_t dense = sized ? rows * s.n : 0;
  if (found == dense) return holds();
  return violated(format(" = %" PRId64, found),
                  sized ? format("0, %" PRId64, dense) : std::string("0"));
}

} // namespace warpline::gemm
