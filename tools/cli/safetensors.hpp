// Reader and writer of safetensors files, safe on hostile ones.
//
//   bytes 0..7   N, little-endian length of the header
//   bytes 8..    N bytes of JSON: {"name": {"dtype": "U8", "shape": [..], "data_offsets": [b, e]},
//   ..} the rest     data; offsets count from its first byte
//
// Refused, each with one message (Failure, exit_usage): a file too short, N beyond the file or
// beyond 100 MB, text that is not the JSON above, an unknown dtype, sizes that overflow, offsets
// that are reversed, outside the data, overlapping or with gaps, a byte count that does not match
// dtype and shape, a name that appears twice.
#pragma once

#include "tools/cli/failure.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warpline::cli {

struct Tensor {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0; // bytes of the data
  uint64_t bytes() const { return end - begin; }
};

constexpr uint64_t largest_header = 100'000'000;

// "[4096, 448]"
std::string shape_text(const std::vector<uint64_t>& shape);

// Names in a message, of many the first.
std::string shown_names(const std::vector<std::string>& names);

// The header's JSON for a file with `data_bytes` bytes of data. `path` is for messages.
std::vector<Tensor> parse_header(const std::string& path, std::string_view header,
                                 uint64_t data_bytes);

class SafetensorsFile {
public:
  explicit SafetensorsFile(const std::string& path); // opens, reads and checks the header
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const; // null when absent
  std::vector<uint8_t> read(const Tensor& tensor) const;
  void read(const Tensor& tensor, void* to) const;

private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t data_start_ = 0;
  std::vector<Tensor> tensors_;
};

struct OutputTensor {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  const void* data;
  size_t bytes;
};

// As write_file() of output_file.hpp does; refuses names that appear twice.
void write_safetensors(const std::string& path, const std::vector<OutputTensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata);

} // namespace warpline::cli
