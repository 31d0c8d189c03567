// Branches, indirect branches, calls, exits, traps, printf and assert.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include <cstdio>
#include <unistd.h>

namespace {

using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::Vgpu;

// %r0 = thread; the body leaves a value in %r1, which goes to out[thread].
RunResult run(const std::string& body, std::vector<uint32_t>* out = nullptr,
              const std::string& head = "", uint32_t threads = 64) {
  Vgpu gpu;
  uint64_t address = gpu.allocate(4 * threads);
  std::vector<uint32_t> zero(threads, 0xFFFFFFFF);
  gpu.write(address, zero.data(), 4 * threads);
  Launch l;
  l.block = {threads, 1, 1};
  RunResult r = gpu.run(module_text("mov.u32 %r0, %tid.x; mov.u32 %r1, 0;\n" + body + R"(
    ld.param.u64 %rd60, [out]; mul.wide.u32 %rd61, %r0, 4; add.u64 %rd60, %rd60, %rd61;
    st.global.u32 [%rd60], %r1;
    ret;)",
                                    ".param .u64 out", "sm_100a", head),
                        Params().u64(address), l);
  if (out) *out = gpu.download<uint32_t>(address, threads);
  return r;
}

template <class F>
void expect(const std::string& body, F f, const std::string& head = "") {
  std::vector<uint32_t> out;
  RunResult r = run(body, &out, head);
  INFO(body);
  INFO(r.text);
  REQUIRE(r.ok);
  for (uint32_t t = 0; t < out.size(); ++t) {
    INFO("thread " << t);
    REQUIRE(out[t] == uint32_t(f(t)));
  }
}

// What the run prints on standard output.
std::string printed(const std::string& body, const std::string& head) {
  std::fflush(stdout);
  char name[] = "/tmp/vgpu_print_XXXXXX";
  int file = mkstemp(name), kept = dup(1);
  dup2(file, 1);
  RunResult r = run(body, nullptr, head, 2);
  std::fflush(stdout);
  dup2(kept, 1);
  close(kept);
  std::string text(4096, 0);
  lseek(file, 0, SEEK_SET);
  ssize_t n = read(file, text.data(), text.size());
  close(file);
  unlink(name);
  text.resize(n < 0 ? 0 : size_t(n));
  INFO(r.text);
  REQUIRE(r.ok);
  return text;
}

const char* const kPrint = R"(
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.extern .func __assertfail (.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);
)";

} // namespace

TEST_CASE("loops and divergent branches", "[virtual]") {
  // Collatz steps: every lane leaves the loop at its own time.
  expect(R"(
    add.u32 %r2, %r0, 1;
    loop: setp.eq.u32 %p0, %r2, 1;
    @%p0 bra done;
    and.b32 %r3, %r2, 1;
    setp.eq.u32 %p1, %r3, 0;
    add.u32 %r1, %r1, 1;
    @%p1 bra even;
    mad.lo.u32 %r2, %r2, 3, 1;
    bra.uni loop;
    even: shr.u32 %r2, %r2, 1;
    bra loop;
    done:)",
         [](uint32_t t) {
           uint32_t n = t + 1, steps = 0;
           for (; n != 1; ++steps) n = n & 1 ? 3 * n + 1 : n / 2;
           return steps;
         });
  expect(
      "setp.lt.u32 %p0, %r0, 7; @!%p0 bra over; mov.u32 %r1, 5; over: @%p0 add.u32 %r1, %r1, %r0;",
      [](uint32_t t) { return t < 7 ? 5 + t : 0; });
  // Lanes that have parted meet again: the shuffle finds all of them.
  expect(R"(
    and.b32 %r2, %r0, 3;
    setp.eq.u32 %p0, %r2, 0; @%p0 bra a;
    setp.eq.u32 %p0, %r2, 1; @%p0 bra b;
    mov.u32 %r3, 100; bra join;
    a: mov.u32 %r3, 200; bra join;
    b: mov.u32 %r3, 300;
    join: shfl.sync.bfly.b32 %r1, %r3, 1, 31, -1;)",
         [](uint32_t t) {
           uint32_t n = (t ^ 1) & 3;
           return n == 0 ? 200 : n == 1 ? 300 : 100;
         });
}

TEST_CASE("indirect branches", "[virtual]") {
  const char* body = R"(
    and.b32 %r2, %r0, 3;
    targets: .branchtargets one, two, three, four;
    brx.idx %r2, targets;
    one: mov.u32 %r1, 10; bra done;
    two: mov.u32 %r1, 20; bra done;
    three: mov.u32 %r1, 30; bra done;
    four: mov.u32 %r1, 40;
    done:)";
  expect(body, [](uint32_t t) { return (t & 3) * 10 + 10; });
  RunResult r = run("add.u32 %r2, %r0, 2; list: .branchtargets x, y; brx.idx %r2, list; x: y:");
  INFO(r.text);
  CHECK(r.faulted("control", "2 targets"));
}

TEST_CASE("exit, trap and breakpoints", "[virtual]") {
  std::vector<uint32_t> out;
  RunResult r = run("mov.u32 %r1, 3; setp.gt.u32 %p0, %r0, 40; @%p0 exit;", &out);
  INFO(r.text);
  REQUIRE(r.ok);
  for (uint32_t t = 0; t < 64; ++t) REQUIRE(out[t] == (t > 40 ? 0xFFFFFFFF : 3));
  r = run("setp.eq.u32 %p0, %r0, 37; @%p0 trap;");
  INFO(r.text);
  CHECK(r.faulted("trap", "lane 5"));
  CHECK(run("brkpt;").faulted("trap"));
  CHECK(run("pmevent 3;").ok);
  // A loop without an end is a timeout, not a hang.
  Vgpu gpu;
  Launch l;
  l.instruction_limit = 100000;
  r = gpu.run(module_text("forever: bra forever;"), Params(), l);
  INFO(r.text);
  CHECK(r.stage == RunResult::Stage::Run);
}

TEST_CASE("calls", "[virtual]") {
  const char* head = R"(
    .func (.param .b32 result) scaled (.param .b32 x, .param .b32 y)
    {
      .reg .b32 %r<4>;
      ld.param.b32 %r0, [x];
      ld.param.b32 %r1, [y];
      mul.lo.u32 %r2, %r0, %r1;
      st.param.b32 [result], %r2;
      ret;
    }
    .func (.reg .b32 result) twice (.reg .b32 x)
    {
      .reg .pred p;
      setp.gt.u32 p, x, 20;
      add.u32 result, x, x;
      @p ret;
      add.u32 result, result, 1000;
      ret;
    }
    .func (.param .b32 result) outer (.param .b32 x)
    {
      .reg .b32 v, t;
      ld.param.b32 v, [x];
      { .param .b32 a; .param .b32 b; .param .b32 r;
        st.param.b32 [a], v; st.param.b32 [b], 3;
        call.uni (r), scaled, (a, b);
        ld.param.b32 t, [r]; }
      add.u32 t, t, 1;
      st.param.b32 [result], t;
    }
  )";
  expect(R"({ .param .b32 a; .param .b32 b; .param .b32 r;
    st.param.b32 [a+0], %r0; st.param.b32 [b+0], 7;
    call.uni (r), scaled, (a, b);
    ld.param.b32 %r1, [r+0]; })",
         [](uint32_t t) { return 7 * t; }, head);
  // Divergent returns, and a call that only some lanes make.
  expect(
      "setp.lt.u32 %p0, %r0, 50; @%p0 call (%r1), twice, (%r0);",
      [](uint32_t t) { return t >= 50  ? 0
                              : t > 20 ? 2 * t
                                       : 2 * t + 1000; }, head);
  expect(R"({ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0;
    call.uni (r), outer, (a); ld.param.b32 %r1, [r]; })",
         [](uint32_t t) { return 3 * t + 1; }, head);
  CHECK(run("call.uni missing;", nullptr, ".extern .func missing;").refused("missing"));
}

TEST_CASE("printf and assert", "[virtual]") {
  const std::string head = std::string(kPrint) + R"(
    .global .align 1 .b8 fmt[46] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 32, 37, 53, 46, 50, 102, 32, 37, 108, 108,
      120, 32, 37, 115, 32, 37, 99, 32, 37, 37, 32, 37, 117, 124, 37, 45, 52, 105, 124, 37, 48, 51, 120, 10, 0, 0, 0};
    .global .align 1 .b8 word[4] = {97, 98, 99, 0};
    .global .align 1 .b8 cond[6] = {120, 32, 62, 32, 49, 0};
    .global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
  )";
  std::string text = printed(R"(
    .local .align 8 .b8 buffer[48]; .reg .b64 l, f, s; .reg .f64 d;
    cvt.rn.f64.u32 d, %r0; add.f64 d, d, 0d3FF4000000000000;
    st.local.u32 [buffer], %r0; st.local.f64 [buffer+8], d; st.local.u64 [buffer+16], 0x1234567890;
    cvta.global.u64 s, word; st.local.u64 [buffer+24], s; st.local.u32 [buffer+32], 65;
    st.local.u32 [buffer+36], 4000000000; st.local.u32 [buffer+40], -7; st.local.u32 [buffer+44], 10;
    cvta.local.u64 l, buffer; cvta.global.u64 f, fmt;
    { .param .b64 a; .param .b64 b; .param .b32 r;
      st.param.b64 [a], f; st.param.b64 [b], l;
      call.uni (r), vprintf, (a, b);
      ld.param.b32 %r1, [r]; })",
                             head);
  CHECK(text == "thread 0  1.25 1234567890 abc A % 4000000000|-7  |00a\n"
                "thread 1  2.25 1234567890 abc A % 4000000000|-7  |00a\n");
  RunResult r = run(R"(
    .reg .b64 c, f; cvta.global.u64 c, cond; cvta.global.u64 f, file;
    setp.ne.u32 %p0, %r0, 3; @%p0 bra fine;
    { .param .b64 a; .param .b64 b; .param .b32 n; .param .b64 d; .param .b64 e;
      st.param.b64 [a], c; st.param.b64 [b], f; st.param.b32 [n], 42; st.param.b64 [d], f; st.param.b64 [e], 1;
      call.uni __assertfail, (a, b, n, d, e); }
    fine:)",
                    nullptr, head);
  INFO(r.text);
  CHECK(r.faulted("assert", "a.cu:42"));
  CHECK(r.faulted("assert", "x > 1"));
  CHECK(r.code == vgpu::exec::FaultCode::asserted);
}
