#include "tools/vgpu/driver/fatbin.hpp"

#include "tools/vgpu/driver/unpack.hpp"
#include "tools/vgpu/isa/target.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vgpu::driver {

namespace {

constexpr uint32_t kWrapper = 0x466243B1;
constexpr size_t kMost = size_t(256) << 20; // of a text
constexpr uint16_t kPtx = 1;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000;

struct Wrapper { // __fatBinC_Wrapper_t
  uint32_t magic, version;
  const void* data;
  const void* const* prelinked; // version 2: what nvcc -rdc leaves to the driver's linker
};
constexpr uint32_t kLinks = 2;
struct Head {
  uint32_t magic;
  uint16_t version, bytes;
  uint64_t size; // of the entries
};
struct Entry {
  uint16_t kind, version;
  uint32_t header;
  uint64_t size; // of the payload, padded
  uint32_t packed, options;
  uint16_t minor, major;
  uint32_t architecture, name, name_bytes;
  uint64_t flags, zero, unpacked;
};
static_assert(sizeof(Entry) == 64);

} // namespace

bool is_fatbin(const void* image) {
  const auto* p = static_cast<const uint8_t*>(image);
  const uint8_t wrapper[] = {0xB1, 0x43, 0x62, 0x46}, binary[] = {0x50, 0xED, 0x55, 0xBA};
  auto starts = [p](const uint8_t(&magic)[4]) { // never beyond the end of a text
    for (size_t i = 0; i < 4; ++i)
      if (p[i] != magic[i]) return false;
    return true;
  };
  return starts(wrapper) || starts(binary);
}

namespace {

// Those that have no PTX for the device are left out, as the device's own runtime library is:
// what is missing then is named where it is used.
std::string prelinked_ptx(const void* const* binaries, int capability, std::string* error) {
  std::string all, wrong;
  for (; binaries && *binaries; ++binaries) {
    const std::string text = fatbin_ptx(*binaries, capability, &wrong);
    if (text.empty()) continue;
    if (!all.empty()) all += std::string("\n") + kNextInput + "\n";
    all += text;
  }
  if (all.empty()) *error = wrong.empty() ? "there is nothing to link" : wrong;
  return all;
}

} // namespace

std::string fatbin_ptx(const void* image, int capability, std::string* error) {
  const auto* at = static_cast<const uint8_t*>(image);
  uint32_t magic = 0;
  std::memcpy(&magic, at, 4);
  if (magic == kWrapper) {
    Wrapper w;
    std::memcpy(&w, at, offsetof(Wrapper, prelinked));
    if (w.version == kLinks) {
      std::memcpy(&w, at, sizeof w);
      return prelinked_ptx(w.prelinked, capability, error);
    }
    at = static_cast<const uint8_t*>(w.data);
  }
  // Byte by byte, so that a short text that begins so is not read beyond its end.
  const uint8_t known[] = {0x50, 0xED, 0x55, 0xBA, 1, 0, sizeof(Head), 0};
  for (size_t i = 0; i < sizeof known; ++i)
    if (at[i] != known[i]) {
      *error = "the image is no fat binary of a version that is known";
      return "";
    }
  Head head;
  std::memcpy(&head, at, sizeof head);
  const uint8_t *next = at + head.bytes, *end = next + head.size;
  std::string best, found;
  uint32_t best_architecture = 0;
  while (next + sizeof(Entry) <= end) {
    Entry e;
    std::memcpy(&e, next, sizeof e);
    const uint8_t* payload = next + e.header;
    if (e.header < sizeof e || e.header > size_t(end - next) ||
        e.size > size_t(end - next) - e.header) {
      *error = "an entry of the fat binary is larger than the binary";
      return "";
    }
    next = payload + e.size;
    found += (found.empty() ? "" : ", ") + std::string(e.kind == kPtx ? "PTX" : "machine code") +
             " for sm_" + std::to_string(e.architecture);
    if (e.kind != kPtx || e.architecture < best_architecture || int(e.architecture) > capability)
      continue;
    const bool packed = e.flags & (kLz4 | kZstd);
    const size_t size = packed && e.packed ? e.packed : e.size;
    try {
      std::string text = e.flags & kZstd ? unpack_zstd(payload, size, kMost)
                         : e.flags & kLz4
                             ? unpack_lz4(payload, size, e.unpacked)
                             : std::string(reinterpret_cast<const char*>(payload), size);
      text.resize(std::strlen(text.c_str())); // padding
      // sm_90a runs on 9.0 alone, sm_100f on its family.
      const size_t target = text.find(".target "), stop = text.find_first_of(",\n\r ", target + 8);
      if (target == std::string::npos ||
          !isa::runs_on(text.substr(target + 8, stop - target - 8), capability))
        continue;
      best = std::move(text);
      best_architecture = e.architecture;
    } catch (const UnpackError& wrong) {
      *error = "PTX for sm_" + std::to_string(e.architecture) +
               " of the fat binary cannot be unpacked: " + wrong.what();
      return "";
    }
  }
  if (best.empty())
    *error = "the fat binary has no PTX that runs on a device of compute capability " +
             isa::version_text(capability) + "; it has " + (found.empty() ? "nothing" : found) +
             ": nvcc -gencode arch=compute_90,code=compute_90 embeds PTX";
  return best;
}

} // namespace vgpu::driver
