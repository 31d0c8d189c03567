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
  const size_t each = wl_sf_bytes(WL_SF_128x4, o.rows, o.k);
  std::vector<uint8_t> out(each * static_cast<size_t>(o.l));
  for (int64_t e = 0; e < o.l; ++e)
    wl_sf_pack(WL_SF_128x4, o.rows, o.k, o.scales.data() + e * o.rows * (o.k / 16),
               out.data() + static_cast<size_t>(e) * each, padding);
  return out;
}

// D and SFD between guards, for kernels that write an NVFP4 operand.
class GuardedOperand {
public:
  GuardedOperand(wl_context* context, int64_t rows, int64_t k, int64_t l)
      : rows_(rows), k_(k), l_(l), values_(static_cast<size_t>(l * rows * k / 2)),
        scales_(wl_sf_bytes(WL_SF_128x4, rows, k) * static_cast<size_t>(l)),
        d_(context, std::vector<uint8_t>(values_ + 2 * guard, fill)),
        sfd_(context, std::vector<uint8_t>(scales_ + 2 * guard, fill)) {}

  void* d() const { return d_.at(guard); }
  void* sfd() const { return sfd_.at(guard); }

  // What was written; *intact becomes false when a guard or the scales' padding is not as it was.
  Operand read(bool* intact) const {
    const std::vector<uint8_t> d_image = d_.read(values_ + 2 * guard);
    const std::vector<uint8_t> sf_image = sfd_.read(scales_ + 2 * guard);
    for (const std::vector<uint8_t>* image : {&d_image, &sf_image})
      for (size_t i = 0; i < guard; ++i)
        *intact &= (*image)[i] == fill && (*image)[image->size() - 1 - i] == fill;
    Operand o{rows_, k_, l_, {}, {}};
    o.values.assign(d_image.begin() + guard, d_image.end() - guard);
    o.scales.resize(static_cast<size_t>(l_ * rows_ * (k_ / 16)));
    for (int64_t e = 0; e < l_; ++e)
      wl_sf_unpack(WL_SF_128x4, rows_, k_,
                   sf_image.data() + guard + static_cast<size_t>(e) * (scales_ / l_),
                   o.scales.data() + e * rows_ * (k_ / 16));
    const std::vector<uint8_t> again = packed_scales(o, fill);
    *intact &= std::equal(again.begin(), again.end(), sf_image.begin() + guard);
    return o;
  }

private:
  static constexpr size_t guard = 256; // bytes around D and SFD
  static constexpr uint8_t fill = 0xA5;

  int64_t rows_, k_, l_;
  size_t values_, scales_; // bytes
  DeviceBuffer d_, sfd_;
};

} // namespace wltest
