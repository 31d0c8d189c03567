// What other people's kernels do beside the ISA's letter: rules of tools/vgpu/check/rules.def that
// are told and go on. The card says whether what follows is right; the virtual H200 runs lenient.
#include "tests/hardware/oracle_families.hpp"

namespace wltest::oracle {

namespace {

// %rd0 = out, %r0 = thread, %p0 = thread 0, %r2 = 1024-byte aligned shared memory of 4096 bytes.
const char* const kHead = R"(
  .shared .align 1024 .b8 buf[4096];
  .shared .align 16 .b64 bar[4];
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p0, %r0, 0;
  mov.u32 %r2, buf;
)";

Case& add(std::vector<Case>& cases, const std::string& name, const std::string& body,
          uint32_t threads, const std::vector<uint32_t>& expected) {
  Case c;
  c.family = "manners";
  c.name = name;
  c.body = kHead + body;
  c.block = {threads};
  c.lenient = true;
  c.out("out", bytes_of(std::vector<uint32_t>(expected.size(), 0)));
  c.expected = bytes_of(expected);
  cases.push_back(std::move(c));
  return cases.back();
}

std::vector<uint32_t> filled(size_t n, std::initializer_list<uint32_t> first) {
  std::vector<uint32_t> v(first);
  v.resize(n, 0);
  return v;
}

const std::string kArriveAndWait =
    "  mbarrier.arrive.shared::cta.b64 _, [bar];\n" + bounded_wait("[bar]", "0", 0) + R"(
  st.global.u32 [%rd0], 5;
  ret;
)";

void barriers(std::vector<Case>& cases) {
  add(cases, "try_wait that is only looked at answers false", R"(
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  selp.b32 %r1, 1, 0, %p1;
  st.global.u32 [%rd0+4], %r1;
)" + kArriveAndWait,
      1, {5, 0});
  add(cases, "mbarrier.init on a live mbarrier that nobody has used", R"(
  mbarrier.init.shared::cta.b64 [bar], 3;
  mbarrier.init.shared::cta.b64 [bar], 1;
)" + kArriveAndWait,
      1, {5});
  add(cases, "mbarrier.init on an mbarrier of a later phase", R"(
  mbarrier.init.shared::cta.b64 [bar], 2;
  mbarrier.arrive.shared::cta.b64 _, [bar];
  mbarrier.arrive.shared::cta.b64 _, [bar];
  mbarrier.arrive.shared::cta.b64 _, [bar];
  mbarrier.init.shared::cta.b64 [bar], 1;
)" + kArriveAndWait,
      1, {5});
  add(cases, "words over an mbarrier that is over", R"(
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.init.shared::cta.b64 [bar+8], 1;
  st.shared.u32 [bar+12], 9;
  ld.shared.u32 %r1, [bar+12];
  st.global.u32 [%rd0+4], %r1;
)" + kArriveAndWait,
      1, {5, 9});
  for (const char* parity : {"0xFFFFFFFF", "3", "0x80000001"})
    add(cases, std::string("try_wait for parity ") + parity,
        std::string(R"(
  mbarrier.init.shared::cta.b64 [bar], 1;
  mov.u32 %r1, )") +
            parity + ";\n" + bounded_wait("[bar]", "%r1", 1) + kArriveAndWait,
        1, {5});
  for (const char* parity : {"0xFFFFFFFE", "2"})
    add(cases, std::string("test_wait for parity ") + parity,
        std::string(R"(
  mbarrier.init.shared::cta.b64 [bar], 1;
  mov.u32 %r1, )") +
            parity +
            R"(;
  mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], %r1;
  selp.b32 %r1, 1, 0, %p1;
  st.global.u32 [%rd0+4], %r1;
)" + kArriveAndWait,
        1, {5, 0});
}

// Word i of the buffer is 3 i + 1.
const char* const kFill = R"(
  mov.u32 %r3, %r0;
fill:
  shl.b32 %r4, %r3, 2;
  add.u32 %r4, %r4, %r2;
  mad.lo.u32 %r5, %r3, 3, 1;
  st.shared.u32 [%r4], %r5;
  add.u32 %r3, %r3, 32;
  setp.lt.u32 %p2, %r3, 1024;
  @%p2 bra fill;
  fence.proxy.async.shared::cta;
  bar.sync 0;
)";

void stores(std::vector<Case>& cases) {
  std::vector<uint32_t> all(1024);
  for (uint32_t i = 0; i < 1024; ++i) all[i] = 3 * i + 1;
  add(cases, "a CTA leaves while its bulk store reads", std::string(kFill) + R"(
  @!%p0 ret;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 4096;
  cp.async.bulk.commit_group;
  ret;
)",
      32, all);
  add(cases, "32 lanes, one bulk reduction each", R"(
  mov.u32 %r1, 1;
  @%p0 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};
  fence.proxy.async.shared::cta;
  bar.warp.sync 0xffffffff;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r2], 16;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
)",
      32, {32, 32, 32, 32, 0});
  // Of a tensor's store nothing is seen but that it is right; of a reduction how often it was done:
  // asked, for shipped kernels let one lane do it.
  for (const bool reduce : {false, true}) {
    Case& c = add(cases,
                  std::string("32 lanes with equal operands: a tensor ") +
                      (reduce ? "reduction" : "store"),
                  std::string(kFill) + R"(
  mov.b64 %rd4, m0;
  cvta.param.u64 %rd4, %rd4;
  cp.)" +
                      (reduce ? "reduce.async.bulk.tensor.1d.global.shared::cta.add.tile"
                              : "async.bulk.tensor.1d.global.shared::cta.tile") +
                      R"(.bulk_group [%rd4, {0}], [%r2];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
)",
                  32, filled(64, {}));
    Map m;
    m.type = 2; // u32
    m.dim = {64};
    m.box = {64};
    m.element_stride = {1};
    c.maps.push_back(m);
    for (uint32_t i = 0; i < 64; ++i) all[i] = 3 * i + 1;
    c.expected = bytes_of(std::vector<uint32_t>(all.begin(), all.begin() + 64));
    if (!reduce) continue;
    c.expected.clear();
    c.compare = Compare::measured;
    c.analyse = [](const Case&, const std::vector<uint8_t>& gpu, const std::vector<uint8_t>& v) {
      auto times = [](const std::vector<uint8_t>& b) {
        return b.size() < 8 ? std::string("nothing known")
                            : std::to_string(int(b[4]) / 4) + " times"; // word 1: 4 each time
      };
      return "the card adds " + times(gpu) + ", the virtual H200 " + times(v);
    };
  }
}

void registers(std::vector<Case>& cases) {
  const std::string end = "\n  bar.sync 0;\n  @%p0 st.global.u32 [%rd0], 4;\n  ret;\n";
  const std::string warp = "  shr.u32 %r9, %r0, 5;\n  setp.eq.u32 %p3, %r9, 1;\n";
  add(cases, "setmaxnreg.dec of other numbers in one warpgroup",
      warp +
          "  @%p3 bra other;\n  setmaxnreg.dec.sync.aligned.u32 40;\n  bra on;\nother:\n"
          "  setmaxnreg.dec.sync.aligned.u32 48;\non:" +
          end,
      128, {4})
      .directives = ".minnctapersm 1\n";
  add(cases, "setmaxnreg.dec twice without a barrier",
      "  setmaxnreg.dec.sync.aligned.u32 64;\n  setmaxnreg.dec.sync.aligned.u32 40;" + end, 128,
      {4})
      .directives = ".minnctapersm 1\n";
}

} // namespace

void add_manner_cases(std::vector<Case>& cases) {
  barriers(cases);
  stores(cases);
  registers(cases);
  add(cases, "fence.proxy.tensormap of address 0", R"(
  mov.b64 %rd1, 0;
  fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
  @%p0 st.global.u32 [%rd0], 1;
  ret;
)",
      32, {1});
}

} // namespace wltest::oracle
