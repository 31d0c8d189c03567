// alloca, stacksave and stackrestore: addresses, limits, what returns give back.
#include "tests/virtual/warp_text.hpp"

#include "tools/vgpu/check/options.hpp"

namespace {

using namespace lane_ops;
using wltest::Launch;
using wltest::Params;
using wltest::RunResult;
using wltest::Vgpu;

// 64 threads; %r30 of each goes to out.
RunResult run(const std::string& body, const std::string& functions = "", uint32_t checks = 0,
              std::vector<uint32_t>* out = nullptr, uint32_t stack = 1024) {
  Vgpu gpu;
  Launch l;
  l.block = {64, 1, 1};
  l.checks = checks;
  l.stack_bytes = stack;
  const uint64_t to = gpu.allocate(256);
  const std::string text = wltest::module_text(
      "  ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;\n"
      "  add.u64 %rd0, %rd0, %rd1;\n" +
          body + "\n  st.global.u32 [%rd0], %r30;\n  ret;",
      ".param .u64 out");
  const size_t entry = text.find(".visible .entry");
  RunResult r =
      gpu.run(text.substr(0, entry) + functions + text.substr(entry), Params().u64(to), l);
  if (out) *out = gpu.download<uint32_t>(to, 64);
  return r;
}

std::vector<uint32_t> must_run(const std::string& body, const std::string& functions = "") {
  std::vector<uint32_t> out;
  RunResult r = run(body, functions, vgpu::check::kAll, &out);
  INFO(body);
  INFO(r.text);
  REQUIRE(r.ok);
  return out;
}

// Fills n + 1 words of its own stack, calls itself for n - 1 and sums what is left afterwards.
const std::string kRecursive = R"(
.func (.reg .b32 result) nest(.reg .b32 n)
{
  .reg .b32 i, x, size, p, below;
  .reg .pred last;
  mov.u32 result, 0;
  setp.eq.u32 last, n, 0;
  @last ret;
  mad.lo.u32 size, n, 4, 4;
  alloca.u32 p, size, 16;
  mov.u32 i, 0;
fill:
  mad.lo.u32 x, i, 4, p;
  add.u32 below, i, n;
  st.local.u32 [x], below;
  add.u32 i, i, 1;
  setp.le.u32 last, i, n;
  @last bra fill;
  sub.u32 below, n, 1;
  call (result), nest, (below);
  mov.u32 i, 0;
sum:
  mad.lo.u32 x, i, 4, p;
  ld.local.u32 below, [x];
  add.u32 result, result, below;
  add.u32 i, i, 1;
  setp.le.u32 last, i, n;
  @last bra sum;
  ret;
}
)";

} // namespace

TEST_CASE("alloca: every thread has memory of its own", "[virtual][stack]") {
  // Thread t takes 4 (t + 1) bytes, writes t at both ends by ld.local and by generic addresses.
  const std::vector<uint32_t> out = must_run(R"(
  mad.lo.u32 %r1, %r0, 4, 4;
  cvt.u64.u32 %rd2, %r1;
  stacksave.u64 %rd5;
  alloca.u64 %rd3, %rd2, 64;
  st.local.u32 [%rd3], %r0;
  cvta.local.u64 %rd4, %rd3;
  add.u64 %rd4, %rd4, %rd2;
  st.u32 [%rd4-4], %r0;
  alloca.u64 %rd6, 24;          // the next one lies below
  st.local.u64 [%rd6], %rd5; st.local.u64 [%rd6+8], %rd5; st.local.u64 [%rd6+16], %rd5;
  ld.local.u32 %r2, [%rd3];
  ld.u32 %r3, [%rd4-4];
  add.u32 %r30, %r2, %r3;
  and.b64 %rd7, %rd3, 63; cvt.u32.u64 %r4, %rd7; mad.lo.u32 %r30, %r4, 10000, %r30;
  and.b64 %rd7, %rd6, 7; cvt.u32.u64 %r4, %rd7; mad.lo.u32 %r30, %r4, 10000, %r30;
  stackrestore.u64 %rd5;
  stacksave.u64 %rd7;
  sub.u64 %rd7, %rd7, %rd5; cvt.u32.u64 %r4, %rd7; mad.lo.u32 %r30, %r4, 10000, %r30;)");
  for (uint32_t t = 0; t < 64; ++t) REQUIRE(out[t] == 2 * t);
}

TEST_CASE("alloca: a loop that gives back may go on for ever", "[virtual][stack]") {
  const std::vector<uint32_t> out = must_run(R"(
  mov.u32 %r1, 0; mov.u32 %r30, 0;
again:
  stacksave.u32 %r2;
  alloca.u32 %r3, 512;
  st.local.u32 [%r3+508], %r1;
  ld.local.u32 %r4, [%r3+508];
  add.u32 %r30, %r30, %r4;
  stackrestore.u32 %r2;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, 100;
  @%p0 bra again;)");
  for (uint32_t x : out) REQUIRE(x == 4950);
}

TEST_CASE("alloca: a return gives back, and only what is its own", "[virtual][stack]") {
  const std::string functions = R"(
.func (.reg .b32 address) inner()
{
  alloca.u32 address, 400;
  st.local.u32 [address], 7;
  ret;
}
)";
  // Twice 400 bytes fit only when the first were given back; what the caller took stays.
  const std::vector<uint32_t> out = must_run(R"(
  alloca.u32 %r1, 400;
  st.local.u32 [%r1+396], %r0;
  call (%r2), inner;
  call (%r3), inner;
  sub.u32 %r30, %r2, %r3;
  ld.local.u32 %r4, [%r1+396];
  add.u32 %r30, %r30, %r4;)",
                                             functions);
  for (uint32_t t = 0; t < 64; ++t) REQUIRE(out[t] == t);
  RunResult r = run("  call (%r2), inner;\n  ld.local.u32 %r30, [%r2];", functions);
  INFO(r.text);
  CHECK(r.faulted("stack", "lies below the thread's stack pointer"));
}

TEST_CASE("alloca: recursion keeps every activation's memory", "[virtual][stack]") {
  const std::vector<uint32_t> out =
      must_run("  and.b32 %r1, %r0, 7;\n  call (%r30), nest, (%r1);", kRecursive);
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t want = 0;
    for (uint32_t n = 1; n <= t % 8; ++n)
      for (uint32_t i = 0; i <= n; ++i) want += i + n;
    INFO(t);
    REQUIRE(out[t] == want);
  }
}

TEST_CASE("alloca: limits and what is wrong", "[virtual][stack]") {
  std::vector<uint32_t> out;
  const std::string body = "  mov.u32 %r30, 1;\n";
  CHECK(run(body + "  alloca.u32 %r1, 1024;").ok);
  CHECK(run(body + "  alloca.u32 %r1, 0;").ok);
  CHECK(run(body + "  alloca.u32 %r1, 1025;")
            .faulted("stack", "alloca of 1025 bytes, alignment 8: of the thread's stack of 1024 "
                              "bytes 1024 are left"));
  CHECK(run(body + "  alloca.u32 %r1, 1025;", "", 0, nullptr, 1040).ok);
  CHECK(run(body + "  alloca.u64 %rd3, -8;").faulted("stack", "1024 are left"));
  CHECK(run(body + "  .local .b8 pad[8];\n  alloca.u32 %r1, 8, 4096;")
            .faulted("stack", "alignment 4096"));
  CHECK(run(body + "  alloca.u32 %r1, 8, 24;").refused("a constant power of 2 up to 8388608"));
  CHECK(run(body + "  alloca.u32 %r1, 8, 16777216;").refused("a constant power of 2"));
  CHECK(run(body + "  stacksave.u32 %r1;\n  alloca.u32 %r2, 64;\n  stackrestore.u32 %r1;\n"
                   "  ld.local.u32 %r30, [%r2];")
            .faulted("stack", "no alloca has given that memory, or it was given back"));
  CHECK(run(body + "  stacksave.u32 %r1;\n  alloca.u32 %r2, 64;\n  stacksave.u32 %r3;\n"
                   "  stackrestore.u32 %r1;\n  stackrestore.u32 %r3;")
            .faulted("stack", "which no stacksave of this call has given"));
  CHECK(run(body + "  stacksave.u32 %r1;\n  add.u32 %r1, %r1, 8;\n  stackrestore.u32 %r1;")
            .faulted("stack", "where the function's part of the stack begins"));
  // A callee may not give back what its caller took.
  const std::string greedy = ".func greedy(.reg .b32 to)\n{\n  .reg .b32 p;\n  alloca.u32 p, 8;\n"
                             "  stackrestore.u32 to;\n  ret;\n}\n";
  CHECK(run(body + "  stacksave.u32 %r1;\n  alloca.u32 %r2, 64;\n  call greedy, (%r1);", greedy)
            .faulted("stack", "where the function's part of the stack begins"));
  CHECK(run(body + "  stacksave.u32 %r1;\n  call greedy, (%r1);", greedy).ok);
}

TEST_CASE("alloca: its bytes are undefined until they are written", "[virtual][stack]") {
  using vgpu::check::kDefinedness;
  const std::string take = "  alloca.u32 %r1, 16;\n";
  RunResult r =
      run(take + "  st.local.u32 [%r1], 5;\n  ld.local.u32 %r30, [%r1+4];", "", kDefinedness);
  INFO(r.text);
  CHECK(r.faulted("definedness", "output"));
  CHECK(
      run(take + "  st.local.u32 [%r1+4], 5;\n  ld.local.u32 %r30, [%r1+4];", "", kDefinedness).ok);
  // Given back and taken again: undefined again.
  const std::string twice = "  stacksave.u32 %r2;\n" + take +
                            "  st.local.u32 [%r1], 5;\n  stackrestore.u32 %r2;\n" + take +
                            "  ld.local.u32 %r30, [%r1];";
  CHECK(run(twice, "", kDefinedness).faulted("definedness", "output"));
  CHECK(run(twice).ok);
  CHECK(run("  alloca.u32 %r1, %r9;\n  mov.u32 %r30, 1;", "", kDefinedness)
            .faulted("definedness", "operand"));
}

// n activations that each store a word in a frame of 12 bytes, hand its address down and add what
// lies above.
const std::string kFrames = R"(
.func (.reg .b32 result) down (.reg .b32 n, .reg .b64 above)
{
  .local .align 4 .b8 frame[12];
  .reg .b32 x, y, z;
  .reg .b64 here, next;
  .reg .pred last;
  mov.u64 here, frame;
  st.local.u32 [frame+4], n;
  ld.local.u32 x, [above+4];
  mov.u32 result, x;
  setp.eq.u32 last, n, 0;
  @last ret;
  sub.u32 y, n, 1;
  mov.u64 next, frame;
  call (z), down, (y, next);
  ld.local.u32 x, [here+4];
  setp.ne.u32 last, x, n;
  @last trap;
  mad.lo.u32 result, z, 2, result;
  ret;
}
)";

TEST_CASE("recursion: every activation has .local variables of its own", "[virtual][stack]") {
  const std::string body = "  .local .align 4 .b8 top[12];\n  mov.u32 %r1, 100;\n"
                           "  st.local.u32 [top+4], %r1;\n  mov.u64 %rd3, top;\n"
                           "  and.b32 %r2, %r0, 15;\n  call (%r30), down, (%r2, %rd3);";
  const std::vector<uint32_t> out = must_run(body, kFrames);
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t want = t % 16 ? 1 : 100;
    for (uint32_t above = 2; t % 16 && above <= t % 16; ++above) want = want * 2 + above;
    if (t % 16) want = want * 2 + 100;
    INFO(t);
    REQUIRE(out[t] == want);
  }
  RunResult r = run(body, kFrames, 0, nullptr, 100);
  INFO(r.text);
  CHECK(r.faulted("stack", "a call of 'down' for its .local variables of 12 bytes, alignment 4: of "
                           "the thread's stack of 112 bytes 4 are left"));
}

TEST_CASE("recursion: .local variables count as written", "[virtual][stack]") {
  // The word at frame+8 is nobody's, as padding of a structure is.
  std::string functions = kFrames;
  const std::string load = "  ld.local.u32 x, [above+4];\n";
  functions.replace(functions.find("  mov.u32 result, x;"), 0, "  ld.local.u32 x, [frame+8];\n");
  const std::string body = "  .local .align 4 .b8 top[12];\n  mov.u64 %rd3, top;\n"
                           "  call (%r30), down, (3, %rd3);\n  mov.u32 %r30, 1;";
  RunResult r = run(body, functions, vgpu::check::kDefinedness);
  INFO(r.text);
  CHECK(r.ok);
}
