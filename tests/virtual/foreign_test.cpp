// PTX that other compilers emit runs unchanged: foreign/*.ptx, with the sources beside them (see
// foreign/README.md). Results are computed here.
#include "tests/support/catch.hpp"
#include "tests/virtual/foreign_text.hpp"

#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/tensor/tensor_map.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>
#include <unistd.h>

using namespace wltest;

TEST_CASE("foreign: reductions and scans", "[virtual][foreign]") {
  Foreign f("reduction");
  const auto in = numbers(5000, 1);
  const uint64_t a = f.gpu.upload(in), total = f.gpu.upload(std::vector<int>{0});
  f.must("sum", Params().u64(a).s32(5000).u64(total), {.block = {96}, .grid = {3}});
  CHECK(f.gpu.download<int>(total, 1)[0] == std::accumulate(in.begin(), in.end(), 0));
  std::vector<float> g(in.begin(), in.end());
  const uint64_t b = f.gpu.upload(g), out = f.gpu.allocate(4);
  f.must("largest", Params().u64(b).s32(5000).u64(out), {.block = {128}, .dynamic_shared = 512});
  CHECK(f.gpu.download<float>(out, 1)[0] == *std::max_element(g.begin(), g.end()));
  std::vector<uint8_t> flags(100);
  for (size_t i = 0; i < 100; ++i) flags[i] = in[i] > 0;
  const uint64_t c = f.gpu.upload(flags), scan = f.gpu.allocate(400);
  f.must("scan_flags", Params().u64(c).s32(100).u64(scan), {.block = {128}});
  int before = 0;
  for (int i = 0; i < 100; before += flags[size_t(i++)])
    CHECK(f.gpu.download<int>(scan, 100)[size_t(i)] == before);
}

TEST_CASE("foreign: atomics", "[virtual][foreign]") {
  Foreign f("atomics");
  const uint64_t i = f.gpu.upload(std::vector<int>(6)), u = f.gpu.upload(std::vector<uint64_t>(2)),
                 x = f.gpu.upload(std::vector<float>(1)), d = f.gpu.upload(std::vector<double>(1)),
                 h = f.gpu.upload(std::vector<uint32_t>(1));
  f.must("counters", Params().u64(i).u64(u).u64(x).u64(d).u64(h), {.block = {64}, .grid = {2}});
  CHECK(f.gpu.download<int>(i, 6) == std::vector<int>{128, -127, 127, 28, 0, 256});
  CHECK(f.gpu.download<uint64_t>(u, 2) == std::vector<uint64_t>{128ull << 33, 127ull << 40});
  CHECK(f.gpu.download<float>(x, 1)[0] == 64.0f);
  CHECK(f.gpu.download<double>(d, 1)[0] == 32.0);
  CHECK(f.gpu.download<uint32_t>(h, 1)[0] == 0x5C005800u); // 256 and 128 in half precision
  std::vector<uint8_t> bytes(1000);
  std::vector<uint32_t> want(16);
  for (size_t k = 0; k < 1000; ++k) ++want[(bytes[k] = uint8_t(k * k % 251)) % 16];
  const uint64_t in = f.gpu.upload(bytes), out = f.gpu.upload(std::vector<uint32_t>(16));
  f.must("histogram", Params().u64(in).s32(1000).u64(out), {.block = {64}, .grid = {3}});
  CHECK(f.gpu.download<uint32_t>(out, 16) == want);
  const uint64_t lock = f.gpu.upload(std::vector<int>(1)), n = f.gpu.upload(std::vector<int>(1)),
                 p = f.gpu.upload(std::vector<uint32_t>{1});
  f.must("locked", Params().u64(lock).u64(n).u64(p), {.block = {128}});
  CHECK(f.gpu.download<int>(n, 1)[0] == 4);
  uint32_t product = 1;
  for (int k = 0; k < 128; ++k) product *= 3;
  CHECK(f.gpu.download<uint32_t>(p, 1)[0] == product);
}

TEST_CASE("foreign: a transpose and vector loads", "[virtual][foreign]") {
  Foreign f("transpose");
  std::vector<float> in(70 * 45), want(in.size());
  std::iota(in.begin(), in.end(), 1.0f);
  for (size_t y = 0; y < 70; ++y)
    for (size_t x = 0; x < 45; ++x) want[x * 70 + y] = in[y * 45 + x];
  const uint64_t a = f.gpu.upload(in), b = f.gpu.allocate(in.size() * 4);
  f.must("transpose", Params().u64(a).u64(b).s32(70).s32(45), {.block = {32, 8}, .grid = {2, 3}});
  CHECK(f.gpu.download<float>(b, in.size()) == want);
  std::vector<int> index(32);
  for (int i = 0; i < 32; ++i) index[size_t(i)] = i * 7 % 32;
  const uint64_t n = f.gpu.upload(index), out = f.gpu.allocate(512);
  f.must("gather4", Params().u64(a).u64(n).u64(out), {.block = {32}});
  for (size_t i = 0; i < 32; ++i) {
    const float* v = &in[size_t(index[i]) * 4];
    CHECK(f.gpu.download<float>(out + 16 * i, 4) ==
          std::vector<float>{v[0] * 2, v[1], v[2], -v[3]});
  }
}

TEST_CASE("foreign: printf, assert and trap", "[virtual][foreign]") {
  Foreign f("print");
  const uint64_t words = f.gpu.upload("left", 5), in = f.gpu.upload(std::vector<int>(32, 3));
  std::fflush(stdout);
  std::FILE* file = std::tmpfile();
  const int kept = dup(1);
  dup2(fileno(file), 1);
  RunResult r = f.run("print", Params().s32(9).u64(words), {.block = {32}});
  std::fflush(stdout);
  dup2(kept, 1);
  close(kept);
  char text[256] = {};
  std::rewind(file);
  text[std::fread(text, 1, sizeof text - 1, file)] = '\0';
  std::fclose(file);
  INFO(r.text);
  REQUIRE(r.ok);
  const std::string one = "n = 9, x = 4.500, s = left,     1|ff  |z% 1099511627776\n",
                    two = "no arguments\n";
  CHECK((text == one + two || text == two + one));
  f.must("check", Params().u64(in).s32(4), {.block = {32}});
  r = f.run("check", Params().u64(in).s32(3), {.block = {32}});
  INFO(r.text);
  CHECK(r.faulted("assert", "a value is out of bounds"));
  CHECK(f.run("trapped", Params().u64(in), {.block = {32}}).faulted("trap", ""));
}

TEST_CASE("foreign: calls through tables, virtual functions, recursion", "[virtual][foreign]") {
  Foreign f("pointers");
  std::vector<int> which(64), want(64);
  for (int i = 0; i < 64; ++i) {
    which[size_t(i)] = i * 5 % 3;
    want[size_t(i)] = i * 5 % 3 == 0 ? 2 * (i + 1) : i * 5 % 3 == 1 ? (i + 1) * (i + 1) : -(i + 1);
  }
  const uint64_t a = f.gpu.upload(which), out = f.gpu.allocate(64 * 10 * 4);
  f.must("through_table", Params().u64(a).u64(out), {.block = {64}});
  CHECK(f.gpu.download<int>(out, 64) == want);
  f.must("shapes", Params().u64(out).s32(1), {.block = {33}});
  for (size_t t = 0; t < 33; ++t)
    CHECK(f.gpu.download<float>(out, 33)[t] == (t % 2 ? 6.0f * float(t) + 1 : 2.0f * float(t * t)));
  f.must("recursive", Params().u64(out), {.block = {40}});
  const unsigned fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  for (size_t t = 0; t < 40; ++t) CHECK(f.gpu.download<unsigned>(out, 40)[t] == fibonacci[t % 12]);
  std::vector<int> big(10);
  std::iota(big.begin(), big.end(), 100);
  f.must("by_value", Params().raw(big.data(), 40, 4).u64(out), {.block = {5}});
  for (size_t t = 0; t < 5; ++t)
    for (size_t i = 0; i < 10; ++i)
      CHECK(f.gpu.download<int>(out, 50)[t * 10 + (i + t) % 10] == big[i]);
}

TEST_CASE("calls through bad pointers and without end", "[virtual][foreign]") {
  Vgpu gpu("h200");
  const std::string head =
      ".func (.param .b32 r) one (.param .b32 x) { .reg .b32 a; ld.param.b32 a, [x]; "
      "st.param.b32 [r], a; ret; }\n"
      ".func none () { ret; }\n.func endless () { call endless; ret; }\n"
      ".global .u64 list[2] = {one, none};\n";
  auto run = [&](const std::string& body) {
    return gpu.run(module_text(body, "", "sm_90a", head), Params(), {});
  };
  const std::string call = R"( ld.u64 %rd1, [%rd0];
    { .param .b32 a; .param .b32 r; st.param.b32 [a], 7;
      p: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (r), %rd1, (a), p; ld.param.b32 %r0, [r]; }
    setp.ne.u32 %p0, %r0, 7; @%p0 trap;)";
  RunResult r = run("mov.u64 %rd0, list;" + call);
  INFO(r.text);
  CHECK(r.ok);
  r = run("mov.u64 %rd0, list; add.u64 %rd0, %rd0, 8;" + call);
  CHECK(r.faulted("control", "takes 0 arguments"));
  CHECK(r.code == vgpu::exec::FaultCode::invalid_pc);
  CHECK(run("mov.u64 %rd1, 4096; p: .callprototype _ (); call %rd1, (), p;")
            .faulted("control", "0x1000"));
  // Only some lanes call; the guard's register is nobody else's.
  CHECK(run("mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 5; mov.u64 %rd1, one; mov.u32 %r0, 3;"
            "t: .calltargets one; @%p1 call (%r0), %rd1, (%r1), t;"
            "selp.u32 %r2, %r1, 3, %p1; setp.ne.u32 %p0, %r0, %r2; @%p0 trap;")
            .ok);
  CHECK(run("mov.u64 %rd1, none; t: .calltargets one; call %rd1, (), t;")
            .faulted("control", "none of the 1"));
  CHECK(run("call endless;").faulted("stack", "nested too deep"));
}

TEST_CASE("foreign: half, bfloat16, FP8 and FP4", "[virtual][foreign]") {
  Foreign f("half", "b200");
  // {1.5, -2}, {0.25, 4} in half precision.
  const uint64_t a = f.gpu.upload(std::vector<uint32_t>(32, 0xC0003E00u)),
                 b = f.gpu.upload(std::vector<uint32_t>(32, 0x44003400u)),
                 out = f.gpu.allocate(512), sums = f.gpu.allocate(128);
  f.must("halves", Params().u64(a).u64(b).u64(out).u64(sums), {.block = {32}});
  // 1.5*0.25+0.5 = 0.875, -2*4-0.5 = -8.5; maxima 1.5, 4; quotients 6, -0.5; roots 1.2247, 1.4142
  CHECK(f.gpu.download<uint32_t>(out, 4) ==
        std::vector<uint32_t>{0xC8403B00u, 0x44003E00u, 0xB8004600u, 0x3DA83CE6u});
  CHECK(f.gpu.download<float>(sums, 32) == std::vector<float>(32, 5.5f));
  std::vector<float> in(32);
  for (int i = 0; i < 32; ++i) in[size_t(i)] = float(i) * 0.5f - 4;
  const uint64_t x = f.gpu.upload(in), y = f.gpu.allocate(64), z = f.gpu.allocate(128);
  f.must("brains", Params().u64(x).u64(y).u64(z), {.block = {32}});
  for (size_t i = 0; i < 32; ++i) CHECK(f.gpu.download<float>(z, 32)[i] == in[i] * 0.5f);
  const uint64_t e8 = f.gpu.allocate(32), e4 = f.gpu.allocate(16), back = f.gpu.allocate(128);
  f.must("narrow", Params().u64(x).u64(e8).u64(e4).u64(back), {.block = {16}});
  const auto v = f.gpu.download<float>(back, 32);
  for (size_t i = 0; i < 32; ++i) {
    // The nearest of 0, .5, 1, 1.5, 2, 3, 4, 6; ties to the even code.
    const float m = std::fabs(in[i]), r = m < 2.5f    ? m
                                          : m == 2.5f ? 2.0f
                                          : m < 3.5f  ? 3.0f
                                          : m <= 5.0f ? 4.0f
                                                      : 6.0f;
    CHECK(v[i] == std::copysign(r, in[i]));
  }
  CHECK(f.gpu.download<uint8_t>(e8, 2) == std::vector<uint8_t>{0xC8, 0xC6}); // -4, -3.5
}

TEST_CASE("foreign: cooperative groups", "[virtual][foreign]") {
  Foreign f("groups");
  const auto in = numbers(128, 3);
  const uint64_t a = f.gpu.upload(in), sums = f.gpu.allocate(64), scans = f.gpu.allocate(512),
                 ranks = f.gpu.upload(std::vector<int>(128, -1));
  f.must("tiles", Params().u64(a).u64(sums).u64(scans).u64(ranks), {.block = {128}});
  for (size_t t = 0; t < 16; ++t) {
    int sum = 0;
    for (size_t i = 8 * t; i < 8 * t + 8; sum += in[i++])
      CHECK(f.gpu.download<int>(scans, 128)[i] == sum);
    CHECK(f.gpu.download<int>(sums, 16)[t] == sum);
  }
  const auto r = f.gpu.download<int>(ranks, 128);
  for (size_t w = 0; w < 4; ++w) {
    int rank = 0;
    const auto odd = int(std::count_if(in.begin() + long(32 * w), in.begin() + long(32 * w + 32),
                                       [](int v) { return v & 1; }));
    for (size_t i = 32 * w; i < 32 * w + 32; ++i)
      CHECK(r[i] == (in[i] & 1 ? 100 * rank++ + odd : -1));
  }
  const uint64_t out = f.gpu.allocate(512);
  f.must("neighbours", Params().u64(a).u64(out), {.block = {64}, .grid = {2}, .cluster = {2}});
  for (size_t i = 0; i < 128; ++i)
    CHECK(f.gpu.download<int>(out, 128)[i] == in[i ^ 64] * 10 + int(i / 64));
  f.must("copied", Params().u64(a).u64(out).s32(100), {.block = {64}, .dynamic_shared = 400});
  for (size_t i = 0; i < 100; ++i) CHECK(f.gpu.download<int>(out, 100)[i] == in[99 - i]);
}

TEST_CASE("foreign: the wmma API", "[virtual][foreign]") {
  Foreign f("wmma");
  constexpr size_t kM = 32, kN = 64, kK = 48;
  const auto in = numbers(kM * kK + kK * kN, 8);
  std::vector<uint16_t> a(kM * kK), b(kK * kN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = vgpu::num::f32_to_f16(float(in[i] % 8));
  for (size_t i = 0; i < b.size(); ++i) b[i] = vgpu::num::f32_to_f16(float(in[a.size() + i] % 8));
  const uint64_t x = f.gpu.upload(a), y = f.gpu.upload(b), c = f.gpu.allocate(4 * kM * kN);
  f.must("product", Params().u64(x).u64(y).u64(c).s32(kN).s32(kK),
         {.block = {32, 2}, .grid = {2, 2}});
  const auto out = f.gpu.download<float>(c, kM * kN);
  for (size_t m = 0; m < kM; ++m)
    for (size_t n = 0; n < kN; ++n) {
      int sum = 0;
      for (size_t k = 0; k < kK; ++k) sum += in[m * kK + k] % 8 * (in[a.size() + k * kN + n] % 8);
      REQUIRE(out[m * kN + n] == float(std::max(0, 2 * sum)));
    }
  // Of 16 bytes a column of a, 8 are its rows.
  std::vector<int8_t> s(16 * 16), t(16 * 32);
  for (size_t i = 0; i < s.size(); ++i) s[i] = int8_t(in[i]);
  for (size_t i = 0; i < t.size(); ++i) t[i] = int8_t(in[i + 300]);
  const std::vector<int> start(in.begin(), in.begin() + 8 * 32);
  const uint64_t p = f.gpu.upload(s), q = f.gpu.upload(t), d = f.gpu.upload(start);
  f.must("bytes", Params().u64(p).u64(q).u64(d), {.block = {32}});
  const auto got = f.gpu.download<int>(d, 8 * 32);
  for (size_t m = 0; m < 8; ++m)
    for (size_t n = 0; n < 32; ++n) {
      int sum = start[8 * n + m];
      for (size_t k = 0; k < 16; ++k) sum += s[16 * k + m] * t[16 * n + k];
      REQUIRE(got[8 * n + m] == sum);
    }
}

TEST_CASE("foreign: tiles that meet apart, atomic_ref, packed integers", "[virtual][foreign]") {
  Foreign f("tiles");
  const auto in = numbers(256, 9);
  const uint64_t a = f.gpu.upload(in), out = f.gpu.allocate(1024);
  f.must("reversed", Params().u64(a).u64(out), {.block = {256}});
  for (size_t i = 0; i < 256; ++i) {
    int v = in[i / 8 * 8 + 7 - i % 8];
    for (int turns = v % 3, k = 0; k < turns; ++k) {
      v = v * 5 % 7919;
      turns = v % 3;
    }
    CHECK(f.gpu.download<int>(out, 256)[i] == v);
  }
  const uint64_t counts = f.gpu.upload(std::vector<int>{0, -1000, 0}),
                 sum = f.gpu.upload(std::vector<float>{0});
  f.must("counted", Params().u64(a).u64(counts).u64(sum), {.block = {64}, .grid = {4}});
  int seen = 0;
  for (int v : in) seen |= 1 << (v & 31);
  CHECK(f.gpu.download<int>(counts, 3) == std::vector<int>{std::accumulate(in.begin(), in.end(), 0),
                                                           *std::max_element(in.begin(), in.end()),
                                                           seen});
  CHECK(f.gpu.download<float>(sum, 1)[0] == 64);
  const uint64_t box = f.gpu.allocate(1024);
  // A block spins long before the others have their turn.
  f.must("whole_grid", Params().u64(a).u64(box).u64(out),
         {.block = {64}, .grid = {4}, .instruction_limit = 400'000'000});
  for (size_t i = 0; i < 256; ++i) CHECK(f.gpu.download<int>(out, 256)[i] == 3 * in[255 - i]);
  f.must("packed", Params().u64(a).u64(out), {.block = {32}});
  const auto got = f.gpu.download<uint32_t>(out, 128);
  for (size_t i = 0; i < 32; ++i) {
    const uint32_t x = uint32_t(in[i]), y = uint32_t(in[i + 32]);
    uint32_t difference = 0, total = 0, most = 0;
    for (int k = 0; k < 4; ++k) {
      const int u = uint8_t(x >> 8 * k), v = uint8_t(y >> 8 * k);
      difference |= uint32_t(std::abs(u - v)) << 8 * k;
      total += uint32_t(std::abs(u - v));
    }
    for (int k = 0; k < 2; ++k)
      most |= uint32_t(std::max({int(int16_t(x >> 16 * k)), int(int16_t(y >> 16 * k)), 1}))
              << 16 * k;
    CHECK(got[4 * i] == difference);
    CHECK(got[4 * i + 1] == total);
    CHECK(got[4 * i + 2] == uint32_t(std::max({in[i] + in[i + 32], -5, 0})));
    CHECK(got[4 * i + 3] == most);
  }
}

TEST_CASE("foreign: tensor and bulk copies of cuda::ptx, libcu++ barriers and pipelines",
          "[virtual][foreign]") {
  Foreign f("async");
  std::vector<int> in(64 * 40);
  std::iota(in.begin(), in.end(), 0);
  const uint64_t a = f.gpu.upload(in), b = f.gpu.upload(std::vector<int>(in.size(), -1));
  alignas(128) uint8_t maps[2][128];
  for (int i = 0; i < 2; ++i) {
    const uint64_t dim[] = {64, 40}, stride[] = {256};
    const uint32_t box[] = {32, 8}, step[] = {1, 1};
    vgpu::tensor::TiledArguments t;
    t.type = 3;
    t.rank = 2;
    t.address = reinterpret_cast<void*>(i ? b : a);
    t.dim = dim;
    t.stride = stride;
    t.box = box;
    t.element_stride = step;
    REQUIRE(vgpu::tensor::encode_tiled(t, 90, maps[i]) == "");
  }
  f.must("tile", Params().raw(maps[0], 128, 64).raw(maps[1], 128, 64).s32(32).s32(16),
         {.block = {64}});
  const auto out = f.gpu.download<int>(b, in.size());
  for (size_t y = 0; y < 40; ++y)
    for (size_t x = 0; x < 64; ++x)
      CHECK(out[y * 64 + x] == (x >= 32 && y >= 16 && y < 24 ? in[y * 64 + x] + 1 : -1));
  f.must("bulk", Params().u64(a).u64(b), {.block = {96}});
  for (size_t i = 0; i < 256; ++i) CHECK(f.gpu.download<int>(b, 256)[i] == 2 * int(i));
  f.must("staged", Params().u64(a).u64(b).s32(5), {.block = {64}});
  for (size_t i = 0; i < 5 * 256; ++i)
    CHECK(f.gpu.download<int>(b, 5 * 256)[i] == int(i) + (i % 4 ? 0 : int(i / 256)));
}

TEST_CASE("foreign: local arrays, a switch, wide integers, double precision",
          "[virtual][foreign]") {
  Foreign f("local");
  auto in = numbers(32 * 16, 7);
  const uint64_t a = f.gpu.upload(in), out = f.gpu.allocate(in.size() * 4);
  f.must("sorted", Params().u64(a).u64(out), {.block = {32}});
  for (auto i = in.begin(); i != in.end(); i += 16) std::sort(i, i + 16);
  CHECK(f.gpu.download<int>(out, in.size()) == in);

  std::vector<int> op(32);
  std::vector<int64_t> x(32), want(32);
  for (int i = 0; i < 32; ++i) {
    op[size_t(i)] = i % 9;
    const int64_t v = x[size_t(i)] = (int64_t(in[size_t(i)]) << 40) + i * 1234567;
    auto& r = want[size_t(i)];
    const auto u = uint64_t(v);
    switch (i % 9) {
    case 0:
      r = v / 7;
      break;
    case 1:
      r = v % 1000003;
      break;
    case 2:
      r = __builtin_popcountll(u);
      break;
    case 3:
      r = u ? __builtin_clzll(u) : 64;
      break;
    case 4:
      r = int64_t(__int128(v) * v >> 64);
      break;
    case 5:
      for (int k = 0; k < 64; ++k) r |= int64_t((u >> k & 1) << (63 - k));
      break;
    case 6:
      r = int64_t(u << i);
      break;
    case 7:
      r = int64_t(u / 10);
      break;
    default:
      r = -1;
    }
  }
  const uint64_t o = f.gpu.upload(op), y = f.gpu.upload(x), z = f.gpu.allocate(256);
  f.must("chosen", Params().u64(o).u64(y).u64(z), {.block = {32}});
  CHECK(f.gpu.download<int64_t>(z, 32) == want);
  CHECK(f.gpu.download<uint64_t>(f.gpu.symbol("calls"), 1)[0] == 8);

  std::vector<double> d(32);
  for (int i = 0; i < 32; ++i) d[size_t(i)] = (i - 15.5) * 0.37;
  const uint64_t p = f.gpu.upload(d), q = f.gpu.allocate(32 * 32), s = f.gpu.allocate(128);
  f.must("functions", Params().u64(p).u64(q).u64(s), {.block = {32}});
  const auto r = f.gpu.download<double>(q, 128);
  const auto g = f.gpu.download<float>(s, 32);
  for (size_t i = 0; i < 32; ++i) {
    const double v = d[i];
    auto near = [&](double got, double wanted, double bound) {
      INFO("x = " << v);
      CHECK(std::fabs(got - wanted) <= bound * (1 + std::fabs(wanted)));
    };
    near(r[4 * i], std::exp(v) + std::sqrt(std::fabs(v)), 1e-15);
    near(r[4 * i + 1], std::sin(v) * std::cos(v), 1e-15);
    near(r[4 * i + 2], std::log(std::fabs(v) + 1) / (v * v + 2), 1e-15);
    CHECK(r[4 * i + 3] == std::fma(v, v, std::floor(v)));
    const auto w = float(v);
    near(g[i], std::exp(w) * float(i % 8 + 1) + std::tanh(w) + 1.0f / (w + 100), 1e-6);
  }
}

TEST_CASE("foreign: OpenCL C through LLVM", "[virtual][foreign]") {
  Foreign f("opencl");
  std::vector<float> x(100), y(100), want(100);
  for (size_t i = 0; i < 100; ++i) {
    x[i] = float(i);
    y[i] = 1000.0f - float(i);
    want[i] = 2.5f * x[i] + y[i];
  }
  const uint64_t a = f.gpu.upload(x), b = f.gpu.upload(y);
  f.must("saxpy", Params().u64(a).u64(b).f32(2.5f).s32(100), {.block = {64}, .grid = {2}});
  CHECK(f.gpu.download<float>(b, 100) == want);
  const auto in = numbers(64, 9);
  const uint64_t c = f.gpu.upload(in), d = f.gpu.allocate(64 * 8 * 4);
  f.must("reversed", Params().u64(c).u64(d), {.block = {64}});
  CHECK(f.gpu.download<int>(d, 64) == std::vector<int>(in.rbegin(), in.rend()));
  f.must("rows", Params().u64(a).u64(b), {.block = {25}});
  for (size_t i = 0; i < 25; ++i) {
    const float* v = &x[4 * i];
    CHECK(f.gpu.download<float>(b, 25)[i] == v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3]);
  }
  const uint64_t longest = f.gpu.upload(std::vector<int>(1));
  f.must("steps", Params().u64(d).u64(longest), {.block = {64}});
  const auto steps = f.gpu.download<int>(d, 64);
  CHECK(steps[26] == 111); // of 27
  CHECK(f.gpu.download<int>(longest, 1)[0] == *std::max_element(steps.begin(), steps.end()));
  std::vector<uint8_t> bytes(64 * 20);
  std::vector<int> bins(8 * 64);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = uint8_t(i * 37 + i / 64);
    ++bins[(bytes[i] & 7) * 64 + i % 64];
  }
  const uint64_t e = f.gpu.upload(bytes);
  f.must("counted", Params().u64(e).u64(d).s32(20), {.block = {64}});
  CHECK(f.gpu.download<int>(d, bins.size()) == bins);
}

TEST_CASE("foreign: what tools/vgpu/README.md plants is found", "[virtual][foreign]") {
  // By line, from 1: another one in its place.
  auto replaced = [](const std::string& name, int line, const std::string& from,
                     const std::string& to) {
    std::string text = foreign_text(name);
    size_t at = 0;
    for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
    const size_t found = text.find(from, at);
    REQUIRE(found < text.find('\n', at));
    return text.replace(found, from.size(), to);
  };
  Vgpu gpu("h200");
  const uint64_t a = gpu.upload(std::vector<int>(1024)), b = gpu.upload(std::vector<int>(256));
  Launch l{.block = {128}, .dynamic_shared = 512};
  l.entry = "largest";
  l.checks = vgpu::check::kAll;
  const Params p = Params().u64(a).s32(1000).u64(b);
  CHECK(gpu.run(foreign_text("reduction"), p, l).ok);
  RunResult r = gpu.run(replaced("reduction", 162, "bar.sync \t0;", ""), p, l);
  INFO(r.text);
  CHECK(r.faulted("races", "missing: bar.warp.sync"));
  l = Launch{.block = {64}};
  l.entry = "bulk";
  r = gpu.run(replaced("async", 174, "%r15;", "2048;"), Params().u64(a).u64(b), l);
  CHECK(r.faulted("deadlock", "1024 of 2048 announced bytes"));
}
