#include "kernels/gemm/rules.hpp"

#include "runtime/src/configs.hpp"
#include "runtime/src/status.hpp"

#include <algorithm>
#include <cinttypes>

namespace warpline::gemm {

namespace {

constexpr int64_t tile_limit = int64_t{1} << 31;

uint64_t batch_bytes(int64_t entry, int64_t l) {
  int64_t bytes = 0;
  return product({entry, l}, &bytes) ? static_cast<uint64_t>(bytes) : 0;
}

} // namespace

int64_t entry_bytes(wl_operand type, int64_t rows, int64_t k) {
  return rows * (k * format_of(type).bits / 8);
}
uint64_t operand_bytes(wl_operand type, int64_t rows, int64_t k, int64_t l) {
  return batch_bytes(entry_bytes(type, rows, k), l);
}
uint64_t scale_bytes(wl_operand type, int64_t rows, int64_t k, int64_t l, wl_sf_layout layout) {
  const int block = format_of(type).scale_block;
  if (block == 0) return 0;
  // The layouts count blocks of 16.
  const int64_t scales = (k + block - 1) / block;
  return batch_bytes(static_cast<int64_t>(wl_sf_bytes(layout, rows, 16 * scales)), l);
}

Verdict bias_type(wl_dtype type, bool given) {
  // A number that a caller wrote may be no enumerator.
  const int number = static_cast<int>(type);
  if (!given || number == WL_F16 || number == WL_BF16 || number == WL_F32) return holds();
  return violated(format(" = %d", number), "0, 1, 3");
}

bool Shape::sized() const {
  return m >= 1 && m <= largest_extent && n >= 1 && n <= largest_extent && k >= 1 &&
         k <= largest_extent && l >= 1 && l <= largest_batch && known(types.a) && known(types.b);
}

uint64_t Shape::d_bytes() const {
  const auto elements = static_cast<uint64_t>(d().extent());
  return nvfp4() ? elements / 2 : elements * static_cast<uint64_t>(element_bytes(d_type));
}

Verdict entry_below_limit(const Shape& s, wl_operand type, int64_t extent, const char* name,
                          int64_t multiple) {
  if (!s.sized()) return holds();
  const int64_t row = entry_bytes(type, 1, s.k), entry = extent * row;
  if (entry < stride_limit) return holds();
  const int64_t most = (stride_limit - 1) / row / multiple * multiple;
  return violated(format(": an entry takes %" PRId64 " bytes,", entry),
                  format("%s = %" PRId64, name, most));
}

Verdict decoded_entry(const Shape& s, const Table& table, const DeviceLimits& device) {
  const bool decodes = std::ranges::any_of(table, [&](const Config& config) {
    return config.takes(s.types) && config.decodes_ahead(s.types) &&
           target_runs_on(config.target, device.compute_major, device.compute_minor);
  });
  return decodes ? entry_below_limit(s, s.types.a, s.n, "N", 8) : holds();
}

Verdict batch_below_limit(const Shape& s, wl_operand type, int64_t extent) {
  return s.sized() ? batch_fits_address_space(operand_bytes(type, extent, s.k, s.l)) : holds();
}

namespace {

// Of both operands. A type that is none is another rule's.
int64_t k_unit(const Types& types) {
  int64_t unit = 1;
  for (const auto& [type, layout] : {std::pair{types.a, types.a_layout}, {types.b, types.b_layout}})
    // Only types of 16 bits may be MN-major; another rule says so of others.
    if (known(type) && (layout != WL_MN_MAJOR || format_of(type).bits != 16))
      unit = std::max(unit, format_of(type).k_unit);
  return unit;
}

// 2^17 products of -128 and -128 are more than INT32 holds.
int64_t largest_k(const Types& types) {
  const bool integers = types.a == WL_OPERAND_INT8 && types.b == WL_OPERAND_INT8;
  return integers ? (int64_t{1} << 17) - 16 : largest_extent;
}

} // namespace

Verdict k_in_range(const Shape& s, bool nvfp4) {
  if (s.nvfp4_k() != nvfp4) return holds();
  return in_range(s.k, nvfp4 ? 64 : 1, largest_k(s.types), k_unit(s.types));
}

Verdict k_multiple(const Shape& s, bool nvfp4) {
  if (s.nvfp4_k() != nvfp4) return holds();
  return multiple_of(s.k, k_unit(s.types), nvfp4 ? 64 : 1, largest_k(s.types));
}

Verdict scales_given(wl_operand type, const void* scales) {
  return has_scales(type) ? not_null(scales) : holds();
}

Verdict scales_left_out(wl_operand type, const void* scales) {
  if (!known(type) || has_scales(type) || scales == nullptr) return holds();
  return violated(format(": address %p is given,", scales), "null");
}

Verdict scale_layout(wl_sf_layout layout, const DeviceLimits& device) {
  // A number that a caller wrote may be no enumerator.
  const int number = static_cast<int>(layout);
  const bool plain = device.compute_major == 9;
  if (number == WL_SF_128x4 || (plain && number == WL_SF_PLAIN)) return holds();
  return violated(format(" = %d", number), plain ? "0, 1" : "0");
}

Verdict mn_major_rows(const Shape& s) {
  if (s.types.a_layout != WL_MN_MAJOR || s.m < 1 || s.m > largest_extent) return holds();
  return multiple_of(s.m, s.row_multiple(), 1, largest_extent);
}

Verdict types_taken(const Shape& s, const Table& table, const DeviceLimits& device) {
  if (!known(s.types.a) || !known(s.types.b)) return holds();
  // A layout that is none is another rule's, where there are several.
  if ((!known(s.types.a_layout) || !known(s.types.b_layout)) &&
      std::ranges::any_of(table, &Config::mn_major))
    return holds();
  std::vector<Types> pairs; // that the device has
  bool runs = false;        // it has kernels at all; without, the rule of the device speaks
  for (const Config& config : table) {
    if (!target_runs_on(config.target, device.compute_major, device.compute_minor)) continue;
    if (config.takes(s.types)) return holds();
    runs = true;
    for (int a = WL_OPERAND_NVFP4; a <= WL_OPERAND_MXFP4; ++a)
      for (int b = WL_OPERAND_NVFP4; b <= WL_OPERAND_MXFP4; ++b) {
        // With the layouts that were asked for, or the types with K-major ones.
        for (const bool as_asked : {true, false}) {
          if (!as_asked && !s.types.mn_major()) continue;
          const Types pair{static_cast<wl_operand>(a), static_cast<wl_operand>(b),
                           as_asked ? s.types.a_layout : WL_K_MAJOR,
                           as_asked ? s.types.b_layout : WL_K_MAJOR};
          const bool near = as_asked ? pair.a == s.types.a || pair.b == s.types.b
                                     : pair.a == s.types.a && pair.b == s.types.b;
          if (near && config.takes(pair) && std::ranges::find(pairs, pair) == pairs.end())
            pairs.push_back(pair);
        }
      }
  }
  if (!runs) return holds();
  if (pairs.empty()) pairs.emplace_back();
  std::string nearest;
  for (const Types& pair : pairs) nearest += (nearest.empty() ? "" : "; ") + name_of(pair);
  return violated(" = " + name_of(s.types), nearest);
}

Verdict columns_taken(const Shape& s, const Table& table, const DeviceLimits& device,
                      const float* factors) {
  if (factors == nullptr) return holds();
  bool runs = false; // without, the rule of the types speaks
  for (const Config& config : table) {
    if (!config.takes(s.types) ||
        !target_runs_on(config.target, device.compute_major, device.compute_minor))
      continue;
    if (config.column_factors) return holds();
    runs = true;
  }
  return runs
             ? violated(format(": address %p is given,", static_cast<const void*>(factors)), "null")
             : holds();
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
