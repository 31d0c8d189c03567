// libcu++: variant, optional, tuple, span, array, complex.
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/numeric>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/variant>

using Three = cuda::std::array<short, 3>;
using Any = cuda::std::variant<int, float, Three>;
struct Visit {
  __device__ int operator()(int v) const { return v; }
  __device__ int operator()(float v) const { return int(v * 10); }
  __device__ int operator()(Three v) const { return v[0] + v[1] * v[2]; }
};
__device__ __noinline__ Any make(int t) {
  if (t % 3 == 0) return t;
  if (t % 3 == 1) return t * 1.5f;
  return Three{short(t), short(t + 1), short(t + 2)};
}

extern "C" __global__ void types(int* out, float* z) {
  const int t = threadIdx.x;
  out[t] = cuda::std::visit(Visit{}, make(t));
  cuda::std::optional<int> odd;
  if (t & 1) odd = t;
  const auto [a, b] = cuda::std::make_tuple(odd.value_or(-1), t * 2);
  int v[9];
  const cuda::std::span<int> s(v);
  for (int& x : s) x = (t * 7 + int(&x - v) * 5) % 11;
  out[32 + t] = a * 1000 + b + cuda::std::accumulate(s.begin(), s.end(), 0) * 100000;
  const cuda::std::complex<float> c(float(t), 1.0f), d = c * c / cuda::std::complex<float>(0.5f, 2);
  z[2 * t] = d.real();
  z[2 * t + 1] = d.imag();
}
