// Functions that the driver provides to kernels: vprintf and __assertfail.
#include "tools/vgpu/ops/memory.hpp"

#include <cstdio>
#include <mutex>

namespace vgpu::ops {

namespace {

// Local-memory offsets of the call's .param variables.
struct External {
  uint64_t argument[5] = {};
  uint64_t result = ~0ull;
};

uint64_t read_local(Warp& w, const Inst& i, uint32_t lane, uint64_t offset, uint32_t bytes) {
  uint64_t v = 0;
  read_generic(w, i, lane, exec::kLocalWindow + offset, &v, bytes);
  return v;
}
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

// int vprintf(format, arguments): lanes print in order, one call's text stays together.
Step print(Warp& w, const Inst& i, uint32_t mask) {
  static std::mutex output;
  const External& x = *static_cast<const External*>(i.data);
  for (uint32_t m = mask; m; m &= m - 1) {
    uint32_t l = uint32_t(std::countr_zero(m));
    std::string format = read_string(w, i, l, read_local(w, i, l, x.argument[0], 8));
    std::string text = format_text(w, i, l, format, read_local(w, i, l, x.argument[1], 8));
    {
      std::lock_guard lock(output);
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
    if (x.result == ~0ull) continue;
    exec::Access a;
    a.space = exec::Space::Local;
    a.write = true;
    a.address = x.result;
    a.bytes = 4;
    int32_t n = int32_t(text.size());
    std::memcpy(w.cluster().touch(a, w.origin(i, 1u << l)), &n, 4);
  }
  return Step::Next;
}

// void __assertfail(message, file, line, function, character size)
Step assert_fail(Warp& w, const Inst& i, uint32_t mask) {
  const External& x = *static_cast<const External*>(i.data);
  uint32_t l = uint32_t(std::countr_zero(mask));
  auto text = [&](int k) { return read_string(w, i, l, read_local(w, i, l, x.argument[k], 8)); };
  std::string message = text(1) + ":" + std::to_string(read_local(w, i, l, x.argument[2], 4)) +
                        ": " + text(3) + ": assertion `" + text(0) + "` failed";
  w.fault(i, mask, FaultCode::asserted, "assert", message);
}

} // namespace

bool call_external(DecodeContext& dc, const Statement& s, std::string_view name, Inst& inst) {
  size_t arguments = name == "vprintf" ? 2 : name == "__assertfail" ? 5 : 0;
  if (arguments == 0) return false;
  if (s.call_arguments.size() != arguments)
    dc.refuse(s, std::string(name) + " takes " + std::to_string(arguments) + " arguments");
  auto* x = dc.make<External>();
  auto offset_of = [&](const Operand& o) {
    if (dc.variable_space(o) != "local")
      dc.refuse(s, std::string(name) + " takes .param variables of this function");
    return dc.address(o).value;
  };
  for (size_t k = 0; k < arguments; ++k) x->argument[k] = offset_of(s.call_arguments[k]);
  if (!s.call_returns.empty()) x->result = offset_of(s.call_returns[0]);
  inst.data = x;
  inst.run = name == "vprintf" ? print : assert_fail;
  dc.set_operands(inst, {}, {});
  return true;
}

} // namespace vgpu::ops
