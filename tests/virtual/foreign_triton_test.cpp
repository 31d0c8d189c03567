// What Triton 3.9 made of foreign/triton.py, for Hopper and Blackwell, as it is: under the rules
// for kernels of others, with all checkers. Results are computed a second way.
#include "tests/virtual/foreign_text.hpp"

#include "tests/reference/numerics.hpp"

#include <random>

using namespace wltest;
using vgpu::check::kAll;

namespace {

// Under lenient rules: told of `rules` at most, each an error or advice; never a fault.
void runs(Foreign& f, const std::string& entry, const Params& p, Launch l,
          const std::vector<std::string>& known, const std::function<void()>& judge) {
  l.entry = entry;
  l.strict = false;
  l.checks = kAll;
  for (const std::string schedule : {"lazy", "random:1", "random:2", "hold:1"}) {
    l.schedule = schedule;
    const RunResult r = f.gpu.run(f.text, p, l);
    INFO(entry << " under " << schedule << ": " << r.text);
    REQUIRE(r.ok);
    for (const auto& [place, told] : r.stats.told) {
      INFO(told.text);
      const bool expected = std::any_of(known.begin(), known.end(), [&](const std::string& rule) {
        return told.text.find(rule) != std::string::npos;
      });
      CHECK((expected || told.text.find("(advice)") != std::string::npos));
    }
    judge();
  }
}

uint16_t half_of(int v) { return uint16_t(encode_f16(float(v))); }

} // namespace

TEST_CASE("foreign: Triton's warp-specialised product with tensor maps of the device",
          "[virtual][foreign]") {
  const uint32_t m = 200, n = 136, k = 136;
  std::mt19937 random(3);
  std::vector<int> a(m * k), b(n * k);
  for (auto* list : {&a, &b})
    for (int& v : *list) v = int(random() % 5) - 2;
  std::vector<uint16_t> ha, hb, want(m * n);
  for (int v : a) ha.push_back(half_of(v));
  for (int v : b) hb.push_back(half_of(v));
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t j = 0; j < n; ++j) {
      int sum = 0;
      for (uint32_t x = 0; x < k; ++x) sum += a[i * k + x] * b[j * k + x];
      want[i * n + j] = half_of(sum);
    }
  const struct {
    const char *name, *profile;
    uint32_t threads;
  } cases[] = {{"triton_90", "h200", 384}, {"triton_100", "b200", 256}};
  for (const auto& c : cases) {
    Foreign f(c.name, c.profile);
    const uint64_t pa = f.gpu.upload(ha), pb = f.gpu.upload(hb), pc = f.gpu.allocate(m * n * 2),
                   scratch = f.gpu.allocate(8192);
    runs(f, "product", Params().u64(pa).u64(pb).u64(pc).u32(m).u32(n).u32(k).u64(scratch).u64(0),
         {.block = {c.threads}, .grid = {2}, .dynamic_shared = 180'000},
         {"rule parity", "rule setmaxnreg-twice", "rule wait-ld"},
         [&] { CHECK(f.gpu.download<uint16_t>(pc, m * n) == want); });
  }
}

TEST_CASE("foreign: Triton's block-scaled product", "[virtual][foreign]") {
  const uint32_t m = 128, n = 128, k = 256;
  const float kValues[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6}, kScales[] = {.5f, 1, 2};
  const uint8_t kCodes[] = {0x30, 0x38, 0x40};
  std::mt19937 random(4);
  struct Side {
    std::vector<uint8_t> bytes, scales;
    std::vector<float> values;
  } sides[2];
  for (Side& s : sides) {
    s.bytes.resize(m * k / 2);
    s.scales.resize(m * k / 16);
    s.values.resize(m * k);
    std::vector<uint32_t> which(s.scales.size());
    for (size_t i = 0; i < which.size(); ++i) s.scales[i] = kCodes[which[i] = random() % 3];
    for (size_t i = 0; i < s.values.size(); ++i) {
      const uint32_t code = random() % 16;
      s.bytes[i / 2] |= uint8_t(code << 4 * (i % 2));
      s.values[i] = (code & 8 ? -1 : 1) * kValues[code & 7] * kScales[which[i / 16]];
    }
  }
  std::vector<float> want(m * n);
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t j = 0; j < n; ++j)
      for (uint32_t x = 0; x < k; ++x)
        want[i * n + j] += sides[0].values[i * k + x] * sides[1].values[j * k + x];
  Foreign f("triton_nvfp4", "b200");
  const uint64_t a = f.gpu.upload(sides[0].bytes), sa = f.gpu.upload(sides[0].scales),
                 b = f.gpu.upload(sides[1].bytes), sb = f.gpu.upload(sides[1].scales),
                 c = f.gpu.allocate(m * n * 4);
  runs(f, "scaled", Params().u64(a).u64(sa).u64(b).u64(sb).u64(c).u32(n).u32(k).u64(0).u64(0),
       {.block = {128}, .dynamic_shared = 100'000}, {"rule wait-ld"},
       [&] { CHECK(f.gpu.download<float>(c, m * n) == want); });
}

TEST_CASE("foreign: Triton's gather by TMA, and its histogram", "[virtual][foreign]") {
  const uint32_t m = 100, n = 128;
  std::vector<uint16_t> x(m * n), want(64 * n);
  std::vector<int> index(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = uint16_t(i * 7919 % 30000);
  for (size_t i = 0; i < index.size(); ++i) index[i] = int(i * 37 % m);
  for (size_t i = 0; i < want.size(); ++i) want[i] = x[size_t(index[i / n]) * n + i % n];
  {
    Foreign f("triton_rows", "b200");
    const uint64_t px = f.gpu.upload(x), pi = f.gpu.upload(index), out = f.gpu.allocate(64 * n * 2),
                   scratch = f.gpu.allocate(8192);
    runs(f, "rows", Params().u64(px).u64(pi).u64(out).u32(m).u32(n).u64(scratch).u64(0),
         {.block = {128}, .grid = {2, 2}, .dynamic_shared = 20'000}, {},
         [&] { CHECK(f.gpu.download<uint16_t>(out, 64 * n) == want); });
  }
  std::vector<int> numbers(3000), counts(64);
  for (size_t i = 0; i < numbers.size(); ++i) ++counts[size_t(numbers[i] = int(i * i % 64))];
  Foreign f("triton_histogram");
  const uint64_t in = f.gpu.upload(numbers);
  const uint64_t out = f.gpu.upload(std::vector<int>(64));
  int times = 0;
  // Every warp writes the bins' zeros: advice.
  runs(f, "histogram", Params().u64(in).u64(out).u32(3000).u64(0).u64(0),
       {.block = {128}, .grid = {3}, .dynamic_shared = 4096}, {}, [&] {
         ++times;
         for (size_t i = 0; i < 64; ++i)
           CHECK(f.gpu.download<int>(out, 64)[i] == times * counts[i]);
       });
}
