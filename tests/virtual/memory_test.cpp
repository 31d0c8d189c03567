// Loads, stores, atomics, address conversion and fences: bytes and faults.
#include "tests/virtual/lane_ops.hpp"

#include "tools/vgpu/num/formats.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace {

using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::Vgpu;

// Runs a body with parameters in and out; %rd0 and %rd1 hold them, %r0 is %tid.x.
struct Run {
  Vgpu gpu;
  uint64_t in = 0, out = 0;
  RunResult result;
};
void run(Run& r, const std::string& body, const std::vector<uint8_t>& in, size_t out_bytes,
         Launch launch = {}, const std::string& head = "") {
  r.in = r.gpu.upload(in);
  r.out = r.gpu.allocate(out_bytes);
  std::vector<uint8_t> zero(out_bytes, 0);
  r.gpu.write(r.out, zero.data(), out_bytes);
  r.result = r.gpu.run(
      module_text("ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; mov.u32 %r0, %tid.x;\n" +
                      body + "\nret;",
                  ".param .u64 in, .param .u64 out", "sm_100a", head),
      Params().u64(r.in).u64(r.out), launch);
}

std::vector<uint8_t> pattern(size_t n) {
  std::vector<uint8_t> v(n);
  uint32_t x = 0x9E3779B9;
  for (uint8_t& b : v) {
    x = x * 1664525 + 1013904223;
    b = uint8_t(x >> 24);
  }
  return v;
}

// in[64 * thread ...] -> the registers -> out[64 * thread ...]
std::vector<uint8_t> copied(const std::string& body, const std::vector<uint8_t>& in) {
  Run r;
  run(r, "mul.wide.u32 %rd2, %r0, 64; add.u64 %rd3, %rd0, %rd2; add.u64 %rd4, %rd1, %rd2;\n" + body,
      in, in.size());
  INFO(body);
  INFO(r.result.text);
  REQUIRE(r.result.ok);
  return r.gpu.download<uint8_t>(r.out, in.size());
}

} // namespace

TEST_CASE("loads and stores of every width", "[virtual]") {
  std::vector<uint8_t> in = pattern(64 * 32);
  struct Case {
    const char* body;
    size_t bytes;
  };
  const Case cases[] = {
      {"ld.global.b8 %r1, [%rd3]; st.global.b8 [%rd4], %r1;", 1},
      {"ld.global.u16 %h1, [%rd3]; st.global.u16 [%rd4], %h1;", 2},
      {"ld.global.b32 %f1, [%rd3]; st.global.f32 [%rd4], %f1;", 4},
      {"ld.global.f64 %d1, [%rd3]; st.global.f64 [%rd4], %d1;", 8},
      {"ld.global.b128 %q1, [%rd3]; st.global.b128 [%rd4], %q1;", 16},
      {"ld.global.v2.u16 {%h1, %h2}, [%rd3]; st.global.v2.u16 [%rd4], {%h1, %h2};", 4},
      {"ld.global.v4.b8 {%r1, %r2, %r3, %r4}, [%rd3]; st.global.v4.b8 [%rd4], {%r1, %r2, %r3, "
       "%r4};",
       4},
      {"ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3+16]; st.global.v4.b32 [%rd4], {%f1, %f2, %f3, "
       "%f4};",
       16},
      {"ld.global.v2.b64 {%rd5, %rd6}, [%rd3]; st.global.v2.b64 [%rd4], {%rd5, %rd6};", 16},
      {"ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd3];"
       " st.global.v8.b32 [%rd4], {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};",
       32},
      {"ld.global.v4.b64 {%rd5, %rd6, %rd7, %rd8}, [%rd3]; st.global.v4.u64 [%rd4], {%rd5, %rd6, "
       "%rd7, %rd8};",
       32},
      {"ld.v4.u32 {%r1, %r2, %r3, %r4}, [%rd3]; st.v4.u32 [%rd4], {%r1, %r2, %r3, %r4};", 16},
      {"ld.relaxed.gpu.global.L1::no_allocate.u64 %rd5, [%rd3]; st.release.sys.global.u64 [%rd4], "
       "%rd5;",
       8},
      {"ld.acquire.cta.u32 %r1, [%rd3]; st.volatile.global.u32 [%rd4], %r1;", 4},
      {"ld.global.nc.L1::evict_last.L2::128B.v2.u32 {%r1, %r2}, [%rd3]; st.global.cs.v2.u32 "
       "[%rd4], {%r1, %r2};",
       8},
      {"ld.global.ca.u32 %r1, [%rd3]; st.weak.global.wt.u32 [%rd4], %r1;", 4},
      {"createpolicy.fractional.L2::evict_first.b64 %rd9, 0f3F800000;"
       " ld.global.L2::cache_hint.u32 %r1, [%rd3], %rd9; st.global.L2::cache_hint.u32 [%rd4], %r1, "
       "%rd9;",
       4},
      {"ldu.global.v2.u64 {%rd5, %rd6}, [%rd3]; st.mmio.relaxed.sys.global.u64 [%rd4], %rd5;", 8},
      {"ld.mmio.relaxed.sys.global.u32 %r1, [%rd3]; st.relaxed.cluster.u32 [%rd4], %r1;", 4},
  };
  for (const Case& c : cases) {
    std::vector<uint8_t> out = copied(c.body, in);
    size_t shift = std::string(c.body).find("+16") != std::string::npos ? 16 : 0;
    INFO(c.body);
    for (size_t t = 0; t < 32; ++t)
      for (size_t k = 0; k < 64; ++k)
        REQUIRE(int(out[64 * t + k]) == (k < c.bytes ? int(in[64 * t + k + shift]) : 0));
  }
}

TEST_CASE("loads extend to wider registers, stores chop", "[virtual]") {
  std::vector<uint8_t> in = pattern(64 * 32);
  auto check = [&](const std::string& load, const std::string& reg, size_t bytes,
                   const std::function<uint64_t(const uint8_t*)>& want) {
    std::string store = bytes == 8 ? "st.global.b64" : "st.global.b32";
    std::vector<uint8_t> out =
        copied(load + " " + reg + ", [%rd3]; " + store + " [%rd4], " + reg + ";", in);
    INFO(load);
    for (size_t t = 0; t < 32; ++t) {
      uint64_t got = 0;
      std::memcpy(&got, out.data() + 64 * t, bytes);
      REQUIRE(got == want(in.data() + 64 * t));
    }
  };
  auto s16 = [](const uint8_t* p) { return int16_t(p[0] | p[1] << 8); };
  check("ld.global.s8", "%r1", 4,
        [](const uint8_t* p) { return uint64_t(uint32_t(int8_t(p[0]))); });
  check("ld.global.u8", "%rd5", 8, [](const uint8_t* p) { return uint64_t(p[0]); });
  check("ld.global.s8", "%rd5", 8,
        [](const uint8_t* p) { return uint64_t(int64_t(int8_t(p[0]))); });
  check("ld.global.s16", "%rd5", 8, [&](const uint8_t* p) { return uint64_t(int64_t(s16(p))); });
  check("ld.global.s16", "%r1", 4, [&](const uint8_t* p) { return uint64_t(uint32_t(s16(p))); });
  check("ld.global.s32", "%rd5", 8, [](const uint8_t* p) {
    int32_t v;
    std::memcpy(&v, p, 4);
    return uint64_t(int64_t(v));
  });
  std::vector<uint8_t> out =
      copied("ld.global.u64 %rd5, [%rd3]; st.global.u8 [%rd4], %rd5; st.global.u16 [%rd4+2], %rd5;"
             " st.global.u32 [%rd4+4], %rd5;",
             in);
  for (size_t t = 0; t < 32; ++t) {
    const uint8_t *p = in.data() + 64 * t, *q = out.data() + 64 * t;
    REQUIRE(q[0] == p[0]);
    REQUIRE(std::memcmp(q + 2, p, 2) == 0);
    REQUIRE(std::memcmp(q + 4, p, 4) == 0);
  }
  // s8 in a 16-bit register: sign to bit 15, nothing above.
  out = copied("ld.global.s8 %h1, [%rd3]; cvt.u32.u16 %r1, %h1; st.global.u32 [%rd4], %r1;", in);
  for (size_t t = 0; t < 32; ++t) {
    uint32_t v;
    std::memcpy(&v, out.data() + 64 * t, 4);
    REQUIRE(v == uint16_t(int8_t(in[64 * t])));
  }
}

TEST_CASE("state spaces and generic addresses", "[virtual]") {
  const char* body = R"(
    .shared .align 16 .b32 words[64];
    .local .align 16 .b32 mine[4];
    .reg .b32 s, t; .reg .b64 g, c, l; .reg .pred in_shared, in_local, in_global, in_param;
    mov.u32 s, words;
    mad.lo.u32 s, %r0, 4, s;
    mul.lo.u32 t, %r0, 3;
    st.shared.u32 [s], t;
    bar.warp.sync 0xffffffff;
    // the neighbour's word through a generic address
    xor.b32 %r1, %r0, 1;
    mul.wide.u32 %rd2, %r1, 4;
    cvta.shared.u64 g, words;
    add.u64 g, g, %rd2;
    ld.u32 %r2, [g];
    isspacep.shared in_shared, g;
    isspacep.global in_global, g;
    selp.u32 %r20, 1, 0, in_shared;
    selp.u32 %r21, 2, 0, in_global;
    cvta.to.shared.u64 c, g;
    ld.shared.u32 %r3, [c];
    // local memory, its generic address
    st.local.v2.u32 [mine], {%r2, %r0};
    cvta.local.u64 l, mine;
    isspacep.local in_local, l;
    selp.u32 %r22, 4, 0, in_local;
    ld.u32 %r4, [l+4];
    ld.local.u32 %r5, [mine];
    ld.u32 %r5, [mine];
    // parameters by name, by register and by generic address
    mov.b64 %rd3, in;
    ld.param.u64 %rd4, [%rd3];
    cvta.param.u64 %rd5, %rd3;
    isspacep.param in_param, %rd5;
    selp.u32 %r23, 8, 0, in_param;
    ld.u64 %rd6, [%rd5];
    setp.eq.u64 in_param, %rd4, %rd6;
    selp.u32 %r24, 16, 0, in_param;
    // module-scope variables
    ld.const.u32 %r6, [table+8];
    ld.global.u32 %r7, [counts+4];
    cvta.global.u64 %rd7, counts;
    ld.u32 %r8, [%rd7];
    or.b32 %r20, %r20, %r21; or.b32 %r20, %r20, %r22; or.b32 %r20, %r20, %r23; or.b32 %r20, %r20, %r24;
    mul.wide.u32 %rd8, %r0, 32;
    add.u64 %rd8, %rd1, %rd8;
    st.global.v8.b32 [%rd8], {%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r20};
  )";
  Run r;
  run(r, body, pattern(64), 32 * 32, {},
      ".const .align 4 .u32 table[4] = {5, 6, 7, 8};\n.global .u32 counts[2] = {11, 12};");
  INFO(r.result.text);
  REQUIRE(r.result.ok);
  std::vector<uint32_t> out = r.gpu.download<uint32_t>(r.out, 256);
  for (uint32_t t = 0; t < 32; ++t) {
    uint32_t neighbour = (t ^ 1) * 3;
    INFO(t);
    REQUIRE(std::vector<uint32_t>(out.begin() + 8 * t, out.begin() + 8 * t + 8) ==
            std::vector<uint32_t>{neighbour, neighbour, t, neighbour, 7, 12, 11, 1 | 4 | 8 | 16});
  }
}

TEST_CASE("distributed shared memory", "[virtual]") {
  const char* body = R"(
    .shared .align 8 .b64 word;
    .reg .b32 rank, other, a, b; .reg .b64 g;
    mov.u32 rank, %cluster_ctarank;
    mul.lo.u32 %r1, rank, 100;
    add.u32 %r1, %r1, 7;
    st.shared.u32 [word], %r1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    add.u32 other, rank, 1; and.b32 other, other, 3;
    mapa.shared::cluster.u32 a, word, other;
    ld.shared::cluster.u32 %r2, [a];
    cvta.shared.u64 g, word;
    mapa.u64 g, g, other;
    ld.u32 %r3, [g];
    getctarank.shared::cluster.u32 %r4, a;
    getctarank.u64 %r5, g;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mul.wide.u32 %rd2, rank, 16;
    add.u64 %rd2, %rd1, %rd2;
    st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r5};
  )";
  Launch l;
  l.grid = {4, 1, 1};
  l.cluster = {4, 1, 1};
  for (const std::string& s : wltest::schedules()) {
    l.schedule = s;
    Run r;
    run(r, body, pattern(64), 64, l);
    INFO(s << "\n" << r.result.text);
    REQUIRE(r.result.ok);
    std::vector<uint32_t> out = r.gpu.download<uint32_t>(r.out, 16);
    for (uint32_t k = 0; k < 4; ++k) {
      uint32_t next = (k + 1) % 4, value = next * 100 + 7;
      REQUIRE(std::vector<uint32_t>(out.begin() + 4 * k, out.begin() + 4 * k + 4) ==
              std::vector<uint32_t>{value, value, next, next});
    }
  }
}

TEST_CASE("memory faults", "[virtual]") {
  auto fault = [](const std::string& body, const std::string& checker, const std::string& part,
                  Launch launch = {}) {
    Run r;
    run(r, body, pattern(256), 256, launch);
    INFO(body);
    INFO(r.result.text);
    CHECK(r.result.faulted(checker, part));
  };
  fault("ld.global.u32 %r1, [%rd0+256];", "bounds", "past the end");
  fault("ld.global.u32 %r1, [%rd0+2];", "alignment", "multiple of 4");
  fault("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+8];", "alignment", "multiple of 16");
  fault("mul.wide.u32 %rd2, %r0, 16; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r0;",
        "bounds", "lane 16");
  fault("mov.u64 %rd2, 0; ld.global.u32 %r1, [%rd2];", "bounds", "lies in no allocation");
  fault(".shared .b32 w[4]; st.shared.u32 [w+16], %r0;", "bounds", "shared");
  fault(".shared .b32 w[4]; cvta.shared.u64 %rd2, w; ld.shared.u32 %r1, [%rd2];", "bounds",
        "cvta.to.shared");
  fault(".local .b32 w[4]; mov.u64 %rd2, w; st.local.u32 [%rd2+16], %r0;", "bounds", "local");
  fault("mov.u64 %rd2, in; ld.param.u32 %r1, [%rd2+16];", "bounds", "parameter");
  Launch pair;
  pair.grid = pair.cluster = {2, 1, 1};
  fault(".shared .b32 w; .reg .b32 a; mapa.shared::cluster.u32 a, w, 1; mov.u32 %r1, "
        "%cluster_ctarank;"
        " setp.eq.u32 %p0, %r1, 0; @%p0 ld.shared.u32 %r2, [a];"
        " barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "bounds", "own CTA", pair);
  fault(".shared .b32 w; .reg .b32 a; mapa.shared::cluster.u32 a, w, 2;", "bounds", "rank 2", pair);
  Run r;
  run(r, "st.param.u32 [in], %r0;", pattern(16), 16);
  CHECK(r.result.refused("read-only"));
}

TEST_CASE("loads and stores that no target has", "[virtual]") {
  auto refused = [](const char* text, const char* target) {
    wltest::Vgpu gpu(std::string(target) == "sm_90a" ? "h200" : "b200");
    wltest::RunResult r =
        gpu.run(wltest::module_text(".local .align 16 .b8 lo[16]; .reg .b128 q<2>;\n" +
                                        std::string(text) + "\n  ret;\n",
                                    ".param .u64 out", target),
                wltest::Params().u64(gpu.allocate(64)), {});
    INFO(text << "\n" << r.text);
    return r.refused();
  };
  const char* wide = "ld.param.u64 %rd0, [out];\nld.global.v4.b64 {%rd1,%rd2,%rd3,%rd4}, [%rd0];";
  CHECK(refused(wide, "sm_90a"));
  CHECK_FALSE(refused(wide, "sm_100a"));
  CHECK(refused("ld.param.u64 %rd0, [out];\nld.global.v2.b128 {q0, q1}, [%rd0];", "sm_100a"));
  CHECK(refused("ld.volatile.local.u32 %r0, [lo];", "sm_90a"));
  CHECK(refused("st.relaxed.gpu.local.u32 [lo], %r0;", "sm_90a"));
  CHECK_FALSE(refused("st.weak.local.u32 [lo], %r0;", "sm_90a"));
}

TEST_CASE("atomics", "[virtual]") {
  // All threads update out[0].
  Launch l;
  l.block = {96, 1, 1};
  auto total = [&](const std::string& op, uint64_t start, size_t bytes, auto f,
                   const std::string& space = "global") {
    std::string type = op.substr(op.rfind('.') + 1);
    bool wide = bytes == 8;
    std::string reg = wide ? "%rd10" : "%r10", got = wide ? "%rd11" : "%r11";
    std::string value =
        wide ? "cvt.u64.u32 %rd10, %r0; add.u64 %rd10, %rd10, 3;" : "add.u32 %r10, %r0, 3;";
    std::string where = space == "global" ? "[%rd1]" : "[cell]";
    std::string body = ".shared .align 8 .b64 cell;\n" + value;
    if (space != "global")
      body += "setp.eq.u32 %p0, %r0, 0; @%p0 ld.global.u64 %rd12, [%rd0]; @%p0 st.shared.u64 "
              "[cell], %rd12; bar.sync 0;";
    else
      body += "setp.eq.u32 %p0, %r0, 0; @%p0 ld.global.u64 %rd12, [%rd0]; @%p0 st.global.u64 "
              "[%rd1], %rd12; bar.sync 0;";
    body += op.substr(0, op.find('.')) + "." + space + op.substr(op.find('.')) + " " +
            (op[0] == 'a' ? got + ", " : "") + where + ", " + reg + ";\nbar.sync 0;";
    if (space != "global") body += "ld.shared.u64 %rd12, [cell]; st.global.u64 [%rd1], %rd12;";
    std::vector<uint8_t> in(8);
    std::memcpy(in.data(), &start, 8);
    // What depends on the order is tested in one warp, whose lanes go in ascending order.
    bool ordered =
        op.find("inc") != op.npos || op.find("dec") != op.npos || op.find("exch") != op.npos;
    Launch launch = l;
    uint32_t threads = ordered ? 32 : 96;
    launch.block = {threads, 1, 1};
    Run r;
    run(r, body, in, 8, launch);
    INFO(op << " " << space);
    INFO(r.result.text);
    REQUIRE(r.result.ok);
    uint64_t want = start, result = r.gpu.download<uint64_t>(r.out, 1)[0];
    if (!wide) want &= 0xFFFFFFFF;
    for (uint64_t t = 0; t < threads; ++t) want = f(want, t + 3);
    uint64_t mask = wide ? ~0ull : 0xFFFFFFFF;
    REQUIRE((result & mask) == (want & mask));
  };
  for (std::string space : {"global", "shared"}) {
    total(
        "atom.add.u32", 5, 4, [](uint64_t a, uint64_t b) { return a + b; }, space);
    total(
        "atom.add.u64", 1ull << 40, 8, [](uint64_t a, uint64_t b) { return a + b; }, space);
    total(
        "red.add.s32", 0xFFFFFF00, 4, [](uint64_t a, uint64_t b) { return a + b; }, space);
    total(
        "atom.min.s32", 50, 4, [](uint64_t a, uint64_t b) { return std::min(a, b); }, space);
    total(
        "atom.max.u64", 50, 8, [](uint64_t a, uint64_t b) { return std::max(a, b); }, space);
    total(
        "atom.and.b32", 0xFF, 4, [](uint64_t a, uint64_t b) { return a & b; }, space);
    total(
        "red.or.b64", 0, 8, [](uint64_t a, uint64_t b) { return a | b; }, space);
    total(
        "red.xor.b32", 0x55, 4, [](uint64_t a, uint64_t b) { return a ^ b; }, space);
    total(
        "atom.inc.u32", 0, 4, [](uint64_t a, uint64_t b) { return a >= b ? 0 : a + 1; }, space);
    total(
        "atom.dec.u32", 40, 4, [](uint64_t a, uint64_t b) { return a == 0 || a > b ? b : a - 1; },
        space);
    total(
        "atom.exch.b32", 1, 4, [](uint64_t, uint64_t b) { return b; }, space);
  }
  // A counter by compare-and-swap loops: every lane gets its own ticket.
  Run r;
  run(r, R"(
    again: ld.relaxed.gpu.global.u32 %r1, [%rd1];
    add.u32 %r2, %r1, 1;
    atom.acq_rel.gpu.global.cas.b32 %r3, [%rd1], %r1, %r2;
    setp.ne.u32 %p0, %r3, %r1;
    @%p0 bra again;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
    st.global.u32 [%rd2+4], 1;
  )",
      pattern(8), 4 * 97, l);
  INFO(r.result.text);
  REQUIRE(r.result.ok);
  std::vector<uint32_t> tickets = r.gpu.download<uint32_t>(r.out, 97);
  REQUIRE(tickets[0] == 96);
  REQUIRE(std::count(tickets.begin() + 1, tickets.end(), 1u) == 96);
}

TEST_CASE("atomics on floats, vectors and 128 bits", "[virtual]") {
  namespace num = vgpu::num;
  Run r;
  run(r, R"(
    .reg .b32 one; .reg .b16 h; .reg .b128 want, have, old; .reg .b64 lo, hi;
    mov.b32 one, 0x3C003C00; mov.b16 h, 0x3F80;
    cvt.rn.f32.u32 %f1, %r0;
    atom.global.add.f32 %f2, [%rd1], %f1;
    cvt.rn.f64.u32 %d1, %r0;
    red.global.add.f64 [%rd1+8], %d1;
    red.global.add.noftz.f16x2 [%rd1+16], one;
    atom.global.add.noftz.bf16 h, [%rd1+20], h;
    red.global.add.v4.f32 [%rd1+32], {%f1, %f1, 0f3F800000, 0f00000000};
    red.global.v4.f32.add [%rd1+32], {0f00000000, 0f00000000, 0f00000000, 0f40000000};
    mov.b32 %r2, 0x40003C00;
    red.relaxed.gpu.global.max.noftz.v2.f16x2 [%rd1+48], {one, %r2};
    // 128 bits: only lane 5 finds what it expects
    cvt.u64.u32 lo, %r0; mov.u64 hi, 9;
    mov.b128 want, {lo, hi};
    setp.eq.u32 %p0, %r0, 5;
    selp.b64 lo, 0, 1, %p0; mov.u64 hi, 0;
    mov.b128 have, {lo, hi};
    atom.global.cas.b128 old, [%rd1+64], have, want;
    // subnormal sums: flushed in global, kept in shared memory
    .shared .b32 cell;
    st.shared.u32 [cell], 0;
    bar.warp.sync -1;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 red.shared.add.f32 [cell], 0f00000003;
    @%p1 red.global.add.f32 [%rd1+80], 0f00000003;
    bar.warp.sync -1;
    ld.shared.u32 %r3, [cell];
    st.global.u32 [%rd1+84], %r3;
  )",
      pattern(8), 96);
  INFO(r.result.text);
  REQUIRE(r.result.ok);
  std::vector<uint8_t> out = r.gpu.download<uint8_t>(r.out, 96);
  auto at = [&](size_t offset, auto zero) {
    std::memcpy(&zero, out.data() + offset, sizeof zero);
    return zero;
  };
  CHECK(at(0, 0.0f) == 496);
  CHECK(at(8, 0.0) == 496);
  CHECK(at(16, 0u) == 0x50005000); // 32 = 0x5000 in f16
  CHECK(num::bf16_to_f32(at(20, uint16_t(0))) == 32);
  for (size_t k = 0; k < 2; ++k) CHECK(at(32 + 4 * k, 0.0f) == 496);
  CHECK(at(40, 0.0f) == 32);
  CHECK(at(44, 0.0f) == 64);
  CHECK(at(48, 0u) == 0x3C003C00);
  CHECK(at(52, 0u) == 0x40003C00);
  CHECK(at(64, uint64_t(0)) == 5);
  CHECK(at(72, uint64_t(0)) == 9);
  CHECK(at(80, 0u) == 0);
  CHECK(at(84, 0u) == 3);
}

TEST_CASE("asynchronous stores complete bytes on a barrier", "[virtual]") {
  // Each CTA of a pair sends 32 words to the other, which waits for 128 bytes.
  const std::string body = R"(
    .shared .align 16 .b32 words[64];
    .shared .align 8 .b64 bar;
    .reg .b32 rank, other, a, b, peer; .reg .pred done;
    mov.u32 rank, %cluster_ctarank;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], BYTES;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 other, rank, 1;
    mapa.shared::cluster.u32 peer, bar, other;
    mapa.shared::cluster.u32 a, words, other;
    SEND
    WAIT
    mov.u32 b, words; mad.lo.u32 b, %r0, 4, b;
    ld.shared.u32 %r2, [b];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mad.lo.u32 %r3, rank, 32, %r0;
    mul.wide.u32 %rd2, %r3, 4; add.u64 %rd2, %rd1, %rd2;
    st.global.u32 [%rd2], %r2;
  )";
  const std::string send = R"(
    mad.lo.u32 a, %r0, 4, a;
    mad.lo.u32 %r1, rank, 1000, %r0;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [a], %r1, [peer];
  )";
  const std::string wait =
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [bar], 0; @!done bra again;";
  auto text = [&](std::string bytes, std::string s, std::string w) {
    std::string t = body;
    t.replace(t.find("BYTES"), 5, bytes);
    t.replace(t.find("SEND"), 4, s);
    t.replace(t.find("WAIT"), 4, w);
    return t;
  };
  Launch l;
  l.grid = l.cluster = {2, 1, 1};
  for (const std::string& schedule : wltest::schedules()) {
    l.schedule = schedule;
    INFO(schedule);
    Run r;
    run(r, text("128", send, wait), pattern(8), 256, l);
    INFO(r.result.text);
    REQUIRE(r.result.ok);
    std::vector<uint32_t> out = r.gpu.download<uint32_t>(r.out, 64);
    for (uint32_t k = 0; k < 64; ++k) REQUIRE(out[k] == (k < 32 ? 1000 : 0) + k % 32);
    // 32 reductions of 4 bytes into one word
    Run add;
    run(add,
        text("128",
             "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [words], 0;"
             " barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
             " red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [a], "
             "%r0, [peer];",
             wait),
        pattern(8), 256, l);
    INFO(add.result.text);
    REQUIRE(add.result.ok);
    REQUIRE(add.gpu.download<uint32_t>(add.out, 1)[0] == 496);
    if (schedule != "lazy") continue;
    Run missing;
    run(missing, text("128", send, ""), pattern(8), 256, l);
    INFO(missing.result.text);
    CHECK(missing.result.faulted("pending"));
    // A launch that names no cluster, and one that names a cluster of one CTA.
    for (bool named : {false, true}) {
      Launch single = l;
      single.grid = single.cluster = {1, 1, 1};
      single.cluster_launch = named;
      std::string own = text("128", send, wait);
      own.replace(own.find("xor.b32 other, rank, 1"), 22, "mov.u32 other, rank");
      Run alone;
      run(alone, own, pattern(8), 256, single);
      INFO(alone.result.text);
      CHECK(alone.result.ok == named);
      CHECK(alone.result.faulted("clusters") != named);
    }
    Run hang;
    run(hang, text("132", send, wait), pattern(8), 256, l);
    INFO(hang.result.text);
    CHECK(hang.result.faulted("deadlock"));
  }
}

TEST_CASE("fences, prefetches and bulk zeros", "[virtual]") {
  Run r;
  run(r, R"(
    .shared .align 16 .b32 words[32];
    membar.cta; membar.gl; membar.sys; fence.sc.gpu; fence.acq_rel.cluster; fence.acquire.sys; fence.release.cta;
    fence.proxy.alias; fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta;
    fence.mbarrier_init.release.cluster; fence.proxy.tensormap::generic.release.gpu;
    fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;
    fence.acquire.sync_restrict::shared::cluster.cluster;
    prefetch.global.L2 [%rd0]; prefetch.L1 [%rd0]; prefetchu.L1 [%rd0];
    prefetch.global.L2::evict_last [%rd0]; prefetch.tensormap [%rd0];
    applypriority.global.L2::evict_normal [%rd0], 128;
    mov.u32 %r1, words; mad.lo.u32 %r1, %r0, 4, %r1; st.shared.u32 [%r1], %r0;
    bar.warp.sync -1;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 st.bulk.weak.shared::cta [words], 64, 0;
    bar.warp.sync -1;
    ld.shared.u32 %r2, [%r1];
    mul.wide.u32 %rd2, %r0, 4; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r2;
  )",
      pattern(256), 128);
  INFO(r.result.text);
  REQUIRE(r.result.ok);
  std::vector<uint32_t> out = r.gpu.download<uint32_t>(r.out, 32);
  for (uint32_t k = 0; k < 32; ++k) REQUIRE(out[k] == (k < 16 ? 0 : k));
}
