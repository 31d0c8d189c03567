#include "tools/vgpu/ops/async_reduce.hpp"

#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/ops/float.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

namespace vgpu::ops {

namespace {

struct Half {
  static float widen(uint16_t v) { return num::f16_to_f32(v); }
  static uint16_t narrow(float v) { return num::f32_to_f16(v); }
};
struct Brain {
  static float widen(uint16_t v) { return num::bf16_to_f32(v); }
  static uint16_t narrow(float v) { return num::f32_to_bf16(v); }
};

template <class T, class Fn>
void each_atomic(uint8_t* dst, const uint8_t* src, size_t bytes, Fn fn) {
  for (size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T value;
    std::memcpy(&value, src + i, sizeof value);
    std::atomic_ref<T> cell(*reinterpret_cast<T*>(dst + i));
    T old = cell.load(std::memory_order_relaxed);
    while (!cell.compare_exchange_weak(old, fn(old, value), std::memory_order_relaxed)) {
    }
  }
}

template <class T, class S>
void reduce_integer(ReduceOp op, uint8_t* dst, const uint8_t* src, size_t bytes) {
  auto run = [&](auto fn) { each_atomic<T>(dst, src, bytes, fn); };
  switch (op) {
  case ReduceOp::add:
    return run([](T a, T b) { return static_cast<T>(a + b); });
  case ReduceOp::min:
    return run([](T a, T b) { return static_cast<S>(b) < static_cast<S>(a) ? b : a; });
  case ReduceOp::max:
    return run([](T a, T b) { return static_cast<S>(a) < static_cast<S>(b) ? b : a; });
  case ReduceOp::inc:
    return run([](T a, T b) { return a >= b ? T{0} : static_cast<T>(a + 1); });
  case ReduceOp::dec:
    return run([](T a, T b) { return a == 0 || a > b ? b : static_cast<T>(a - 1); });
  case ReduceOp::and_:
    return run([](T a, T b) { return static_cast<T>(a & b); });
  case ReduceOp::or_:
    return run([](T a, T b) { return static_cast<T>(a | b); });
  case ReduceOp::xor_:
    return run([](T a, T b) { return static_cast<T>(a ^ b); });
  }
}

// A NaN loses against a number (chosen: the ISA names no NaN rule for these reductions).
template <class F>
void reduce_half(ReduceOp op, uint8_t* dst, const uint8_t* src, size_t bytes) {
  each_atomic<uint16_t>(dst, src, bytes, [op](uint16_t a, uint16_t b) {
    float x = F::widen(a), y = F::widen(b);
    if (op == ReduceOp::min) return F::narrow(std::fmin(x, y));
    if (op == ReduceOp::max) return F::narrow(std::fmax(x, y));
    // Exact in double, one rounding: a float sum of two 16-bit values may itself round.
    return static_cast<uint16_t>(
        num::encode(std::is_same_v<F, Half> ? num::Format::f16 : num::Format::bf16,
                    static_cast<double>(x) + static_cast<double>(y)));
  });
}

} // namespace

ReduceOp reduce_op(std::string_view t) {
  if (t == "min") return ReduceOp::min;
  if (t == "max") return ReduceOp::max;
  if (t == "inc") return ReduceOp::inc;
  if (t == "dec") return ReduceOp::dec;
  if (t == "and") return ReduceOp::and_;
  if (t == "or") return ReduceOp::or_;
  if (t == "xor") return ReduceOp::xor_;
  return ReduceOp::add;
}

ReduceType reduce_type(std::string_view t) {
  constexpr std::string_view names[] = {"b32", "u32", "s32",  "b64", "u64",
                                        "s64", "f16", "bf16", "f32", "f64"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (t == names[i]) return static_cast<ReduceType>(i);
  return ReduceType::none;
}

uint32_t reduce_size(ReduceType t) {
  switch (t) {
  case ReduceType::f16:
  case ReduceType::bf16:
    return 2;
  case ReduceType::b64:
  case ReduceType::u64:
  case ReduceType::s64:
  case ReduceType::f64:
    return 8;
  default:
    return 4;
  }
}

bool reduce_allowed(ReduceOp op, ReduceType t, bool global) {
  using T = ReduceType;
  auto any = [t](std::initializer_list<T> types) {
    return std::find(types.begin(), types.end(), t) != types.end();
  };
  switch (op) {
  case ReduceOp::add:
    return global ? any({T::u32, T::s32, T::u64, T::f32, T::f32_ftz, T::f64, T::f16, T::bf16})
                  : any({T::u32, T::s32, T::u64});
  case ReduceOp::min:
  case ReduceOp::max:
    return global ? any({T::u32, T::s32, T::u64, T::s64, T::f16, T::bf16}) : any({T::u32, T::s32});
  case ReduceOp::inc:
  case ReduceOp::dec:
    return t == T::u32;
  default:
    return global ? any({T::b32, T::b64}) : t == T::b32;
  }
}

void reduce(ReduceOp op, ReduceType t, uint8_t* dst, const uint8_t* src, size_t bytes) {
  switch (t) {
  case ReduceType::b32:
  case ReduceType::u32:
    return reduce_integer<uint32_t, uint32_t>(op, dst, src, bytes);
  case ReduceType::s32:
    return reduce_integer<uint32_t, int32_t>(op, dst, src, bytes);
  case ReduceType::b64:
  case ReduceType::u64:
    return reduce_integer<uint64_t, uint64_t>(op, dst, src, bytes);
  case ReduceType::s64:
    return reduce_integer<uint64_t, int64_t>(op, dst, src, bytes);
  case ReduceType::f16:
    return reduce_half<Half>(op, dst, src, bytes);
  case ReduceType::bf16:
    return reduce_half<Brain>(op, dst, src, bytes);
  case ReduceType::f32:
    // Subnormals stay, unlike those of red.add.f32; a NaN is the canonical one (measured on an
    // H200).
    return each_atomic<float>(dst, src, bytes, [](float a, float b) { return canonical(a + b); });
  case ReduceType::f32_ftz:
    return each_atomic<float>(
        dst, src, bytes, [](float a, float b) { return canonical(flush(flush(a) + flush(b))); });
  case ReduceType::f64:
    return each_atomic<double>(dst, src, bytes, [](double a, double b) { return a + b; });
  case ReduceType::none:
    return;
  }
}

} // namespace vgpu::ops
