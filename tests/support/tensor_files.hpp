// Safetensors files that a writer would not write, and what their reader says.
#pragma once

#include "tests/reference/inputs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/failure.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace wltest {

inline std::string length_bytes(uint64_t length) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(length >> 8 * i);
  return text;
}

inline std::string file_bytes(const std::string& header, size_t data_bytes) {
  return length_bytes(header.size()) + header + std::string(data_bytes, '\1');
}

inline std::string tensor_json(const std::string& name, const std::string& dtype,
                               const std::string& shape, uint64_t begin, uint64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// The refusal's text without the path, "accepted" when there was none.
template <class Work>
std::string refusal(const std::string& path, Work work) {
  try {
    work();
  } catch (const warpline::cli::Failure& failure) {
    CHECK(failure.status == warpline::cli::exit_usage);
    const std::string text = failure.what();
    REQUIRE(text.rfind(path + ": ", 0) == 0);
    CHECK(text.find('\n') == std::string::npos);
    return text.substr(path.size() + 2);
  }
  return "accepted";
}

struct TensorText {
  std::string name, dtype, shape; // "[2,32]"
};

// A file whose byte counts follow the shapes, whatever they are.
inline std::string file_of(const std::vector<TensorText>& tensors) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const TensorText& t : tensors) {
    uint64_t bytes = t.dtype == "F32" ? 4 : t.dtype == "F16" || t.dtype == "BF16" ? 2 : 1;
    uint64_t extent = 0;
    for (const char c : t.shape) {
      if (c >= '0' && c <= '9')
        extent = extent * 10 + static_cast<uint64_t>(c - '0');
      else if (c == ',' || (c == ']' && t.shape != "[]"))
        bytes *= std::exchange(extent, 0);
    }
    header += (header.size() == 1 ? "" : ",") +
              tensor_json(t.name, t.dtype, t.shape, offset, offset + bytes);
    offset += bytes;
  }
  return file_bytes(header + "}", offset);
}

// What `read` says of such a file.
template <class Read>
std::string refusal_of(const std::vector<TensorText>& tensors, Read read) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  write_text(path, file_of(tensors));
  return refusal(path, [&] { read(path); });
}

// How many of 1500 damaged copies of a file `read` refuses: bits of the header turned, and every
// third copy cut off somewhere.
template <class Read>
int refused_damage(const std::string& good, uint64_t seed, Read read) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  const Random random(seed, 0);
  int refused = 0;
  for (uint64_t i = 0; i < 1500; ++i) {
    std::string bytes = good;
    for (uint64_t flip = 0; flip < 1 + random.below(8 * i, 3); ++flip)
      bytes[random.below(8 * i + 1 + flip, 700)] ^=
          static_cast<char>(1 << random.below(8 * i + 4, 8));
    if (i % 3 == 0) bytes.resize(random.below(8 * i + 5, bytes.size()));
    write_text(path, bytes);
    try {
      read(path);
    } catch (const warpline::cli::Failure&) {
      ++refused;
    }
  }
  return refused;
}

} // namespace wltest
