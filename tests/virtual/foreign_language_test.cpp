// PTX that nvcc makes of what CUDA C++ has beyond kernels: a heap, recursion with local arrays and
// debug information, 128-bit integers, libraries. Results are computed here.
#include "tests/support/catch.hpp"
#include "tests/virtual/foreign_text.hpp"

#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numeric>

using namespace wltest;

namespace {

std::vector<uint64_t> words64(size_t n, uint64_t seed) {
  std::vector<uint64_t> v(n);
  for (uint64_t& x : v) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x = seed ^ seed >> 29;
  }
  return v;
}

std::vector<uint32_t> words32(size_t n, uint64_t seed) {
  std::vector<uint32_t> v;
  for (uint64_t x : words64(n, seed)) v.push_back(uint32_t(x >> 17));
  return v;
}

// The order in which nested.cu permutes, with copies by value.
int permutations(std::vector<int> a, size_t k, unsigned& sum) {
  if (k == a.size()) {
    unsigned v = 0;
    for (int x : a) v = v * 10 + unsigned(x);
    sum = sum * 31 + v;
    return 1;
  }
  int found = 0;
  for (size_t i = k; i < a.size(); ++i) {
    std::swap(a[k], a[i]);
    found += permutations(a, k + 1, sum);
  }
  return found;
}

// Four bytes, or two halves, each on its own.
template <int Parts, class Fn>
uint32_t by_parts(uint32_t x, uint32_t y, Fn fn) {
  uint32_t r = 0;
  constexpr int kBits = 32 / Parts;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  for (int i = 0; i < Parts; ++i)
    r |= (uint32_t(fn(x >> i * kBits & kMask, y >> i * kBits & kMask)) & kMask) << i * kBits;
  return r;
}

// Philox4x32-10 of Salmon et al. (2011), table 2.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, uint64_t seed) {
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t a = uint64_t(0xD2511F53u) * c[0], b = uint64_t(0xCD9E8D57u) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
  }
  return c;
}

} // namespace

TEST_CASE("foreign: a heap", "[virtual][foreign]") {
  Foreign f("heap");
  const auto in = numbers(64 * 12, 8);
  auto want = in;
  for (size_t t = 0; t < 64; ++t)
    std::sort(want.begin() + long(t * 12), want.begin() + long(t * 12 + 12));
  const uint64_t a = f.gpu.upload(in), out = f.gpu.allocate(want.size() * 4);
  // Every run places the module's variables anew; what else it leaves is a leak.
  auto left = [&](const std::string& entry, const Params& p, const Launch& l) {
    const uint64_t used = f.gpu.memory().used();
    f.must(entry, p, l);
    return f.gpu.memory().used() - used;
  };
  const uint64_t variables = left("greedy", Params().u64(0).u64(out), {.block = {1}});
  CHECK(left("sorted", Params().u64(a).s32(12).u64(out), {.block = {32}, .grid = {2}}) ==
        variables);
  CHECK(f.gpu.download<int>(out, want.size()) == want);
  CHECK(left("shapes", Params().u64(out), {.block = {64}}) == variables);
  for (int t = 0; t < 64; ++t)
    CHECK(f.gpu.download<int>(out, 64)[size_t(t)] == (t % 2 ? t * t : t * (t + 1)));
  // Blocks are rounded up to 16 bytes; null without room, and for no bytes.
  const struct {
    uint64_t bytes, heap;
    int given;
  } rooms[] = {{100, 1120, 10}, {100, 1119, 9},  {1, 160, 10},     {1 << 20, 8 << 20, 8},
               {0, 1024, 0},    {1025, 1024, 0}, {~0ull, ~0ull, 0}};
  for (const auto& r : rooms) {
    Foreign g("heap");
    INFO(r.bytes << " bytes of " << r.heap);
    const uint64_t n = g.gpu.allocate(64);
    g.must("greedy", Params().u64(r.bytes).u64(n), {.block = {1}, .heap_bytes = r.heap});
    CHECK(g.gpu.download<int>(n, 1)[0] == r.given);
  }
  // 16 threads share what there is, whatever the order.
  Foreign g("heap");
  const uint64_t n = g.gpu.allocate(64);
  g.must("greedy", Params().u64(64).u64(n), {.block = {16}, .heap_bytes = 64 * 50});
  const auto each = g.gpu.download<int>(n, 16);
  CHECK(std::accumulate(each.begin(), each.end(), 0) == 50);
}

TEST_CASE("foreign: blocks of a heap outlive the kernel", "[virtual][foreign]") {
  Foreign f("heap");
  const uint64_t slot = f.gpu.upload(std::vector<uint64_t>(1)), out = f.gpu.allocate(4);
  f.must("keep", Params().u64(slot).s32(77), {.block = {1}});
  const uint64_t block = f.gpu.download<uint64_t>(slot, 1)[0];
  CHECK(f.gpu.memory().in_heap(block));
  CHECK(block % 16 == 0);
  f.must("give_back", Params().u64(slot).u64(out).s32(1), {.block = {1}});
  CHECK(f.gpu.download<int>(out, 1)[0] == 77);
  CHECK_FALSE(f.gpu.memory().in_heap(block));
  const Params twice = Params().u64(slot).u64(out).s32(2);
  CHECK(f.run("give_back", twice, {.block = {1}}).faulted("bounds", "lies in freed memory"));
  f.must("keep", Params().u64(slot).s32(78), {.block = {1}});
  CHECK(f.run("give_back", twice, {.block = {1}})
            .faulted("heap", "not the start of a live block of malloc"));
  // Not the heap's; inside a block.
  f.gpu.write(slot, &out, 8);
  CHECK(f.run("give_back", twice, {.block = {1}}).faulted("heap", "lies 0 bytes into"));
  f.must("keep", Params().u64(slot).s32(79), {.block = {1}});
  const uint64_t inside = f.gpu.download<uint64_t>(slot, 1)[0] + 4;
  f.gpu.write(slot, &inside, 8);
  CHECK(f.run("give_back", twice, {.block = {1}}).faulted("bounds", "past the end"));
}

TEST_CASE("foreign: recursion with local arrays, debug information", "[virtual][foreign]") {
  Foreign f("nested");
  const uint64_t out = f.gpu.allocate(4096), sums = f.gpu.allocate(256);
  f.must("permute", Params().u64(out).u64(sums), {.block = {40}});
  for (int t = 0; t < 40; ++t) {
    std::vector<int> a(size_t(2 + t % 4));
    for (size_t i = 0; i < a.size(); ++i) a[i] = (int(i) + t) % 10;
    unsigned sum = 0;
    INFO("thread " << t);
    CHECK(f.gpu.download<int>(out, 40)[size_t(t)] == permutations(a, 0, sum));
    CHECK(f.gpu.download<unsigned>(sums, 40)[size_t(t)] == sum);
  }
  f.must("chain", Params().u64(out), {.block = {30}});
  for (int t = 0; t < 30; ++t) {
    uint32_t s = 0;
    for (int v = 0; v <= t; ++v) s = s * 3 + uint32_t(v);
    CHECK(f.gpu.download<uint32_t>(out, 30)[size_t(t)] == s);
  }
  const auto in = numbers(32 * 32, 5);
  auto want = in;
  for (size_t t = 0; t < 32; ++t)
    std::sort(want.begin() + long(t * 32), want.begin() + long(t * 32 + 32));
  const uint64_t a = f.gpu.upload(in);
  f.must("merge_sort", Params().u64(a).u64(out), {.block = {32}});
  CHECK(f.gpu.download<int>(out, want.size()) == want);
  // The stack is bounded, as CU_LIMIT_STACK_SIZE says.
  const RunResult r = f.run("chain", Params().u64(out), {.block = {30}, .stack_bytes = 256});
  INFO(r.text);
  CHECK(r.faulted("stack", "for its .local variables of 24 bytes, alignment 8: of the thread's "
                           "stack of 256 bytes 16 are left"));
}

TEST_CASE("foreign: CUB's sort, scan and reduction of a block", "[virtual][foreign]") {
  Foreign f("blocks", "b200");
  auto v = numbers(128, 3);
  const uint64_t a = f.gpu.upload(v), out = f.gpu.allocate(512), prefix = f.gpu.allocate(512),
                 most = f.gpu.allocate(4);
  f.must("blocks", Params().u64(a).u64(out).u64(prefix).u64(most), {.block = {64}});
  std::sort(v.begin(), v.end());
  CHECK(f.gpu.download<int>(out, 128) == v);
  CHECK(f.gpu.download<int>(most, 1)[0] == v.back());
  std::vector<int> sums(128);
  std::exclusive_scan(v.begin(), v.end(), sums.begin(), 0);
  CHECK(f.gpu.download<int>(prefix, 128) == sums);
}

TEST_CASE("foreign: 128-bit integers, bits and packed words", "[virtual][foreign]") {
  Foreign f("wide");
  const auto in = words64(64, 21);
  const uint64_t a = f.gpu.upload(in), out = f.gpu.allocate(32 * 64);
  f.must("wide", Params().u64(a).u64(out), {.block = {32}});
  const auto got = f.gpu.download<uint64_t>(out, 256);
  using U = unsigned __int128;
  for (size_t t = 0; t < 32; ++t) {
    INFO("thread " << t);
    const U x = U(in[2 * t]) << 64 | in[2 * t + 1];
    const U all[4] = {x * (x | 1) + in[t], x / (in[t] | 1), x % (in[2 * t + 1] | 3),
                      U(-__int128(x >> 3) / 1000003)};
    for (size_t i = 0; i < 4; ++i) {
      CHECK(got[t * 8 + 2 * i] == uint64_t(all[i] >> 64));
      CHECK(got[t * 8 + 2 * i + 1] == uint64_t(all[i]));
    }
  }
  const auto w = words32(32, 4);
  const uint64_t b = f.gpu.upload(w), bits = f.gpu.allocate(32 * 48);
  f.must("bits", Params().u64(b).u64(bits), {.block = {32}});
  const auto o = f.gpu.download<uint32_t>(bits, 32 * 12);
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t x = w[t], y = w[(t + 1) % 32];
    uint32_t reversed = 0, bytes = 0, dot = 7;
    for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
    for (int i = 0; i < 4; ++i) {
      const int select = 0x7152 >> 4 * i & 7;
      bytes |= ((select < 4 ? x : y) >> 8 * (select & 3) & 255) << 8 * i;
      dot += uint32_t(int8_t(x >> 8 * i) * int8_t(y >> 8 * i));
    }
    const uint64_t yx = uint64_t(y) << 32 | x;
    const int64_t apart = int64_t(int32_t(x)) - int32_t(y);
    const uint32_t clamped = std::min(t + 20, 32u);
    const uint32_t want[12] = {
        reversed,
        uint32_t(std::popcount(x)) + 100 * uint32_t(x ? std::countr_zero(x) + 1 : 0) +
            10000 * uint32_t(std::countl_zero(x)),
        uint32_t(yx << t >> 32),
        uint32_t(yx >> clamped),
        bytes,
        dot,
        by_parts<4>(x, y, [](uint32_t p, uint32_t q) { return p + q; }),
        by_parts<2>(x, y, [](uint32_t p, uint32_t q) { return std::max(int16_t(p), int16_t(q)); }),
        by_parts<4>(x, y, [](uint32_t p, uint32_t q) { return p > q ? p - q : q - p; }),
        by_parts<4>(x, y, [](uint32_t p, uint32_t q) { return p > q ? 255 : 0; }),
        uint32_t(apart < 0 ? -apart : apart) + 5,
        uint32_t(int64_t(int32_t(x)) * int32_t(y) >> 32)};
    for (size_t i = 0; i < 12; ++i) {
      INFO("thread " << t << ", word " << i);
      CHECK(o[t * 12 + i] == want[i]);
    }
  }
}

TEST_CASE("foreign: libcu++'s types", "[virtual][foreign]") {
  Foreign f("types");
  const uint64_t out = f.gpu.allocate(256), z = f.gpu.allocate(256);
  f.must("types", Params().u64(out).u64(z), {.block = {32}});
  const auto got = f.gpu.download<int>(out, 64);
  const auto c = f.gpu.download<float>(z, 64);
  for (int t = 0; t < 32; ++t) {
    INFO("thread " << t);
    CHECK(got[size_t(t)] == (t % 3 == 0   ? t
                             : t % 3 == 1 ? int(float(t) * 1.5f * 10)
                                          : t + (t + 1) * (t + 2)));
    int sum = 0;
    for (int i = 0; i < 9; ++i) sum += (t * 7 + i * 5) % 11;
    CHECK(got[size_t(32 + t)] == (t & 1 ? t : -1) * 1000 + t * 2 + sum * 100000);
    const std::complex<double> x(t, 1), y = x * x / std::complex<double>(0.5, 2);
    CHECK(std::abs(c[size_t(2 * t)] - y.real()) <= 1e-5 * std::abs(y));
    CHECK(std::abs(c[size_t(2 * t + 1)] - y.imag()) <= 1e-5 * std::abs(y));
  }
}

TEST_CASE("foreign: a last block, dependent launches, vector atomics, matches",
          "[virtual][foreign]") {
  Foreign f("ahead");
  const auto in = numbers(1000, 9);
  const int weights[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  std::vector<int> big(40);
  std::iota(big.begin(), big.end(), -11);
  int want = 0;
  for (size_t i = 0; i < 1000; ++i) want += in[i] * weights[i % 16] + big[i % 40];
  const uint64_t a = f.gpu.upload(in), part = f.gpu.allocate(64), out = f.gpu.allocate(512);
  f.must("last_block", Params().u64(a).s32(1000).u64(part).u64(out).raw(big.data(), 160, 4),
         {.block = {64}, .grid = {5}});
  CHECK(f.gpu.download<int>(out, 1)[0] == want);
  f.must("dependent", Params().u64(a).u64(out), {.block = {64}});
  for (size_t t = 0; t < 64; ++t) CHECK(f.gpu.download<int>(out, 64)[t] == in[t] + 1);
  const uint64_t v = f.gpu.upload(std::vector<float>(4)), w = f.gpu.upload(std::vector<float>(2)),
                 h = f.gpu.upload(std::vector<uint32_t>(1));
  f.must("vector_atomics", Params().u64(v).u64(w).u64(h), {.block = {64}});
  CHECK(f.gpu.download<float>(v, 4) == std::vector<float>{64, 128, 192, 256});
  CHECK(f.gpu.download<float>(w, 2) == std::vector<float>{32, 16});
  CHECK(f.gpu.download<uint32_t>(h, 1)[0] == 0x58005400u); // 128 and 64 in half precision
  for (const bool all : {false, true}) {
    std::vector<int> values(32);
    uint32_t mixed = 0, odd = 0;
    for (int t = 0; t < 32; ++t) {
      values[size_t(t)] = t * t % 5 - (all ? 0 : 2);
      mixed ^= uint32_t(values[size_t(t)]);
      if (t % 3 && values[size_t(t)] & 1) odd |= 1u << t;
    }
    const uint64_t m = f.gpu.upload(values);
    f.must("match", Params().u64(m).u64(out), {.block = {32}});
    const auto got = f.gpu.download<uint32_t>(out, 128);
    for (size_t t = 0; t < 32; ++t) {
      uint32_t same = 0;
      for (size_t l = 0; l < 32; ++l) same |= uint32_t(values[l] == values[t]) << l;
      INFO("thread " << t);
      CHECK(got[t] == same);
      CHECK(got[32 + t] == (all ? ~0u : 0));
      CHECK(got[64 + t] == mixed + (all ? 1 : 0));
      CHECK(got[96 + t] == (t % 3 ? odd : 7));
    }
  }
}

TEST_CASE("foreign: the maths library", "[virtual][foreign]") {
  Foreign f("maths");
  std::vector<float> x(32);
  for (size_t t = 0; t < 32; ++t) x[t] = std::ldexp(float(int(t * 37 % 64) - 31), int(t % 7) - 3);
  const uint64_t a = f.gpu.upload(x), out = f.gpu.allocate(1024);
  f.must("singles", Params().u64(a).u64(out), {.block = {32}});
  const auto o = f.gpu.download<float>(out, 256);
  auto near = [](double got, double want, double tolerance) {
    INFO(got << ", " << want);
    CHECK(std::abs(got - want) <= tolerance * (std::abs(want) + 1e-3));
  };
  for (size_t t = 0; t < 32; ++t) {
    INFO("thread " << t << ", x " << x[t]);
    const double v = x[t];
    const double want[8] = {std::sin(v),
                            std::cos(double(x[t] * 1e6f)),
                            std::erf(v),
                            std::lgamma(double(std::abs(x[t]) + 0.5f)),
                            std::pow(std::abs(v), double(1.7f)),
                            std::cbrt(v),
                            std::fmod(v, double(0.7f)),
                            std::hypot(v, 3)};
    for (size_t i = 0; i < 8; ++i) near(o[t * 8 + i], want[i], 2e-6);
  }
  std::vector<double> d(x.begin(), x.end());
  const uint64_t b = f.gpu.upload(d);
  f.must("doubles", Params().u64(b).u64(out), {.block = {32}});
  const auto p = f.gpu.download<double>(out, 128);
  for (size_t t = 0; t < 32; ++t) {
    INFO("thread " << t << ", x " << d[t]);
    near(p[t * 4], std::sin(d[t] * 1e10), 1e-12);
    near(p[t * 4 + 1], std::exp(d[t]) * std::log(std::abs(d[t]) + 1), 1e-14);
    near(p[t * 4 + 2], std::tgamma(std::abs(d[t]) / 10 + 0.5), 1e-13);
    near(p[t * 4 + 3], std::atan2(d[t], 2), 1e-14);
  }
}

TEST_CASE("foreign: cuRAND's Philox", "[virtual][foreign]") {
  // Known answer of the generator's authors: counter and key zero.
  CHECK(philox({0, 0, 0, 0}, 0) ==
        std::array<uint32_t, 4>{0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu, 0x9B00DBD8u});
  Foreign f("random");
  const uint64_t out = f.gpu.allocate(512), seed = 0x123456789ABCDEFull;
  f.must("numbers", Params().u64(out).u64(seed), {.block = {32}});
  const auto got = f.gpu.download<uint32_t>(out, 128);
  // Offset 4: the second counter; the thread's number is the subsequence.
  for (uint32_t t = 0; t < 32; ++t) {
    const auto want = philox({1, 0, t, 0}, seed);
    CHECK(std::equal(want.begin(), want.end(), got.begin() + t * 4));
  }
}

TEST_CASE("foreign: tiles of several warps", "[virtual][foreign]") {
  Foreign f("teams", "b200");
  const auto in = numbers(256, 6);
  const uint64_t a = f.gpu.upload(in), sums = f.gpu.allocate(1024), before = f.gpu.allocate(1024),
                 next = f.gpu.allocate(1024);
  for (const size_t size : {64, 128}) {
    Launch l{.block = {256}};
    l.entry = size == 64 ? "two_warps" : "four_warps";
    l.checks = vgpu::check::kAll;
    for (const std::string& schedule : schedules()) {
      l.schedule = schedule;
      const RunResult r = f.gpu.run(f.text, Params().u64(a).u64(sums).u64(before).u64(next), l);
      INFO(l.entry << ", " << schedule << ": " << r.text);
      REQUIRE(r.ok);
      // Shuffles stand where bar.warp.sync should.
      for (const std::string& advice : r.stats.advice())
        CHECK_THAT(advice, ContainsSubstring("races (advice): exchange"));
      for (size_t t = 0; t < 256; ++t) {
        const size_t tile = t / size * size;
        const auto first = in.begin() + long(tile);
        CHECK(f.gpu.download<int>(sums, 256)[t] == std::accumulate(first, first + long(size), 0));
        CHECK(f.gpu.download<int>(before, 256)[t] ==
              std::accumulate(first, first + long(t - tile), 0));
        CHECK(f.gpu.download<int>(next, 256)[t] ==
              in[tile + (t - tile + 1) % size] + 1000 * int(tile / size));
      }
    }
  }
}

TEST_CASE("shared memory below the CTA's own is the library's", "[virtual][foreign]") {
  Vgpu gpu("h200");
  const std::string store = "mov.u32 %r1, 512; st.shared.u32 [%r1], %r1; ld.shared.u32 %r2, [%r1];";
  RunResult r = gpu.run(module_text(store, "", "sm_90a"), Params(), {});
  INFO(r.text);
  CHECK(r.faulted("bounds", "lies outside the CTA's window [0x400"));
  CHECK(gpu.run(module_text("mov.u32 %r3, %reserved_smem_offset_1;" + store, "", "sm_90a"),
                Params(), {})
            .ok);
}
