// Decompression of what fat binaries hold: Zstandard frames (RFC 8878) and LZ4 blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace vgpu::driver {

struct UnpackError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All frames up to the end; throws UnpackError. At most `most` bytes come out.
std::string unpack_zstd(const uint8_t* bytes, size_t size, size_t most);
std::string unpack_lz4(const uint8_t* bytes, size_t size, size_t most);

} // namespace vgpu::driver
