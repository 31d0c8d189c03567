// mbarriers in all forms, named and warp barriers, clusters and distributed shared memory,
// setmaxnreg. Every body leaves one word in %r1 of each thread.
#include "tests/hardware/oracle_families.hpp"

namespace wltest::oracle {

namespace {

// %r0 = thread, %r2 = CTA's rank in its cluster, %p0 = thread 0.
const char* const kHead = R"(
  .shared .align 16 .b64 bar[8];
  .shared .align 16 .b32 words[512];
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r1, 0;
  setp.eq.u32 %p0, %r0, 0;
)";
const char* const kStore = R"(
  mov.u32 %r60, %ctaid.x;
  mov.u32 %r61, %ntid.x;
  mad.lo.u32 %r60, %r60, %r61, %r0;
  mul.wide.u32 %rd61, %r60, 4;
  add.u64 %rd60, %rd0, %rd61;
  st.global.u32 [%rd60], %r1;
  ret;
)";
const char* const kClusterSync = R"(
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
)";

struct Maker {
  std::vector<Case>& cases;
  std::string family;

  Case& add(const std::string& name, const std::string& body, uint32_t threads,
            uint32_t cluster = 1, const std::vector<uint32_t>& expected = {}) const {
    Case c;
    c.family = family;
    c.name = name;
    c.body = kHead + body + kStore;
    c.block = {threads, 1, 1};
    c.grid = c.cluster = {cluster, 1, 1};
    c.out("out", size_t(threads) * cluster * 4);
    c.expected = bytes_of(expected);
    cases.push_back(std::move(c));
    return cases.back();
  }
};

template <class F>
std::vector<uint32_t> words(uint32_t n, F f) {
  std::vector<uint32_t> v(n);
  for (uint32_t i = 0; i < n; ++i) v[i] = f(i);
  return v;
}

std::string init(uint32_t count) {
  return "  @%p0 mbarrier.init.shared::cta.b64 [bar], " + std::to_string(count) +
         ";\n  bar.sync 0;\n";
}

// %r1 = %r1 * 2 + predicate, and %r1 = %r1 * 16 + value.
const char* const kPush = "  selp.u32 %r50, 1, 0, %p1;\n  mad.lo.u32 %r1, %r1, 2, %r50;\n";
const char* const kPushCount = "  mad.lo.u32 %r1, %r1, 16, %r50;\n";

void mbarriers(const Maker& m) {
  m.add("arrivals complete a phase and order data", init(128) + R"(
  mov.u32 %r3, words;
  mad.lo.u32 %r4, %r0, 4, %r3;
  mad.lo.u32 %r5, %r0, 3, 7;
  st.shared.u32 [%r4], %r5;
  mbarrier.arrive.shared::cta.b64 _, [bar];
)" + bounded_wait("[bar]", "0", 0) + R"(
  xor.b32 %r6, %r0, 64;
  mad.lo.u32 %r6, %r6, 4, %r3;
  ld.shared.u32 %r1, [%r6];
)",
        128, 1, words(128, [](uint32_t i) { return (i ^ 64) * 3 + 7; }));

  // Pending counts of every state that a single thread passes through.
  for (uint32_t count : {1u, 2u, 5u, 8u}) {
    std::string body = "  mbarrier.init.b64 [bar], " + std::to_string(count) + ";\n";
    for (uint32_t i = 0; i < 2 * count; ++i)
      body += "  mbarrier.arrive.b64 %rd1, [bar];\n  mbarrier.pending_count.b64 %r50, %rd1;\n"
              "  mad.lo.u32 %r1, %r1, 11, %r50;\n"
              "  mbarrier.test_wait.b64 %p1, [bar], %rd1;\n" +
              std::string(kPush);
    m.add("pending counts, init " + std::to_string(count), body, 1);
  }
  m.add("count operands, noComplete, drop", std::string(R"(
  mbarrier.init.shared.b64 [bar], 8;
  mbarrier.arrive.shared.b64 %rd1, [bar], 3;
  mbarrier.pending_count.b64 %r50, %rd1;
)") + kPushCount + R"(
  mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd2, [bar], 2;
  mbarrier.pending_count.b64 %r50, %rd2;
)" + kPushCount + R"(
  mbarrier.arrive_drop.shared.b64 %rd3, [bar];
  mbarrier.pending_count.b64 %r50, %rd3;
)" + kPushCount + R"(
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
)" + kPush + R"(
  mbarrier.arrive.release.cta.shared.b64 _, [bar], 2;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
)" + kPush + R"(
  // One arrival was dropped: seven complete the next phase.
  mbarrier.arrive.shared.b64 %rd4, [bar], 6;
  mbarrier.pending_count.b64 %r50, %rd4;
)" + kPushCount + R"(
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;
)" + kPush + R"(
  mbarrier.arrive.shared.b64 _, [bar];
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;
)" + kPush + R"(
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;
)" + kPush,
        1);
  m.add("arrive_drop with and without a count", std::string(R"(
  mbarrier.init.shared.b64 [bar], 9;
  mbarrier.arrive_drop.noComplete.release.cta.shared.b64 %rd1, [bar], 2;
  mbarrier.pending_count.b64 %r50, %rd1;
)") + kPushCount + R"(
  mbarrier.arrive_drop.release.cta.shared::cta.b64 %rd2, [bar], 3;
  mbarrier.pending_count.b64 %r50, %rd2;
)" + kPushCount + R"(
  mbarrier.arrive.shared.b64 _, [bar], 4;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;
)" + kPush + R"(
  mbarrier.arrive.shared.b64 %rd3, [bar], 3;
  mbarrier.pending_count.b64 %r50, %rd3;
)" + kPushCount + R"(
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;
)" + kPush + R"(
  mbarrier.arrive.shared.b64 %rd3, [bar];
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;
)" + kPush,
        1);
  m.add(
      "parity of test_wait and try_wait through six phases",
      [] {
        std::string body = "  mbarrier.init.shared::cta.b64 [bar], 1;\n";
        for (int i = 0; i < 6; ++i) {
          for (const char* parity : {"0", "1"})
            body += std::string("  mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], ") +
                    parity + ";\n" + kPush;
          body += "  mbarrier.arrive.shared::cta.b64 %rd1, [bar];\n"
                  "  mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd1;\n" +
                  std::string(kPush);
        }
        return body;
      }(),
      1);
  m.add(
      "state wait with acquire, relaxed, scopes",
      [] {
        std::string body = "  mbarrier.init.shared::cta.b64 [bar], 1;\n";
        for (const char* f : {"test_wait.acquire.cta", "test_wait.acquire.cluster",
                              "try_wait.acquire.cta", "try_wait.acquire.cluster"})
          body += "  mbarrier.arrive.release.cluster.shared::cta.b64 %rd1, [bar];\n  mbarrier." +
                  std::string(f) + ".shared::cta.b64 %p1, [bar], %rd1;\n" + kPush;
        return body;
      }(),
      1);
  m.add("relaxed arrivals and waits", std::string(R"(
  mbarrier.init.shared::cta.b64 [bar], 2;
  mbarrier.arrive.relaxed.cta.shared::cta.b64 %rd1, [bar];
  mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %rd2, [bar], 16;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;
  mbarrier.test_wait.relaxed.cta.shared::cta.b64 %p1, [bar], %rd1;
)") + kPush,
        1);

  // Transactions: expect before and after completion, in one phase and in two.
  m.add("transactions gate the phase", std::string(R"(
  mbarrier.init.shared.b64 [bar], 2;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;
  mbarrier.arrive.shared.b64 %rd1, [bar];
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 48;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [bar], 32;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
)") + kPush + R"(
  mbarrier.complete_tx.shared::cta.b64 [bar], 8;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
)" + kPush + R"(
  mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [bar], 8;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;
)" + kPush,
        1, 1, {1});
  for (uint32_t bytes : {1u, 16u, 65536u, 1048575u})
    m.add("expect_tx of " + std::to_string(bytes),
          std::string(R"(
  mbarrier.init.shared.b64 [bar], 1;
  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd1, [bar], )") +
              std::to_string(bytes) + ";\n  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;\n" +
              kPush + "  mbarrier.complete_tx.shared::cta.b64 [bar], " + std::to_string(bytes) +
              ";\n  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;\n" + kPush,
          1, 1, {1});
  m.add("inval, then init again", std::string(R"(
  mbarrier.init.shared::cta.b64 [bar], 3;
  mbarrier.arrive.shared::cta.b64 _, [bar];
  mbarrier.inval.shared::cta.b64 [bar];
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.arrive.shared::cta.b64 %rd1, [bar];
  mbarrier.test_wait.shared::cta.b64 %p1, [bar], %rd1;
)") + kPush,
        1, 1, {1});
  m.add("the largest count", std::string(R"(
  mbarrier.init.shared::cta.b64 [bar], 1048575;
  mbarrier.arrive.shared::cta.b64 %rd1, [bar], 1048574;
  mbarrier.pending_count.b64 %r1, %rd1;
  mbarrier.arrive.shared::cta.b64 %rd2, [bar];
  mbarrier.pending_count.b64 %r50, %rd2;
  mad.lo.u32 %r1, %r50, 3, %r1;
  mbarrier.test_wait.shared::cta.b64 %p1, [bar], %rd1;
)") + kPush,
        1);

  // A producer thread and a consumer warp, full and empty barriers, twelve phases of two stages.
  m.add("producer and consumer, two stages, twelve phases", R"(
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1;
  @%p0 mbarrier.init.shared::cta.b64 [bar+16], 32;
  @%p0 mbarrier.init.shared::cta.b64 [bar+24], 32;
  bar.sync 0;
  mov.u32 %r10, 0;
  mov.u32 %r40, bar;
  mov.u32 %r41, words;
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra consumer;
  @!%p0 bra done;
produce:
  and.b32 %r11, %r10, 1;
  shr.u32 %r12, %r10, 1;
  xor.b32 %r12, %r12, 1;
  and.b32 %r12, %r12, 1;
  mad.lo.u32 %r13, %r11, 8, %r40;
)" + bounded_wait("[%r13+16]", "%r12", 0) + R"(
  mad.lo.u32 %r14, %r10, %r10, 5;
  mad.lo.u32 %r15, %r11, 4, %r41;
  st.shared.u32 [%r15], %r14;
  mbarrier.arrive.release.cta.shared::cta.b64 _, [%r13];
  add.u32 %r10, %r10, 1;
  setp.lt.u32 %p4, %r10, 12;
  @%p4 bra produce;
  bra done;
consumer:
  and.b32 %r11, %r10, 1;
  shr.u32 %r12, %r10, 1;
  and.b32 %r12, %r12, 1;
  mad.lo.u32 %r13, %r11, 8, %r40;
)" + bounded_wait("[%r13]", "%r12", 1) + R"(
  mad.lo.u32 %r15, %r11, 4, %r41;
  ld.shared.u32 %r14, [%r15];
  mad.lo.u32 %r1, %r1, 3, %r14;
  mbarrier.arrive.shared::cta.b64 _, [%r13+16], 1;
  add.u32 %r10, %r10, 1;
  setp.lt.u32 %p4, %r10, 12;
  @%p4 bra consumer;
done:
)",
        64);
}

void named_barriers(const Maker& m) {
  m.add("sync by number and count", R"(
  mov.u32 %r3, words;
  mad.lo.u32 %r4, %r0, 4, %r3;
  st.shared.u32 [%r4], %r0;
  mov.u32 %r9, 3;
  mov.u32 %r10, 128;
  barrier.cta.sync.aligned %r9, %r10;
  xor.b32 %r6, %r0, 127;
  mad.lo.u32 %r6, %r6, 4, %r3;
  ld.shared.u32 %r1, [%r6];
)",
        128, 1, words(128, [](uint32_t i) { return i ^ 127; }));
  m.add("arrive of one warp, sync of another", R"(
  mov.u32 %r1, 9;
  setp.ge.u32 %p1, %r0, 64;
  @%p1 bra done;
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra consumer;
  @%p0 st.shared.u32 [words], 41;
  bar.arrive 1, 64;
  bra done;
consumer:
  bar.sync 1, 64;
  ld.shared.u32 %r1, [words];
done:
)",
        128, 1, words(128, [](uint32_t i) { return i / 32 == 1 ? 41u : 9u; }));
  for (const char* op : {"popc.u32", "and.pred", "or.pred"}) {
    std::string o = op;
    bool popc = o == "popc.u32";
    m.add("red." + o,
          R"(
  mul.lo.u32 %r3, %r0, 0x9E3779B1;
  setp.gt.u32 %p1, %r3, 0x30000000;
)" + std::string(popc ? "  bar.red.popc.u32 %r1, 0, %p1;\n  bar.red.popc.u32 %r3, 2, 256, !%p1;\n"
                        "  mad.lo.u32 %r1, %r3, 1000, %r1;\n"
                      : "  bar.red." + o + " %p2, 0, %p1;\n  bar.red." + o +
                            " %p3, 5, 256, !%p1;\n  selp.u32 %r1, 1, 0, %p2;\n"
                            "  @%p3 add.u32 %r1, %r1, 2;\n"),
          256);
  }
  m.add(
      "all sixteen barriers in turn",
      [] {
        std::string b = "  mov.u32 %r3, words;\n";
        for (int i = 0; i < 16; ++i)
          b += "  mad.lo.u32 %r4, %r0, 4, %r3;\n  st.shared.u32 [%r4], %r1;\n  bar.sync " +
               std::to_string(i) +
               ";\n  add.u32 %r5, %r0, 37;\n  and.b32 %r5, %r5, 127;\n"
               "  mad.lo.u32 %r5, %r5, 4, %r3;\n  ld.shared.u32 %r6, [%r5];\n"
               "  mad.lo.u32 %r1, %r6, 3, %r0;\n  bar.sync 0;\n";
        return b;
      }(),
      128);
  m.add("warp barrier orders shared memory", R"(
  mov.u32 %r3, words;
  mad.lo.u32 %r4, %r0, 4, %r3;
  st.shared.u32 [%r4], %r0;
  bar.warp.sync -1;
  xor.b32 %r5, %r0, 31;
  mad.lo.u32 %r5, %r5, 4, %r3;
  ld.shared.u32 %r1, [%r5];
)",
        64, 1, words(64, [](uint32_t i) { return i ^ 31; }));
  m.add("unaligned barrier, lanes of a warp apart", R"(
  and.b32 %r3, %r0, 1;
  setp.eq.u32 %p1, %r3, 0;
  @%p1 bra even;
  add.u32 %r1, %r0, 100;
  barrier.sync 1;
  bra join;
even:
  barrier.sync 1;
  add.u32 %r1, %r0, 200;
join:
)",
        96, 1, words(96, [](uint32_t i) { return i + (i & 1 ? 100 : 200); }));
}

void clusters(const Maker& m) {
  for (uint32_t n : {1u, 2u, 3u, 4u, 6u, 8u}) {
    std::string size = std::to_string(n), of = " of " + size;
    m.add("ranks and sizes" + of, R"(
  mov.u32 %r3, %cluster_nctarank;
  mov.u32 %r4, %clusterid.x;
  mov.u32 %r5, %nclusterid.x;
  mov.u32 %r6, %cluster_ctaid.x;
  mov.u32 %r7, %cluster_nctaid.x;
  mad.lo.u32 %r1, %r2, 16, %r3;
  mad.lo.u32 %r1, %r1, 16, %r4;
  mad.lo.u32 %r1, %r1, 16, %r5;
  mad.lo.u32 %r1, %r1, 16, %r6;
  mad.lo.u32 %r1, %r1, 16, %r7;
)",
          32, n);
    // Each CTA writes the next CTA's memory, all read their own.
    const std::string next = R"(
  add.u32 %r3, %r2, 1;
  setp.eq.u32 %p1, %r3, )" + size +
                             R"(;
  @%p1 mov.u32 %r3, 0;
  mov.u32 %r4, words;
  mad.lo.u32 %r5, %r0, 4, %r4;
  mapa.shared::cluster.u32 %r6, %r5, %r3;
)";
    m.add("remote stores" + of, kClusterSync + next + R"(
  mad.lo.u32 %r7, %r2, 1000, %r0;
  st.shared::cluster.u32 [%r6], %r7;
)" + kClusterSync + "  ld.shared.u32 %r1, [%r5];\n",
          64, n, words(64 * n, [n](uint32_t i) { return (i / 64 + n - 1) % n * 1000 + i % 64; }));
    m.add("remote loads, address read back" + of, next + R"(
  mad.lo.u32 %r7, %r2, 1000, %r0;
  st.shared.u32 [%r5], %r7;
)" + kClusterSync + R"(
  ld.shared::cluster.u32 %r1, [%r6];
  getctarank.shared::cluster.u32 %r8, %r6;
  mad.lo.u32 %r1, %r8, 100000, %r1;
)" + kClusterSync,
          64, n, words(64 * n, [n](uint32_t i) { return (i / 64 + 1) % n * 101000 + i % 64; }));
    m.add("remote atomics" + of, std::string(R"(
  @%p0 st.shared.u32 [words], 0;
)") + kClusterSync + R"(
  mov.u32 %r4, words;
  mapa.shared::cluster.u32 %r6, %r4, 0;
  mad.lo.u32 %r7, %r2, 64, %r0;
  atom.shared::cluster.add.u32 %r8, [%r6], %r7;
  red.shared::cluster.max.u32 [%r6+4], %r7;
)" + kClusterSync + R"(
  ld.shared::cluster.u32 %r1, [%r6];
)" + kClusterSync,
          64, n);
    m.add("remote arrivals" + of,
          "  @%p0 mbarrier.init.shared::cta.b64 [bar], " + std::to_string(32 * n) + R"(;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r3, bar;
  mov.u32 %r1, 7;
  mapa.shared::cluster.u32 %r4, %r3, 0;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra skip;
)" + bounded_wait("[bar]", "0", 0) +
              R"(
  mov.u32 %r1, 5;
skip:
)" + kClusterSync,
          32, n, words(32 * n, [](uint32_t i) { return i < 32 ? 5u : 7u; }));
    // Every CTA sends 16 bytes a thread to the next one, or to itself, which counts them.
    for (bool self : {false, true}) {
      if (self && n > 2) continue;
      Case& c = m.add((self ? "st.async to the own CTA" : "st.async") + of,
                      "  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;\n" + next +
                          "  fence.mbarrier_init.release.cluster;\n" + kClusterSync + R"(
  mov.u32 %r20, bar;
)" + (self ? "  mov.u32 %r3, %r2;" : "") +
                          R"(
  mapa.shared::cluster.u32 %r21, %r20, %r3;
  mad.lo.u32 %r5, %r0, 16, %r4;
  mapa.shared::cluster.u32 %r6, %r5, %r3;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
  mad.lo.u32 %r7, %r2, 1000, %r0;
  add.u32 %r8, %r7, 1; add.u32 %r9, %r7, 2; add.u32 %r10, %r7, 3;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r6], {%r7, %r8, %r9, %r10}, [%r21];
)" + bounded_wait("[bar]", "0", 0) +
                          R"(
  ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r5];
  mad.lo.u32 %r1, %r7, 3, %r8; mad.lo.u32 %r1, %r1, 3, %r9; mad.lo.u32 %r1, %r1, 3, %r10;
)" + kClusterSync,
                      32, n);
      if (n > 1) continue;
      c.cluster_launch = self;
      if (self)
        c.name += ", in a launch with clusters of 1";
      else
        c.refused = "without a cluster";
    }
    for (const char* op :
         {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32"}) {
      if (n == 4 || (n == 1 && op[0] != 'a')) continue;
      m.add(std::string("red.async ") + op + of,
            std::string("  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;\n"
                        "  @%p0 st.shared.u32 [words], 0x55;\n") +
                "  fence.mbarrier_init.release.cluster;\n" + kClusterSync + R"(
  mov.u32 %r20, bar; mov.u32 %r22, words;
  mapa.shared::cluster.u32 %r21, %r20, 0;
  mapa.shared::cluster.u32 %r23, %r22, 0;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra send;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
                std::to_string(128 * n) + R"(;
send:
  mad.lo.u32 %r7, %r2, 37, %r0;
  add.u32 %r7, %r7, 11;
)" + std::string(op[0] == 'i' ? "  mov.u32 %r7, 20;\n" : "") +
                R"(  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.)" +
                op + R"( [%r23], %r7, [%r21];
  @%p2 bra skip;
)" + bounded_wait("[bar]", "0", 0) +
                R"(
  ld.shared.u32 %r1, [words];
skip:
)" + kClusterSync,
            32, n);
      if (n == 1) m.cases.back().refused = "without a cluster";
    }
    m.add("generic address of a neighbour" + of, next + R"(
  cvt.u64.u32 %rd5, %r5;
  cvta.shared.u64 %rd5, %rd5;
  mapa.u64 %rd6, %rd5, %r3;
  mad.lo.u32 %r7, %r2, 1000, %r0;
)" + kClusterSync + R"(
  st.u32 [%rd6], %r7;
)" + kClusterSync + R"(
  ld.u32 %r1, [%rd5];
  isspacep.shared::cluster %p1, %rd6;
  isspacep.shared::cta %p2, %rd6;
  @%p1 add.u32 %r1, %r1, 100000;
  @%p2 add.u32 %r1, %r1, 200000;
  getctarank.u64 %r8, %rd6;
  mad.lo.u32 %r1, %r8, 1000000, %r1;
)",
          64, n);
  }
}

void register_moves(const Maker& m) {
  // Three warpgroups: one gives registers away, two take them and use them.
  Case& c = m.add("a producer gives, two consumers take", R"(
  shr.u32 %r3, %r0, 7;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra consumer;
  setmaxnreg.dec.sync.aligned.u32 40;
  mov.u32 %r1, 3;
  bra done;
consumer:
  setmaxnreg.inc.sync.aligned.u32 232;
  mad.lo.u32 %r1, %r0, %r0, %r3;
done:
)",
                  384, 1, words(384, [](uint32_t i) { return i < 128 ? 3 : i * i + i / 128; }));
  c.directives = ".minnctapersm 1\n";
  Case& d = m.add("down and up again", R"(
  setmaxnreg.dec.sync.aligned.u32 96;
  add.u32 %r1, %r0, 1;
  bar.sync 0;
  setmaxnreg.dec.sync.aligned.u32 24;
  bar.sync 0;
  setmaxnreg.inc.sync.aligned.u32 160;
  mad.lo.u32 %r1, %r1, 7, %r0;
)",
                  256, 1, words(256, [](uint32_t i) { return (i + 1) * 7 + i; }));
  d.directives = ".minnctapersm 1\n";
}

} // namespace

void add_sync_cases(std::vector<Case>& cases) {
  mbarriers({cases, "mbarrier"});
  named_barriers({cases, "named barriers"});
  clusters({cases, "clusters, distributed shared memory"});
  register_moves({cases, "setmaxnreg"});
}

} // namespace wltest::oracle
