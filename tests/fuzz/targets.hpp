// Fuzz targets: each takes any bytes and must return. What a user may see (ParseError, DecodeError,
// Fault, a CUresult) is an answer; any other exception, a crash or a sanitizer's report is a
// finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace wlfuzz {

// Bytes as choices. After the end every choice is 0.
class Reader {
public:
  Reader(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  size_t left() const { return size_ - at_; }
  uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  uint16_t word() {
    const uint16_t low = byte();
    return uint16_t(low | byte() << 8);
  }
  // 0 .. n - 1
  size_t below(size_t n) { return n <= 256 ? byte() % n : word() % n; }
  template <class T, size_t N>
  T pick(const T (&list)[N]) {
    return list[below(N)];
  }
  std::string text(size_t n) {
    n = n < left() ? n : left();
    std::string s(reinterpret_cast<const char*>(data_ + at_), n);
    at_ += n;
    return s;
  }

private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

// PTX text: parser, variables, decoder of every entry.
void ptx_text(const uint8_t* data, size_t size);

// A short kernel made from rows of the instruction table, run with checkers on.
void kernel(const uint8_t* data, size_t size);
std::string kernel_text(Reader& choices, const char* target); // what it would run, before decoding

// A sequence of driver calls with odd arguments. `find` gives an exported function by its name.
using Find = std::function<void*(const char*)>;
void driver(const uint8_t* data, size_t size, const Find& find);

} // namespace wlfuzz
