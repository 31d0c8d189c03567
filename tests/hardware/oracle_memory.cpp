// Loads and stores of every width, address spaces, atomics and reductions, fences.
//
// Old values of contended atomics depend on the order of threads: they are looked at only where
// each thread has its own word; contended words are compared after the kernel.
#include "tests/hardware/oracle_lanes.hpp"

namespace wltest::oracle {

using namespace lane_ops;

namespace {

// Memory of alloca, given back by stackrestore and by a return; addresses are the machine's own.
void stack(std::vector<Case>& cases) {
  Case c;
  c.family = "loads, stores, spaces";
  c.name = "alloca, stacksave, stackrestore";
  c.scheduled = false;
  c.head = R"(
.func (.reg .b32 result) deep(.reg .b32 n)
{
  .reg .b32 p, x;
  .reg .b64 g;
  .reg .pred last;
  mov.u32 result, 1;
  setp.eq.u32 last, n, 0;
  @last ret;
  alloca.u32 p, 32, 16;
  st.local.u32 [p+28], n;
  cvt.u64.u32 g, p;
  cvta.local.u64 g, g;
  sub.u32 x, n, 1;
  call (result), deep, (x);
  ld.volatile.u32 x, [g+28];
  mad.lo.u32 result, result, 3, x;
  ret;
}
)";
  c.body = R"(
  .reg .b32 size, x, y; .reg .b64 sp, again, p, q, wide, g; .reg .pred same, aligned;
  mov.u32 %r0, %tid.x;
  and.b32 x, %r0, 3;
  mad.lo.u32 size, x, 8, 8;
  cvt.u64.u32 wide, size;
  stacksave.u64 sp;
  alloca.u64 p, wide, 64;
  alloca.u64 q, 24;
  cvta.local.u64 g, p;
  add.u64 g, g, wide;
  st.volatile.u32 [g+-4], %r0;
  st.local.u32 [q], size;
  st.local.u32 [q+20], size;
  cvta.local.u64 again, q;
  ld.volatile.u32 y, [again+20];
  ld.volatile.u32 %r1, [g+-4];
  and.b64 q, p, 63;
  setp.eq.u64 aligned, q, 0;
  stackrestore.u64 sp;
  stacksave.u64 again;
  setp.eq.u64 same, again, sp;
  mad.lo.u32 %r1, y, 1000, %r1;
  @aligned add.u32 %r1, %r1, 1000000;
  @same add.u32 %r1, %r1, 10000000;
  and.b32 x, %r0, 7;
  call (y), deep, (x);
  ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd1, %r0, 8; add.u64 %rd0, %rd0, %rd1;
  st.global.v2.u32 [%rd0], {%r1, y};
  ret;)";
  c.block = {64, 1, 1};
  std::vector<uint32_t> expected;
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t deep = 1;
    for (uint32_t n = 1; n <= t % 8; ++n) deep = 3 * deep + n;
    expected.push_back(11000000 + (t % 4 * 8 + 8) * 1000 + t);
    expected.push_back(deep);
  }
  c.expected = bytes_of(expected);
  c.out("out", 512);
  cases.push_back(c);
}

void loads_and_stores(const Lanes& l) {
  Column v = integers(64, 100);
  for (std::string t : {"u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32"}) {
    l.op1("ld.global." + t + " d, [row+8];", "b32", "b64", v);
    l.op1("ld.global.nc." + t + " d, [row+12];", "b32", "b64", v);
  }
  for (std::string t : {"u8", "s8", "u16", "s32", "u32", "s64"})
    l.op1("ld.global." + t + " d, [row+8];", "b64", "b64", v);
  for (const char* op : {"ld.relaxed.gpu.global.u32", "ld.acquire.sys.global.s16",
                         "ld.volatile.global.u8", "ld.global.cg.u32", "ld.global.cs.u16",
                         "ld.global.L1::no_allocate.u32", "ld.global.L2::128B.u32"})
    l.op1(std::string(op) + " d, [row+8];", "b32", "b64", v);
  for (const char* op : {"st.global.u8", "st.relaxed.gpu.global.u16", "st.release.sys.global.u32",
                         "st.global.cs.u8", "st.volatile.global.u16"})
    l.op1(std::string(op) + " [row+8], a; mov.b64 d, a;", "b64", "b64", v);
  l.row(".reg .b32 x, y; ld.global.v2.u32 {x, y}, [row+8]; xor.b32 d, x, y;", "b32", {"b64"}, {v});
  l.row(".reg .b32 x, y, z, w; ld.global.v4.u32 {x, y, z, w}, [row+16]; st.global.v4.u32 "
        "[row+16], {w, z, y, x}; sub.u32 d, x, w;",
        "b32", {"b64", "b64", "b64"}, {v, v, integers(64, 7)});
  l.row(".reg .b16 x, y, z, w; ld.global.v4.s8 {x, y, z, w}, [row+8]; mov.b64 d, {x, y, z, w};",
        "b64", {"b64"}, {v});
  l.row(".reg .b64 x, y; ld.global.v2.u64 {x, y}, [row+16]; st.global.v2.u64 [row+16], {y, x}; "
        "add.u64 d, x, y;",
        "b64", {"b64", "b64", "b64"}, {v, v, integers(64, 7)});
  // Shared and local memory, generic addresses, the parts of a word.
  l.row(".shared .align 16 .b8 s[1024]; .reg .b32 p, t; mov.u32 t, %tid.x; mov.u32 p, s; "
        "mad.lo.u32 p, t, 8, p; st.shared.u64 [p], a; bar.sync 0; xor.b32 t, t, 77; and.b32 t, t, "
        "127; mov.u32 p, s; mad.lo.u32 p, t, 8, p; .reg .b32 x; ld.shared.s16 x, [p+4]; "
        "ld.shared.u8 d, [p+1]; add.u32 d, d, x;",
        "b32", {"b64"}, {v});
  l.row(".local .align 8 .b8 s[16]; .reg .b64 p; mov.u64 p, s; st.local.u64 [p], a; "
        "cvta.local.u64 p, p; ld.u16 d, [p+2]; ",
        "b32", {"b64"}, {v});
  l.row(".shared .align 16 .b8 s[1024]; .reg .b64 p, q; .reg .pred x, y, z; mov.u64 p, s; "
        "cvta.shared.u64 p, p; isspacep.shared x, p; isspacep.global y, p; isspacep.local z, p; "
        "selp.u32 d, 1, 0, x; @y add.u32 d, d, 2; @z add.u32 d, d, 4; isspacep.global y, row; @y "
        "add.u32 d, d, 8; isspacep.shared::cluster y, p; @y add.u32 d, d, 16; cvta.to.shared.u64 "
        "q, p; sub.u64 p, p, q; setp.ne.u64 x, p, 0; @x add.u32 d, d, 32;",
        "b32", {"b64"}, {v});
}

void atomics(const Lanes& l) {
  Column v = integers(32, 120), w = integers(32, 70), v64 = integers(64, 120),
         w64 = integers(64, 70), f = floats32(80), g = floats64(80);
  for (std::string space : {"global", "shared"}) {
    // Shared atomics: the word goes to shared memory first, and back into the row afterwards.
    std::string before, after, at = "[row+8]";
    if (space == "shared") {
      before = ".shared .align 16 .b64 s[128]; .reg .b32 p, t; mov.u32 t, %tid.x; mov.u32 p, s; "
               "mad.lo.u32 p, t, 8, p; st.shared.u64 [p], a; ";
      after = " .reg .b64 back; ld.shared.u64 back, [p]; st.global.u64 [row+8], back;";
      at = "[p]";
    }
    auto atom = [&](const std::string& op, const std::string& r, const Column& x, const Column& y) {
      l.row(before + "atom." + space + "." + op + " d, " + at + ", b;" + after, r, {"b64", r},
            {x, y});
    };
    for (std::string t : {"u32", "s32", "u64", "s64"}) {
      std::string r = t.substr(1) == "64" ? "b64" : "b32";
      const Column &x = r == "b64" ? v64 : v, &y = r == "b64" ? w64 : w;
      for (std::string op : {"min", "max"}) atom(op + "." + t, r, x, y);
      if (t != "s64") atom("add." + t, r, x, y);
      if (t == "u32")
        for (std::string op : {"inc", "dec"}) atom(op + "." + t, r, x, y);
    }
    for (std::string op : {"and", "or", "xor", "exch"}) {
      atom(op + ".b32", "b32", v, w);
      atom(op + ".b64", "b64", v64, w64);
    }
    atom("add.f32", "b32", f, f);
    atom("add.f64", "b64", g, g);
    for (const char* op : {"add.noftz.f16x2", "add.noftz.bf16x2"})
      atom(op, "b32", f, integers(32, 90));
    for (const char* op : {"add.noftz.f16", "add.noftz.bf16"}) atom(op, "b16", f, halves(60));
    for (std::string t : {"b16", "b32", "b64"}) {
      // Half of the comparisons succeed.
      Column expected = t == "b16" ? integers(16, 50) : t == "b32" ? v : v64, x = expected;
      for (size_t i = 0; i < x.size(); i += 2) x[i] ^= 1;
      l.row(before + "atom." + space + ".cas." + t + " d, " + at + ", b, c;" + after, t,
            {"b64", t, t},
            {x, expected,
             integers(t == "b16"   ? 16
                      : t == "b32" ? 32
                                   : 64,
                      33)});
    }
  }
  for (const char* scope : {"relaxed.cta", "acquire.gpu", "release.sys", "acq_rel.cluster"})
    l.row(std::string("atom.") + scope + ".global.add.u32 d, [row+8], b;", "b32", {"b32", "b32"},
          {v, w});
  for (const char* op : {"add.f32", "add.noftz.f16", "min.noftz.f16", "max.noftz.bf16"}) {
    std::string o = op, r = o == "add.f32" ? "b32" : "b16";
    std::string dot = o.substr(0, o.rfind('.')), type = o.substr(o.rfind('.'));
    l.row(".reg ." + r + " x, y, s, t; mov.b" + (r == "b32" ? "64 {s, t}, a" : "32 {s, t}, c") +
              "; atom.global." + dot + ".v2" + type + " {x, y}, [row+16], {s, t}; st.global." + r +
              " [row+4], x; mov." + r + " d, y;",
          r, {"b64", "b64", "b32"}, {f, integers(64, 30), integers(32, 31)});
  }
  l.row(".reg .b32 x, y; mov.b64 {x, y}, a; red.global.add.v4.f32 [row+16], {x, y, x, y}; mov.u32 "
        "d, 0;",
        "b32", {"b64", "b64", "b64"}, {v64, integers(64, 31), integers(64, 30)});
  // Contended: all threads of the grid on the words of row 0, which no thread reads.
  Column many = integers(32, 1500), many64 = integers(64, 1500), limit(1500, 1000);
  for (std::string op : {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32",
                         "add.u64", "max.s64", "min.u64", "xor.b64"}) {
    std::string r = op.find("64") != op.npos ? "b64" : "b32";
    // With unlike limits the order would show.
    const Column& in = op[0] == 'i' ? limit : r == "b64" ? many64 : many;
    for (const char* scope : {"", "relaxed.gpu."})
      l.row(".reg .b64 base; ld.param.u64 base, [rows]; red." + std::string(scope) + "global." +
                op + " [base+16], a; mov.u32 d, 0;",
            "b32", {r, "b32"}, {in, Column(in.size(), 0)});
  }
  // A contended f32 sum of integers is exact in any order. Row 0's word starts at 0.
  Column counts;
  for (uint32_t i = 0; i < 1024; ++i) counts.push_back(std::bit_cast<uint32_t>(float(i % 97)));
  l.row(".reg .b64 base; ld.param.u64 base, [rows]; red.global.add.f32 [base+16], a; mov.u32 d, 0;",
        "b32", {"b32", "b32"}, {counts, {0}});
  // In shared memory, then read by all after a barrier.
  for (std::string op : {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"})
    l.row(".shared .b32 s; .reg .pred q; .reg .b32 t; mov.u32 t, %tid.x; setp.eq.u32 q, t, 0; @q "
          "st.shared.u32 [s], 12345; bar.sync 0; red.shared." +
              op + " [s], a; bar.sync 0; ld.shared.u32 d, [s];",
          "b32", {"b32"}, {many});
}

void fences(const Lanes& l) {
  Column v = integers(32, 40);
  for (const char* f :
       {"membar.cta", "membar.gl", "membar.sys", "fence.sc.cta", "fence.sc.gpu", "fence.sc.sys",
        "fence.acq_rel.cluster", "fence.acq_rel.gpu", "fence.proxy.alias", "fence.proxy.async",
        "fence.proxy.async.global", "fence.proxy.async.shared::cta",
        "fence.proxy.async.shared::cluster", "fence.mbarrier_init.release.cluster",
        "fence.proxy.tensormap::generic.release.gpu",
        "fence.acquire.sync_restrict::shared::cluster.cluster",
        "fence.release.sync_restrict::shared::cta.cluster"})
    l.op1(std::string("st.global.u32 [row+8], 7; ") + f + "; ld.global.u32 d, [row+8];", "b32",
          "b32", v);
  // Message passing between two warps of a CTA: data, fence, flag.
  l.row(R"(.shared .b32 data[4], flag; .reg .b32 t, n; .reg .pred first, go, late;
  mov.u32 t, %tid.x; setp.eq.u32 first, t, 0; @first st.shared.u32 [flag], 0; bar.sync 0;
  mov.u32 d, 0; mov.u32 n, 0;
  setp.ge.u32 late, t, 64; @late bra done;
  setp.ge.u32 late, t, 32; @late bra reader;
  @!first bra done;
  st.shared.u32 [data], a; fence.acq_rel.cta; st.relaxed.cta.shared.u32 [flag], 1;
  bra done;
reader:
  add.u32 n, n, 1; setp.gt.u32 go, n, 1000000; @go trap;
  .reg .b32 x; ld.relaxed.cta.shared.u32 x, [flag]; setp.eq.u32 go, x, 0; @go bra reader;
  fence.acq_rel.cta; ld.shared.u32 d, [data];
done:)",
        "b32", {"b32"}, {integers(32, 100)});
}

} // namespace

void add_memory_cases(std::vector<Case>& cases) {
  stack(cases);
  loads_and_stores({cases, "loads, stores, spaces"});
  atomics({cases, "atomics, reductions"});
  fences({cases, "fences"});
}

} // namespace wltest::oracle
