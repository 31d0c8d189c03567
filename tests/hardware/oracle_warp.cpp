// Shuffles, votes, matches, reductions of a warp, matrix loads and stores.
#include "tests/hardware/oracle_lanes.hpp"

namespace wltest::oracle {

using namespace lane_ops;

namespace {

Column random_words(size_t n, uint32_t seed, uint32_t mask = ~0u) {
  std::mt19937 g(seed);
  Column v(n);
  for (uint64_t& x : v) x = g() & mask;
  return v;
}

void exchange(const Lanes& l) {
  Column v = random_words(512, 1), small = random_words(512, 2, 3),
         index = random_words(512, 3, 63), bit = random_words(512, 4, 1);
  for (const char* mode : {"up", "down", "bfly", "idx"})
    for (const char* clamp : {"0", "0x1f", "0x181f", "0x1c03", "0x101f", "0x1e00", "0x1807"}) {
      std::string op = std::string("shfl.sync.") + mode + ".b32 d|p, a, ";
      for (const char* lane : {"1", "4", "17", "b"})
        l.row(".reg .pred p; " + op + lane + ", " + clamp + ", -1; @!p add.u32 d, d, 0x1000000;",
              "b32", {"b32", "b32"}, {v, index});
    }
  // Half of the warp, each half with its own mask.
  l.row(".reg .pred q; .reg .b32 t; mov.u32 t, %laneid; setp.lt.u32 q, t, 16; mov.u32 d, 0; @q bra "
        "low; shfl.sync.bfly.b32 d, a, 3, 0x1f, 0xFFFF0000; bra join;\nlow: shfl.sync.idx.b32 d, "
        "a, 5, 0x1f, 0x0000FFFF;\njoin: bar.warp.sync -1;",
        "b32", {"b32"}, {v});
  for (const char* mode : {"all", "any", "uni"})
    for (const char* source : {"b", "!b"})
      l.row(std::string("vote.sync.") + mode + ".pred d, " + source + ", -1;", "pred",
            {"b32", "pred"}, {v, bit});
  l.row("vote.sync.ballot.b32 d, b, -1;", "b32", {"b32", "pred"}, {v, bit});
  l.row("vote.sync.all.pred d, b, -1;", "pred", {"b32", "pred"}, {v, {1}});
  l.row("match.any.sync.b32 d, a, -1;", "b32", {"b32"}, {small});
  l.row(".reg .b64 x; cvt.u64.u32 x, a; shl.b64 x, x, 33; match.any.sync.b64 d, x, -1;", "b32",
        {"b32"}, {small});
  l.row(".reg .pred p; match.all.sync.b32 d|p, a, -1; @p add.u32 d, d, 5;", "b32", {"b32"},
        {small});
  l.row(".reg .pred p; match.all.sync.b32 d|p, a, -1; @p add.u32 d, d, 5;", "b32", {"b32"}, {{9}});
  for (const char* op : {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32",
                         "and.b32", "or.b32", "xor.b32"})
    l.row(std::string("redux.sync.") + op + " d, a, -1;", "b32", {"b32"}, {v});
  l.row(".reg .pred p; elect.sync d|p, -1; @p add.u32 d, d, 100;", "b32", {"b32"}, {v});
  l.row("activemask.b32 d;", "b32", {"b32"}, {v});
  for (const char* s : {"laneid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt",
                        "lanemask_ge", "tid.x", "ntid.x", "ctaid.x", "nctaid.x"})
    l.row(std::string("mov.u32 d, %") + s + ";", "b32", {"b32"}, {v});
  // Which warp slot of the multiprocessor is a matter of the card.
  l.row(".reg .b32 w, n; .reg .pred p; mov.u32 w, %warpid; mov.u32 n, %nwarpid; "
        "setp.lt.u32 p, w, n; selp.u32 d, 1, 0, p;",
        "b32", {"b32"}, {v});
}

// One warp: 16 bytes a lane go to shared memory and come back through ldmatrix, and the other way.
void matrices(std::vector<Case>& cases) {
  const std::string head = R"(
  .shared .align 128 .b8 s[1024];
  .reg .b32 w<4>;
  mov.u32 %r0, %laneid;
  mov.u32 %r1, s;
  mad.lo.u32 %r2, %r0, 16, %r1;
  ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r0, 16; add.u64 %rd0, %rd0, %rd2; add.u64 %rd1, %rd1, %rd2;
  ld.global.v4.b32 {w0, w1, w2, w3}, [%rd0];
  // Rows in an order of their own: row i of the matrices at 16 ((5 i + 3) mod 32).
  mad.lo.u32 %r3, %r0, 5, 3; and.b32 %r3, %r3, 31; mad.lo.u32 %r3, %r3, 16, %r1;
)";
  for (uint32_t n : {1u, 2u, 4u})
    for (std::string trans : {"", ".trans"}) {
      std::string op = ".sync.aligned.m8n8.x" + std::to_string(n) + trans + ".shared.b16 ";
      Case c;
      c.family = "matrix loads and stores";
      c.scheduled = false;
      c.in("in", random_bytes(512, n)).out("out", 512);
      c.name = "ldmatrix" + op;
      c.body = head + "  st.shared.v4.b32 [%r2], {w0, w1, w2, w3};\n  bar.sync 0;\n  ldmatrix" +
               op + list("w", n) + ", [%r3];\n  st.global.v4.b32 [%rd1], {w0, w1, w2, w3};\n  ret;";
      cases.push_back(c);
      c.name = "stmatrix" + op;
      c.body = head + "  st.shared.v4.b32 [%r2], {0, 0, 0, 0};\n  bar.sync 0;\n  stmatrix" + op +
               "[%r3], " + list("w", n) +
               ";\n  bar.sync 0;\n  ld.shared.v4.b32 {w0, w1, w2, w3}, [%r2];\n"
               "  st.global.v4.b32 [%rd1], {w0, w1, w2, w3};\n  ret;";
      cases.push_back(c);
    }
  Lanes{cases, "matrix loads and stores"}.row("movmatrix.sync.aligned.m8n8.trans.b16 d, a;", "b32",
                                              {"b32"}, {random_words(512, 9)});
}

} // namespace

void add_warp_cases(std::vector<Case>& cases) {
  exchange({cases, "shuffles, votes, matches"});
  matrices(cases);
}

} // namespace wltest::oracle
