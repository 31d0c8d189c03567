#include "tools/vgpu/driver/unpack.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace vgpu::driver {

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw UnpackError(what);
}

int log2_of(uint32_t v) { return std::bit_width(v) - 1; }

// A range of bytes that is read from its front.
class Bytes {
public:
  Bytes(const uint8_t* at, size_t size) : at_(at), end_(at + size) {}
  size_t left() const { return size_t(end_ - at_); }
  const uint8_t* here() const { return at_; }
  void back() { --at_; }
  const uint8_t* take(size_t n) {
    require(n <= left(), "it ends early");
    at_ += n;
    return at_ - n;
  }
  uint32_t byte() { return *take(1); }
  uint64_t number(size_t n) { // little endian
    uint64_t v = 0;
    const uint8_t* p = take(n);
    for (size_t i = 0; i < n; ++i) v |= uint64_t(p[i]) << 8 * i;
    return v;
  }

private:
  const uint8_t *at_, *end_;
};

// Bits from the front, lowest first: tables of probabilities.
class ForwardBits {
public:
  explicit ForwardBits(Bytes& bytes) : bytes_(bytes) {}
  uint32_t read(int n) {
    uint32_t v = 0;
    for (int i = 0; i < n; ++i) {
      if (bit_ == 8 || !open_) {
        current_ = bytes_.byte();
        bit_ = 0;
        open_ = true;
      }
      v |= (current_ >> bit_++ & 1) << i;
    }
    return v;
  }
  // One bit back, which the last read took.
  void unread() { --bit_; }
  // To the next whole byte.
  void end() {
    if (open_ && bit_ == 0) bytes_.back();
  }

private:
  Bytes& bytes_;
  uint32_t current_ = 0;
  int bit_ = 0;
  bool open_ = false;
};

// Bits from the end, whose last 1 is a mark; before the first byte they are zeros.
class BackwardBits {
public:
  BackwardBits(const uint8_t* at, size_t size) : at_(at) {
    require(size > 0 && at[size - 1] != 0, "a stream of bits has no end mark");
    left_ = int64_t(size) * 8 - 8 + log2_of(at[size - 1]);
  }
  uint64_t peek(int n) const {
    uint64_t v = 0;
    for (int i = 0; i < n;) { // from the highest: bytes where they are whole
      const int64_t place = left_ - n + i;
      if (place < 0) {
        i += int(std::min<int64_t>(-place, n - i));
        continue;
      }
      const int in = int(place % 8), some = std::min(8 - in, n - i);
      v |= uint64_t(at_[place / 8] >> in & ((1u << some) - 1)) << i;
      i += some;
    }
    return v;
  }
  uint64_t read(int n) {
    const uint64_t v = peek(n);
    left_ -= n;
    return v;
  }
  void skip(int n) { left_ -= n; }
  int64_t left() const { return left_; }

private:
  const uint8_t* at_;
  int64_t left_;
};

// ---- finite state entropy (4.1)

struct Fse {
  struct Cell {
    uint8_t symbol = 0, bits = 0;
    uint16_t base = 0;
  };
  int log = 0;
  std::vector<Cell> cells;

  static Fse of(const std::vector<int>& weights, int log) {
    Fse t;
    t.log = log;
    const uint32_t size = 1u << log;
    t.cells.resize(size);
    std::vector<uint32_t> next(weights.size(), 0);
    uint32_t high = size;
    for (size_t s = 0; s < weights.size(); ++s)
      if (weights[s] == -1) {
        require(high > 0, "a table has too many symbols");
        t.cells[--high].symbol = uint8_t(s);
        next[s] = 1;
      }
    uint32_t at = 0;
    const uint32_t step = (size >> 1) + (size >> 3) + 3;
    for (size_t s = 0; s < weights.size(); ++s) {
      if (weights[s] <= 0) continue;
      next[s] = uint32_t(weights[s]);
      for (int i = 0; i < weights[s]; ++i) {
        t.cells[at].symbol = uint8_t(s);
        do at = (at + step) & (size - 1);
        while (at >= high);
      }
    }
    for (Cell& c : t.cells) {
      const uint32_t n = next[c.symbol]++;
      c.bits = uint8_t(log - log2_of(n));
      c.base = uint16_t((n << c.bits) - size);
    }
    return t;
  }
  static Fse one(uint8_t symbol) {
    Fse t;
    t.cells.resize(1);
    t.cells[0].symbol = symbol;
    return t;
  }
  static Fse read(Bytes& in, int most_log, size_t most_symbols) {
    ForwardBits bits(in);
    const int log = int(bits.read(4)) + 5;
    require(log <= most_log, "a table is too large");
    std::vector<int> weights;
    int32_t left = 1 << log;
    while (left > 0) {
      require(weights.size() < most_symbols, "a table has too many symbols");
      const int n = log2_of(uint32_t(left + 1)) + 1;
      uint32_t v = bits.read(n);
      const uint32_t low = (1u << (n - 1)) - 1, threshold = (1u << n) - 1 - uint32_t(left + 1);
      if ((v & low) < threshold) {
        bits.unread();
        v &= low;
      } else if (v > low) {
        v -= threshold;
      }
      const int weight = int(v) - 1;
      left -= weight < 0 ? 1 : weight;
      weights.push_back(weight);
      for (uint32_t again = weight == 0 ? 3 : 0; again == 3;) {
        again = bits.read(2);
        weights.insert(weights.end(), again, 0);
      }
    }
    bits.end();
    require(left == 0 && weights.size() <= most_symbols, "a table does not add up");
    return of(weights, log);
  }
};

// ---- Huffman codes (4.2)

struct Huffman {
  int log = 0;
  std::vector<std::pair<uint8_t, uint8_t>> cells; // symbol, bits

  static std::vector<uint8_t> read_weights(Bytes& in) {
    std::vector<uint8_t> weights;
    const uint32_t head = in.byte();
    if (head >= 128) {
      const size_t n = head - 127;
      const uint8_t* p = in.take((n + 1) / 2);
      for (size_t i = 0; i < n; ++i) weights.push_back(i % 2 ? p[i / 2] & 15 : p[i / 2] >> 4);
      return weights;
    }
    Bytes part(in.take(head), head);
    const Fse table = Fse::read(part, 6, 256);
    BackwardBits bits(part.here(), part.left());
    uint64_t state[2] = {bits.read(table.log), bits.read(table.log)};
    // Two states in turn; when a new one would need bits that are not there, the other's symbol
    // ends.
    for (int which = 0;; which ^= 1) {
      require(weights.size() < 255, "a code has too many symbols");
      const Fse::Cell& c = table.cells[state[which]];
      weights.push_back(c.symbol);
      if (bits.left() < c.bits) {
        weights.push_back(table.cells[state[which ^ 1]].symbol);
        return weights;
      }
      state[which] = c.base + bits.read(c.bits);
    }
  }
  static Huffman read(Bytes& in) {
    std::vector<uint8_t> weights = read_weights(in);
    uint32_t sum = 0;
    for (uint8_t w : weights) sum += w ? 1u << (w - 1) : 0;
    require(sum > 0 && sum < 1u << 20, "a code is empty");
    Huffman h;
    h.log = log2_of(sum) + 1;
    const uint32_t rest = (1u << h.log) - sum;
    require(std::has_single_bit(rest) && h.log <= 12, "a code does not add up");
    weights.push_back(uint8_t(log2_of(rest) + 1));
    for (int w = 1; w <= h.log; ++w)
      for (size_t s = 0; s < weights.size(); ++s)
        if (weights[s] == w)
          h.cells.insert(h.cells.end(), size_t(1) << (w - 1), {uint8_t(s), uint8_t(h.log + 1 - w)});
    require(h.cells.size() == size_t(1) << h.log, "a code does not add up");
    return h;
  }
  void decode(const uint8_t* at, size_t size, size_t count, std::string& out) const {
    BackwardBits bits(at, size);
    for (size_t i = 0; i < count; ++i) {
      const auto [symbol, n] = cells[bits.peek(log)];
      bits.skip(n);
      out.push_back(char(symbol));
    }
    require(bits.left() == 0, "a stream of literals has another length");
  }
};

// ---- sequences (3.1.1.3.2)

struct Code {
  uint32_t base, bits;
};
constexpr Code kLengths[] = {{16, 1},    {18, 1},    {20, 1},     {22, 1},     {24, 2},
                             {28, 2},    {32, 3},    {40, 3},     {48, 4},     {64, 6},
                             {128, 7},   {256, 8},   {512, 9},    {1024, 10},  {2048, 11},
                             {4096, 12}, {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16}};
constexpr Code kMatches[] = {
    {35, 1},    {37, 1},    {39, 1},    {41, 1},    {43, 2},     {47, 2},     {51, 3},
    {59, 3},    {67, 4},    {83, 4},    {99, 5},    {131, 7},    {259, 8},    {515, 9},
    {1027, 10}, {2051, 11}, {4099, 12}, {8195, 13}, {16387, 14}, {32771, 15}, {65539, 16}};
Code length_code(uint32_t c) {
  if (c < 16) return {c, 0};
  require(c - 16 < std::size(kLengths), "a length's code is unknown");
  return kLengths[c - 16];
}
Code match_code(uint32_t c) {
  if (c < 32) return {c + 3, 0};
  require(c - 32 < std::size(kMatches), "a match's code is unknown");
  return kMatches[c - 32];
}
const std::vector<int> kDefaultLengths{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                       2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
const std::vector<int> kDefaultMatches{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                       1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                       1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
const std::vector<int> kDefaultOffsets{1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                       1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};

class Frame {
public:
  Frame(std::string& out, size_t most) : out_(out), start_(out.size()), most_(most) {}

  void read(Bytes& in) {
    require(in.number(4) == 0xFD2FB528u, "it has no Zstandard mark");
    const uint32_t head = in.byte();
    const bool single = head >> 5 & 1;
    if (!single) in.byte(); // the window: all of the output is kept
    constexpr size_t kIds[] = {0, 1, 2, 4};
    require(in.number(kIds[head & 3]) == 0, "it needs a dictionary");
    constexpr size_t kSizes[] = {0, 2, 4, 8};
    in.take(head >> 6 ? kSizes[head >> 6] : single ? 1 : 0);
    for (bool last = false; !last;) {
      const uint32_t block = uint32_t(in.number(3)), size = block >> 3;
      last = block & 1;
      switch (block >> 1 & 3) {
      case 0:
        append(in.take(size), size);
        break;
      case 1:
        require(out_.size() + size <= most_, "it is too large");
        out_.append(size, char(in.byte()));
        break;
      case 2: {
        Bytes body(in.take(size), size);
        read_block(body);
        break;
      }
      default:
        throw UnpackError("a block's kind is unknown");
      }
    }
    if (head >> 2 & 1) in.take(4); // of the content: whoever reads it will see
  }

private:
  void append(const void* from, size_t n) {
    require(out_.size() + n <= most_, "it is too large");
    out_.append(static_cast<const char*>(from), n);
  }

  std::string read_literals(Bytes& in) {
    const uint32_t head = in.byte(), kind = head & 3, form = head >> 2 & 3;
    std::string s;
    if (kind < 2) {
      size_t n = head >> 3;
      if (form == 1) n = head >> 4 | in.byte() << 4;
      if (form == 3) n = size_t(head >> 4 | in.number(2) << 4);
      require(n <= most_, "it is too large");
      if (kind == 0)
        s.assign(reinterpret_cast<const char*>(in.take(n)), n);
      else
        s.assign(n, char(in.byte()));
      return s;
    }
    constexpr int kBits[] = {10, 10, 14, 18};
    const int width = kBits[form];
    const uint64_t sizes = (head >> 4) | in.number(form < 2 ? 2 : size_t(form) + 1) << 4;
    const size_t count = sizes & ((1u << width) - 1), packed = sizes >> width & ((1u << width) - 1);
    Bytes body(in.take(packed), packed);
    if (kind == 2) huffman_ = Huffman::read(body);
    require(!huffman_.cells.empty(), "literals name a code that there is not");
    require(count <= most_, "it is too large");
    if (form == 0) {
      huffman_.decode(body.here(), body.left(), count, s);
      return s;
    }
    size_t size[4] = {body.number(2), body.number(2), body.number(2), 0};
    require(size[0] + size[1] + size[2] <= body.left(), "literals end early");
    size[3] = body.left() - size[0] - size[1] - size[2];
    const size_t each = (count + 3) / 4;
    require(count >= 3 * each, "literals are too few");
    for (int i = 0; i < 4; ++i)
      huffman_.decode(body.take(size[i]), size[i], i < 3 ? each : count - 3 * each, s);
    return s;
  }

  static void read_table(Bytes& in, uint32_t mode, const std::vector<int>& defaults,
                         int default_log, int most_log, Fse& table) {
    if (mode == 0) table = Fse::of(defaults, default_log);
    if (mode == 1) table = Fse::one(uint8_t(in.byte()));
    if (mode == 2) table = Fse::read(in, most_log, 256);
    require(!table.cells.empty(), "sequences name a table that there is not");
  }

  uint32_t offset_of(uint32_t value, bool no_literals) {
    if (value > 3) {
      recent_ = {value - 3, recent_[0], recent_[1]};
      return recent_[0];
    }
    const uint32_t which = value - 1 + no_literals;
    if (which == 0) return recent_[0];
    const uint32_t offset = which < 3 ? recent_[which] : recent_[0] - 1;
    if (which > 1) recent_[2] = recent_[1];
    recent_[1] = recent_[0];
    recent_[0] = offset;
    return offset;
  }

  void read_block(Bytes& in) {
    const std::string literals = read_literals(in);
    uint32_t count = in.byte();
    if (count == 255)
      count = uint32_t(in.number(2)) + 0x7F00;
    else if (count >= 128)
      count = (count - 128) << 8 | in.byte();
    size_t used = 0;
    if (count > 0) {
      const uint32_t modes = in.byte();
      read_table(in, modes >> 6, kDefaultLengths, 6, 9, lengths_);
      read_table(in, modes >> 4 & 3, kDefaultOffsets, 5, 8, offsets_);
      read_table(in, modes >> 2 & 3, kDefaultMatches, 6, 9, matches_);
      BackwardBits bits(in.here(), in.left());
      uint64_t l = bits.read(lengths_.log), o = bits.read(offsets_.log),
               m = bits.read(matches_.log);
      for (uint32_t i = 0; i < count; ++i) {
        const Fse::Cell lc = lengths_.cells[l], oc = offsets_.cells[o], mc = matches_.cells[m];
        require(oc.symbol < 32, "an offset is too large");
        const uint32_t value = (1u << oc.symbol) + uint32_t(bits.read(oc.symbol));
        const Code match = match_code(mc.symbol), length = length_code(lc.symbol);
        const size_t copy = match.base + bits.read(int(match.bits));
        const size_t plain = length.base + bits.read(int(length.bits));
        if (i + 1 < count) {
          l = lc.base + bits.read(lc.bits);
          m = mc.base + bits.read(mc.bits);
          o = oc.base + bits.read(oc.bits);
        }
        require(bits.left() >= 0 && used + plain <= literals.size(), "sequences end early");
        append(literals.data() + used, plain);
        used += plain;
        const size_t back = offset_of(value, plain == 0);
        require(back > 0 && back <= out_.size() - start_, "an offset points before the start");
        require(out_.size() + copy <= most_, "it is too large");
        for (size_t k = 0; k < copy; ++k) out_.push_back(out_[out_.size() - back]);
      }
    }
    append(literals.data() + used, literals.size() - used);
  }

  std::string& out_;
  const size_t start_, most_;
  Huffman huffman_;
  Fse lengths_, offsets_, matches_;
  std::array<uint32_t, 3> recent_{1, 4, 8};
};

} // namespace

std::string unpack_zstd(const uint8_t* bytes, size_t size, size_t most) {
  std::string out;
  Bytes in(bytes, size);
  // Entries of fat binaries are padded with zeros.
  do Frame(out, most).read(in);
  while (in.left() >= 4 && Bytes(in.here(), 4).number(4) == 0xFD2FB528u);
  return out;
}

std::string unpack_lz4(const uint8_t* bytes, size_t size, size_t most) {
  std::string out;
  Bytes in(bytes, size);
  auto length = [&](size_t n) {
    for (uint32_t more = n == 15 ? 255 : 0; more == 255;) n += more = in.byte();
    return n;
  };
  while (in.left() > 0 && out.size() < most) {
    const uint32_t token = in.byte();
    const size_t plain = length(token >> 4);
    require(out.size() + plain <= most, "it is too large");
    out.append(reinterpret_cast<const char*>(in.take(plain)), plain);
    if (in.left() < 2 || out.size() == most) break;
    const size_t back = size_t(in.number(2)), copy = length(token & 15) + 4;
    require(back > 0 && back <= out.size(), "an offset points before the start");
    require(out.size() + copy <= most, "it is too large");
    for (size_t i = 0; i < copy; ++i) out.push_back(out[out.size() - back]);
  }
  return out;
}

} // namespace vgpu::driver
