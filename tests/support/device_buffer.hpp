// Device memory of the C ABI for a scope's life, and NVFP4 scales on their way there.
#pragma once

#include "tests/reference/inputs.hpp"
#include "warpline/warpline.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace wltest {

struct DeviceBuffer {
  wl_context* context;
  void* pointer = nullptr;

  DeviceBuffer(wl_context* c, size_t bytes) : context(c) {
    wl_malloc(c, std::max<size_t>(bytes, 16), &pointer);
  }
  DeviceBuffer(wl_context* c, const void* data, size_t bytes) : DeviceBuffer(c, bytes) {
    if (pointer) wl_upload(c, pointer, data, bytes);
  }
  template <class T>
  DeviceBuffer(wl_context* c, const std::vector<T>& data)
      : DeviceBuffer(c, data.data(), data.size() * sizeof(T)) {}
  ~DeviceBuffer() {
    if (pointer) wl_free(context, pointer);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  uint8_t* at(size_t offset) const { return static_cast<uint8_t*>(pointer) + offset; }
  std::vector<uint8_t> read(size_t bytes) const {
    std::vector<uint8_t> data(bytes);
    wl_download(context, data.data(), pointer, bytes);
    return data;
  }
};

// An operand's scales in WL_SF_128x4, `padding` in the padding.
inline std::vector<uint8_t> packed_scales(const Operand& o, uint8_t padding = nan_padding) {
  // The layout counts blocks of 16.
  const int64_t k = o.type == WL_OPERAND_NVFP4 ? o.k : o.k / 2;
  const size_t each = wl_sf_bytes(WL_SF_128x4, o.rows, k);
  std::vector<uint8_t> out(each * static_cast<size_t>(o.l));
  if (o.scales.empty()) return out; // of a type without
  for (int64_t e = 0; e < o.l; ++e)
    wl_sf_pack(WL_SF_128x4, o.rows, k, o.scales.data() + e * o.rows * (k / 16),
               out.data() + static_cast<size_t>(e) * each, padding);
  return out;
}

// An operand's scales on the device, null where it has none. With `pad` false nothing is written to
// the padding.
struct ScaleBuffer : DeviceBuffer {
  ScaleBuffer(wl_context* c, const Operand& o, bool pad) : DeviceBuffer(c, packed_bytes(o)) {
    if (o.scales.empty()) {
      wl_free(c, pointer);
      pointer = nullptr;
      return;
    }
    const uint8_t padding = o.type == WL_OPERAND_NVFP4 ? nan_padding : mx_nan_padding;
    const std::vector<uint8_t> data = packed_scales(o, padding),
                               other = packed_scales(o, padding ^ 1);
    const auto uploaded = [&](size_t i) { return pad || data[i] == other[i]; };
    for (size_t first = 0, last = 0; first < data.size(); first = last + 1) {
      for (last = first; last < data.size() && uploaded(last);) ++last;
      if (last > first) wl_upload(c, at(first), data.data() + first, last - first);
    }
  }

private:
  static size_t packed_bytes(const Operand& o) {
    return wl_sf_bytes(WL_SF_128x4, o.rows, o.k) * static_cast<size_t>(o.l);
  }
};

// D and SFD between guards, for kernels that write an NVFP4 operand. With `written` false their
// bytes are what the allocation holds.
class GuardedOperand {
public:
  GuardedOperand(wl_context* context, int64_t rows, int64_t k, int64_t l, bool written = true)
      : rows_(rows), k_(k), l_(l), values_(static_cast<size_t>(l * rows * k / 2)),
        scales_(wl_sf_bytes(WL_SF_128x4, rows, k) * static_cast<size_t>(l)),
        d_(context, values_ + 2 * guard), sfd_(context, scales_ + 2 * guard) {
    if (written) {
      const std::vector<uint8_t> bytes(2 * guard + std::max(values_, scales_), fill);
      wl_upload(context, d_.pointer, bytes.data(), values_ + 2 * guard);
      wl_upload(context, sfd_.pointer, bytes.data(), scales_ + 2 * guard);
    }
    d_before_ = d_.read(values_ + 2 * guard);
    sf_before_ = sfd_.read(scales_ + 2 * guard);
  }

  void* d() const { return d_.at(guard); }
  void* sfd() const { return sfd_.at(guard); }

  // What was written; *intact becomes false when a guard or the scales' padding is not as it was.
  Operand read(bool* intact) const {
    const std::vector<uint8_t> d_image = d_.read(values_ + 2 * guard);
    const std::vector<uint8_t> sf_image = sfd_.read(scales_ + 2 * guard);
    const auto same_guards = [](const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
      return std::equal(a.begin(), a.begin() + guard, b.begin()) &&
             std::equal(a.end() - guard, a.end(), b.end() - guard);
    };
    *intact &= same_guards(d_image, d_before_) && same_guards(sf_image, sf_before_);
    Operand o{rows_, k_, l_, {}, {}};
    o.values.assign(d_image.begin() + guard, d_image.end() - guard);
    o.scales.resize(static_cast<size_t>(l_ * rows_ * (k_ / 16)));
    for (int64_t e = 0; e < l_; ++e)
      wl_sf_unpack(WL_SF_128x4, rows_, k_,
                   sf_image.data() + guard + static_cast<size_t>(e) * (scales_ / l_),
                   o.scales.data() + e * rows_ * (k_ / 16));
    const std::vector<uint8_t> again = packed_scales(o, 0), other = packed_scales(o, 1);
    for (size_t i = 0; i < scales_; ++i)
      *intact &= again[i] == other[i] || sf_image[guard + i] == sf_before_[guard + i];
    return o;
  }

private:
  static constexpr size_t guard = 256; // bytes around D and SFD
  static constexpr uint8_t fill = 0xA5;

  int64_t rows_, k_, l_;
  size_t values_, scales_; // bytes
  DeviceBuffer d_, sfd_;
  std::vector<uint8_t> d_before_, sf_before_;
};

} // namespace wltest
