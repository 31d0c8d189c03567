// vprintf and __assertfail.
#include "tools/vgpu/ops/external.hpp"

#include <cstdio>
#include <mutex>

namespace vgpu::ops {

namespace {

std::string read_string(Warp& w, const Inst& i, uint32_t lane, uint64_t address) {
  std::string s;
  if (address == 0) return s;
  for (char c = 1; s.size() < 4096; s += c) {
    read_generic(w, i, lane, address + s.size(), &c, 1);
    if (c == 0) break;
  }
  return s;
}

// Arguments lie in a buffer, each aligned to its size: 4 bytes for int, 8 for long, pointers and
// double (CUDA C++ Programming Guide, formatted output).
std::string format_text(Warp& w, const Inst& i, uint32_t lane, const std::string& format,
                        uint64_t buffer) {
  std::string out;
  uint64_t at = 0;
  auto take = [&](uint32_t bytes) {
    at = (at + bytes - 1) / bytes * bytes;
    uint64_t v = 0;
    read_generic(w, i, lane, buffer + at, &v, bytes);
    at += bytes;
    return v;
  };
  for (size_t k = 0; k < format.size(); ++k) {
    if (format[k] != '%') {
      out += format[k];
      continue;
    }
    std::string spec = "%";
    bool wide = false;
    char piece[512];
    for (++k; k < format.size(); ++k) {
      char c = format[k];
      if (c == '%') {
        out += '%';
        break;
      }
      if (c == 'l' || c == 'j' || c == 'z' || c == 't') {
        wide = true;
        continue;
      }
      if (c == 'h' || c == 'L') continue;
      if (c == '*') {
        spec += std::to_string(int32_t(take(4)));
        continue;
      }
      if (std::string_view("-+ #0123456789.").find(c) != std::string_view::npos) {
        if (spec.size() < 32) spec += c;
        continue;
      }
      if (std::string_view("di").find(c) != std::string_view::npos) {
        spec += "lld";
        long long v = wide ? int64_t(take(8)) : int32_t(take(4));
        std::snprintf(piece, sizeof piece, spec.c_str(), v);
      } else if (std::string_view("uoxX").find(c) != std::string_view::npos) {
        spec += "ll";
        spec += c;
        unsigned long long v = take(wide ? 8 : 4);
        std::snprintf(piece, sizeof piece, spec.c_str(), v);
      } else if (std::string_view("fFeEgGaA").find(c) != std::string_view::npos) {
        spec += c;
        std::snprintf(piece, sizeof piece, spec.c_str(), std::bit_cast<double>(take(8)));
      } else if (c == 'c') {
        spec += c;
        std::snprintf(piece, sizeof piece, spec.c_str(), int(take(4)));
      } else if (c == 'p') {
        std::snprintf(piece, sizeof piece, "0x%llx", static_cast<unsigned long long>(take(8)));
      } else if (c == 's') {
        spec += c;
        std::string text = read_string(w, i, lane, take(8));
        out += text;
        break;
      } else {
        piece[0] = c;
        piece[1] = 0;
      }
      out += piece;
      break;
    }
  }
  return out;
}

} // namespace

// int vprintf(format, arguments): lanes print in order, one call's text stays together.
Step print_text(Warp& w, const Inst& i, uint32_t mask) {
  static std::mutex output;
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m));
    std::string format = read_string(w, i, l, argument(w, i, l, 0));
    std::string text = format_text(w, i, l, format, argument(w, i, l, 1));
    {
      std::lock_guard lock(output);
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
    give_result(w, i, l, text.size());
  }
  return Step::Next;
}

// void __assertfail(message, file, line, function, character size)
Step assert_fail(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t l = uint32_t(std::countr_zero(mask));
  auto text = [&](int k) { return read_string(w, i, l, argument(w, i, l, k)); };
  std::string message = text(1) + ":" + std::to_string(argument(w, i, l, 2)) + ": " + text(3) +
                        ": assertion `" + text(0) + "` failed";
  w.fault(i, mask, FaultCode::asserted, "assert", message);
}

} // namespace vgpu::ops
