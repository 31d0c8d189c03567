// 128-bit integers; tricks with bits and packed words.
extern "C" __global__ void wide(const unsigned long long* a, unsigned long long* out) {
  const int t = threadIdx.x;
  const auto x = static_cast<unsigned __int128>(a[2 * t]) << 64 | a[2 * t + 1];
  const __int128 n = -static_cast<__int128>(x >> 3) / 1000003;
  const unsigned __int128 all[4] = {x * (x | 1) + a[t], x / (a[t] | 1), x % (a[2 * t + 1] | 3),
                                    static_cast<unsigned __int128>(n)};
  for (int i = 0; i < 4; ++i) {
    out[t * 8 + 2 * i] = static_cast<unsigned long long>(all[i] >> 64);
    out[t * 8 + 2 * i + 1] = static_cast<unsigned long long>(all[i]);
  }
}

extern "C" __global__ void bits(const unsigned* a, unsigned* out) {
  const unsigned t = threadIdx.x, x = a[t], y = a[(t + 1) % 32];
  unsigned* o = out + t * 12;
  o[0] = __brev(x);
  o[1] = __popc(x) + 100 * __ffs(x) + 10000 * __clz(x);
  o[2] = __funnelshift_l(x, y, t);
  o[3] = __funnelshift_rc(x, y, t + 20);
  o[4] = __byte_perm(x, y, 0x7152);
  o[5] = __dp4a(static_cast<int>(x), static_cast<int>(y), 7);
  o[6] = __vadd4(x, y);
  o[7] = __vmaxs2(x, y);
  o[8] = __vabsdiffu4(x, y);
  o[9] = __vcmpgtu4(x, y);
  o[10] = __sad(static_cast<int>(x), static_cast<int>(y), 5u);
  o[11] = __mulhi(static_cast<int>(x), static_cast<int>(y));
}
