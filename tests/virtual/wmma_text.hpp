// One wmma product from memory to memory: the text of its kernel, its operands, and what must come
// out, in values whose sums are exact in any order.
#pragma once

#include "tests/virtual/sparse_matrix.hpp"

#include "tools/vgpu/num/formats.hpp"

#include <bit>
#include <string>
#include <vector>

namespace wltest::wmma {

struct Form {
  const char* shape;   // m16n16k16
  const char* element; // of A and B
  const char *c, *d;   // accumulators
  const char* la;      // "row" or "col": layouts of A, B, and of C and D
  const char* lb;
  const char* lc;
  const char* ld;
  const char* extra = ""; // "satfinite", "xor", "and"
};

struct Sizes {
  uint32_t m, n, k;
};
inline Sizes sizes(const Form& f) {
  const std::string s = f.shape;
  const size_t n = s.find('n'), k = s.find('k');
  return {uint32_t(std::stoul(s.substr(1))), uint32_t(std::stoul(s.substr(n + 1))),
          uint32_t(std::stoul(s.substr(k + 1)))};
}
inline uint32_t bits_of(const std::string& type) {
  return type == "b1"                      ? 1
         : type == "u4" || type == "s4"    ? 4
         : type == "u8" || type == "s8"    ? 8
         : type == "f16" || type == "bf16" ? 16
         : type == "f64"                   ? 64
                                           : 32;
}

// Registers of a fragment of rows x columns.
inline uint32_t registers(const std::string& type, uint32_t rows, uint32_t columns, bool operand) {
  if (operand && type == "f16") return 8;
  const uint32_t bits = bits_of(type);
  return rows * columns * bits / 32 / (bits == 64 ? 64 : 32);
}

// In memory: lines (rows, or columns) of `width` elements, `stride` elements from one to the next.
struct Matrix {
  uint32_t rows, columns, bits, stride;
  bool by_columns;
  std::vector<uint8_t> bytes;
  std::vector<double> value;

  Matrix(uint32_t r, uint32_t c, const std::string& type, bool by_columns_, uint32_t gap)
      : rows(r), columns(c), bits(bits_of(type)), by_columns(by_columns_), value(r * c) {
    stride = (by_columns ? rows : columns) + gap;
    bytes.assign(size_t(by_columns ? columns : rows) * stride * bits / 8, 0);
  }
  uint32_t index(uint32_t r, uint32_t c) const {
    return by_columns ? c * stride + r : r * stride + c;
  }
  uint64_t code(uint32_t r, uint32_t c) const {
    uint64_t v = 0;
    for (uint32_t b = 0; b < bits; ++b) {
      const uint64_t bit = uint64_t(index(r, c)) * bits + b;
      v |= uint64_t(bytes[bit / 8] >> bit % 8 & 1) << b;
    }
    return v;
  }
  void set(uint32_t r, uint32_t c, uint64_t code, double x) {
    value[r * columns + c] = x;
    for (uint32_t b = 0; b < bits; ++b) {
      const uint64_t bit = uint64_t(index(r, c)) * bits + b;
      bytes[bit / 8] = uint8_t((bytes[bit / 8] & ~(1u << bit % 8)) | (code >> b & 1) << bit % 8);
    }
  }
};

inline uint64_t encode(const std::string& type, double x) {
  using namespace vgpu;
  if (type == "f16") return num::f32_to_f16(float(x));
  if (type == "bf16") return num::f32_to_bf16(float(x));
  if (type == "f32" || type == "tf32") return std::bit_cast<uint32_t>(float(x));
  if (type == "f64") return std::bit_cast<uint64_t>(x);
  return uint64_t(int64_t(x));
}

struct Product {
  Form form;
  Sizes s;
  Matrix a, b, c, d; // d: as it must be

  Product(const Form& f, uint32_t seed, uint32_t gap)
      : form(f), s(sizes(f)),
        a(s.m, s.k, f.element, f.la[0] == 'c', gap * 128 / bits_of(f.element)),
        b(s.k, s.n, f.element, f.lb[0] == 'c', gap * 128 / bits_of(f.element)),
        c(s.m, s.n, f.c, f.lc[0] == 'c', gap * 128 / bits_of(f.c)),
        d(s.m, s.n, f.d, f.ld[0] == 'c', gap * 128 / bits_of(f.d)) {
    std::mt19937 g(seed);
    const std::string element = f.element;
    auto fill = [&](Matrix& x, const std::string& type) {
      for (uint32_t r = 0; r < x.rows; ++r)
        for (uint32_t k = 0; k < x.columns; ++k) {
          double v = int(g() % 9) - 4;
          if (type == "u8") v = g() % 256;
          if (type == "s8") v = int(g() % 256) - 128;
          if (type == "u4") v = g() % 16;
          if (type == "s4") v = int(g() % 16) - 8;
          if (type == "b1") v = g() % 2;
          // Near the largest, so that sums saturate.
          if (type == "s32")
            v = std::string(f.extra) == "satfinite" ? 2147483000.0 : int(g() % 1000);
          x.set(r, k, encode(type, v), v);
        }
    };
    fill(a, element);
    fill(b, element);
    fill(c, f.c);
    for (uint32_t r = 0; r < s.m; ++r)
      for (uint32_t n = 0; n < s.n; ++n) {
        double sum = c.value[r * s.n + n];
        for (uint32_t k = 0; k < s.k; ++k) {
          const double x = a.value[r * s.k + k], y = b.value[k * s.n + n];
          sum += element != "b1" ? x * y : std::string(f.extra) == "xor" ? x != y : x * y;
        }
        if (std::string(f.d) == "s32") sum = std::min(sum, 2147483647.0);
        d.set(r, n, encode(f.d, sum), sum);
      }
  }

  std::string name() const {
    const std::string e = form.element, x = form.extra,
                      types = std::string(".") + form.d + "." +
                              (e == "f16" ? "" : e + "." + e + ".") + form.c;
    std::string bit = e == "b1" ? "." + x + ".popc" : "",
                sat = x == "satfinite" ? ".satfinite" : "";
    return "wmma.mma" + bit + ".sync.aligned." + form.la + "." + form.lb + "." + form.shape +
           types + sat;
  }

  // From [pa], [pb], [pc] to [pd], registers of 64 bits that hold global addresses; `space` is
  // ".global" or "". Between load and store, C and D are what wmma gives.
  std::string text(const std::string& space) const {
    auto list = [](const std::string& n, uint32_t count) {
      std::string t = "{";
      for (uint32_t i = 0; i < count; ++i) t += (i ? ", " : "") + n + std::to_string(i);
      return t + "}";
    };
    auto type = [](const std::string& t) { return bits_of(t) == 64 ? ".b64" : ".b32"; };
    const std::string e = form.element, A = list("wa", registers(e, s.m, s.k, true)),
                      B = list("wb", registers(e, s.k, s.n, true)),
                      C = list("wc", registers(form.c, s.m, s.n, false)),
                      D = list("wd", registers(form.d, s.m, s.n, false));
    std::string t = std::string("  .reg ") + type(e) + " wa<8>, wb<8>;\n  .reg " + type(form.c) +
                    " wc<8>;\n  .reg " + type(form.d) + " wd<8>;\n";
    auto load = [&](const char* m, const char* layout, const std::string& kind,
                    const std::string& to, const char* from, const Matrix& x) {
      // The default stride is left out.
      const bool plain = x.stride == (x.by_columns ? x.rows : x.columns);
      t += std::string("  wmma.load.") + m + ".sync.aligned." + layout + "." + form.shape + space +
           "." + kind + " " + to + ", [" + from + "]" +
           (plain ? "" : ", " + std::to_string(x.stride)) + ";\n";
    };
    load("a", form.la, e, A, "pa", a);
    load("b", form.lb, e, B, "pb", b);
    load("c", form.lc, form.c, C, "pc", c);
    t += "  " + name() + " " + D + ", " + A + ", " + B + ", " + C + ";\n";
    t += std::string("  wmma.store.d.sync.aligned.") + form.ld + "." + form.shape + space + "." +
         form.d + " [pd], " + D + ", " + std::to_string(d.stride) + ";\n";
    return t;
  }
};

inline std::vector<Form> forms() {
  std::vector<Form> v;
  for (const char* shape : {"m16n16k16", "m8n32k16", "m32n8k16"}) {
    for (const char* la : {"row", "col"})
      for (const char* lb : {"row", "col"}) {
        v.push_back({shape, "f16", "f32", "f32", la, lb, "row", "col"});
        v.push_back({shape, "bf16", "f32", "f32", la, lb, "col", "row"});
        v.push_back({shape, "s8", "s32", "s32", la, lb, "row", "row"});
      }
    v.push_back({shape, "f16", "f16", "f16", "row", "col", "row", "row"});
    v.push_back({shape, "f16", "f16", "f32", "col", "row", "col", "row"});
    v.push_back({shape, "f16", "f32", "f16", "row", "row", "row", "col"});
    v.push_back({shape, "u8", "s32", "s32", "row", "col", "col", "row", "satfinite"});
  }
  for (const char* la : {"row", "col"})
    for (const char* lb : {"row", "col"}) {
      v.push_back({"m16n16k8", "tf32", "f32", "f32", la, lb, "row", "col"});
      v.push_back({"m8n8k4", "f64", "f64", "f64", la, lb, "col", "row"});
    }
  v.push_back({"m8n8k32", "s4", "s32", "s32", "row", "col", "row", "col"});
  v.push_back({"m8n8k32", "u4", "s32", "s32", "row", "col", "col", "row", "satfinite"});
  v.push_back({"m8n8k128", "b1", "s32", "s32", "row", "col", "row", "row", "xor"});
  v.push_back({"m8n8k128", "b1", "s32", "s32", "row", "col", "col", "col", "and"});
  return v;
}

} // namespace wltest::wmma
