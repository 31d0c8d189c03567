// tcgen05 in CTA pairs: collective allocation, MMAs over two CTAs, multicast commits.
// Layouts: PTX ISA 9.7.16.10.5 (A: 256 rows, B: 128 rows of a pair), 9.7.16.10.7 (scales).
#include "tests/virtual/tcgen05_text.hpp"

using namespace wltest;
using namespace wltest::tcgen05;

namespace {

const std::string kMeet =
    "  barrier.cluster.arrive.relaxed.aligned;\n  barrier.cluster.wait.aligned;\n";

// Both CTAs take their part of the image (`bytes` each), allocate together, and meet.
// %r2 = rank, %p8 = thread 0 of the leader.
std::string pair_head(uint32_t bytes, uint32_t columns) {
  return R"(
  mov.u32 %r0, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  shr.u32 %r9, %r0, 5;
  setp.eq.u32 %p0, %r0, 0;
  setp.eq.u32 %p9, %r9, 0;
  setp.eq.u32 %p7, %r2, 0;
  and.pred %p8, %p0, %p7;
)" + kMeet +
         R"(
  @%p9 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], )" +
         std::to_string(columns) + R"(;
  @%p9 tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
  mov.u32 %r20, dynamic;
  ld.param.u64 %rd1, [image];
  mul.wide.u32 %rd8, %r2, )" +
         std::to_string(bytes) + R"(;
  add.u64 %rd1, %rd1, %rd8;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @!%p0 bra fetched;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
         std::to_string(bytes) + R"(;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1], )" +
         std::to_string(bytes) + R"(, [bar];
fetched:
w0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra w0;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ld.shared.b32 %r10, [slot];
  and.b32 %r21, %r20, 0x3FFFF;
  shr.u32 %r21, %r21, 4;
  cvt.u64.u32 %rd2, %r21;
)";
}
// Everyone waits for the commit, stores 128 lanes x n columns to out[rank][lane][n], frees.
std::string pair_tail(uint32_t n, uint32_t columns) {
  return std::string(kCommitWait) + R"(
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)" + kOwnLanes +
         R"(
  ld.param.u64 %rd9, [out];
  mul.wide.u32 %rd8, %r2, )" +
         std::to_string(128 * n * 4) + R"(;
)" +
         [&] {
           // store_rows starts from [out]; shift it by the rank.
           std::string s = store_rows(n);
           size_t at = s.find("add.u64 %rd30");
           s.insert(at, "add.u64 %rd0, %rd0, %rd8;\n  ");
           return s;
         }() +
         R"(
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @%p9 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, )" +
         std::to_string(columns) + ";\n  ret;\n";
}
const char* const kCommit = R"(
  mov.u16 %h1, 3;
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar+8], %h1;
issued:
)";

RunResult run_pair(const std::string& body, const std::vector<uint8_t>& image, uint32_t n,
                   const std::string& schedule, std::vector<uint32_t>* out) {
  Vgpu gpu;
  uint64_t in = gpu.upload(image), to = gpu.allocate(2 * 128 * n * 4);
  Launch launch = block(128, uint32_t(image.size() / 2));
  launch.grid = launch.cluster = {2};
  launch.schedule = schedule;
  RunResult r = gpu.run(module_text(kShared + body, kParams, "sm_100a", kDynamic),
                        Params().u64(in).u64(to), launch);
  if (r.ok && out) *out = gpu.download<uint32_t>(to, 2 * 128 * n);
  return r;
}

// A pair's NVFP4 problem of m rows: CTA c holds rows c * m/2 .. of A, columns c * n/2 .. of B as
// rows, its rows' scales of A, and the scales of B as `b_scales` puts them.
struct PairProblem {
  uint32_t m, n;
  std::vector<uint8_t> a, b, sfa, sfb, image;
  uint32_t b_at = 16384, sfa_at, sfb_at, bytes;

  PairProblem(uint32_t m_, uint32_t n_, uint32_t seed) : m(m_), n(n_) {
    a = random_bytes(m * 32, seed);
    b = random_bytes(n * 32, seed + 1);
    sfa = random_bytes(m * 4, seed + 2, 0x3F);
    sfb = random_bytes(n * 4, seed + 3, 0x3F);
    sfa_at = b_at + n / 2 * 128;
    sfb_at = sfa_at + 512;
    bytes = sfb_at + 1024;
    for (uint32_t c = 0; c < 2; ++c) {
      std::vector<uint8_t> part = random_bytes(bytes, seed + 4 + c);
      auto slice = [](const std::vector<uint8_t>& v, uint32_t i) {
        size_t half = v.size() / 2;
        return std::vector<uint8_t>(v.begin() + ptrdiff_t(i * half),
                                    v.begin() + ptrdiff_t((i + 1) * half));
      };
      place(part, Fp4Problem::operand(0), slice(a, c), m / 2, 32);
      place(part, Fp4Problem::operand(b_at), slice(b, c), n / 2, 32);
      auto atom = [&](const std::vector<uint8_t>& s, uint32_t first, uint32_t rows, uint32_t at) {
        for (uint32_t r = 0; r < rows; ++r)
          for (uint32_t j = 0; j < 4; ++j)
            part[at + r % 32 * 16 + r / 32 * 4 + j] = s[(first + r) * 4 + j];
      };
      atom(sfa, c * m / 2, m / 2, sfa_at);
      if (m == 256) {
        atom(sfb, 0, n, sfb_at);
      } else {
        // Rows 0-31 of the 64 source rows: the low half of N; rows 32-63: the high half.
        atom(sfb, 0, n / 2, sfb_at);
        atom(sfb, n / 2, n / 2, sfb_at + 512);
      }
      image.insert(image.end(), part.begin(), part.end());
    }
  }
  float value(uint32_t row, uint32_t col) const {
    float d = 0;
    for (uint32_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (uint32_t k = 16 * j; k < 16 * j + 16; ++k)
        sum += double(e2m1(a[row * 32 + k / 2] >> 4 * (k % 2) & 15)) *
               double(e2m1(b[col * 32 + k / 2] >> 4 * (k % 2) & 15));
      d = float(double(d) +
                sum * double(ue4m3(sfa[row * 4 + j])) * double(ue4m3(sfb[col * 4 + j])));
    }
    return d;
  }
  std::string issue() const {
    std::string s = "  @!%p8 bra issued;\n  add.u32 %r12, %r10, 128;\n  add.u32 %r13, %r10, 132;\n";
    auto desc = [&](const char* reg, const layout::MatrixDesc& d) {
      s += std::string("  add.s64 ") + reg + ", %rd2, " +
           desc_text(layout::matrix_desc_tcgen05(d)) + ";\n";
    };
    desc("%rd3", Fp4Problem::operand(0));
    desc("%rd4", Fp4Problem::operand(b_at));
    desc("%rd5", Fp4Problem::scale_atom(sfa_at));
    desc("%rd6", Fp4Problem::scale_atom(sfb_at));
    s += "  mov.u32 %r15, " +
         std::to_string(layout::fp4_instruction_desc(layout::ScaleType::ue4m3, m, n)) + ";\n";
    s += "  tcgen05.cp.cta_group::2.32x128b.warpx4 [%r12], %rd5;\n";
    s += std::string("  tcgen05.cp.cta_group::2.") +
         (m == 256 ? "32x128b.warpx4" : "64x128b.warpx2::01_23") + " [%r13], %rd6;\n";
    s += "  tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16 [%r10], %rd3, %rd4, %r15, "
         "[%r12], [%r13], 0;\n";
    return s + kCommit;
  }
};

} // namespace

TEST_CASE("tcgen05 pairs: NVFP4 of 256 rows", "[virtual][tcgen05]") {
  const uint32_t n = 64;
  PairProblem p(256, n, 21);
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::vector<uint32_t> out;
    RunResult r = run_pair(pair_head(p.bytes, 256) + p.issue() + pair_tail(n, 256), p.image, n,
                           schedule, &out);
    INFO(r.text);
    REQUIRE(r.ok);
    for (uint32_t row = 0; row < 256; ++row)
      for (uint32_t c = 0; c < n; ++c) REQUIRE(as_float(out[row * n + c]) == p.value(row, c));
  }
}

TEST_CASE("tcgen05 pairs: NVFP4 of 128 rows, N in two halves", "[virtual][tcgen05]") {
  const uint32_t n = 64;
  PairProblem p(128, n, 31);
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::vector<uint32_t> out;
    RunResult r = run_pair(pair_head(p.bytes, 256) + p.issue() + pair_tail(n / 2, 256), p.image,
                           n / 2, schedule, &out);
    INFO(r.text);
    REQUIRE(r.ok);
    // Lane m + 64 for the high half of N, 64 rows a CTA.
    for (uint32_t row = 0; row < 128; ++row)
      for (uint32_t c = 0; c < n; ++c) {
        uint32_t lane = row % 64 + 64 * (c >= n / 2);
        INFO("row " << row << " column " << c);
        REQUIRE(as_float(out[(row / 64 * 128 + lane) * (n / 2) + c % (n / 2)]) == p.value(row, c));
      }
  }
}

TEST_CASE("tcgen05 pairs: what the two CTAs must agree on", "[virtual][tcgen05]") {
  auto run_body = [](const std::string& body, const std::string& schedule) {
    return run_pair(R"(
  mov.u32 %r0, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p7, %r2, 0;
  shr.u32 %r9, %r0, 5;
  setp.eq.u32 %p9, %r9, 0;
)" + kMeet + R"(
  @!%p9 bra done;
)" + body + "done:\n  barrier.cluster.arrive;\n  barrier.cluster.wait;\n  ret;\n",
                    std::vector<uint8_t>(32), 1, schedule, nullptr);
  };
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    // Blocked until the other is freed: 512 + 512 do not fit.
    RunResult r = run_body(R"(
  mov.u32 %r3, 64;
  @%p7 mov.u32 %r3, 32;
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], %r3;
)",
                           schedule);
    INFO(r.text);
    CHECK(r.faulted("tmem", "disagree"));
    // Only one CTA of the pair comes.
    r = run_body(
        "@!%p7 bra done;\n tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;",
        schedule);
    INFO(r.text);
    CHECK(r.faulted("deadlock"));
    r = run_body(R"(
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 256;
  ld.shared.b32 %r10, [slot];
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
  ld.shared.b32 %r11, [slot];
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 256;
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r11, 128;
)",
                 schedule);
    INFO(r.text);
    CHECK(r.ok);
  }
  Vgpu gpu;
  RunResult r = gpu.run(
      module_text(std::string(kShared) +
                  "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32; ret;"),
      Params(), block(32));
  CHECK(r.faulted("cta_group", "peer"));
}

namespace {
// A pair of CTAs of three warps that allocate and free 32 columns; %r2 = rank, %r9 = warp.
RunResult run_allocation(const std::string& before, const std::string& schedule, bool strict = true,
                         uint32_t ctas = 2, const std::string& after = "") {
  Vgpu gpu;
  Launch launch = block(96);
  launch.grid = launch.cluster = {ctas};
  launch.schedule = schedule;
  launch.strict = strict;
  return gpu.run(module_text(kShared + std::string(R"(
  .shared .align 4 .b32 place[4];
  mov.u32 %r0, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  xor.b32 %r3, %r2, 1;
  shr.u32 %r9, %r0, 5;
  setp.eq.u32 %p0, %r0, 0;
  mov.u32 %r5, place;
  mov.u32 %r4, 1; // the warp that allocates
)") + before + R"(
  setp.eq.u32 %p9, %r9, %r4;
  @!%p9 bra done;
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r5], 32;
  ld.shared.b32 %r10, [%r5];
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 32;
done:
)" + after + R"(
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
)"),
                 Params(), launch);
}
} // namespace

TEST_CASE("tcgen05 pairs: warp and offset of an allocation are the same", "[virtual][tcgen05]") {
  for (const std::string& schedule : schedules()) {
    INFO(schedule);
    CHECK(run_allocation(kMeet, schedule).ok);
    RunResult r = run_allocation(kMeet + "  mov.u32 %r4, %r2;\n", schedule);
    INFO(r.text);
    CHECK(r.faulted("tmem", "by warp 0 to shared offset"));
    CHECK(r.faulted("tmem", "by warp 1 to"));
    r = run_allocation(kMeet + "  shl.b32 %r6, %r2, 2;\n  add.u32 %r5, %r5, %r6;\n", schedule);
    INFO(r.text);
    CHECK(r.faulted("tmem", "warp and offset must be the same"));
  }
}

TEST_CASE("tcgen05 pairs: the peer must have started before an allocation",
          "[virtual][tcgen05][stagger]") {
  std::vector<std::string> all = schedules();
  for (int seed = 0; seed < 8; ++seed) all.push_back("stagger:" + std::to_string(seed));
  // CTA 1 waits at the barrier of the cluster and then signals CTA 0, whose warp 0 waits for that
  // and has still to wait at the barrier.
  auto signalled =
      [](const std::string& expect, const std::string& signal, const std::string& tell) {
        return R"(
  setp.eq.u32 %p4, %r2, 0;
  setp.eq.u32 %p5, %r9, 0;
  and.pred %p6, %p0, %p4;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  )" + expect + R"(
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive;
  @!%p4 barrier.cluster.wait;
  mov.u32 %r6, bar;
  mapa.shared::cluster.u32 %r7, %r6, 0;
  mov.u32 %r8, place;
  mapa.shared::cluster.u32 %r8, %r8, 0;
  not.pred %p7, %p4;
  and.pred %p7, %p7, %p0;
  @%p7 )" + signal +
               R"(
  and.pred %p8, %p4, %p5;
  @!%p8 bra told;
wait:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra wait;
told:
  )" + tell;
      };
  const std::string arrival = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];",
                    bytes = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 "
                            "[%r8+12], %r0, [%r7];",
                    announce = "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;",
                    close = "  @%p4 barrier.cluster.wait;\n";
  for (const std::string& schedule : all) {
    INFO(schedule);
    RunResult r = run_allocation("", schedule);
    INFO(r.text);
    CHECK(r.faulted("start", "has not started") != r.faulted("start", "has started"));
    // Arrived, not waited.
    r = run_allocation("  barrier.cluster.arrive.relaxed.aligned;\n", schedule, true, 2,
                       "  barrier.cluster.wait.aligned;\n");
    INFO(r.text);
    CHECK(r.faulted("start"));
    for (const uint32_t ctas : {2u, 4u}) CHECK(run_allocation(kMeet, schedule, true, ctas).ok);
    // Warp 0 alone knows; warp 1 allocates.
    const std::string one = "  setp.eq.u32 %p3, %r9, 0;\n"
                            "  barrier.cluster.arrive.relaxed;\n"
                            "  @!%p3 bra later;\n  barrier.cluster.wait;\nlater:\n",
                      others = "  @!%p3 barrier.cluster.wait;\n";
    r = run_allocation(one + "  bar.sync 0;\n" + others, schedule);
    INFO(r.text);
    CHECK(r.ok);
    for (const bool by_bytes : {false, true}) {
      auto text = [&](const char* tell) {
        return by_bytes ? signalled(announce, bytes, tell) : signalled("", arrival, tell);
      };
      r = run_allocation(text("bar.sync 0;"), schedule, true, 2, close);
      INFO(r.text);
      CHECK(r.ok);
      r = run_allocation(text(""), schedule, true, 2, close); // warp 1 knows nothing
      INFO(r.text);
      CHECK(r.faulted("start"));
    }
    // Kernels of others: told, and the allocation waits for the peer.
    r = run_allocation("", schedule, false);
    INFO(r.text);
    REQUIRE(r.ok);
    REQUIRE(r.stats.errors().size() >= 1);
    CHECK_THAT(*r.stats.errors().begin(), ContainsSubstring("rule peer-start"));
  }
}

TEST_CASE("tcgen05: a second allocation waits for room", "[virtual][tcgen05]") {
  // Warp 1 asks for 512 columns while warp 0 holds 512; it gets them when warp 0 gives them back.
  for (const std::string& schedule : schedules()) {
    Vgpu gpu;
    Launch launch = block(64);
    launch.schedule = schedule;
    RunResult r = gpu.run(module_text(std::string(kShared) + R"(
  mov.u32 %r0, %tid.x;
  setp.ge.u32 %p1, %r0, 32;
  @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
  bar.sync 0;
  @%p1 bra second;
  ld.shared.b32 %r1, [slot];
  nanosleep.u32 100;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 512;
  ret;
second:
  tcgen05.alloc.cta_group::1.sync.aligned.b32 [slot], 512;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;
  ret;
)"),
                          Params(), launch);
    INFO(schedule << "\n" << r.text);
    CHECK(r.ok);
  }
}
