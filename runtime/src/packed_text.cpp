#include "runtime/src/packed_text.hpp"

#include <algorithm>

namespace warpline {

std::vector<uint16_t> code_bits(const uint8_t (&lengths)[PackCodes::symbols]) {
  std::vector<uint16_t> bits(PackCodes::symbols);
  unsigned code = 0;
  for (int length = 1; length <= PackCodes::longest; ++length, code <<= 1)
    for (int symbol = 0; symbol < PackCodes::symbols; ++symbol) {
      if (lengths[symbol] != length) continue;
      unsigned turned = 0;
      for (int i = 0; i < length; ++i) turned |= (code >> i & 1) << (length - 1 - i);
      bits[static_cast<size_t>(symbol)] = static_cast<uint16_t>(turned);
      ++code;
    }
  return bits;
}

Unpacker::Unpacker(const PackCodes& codes)
    : entries_(size_t{PackCodes::kinds} << PackCodes::longest) {
  for (int kind = 0; kind < PackCodes::kinds; ++kind) {
    Entry* entries = &entries_[static_cast<size_t>(kind) << PackCodes::longest];
    const std::vector<uint16_t> bits = code_bits(codes.lengths[kind]);
    for (size_t symbol = 0; symbol < bits.size(); ++symbol) {
      const uint8_t length = codes.lengths[kind][symbol];
      if (length == 0) continue;
      for (size_t at = bits[symbol]; at < size_t{1} << PackCodes::longest;
           at += size_t{1} << length)
        entries[at] = {static_cast<uint8_t>(symbol), length};
    }
  }
}

// Reads zeros behind the end, and `whole` says whether it came to that.
class PackedBits {
public:
  PackedBits(const Unpacker& unpacker, std::string_view packed)
      : entries_(unpacker.entries_.data()), packed_(packed) {}

  size_t symbol(int kind) {
    fill();
    const size_t next = held_ & ((size_t{1} << PackCodes::longest) - 1);
    const Unpacker::Entry entry =
        entries_[(static_cast<size_t>(kind) << PackCodes::longest) + next];
    if (entry.length == 0) coded_ = false;
    drop(entry.length);
    return entry.symbol;
  }
  // Of a number this wide.
  size_t number(size_t width) {
    if (width == 0) return 0;
    if (width > 48) coded_ = false;
    if (!coded_) return 0;
    fill();
    const uint64_t one = uint64_t{1} << (width - 1);
    const uint64_t value = one | (held_ & (one - 1));
    drop(width - 1);
    return value;
  }
  bool good() const { return coded_ && used_ <= 8 * packed_.size(); }
  // Not a byte is left, and what is left of the last one is zeros.
  bool whole() const { return good() && used_ + 8 > 8 * packed_.size() && held_ == 0; }

private:
  void fill() {
    for (; bits_ <= 56; bits_ += 8)
      held_ |= uint64_t{at_ < packed_.size() ? static_cast<unsigned char>(packed_[at_++]) : 0u}
               << bits_;
  }
  void drop(size_t count) {
    held_ >>= count;
    bits_ -= count;
    used_ += count;
  }

  const Unpacker::Entry* entries_;
  std::string_view packed_;
  size_t at_ = 0, bits_ = 0, used_ = 0;
  uint64_t held_ = 0; // bits_ of them, behind `used_`
  bool coded_ = true;
};

bool Unpacker::unpack(std::string_view base, std::string_view packed, size_t size,
                      std::string* text) const {
  text->clear();
  text->reserve(size);
  PackedBits bits(*this, packed);
  size_t before = 0;
  while (text->size() < size) {
    const size_t literals = bits.number(bits.symbol(PackCodes::count));
    if (!bits.good() || literals > size - text->size()) return false;
    for (size_t i = 0; i < literals; ++i)
      text->push_back(static_cast<char>(bits.symbol(static_cast<int>(text->size() % 16))));
    if (text->size() == size) break;
    size_t length = bits.number(bits.symbol(PackCodes::length));
    size_t distance = before;
    if (const size_t sixteenths = bits.symbol(PackCodes::distance); sixteenths != 0) {
      distance = 16 * bits.number(sixteenths - 1);
      distance += bits.symbol(PackCodes::distance_low);
    }
    before = distance;
    if (!bits.good() || length > size - text->size() || distance == 0 ||
        distance > base.size() + text->size())
      return false;
    if (distance > text->size()) {
      const std::string_view from = base.substr(base.size() + text->size() - distance);
      const size_t part = std::min(length, from.size());
      text->append(from.substr(0, part));
      length -= part;
    }
    // A match that overlaps its own output repeats it; there is room for `size` bytes.
    while (length > 0) {
      const size_t part = std::min(length, distance);
      text->append(text->data() + text->size() - distance, part);
      length -= part;
    }
  }
  return size == 0 ? packed.empty() : bits.whole();
}

} // namespace warpline
