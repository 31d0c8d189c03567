// Syntax tree to program: scopes, layouts, special registers, calls, and what is refused.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/ptx/parser.hpp"

#include <random>

namespace {

using namespace vgpu;
using wltest::Launch;
using wltest::module_text;
using wltest::Params;
using wltest::RunResult;
using wltest::Vgpu;

// A decoded entry and the module it points into.
struct Decoded {
  ptx::Module module;
  std::unique_ptr<exec::Program> program;
  explicit Decoded(const std::string& text) : module(ptx::parse(text)) {
    for (const ptx::Function& f : module.functions)
      if (f.is_entry) program = isa::decode(module, f, {});
  }
};

std::string refusal(const std::string& text) {
  try {
    Decoded d(text);
  } catch (const isa::DecodeError& e) {
    return e.what();
  }
  return "";
}

// What is said about one line in a body with registers a, b, c (b32), d (b64), h (b16), p (pred).
std::string refusal_of(const std::string& line) {
  return refusal(module_text(
      "  .reg .b32 a, b, c;\n  .reg .b64 d;\n  .reg .b16 h;\n  .reg .pred p;\n" + line));
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

// Runs a body in which every thread leaves a value in %r1; returns the values of the block.
std::vector<uint32_t> values(const std::string& body, Launch launch = {},
                             const std::string& head = "") {
  Vgpu gpu;
  const size_t threads = size_t(launch.block.count()) * launch.grid.count();
  const uint64_t out = gpu.allocate(threads * 4);
  RunResult r = gpu.run(module_text(body + "\n  ld.param.u64 %rd60, [out];\n"
                                           "  mov.u32 %r60, %ctaid.x;\n  mov.u32 %r61, %ntid.x;\n"
                                           "  mov.u32 %r62, %tid.x;\n"
                                           "  mad.lo.u32 %r60, %r60, %r61, %r62;\n"
                                           "  mul.wide.u32 %rd61, %r60, 4;\n"
                                           "  add.u64 %rd60, %rd60, %rd61;\n"
                                           "  st.global.u32 [%rd60], %r1;\n",
                                    ".param .u64 out", "sm_100a", head),
                        Params().u64(out), launch);
  INFO(r.text);
  REQUIRE(r.ok);
  return gpu.download<uint32_t>(out, threads);
}

uint32_t value(const std::string& body, const std::string& head = "") {
  return values(body, {.block = {1}}, head)[0];
}

} // namespace

TEST_CASE("refusals name line, text and reason", "[virtual][decode]") {
  contains(refusal_of("frobnicate.u32 a, b;"), "frobnicate.u32 a, b;");
  contains(refusal_of("frobnicate.u32 a, b;"), "no 'frobnicate'");
  contains(refusal_of("add.u32 a, x, b;"), "'x' is not declared");
  contains(refusal_of("add.u32 x, a, b;"), "'x' is not declared");
  contains(refusal_of("add.u32 a, d, b;"), "64 bits");
  contains(refusal_of("add.u32 a, h, b;"), "16 bits");
  contains(refusal_of("add.u16 h, h, a;"), "32 bits");
  contains(refusal_of("add.u32 a, p, b;"), "a predicate");
  contains(refusal_of("@a add.u32 a, b, c;"), "no predicate register");
  contains(refusal_of("@q add.u32 a, b, c;"), "'q' is not declared");
  contains(refusal_of("add.f32 a, b, 1;"), "an integer in place of a float");
  contains(refusal_of("bra nowhere;"), "no label 'nowhere'");
  contains(refusal_of("mov.u32 a, %tidx.x;"), "unknown special register");
  contains(refusal_of("mov.u64 d, %tid.x;"), "at most 32 bits");
  contains(refusal_of(".reg .b32 a;"), "declared twice");
  contains(refusal_of("L: ret;\nL: ret;"), "there twice");
  contains(refusal_of(".shared .b8 s[];"), "no size");
  contains(refusal_of(".local .b8 s[600000];"), "524288");
  contains(refusal_of(".shared .b8 s[20000000];"), "232448 bytes of static shared memory");
  contains(refusal_of(".shared .b8 s[232000]; .shared .b8 t[449];"), "'t' of 449 bytes");
}

TEST_CASE("a target that lacks the instruction is refused", "[virtual][decode]") {
  const std::string body = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";
  contains(refusal(module_text(body, "", "sm_90a")), "needs .target");
}

TEST_CASE("only entries with 64-bit addresses are decoded", "[virtual][decode]") {
  contains(refusal(".version 9.0\n.target sm_90\n.address_size 32\n.entry k() { ret; }"),
           "address_size");
}

TEST_CASE("directives and entry registers", "[virtual][decode]") {
  auto registers = [](const std::string& directives) {
    return Decoded(".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() " + directives +
                   " { ret; }")
        .program->entry_registers;
  };
  CHECK(registers("") == 255);
  CHECK(registers(".maxntid 128, 1, 1") == 255);
  CHECK(registers(".maxntid 384, 1, 1 .minnctapersm 1") == 168);
  CHECK(registers(".maxntid 384") == 168);
  CHECK(registers(".reqntid 512, 1, 1") == 128);
  CHECK(registers(".maxntid 256, 1, 1 .minnctapersm 2") == 128);
  CHECK(registers(".maxntid 300") == 200); // ten warps
  CHECK(registers(".maxnreg 40") == 40);
  CHECK(registers(".maxntid 1024 .maxnreg 255") == 64);
  Decoded d(".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() .reqntid 32, 2 "
            ".reqnctapercluster 2 .maxclusterrank 4 { ret; }");
  CHECK(d.program->reqntid[1] == 2);
  CHECK(d.program->reqntid[2] == 1);
  CHECK(d.program->reqcluster[0] == 2);
  CHECK(d.program->maxclusterrank == 4);
  CHECK(d.program->target == "sm_100a");
}

TEST_CASE("parameters lie as the C ABI lays them out", "[virtual][decode]") {
  Decoded d(module_text("ret;", ".param .u8 a, .param .u32 b, .param .u16 c, .param .u64 d, "
                                ".param .align 64 .b8 map[128], .param .u8 e, "
                                ".param .u64 .ptr .global .align 128 f"));
  const auto& p = d.program->params;
  REQUIRE(p.size() == 7);
  const uint32_t offsets[] = {0, 4, 8, 16, 64, 192, 200};
  for (size_t i = 0; i < 7; ++i) CHECK(p[i].offset == offsets[i]);
  CHECK(d.program->param_bytes == 208);
}

TEST_CASE("shared variables: alignment, dynamic part behind the static one", "[virtual][decode]") {
  Decoded d(module_text(".shared .b8 one[3];\n .shared .align 8 .b64 bar[2];\n .shared .b32 w;\n"
                        "mov.u32 %r1, dyn;\n",
                        "", "sm_100a",
                        ".extern .shared .align 1024 .b8 dyn[];\n"
                        ".shared .b8 unused[4096];\n"));
  const auto& s = d.program->shared_symbols;
  REQUIRE(s.size() == 4);
  CHECK(s[0].offset == exec::kSharedBase);
  CHECK(s[1].offset == exec::kSharedBase + 8);
  CHECK(s[2].offset == exec::kSharedBase + 24);
  CHECK(d.program->static_shared_bytes == 28);
  CHECK(d.program->dynamic_shared_offset == 2048);
  CHECK(s[3].offset == 2048);
}

TEST_CASE("blocks hide names, labels belong to blocks", "[virtual][decode]") {
  CHECK(value("mov.u32 %r1, 1;\n{ .reg .b32 %r<4>;\n mov.u32 %r1, 2; }\n") == 1);
  CHECK(value("mov.u32 %r1, 1;\n{ .reg .b32 %r<4>;\n { mov.u32 %r1, 2; } }\n"
              "{ mov.u32 %r1, 3; }") == 3);
  CHECK(value("mov.u32 %r1, 0;\n"
              "{ bra DONE; mov.u32 %r1, 1; DONE: add.u32 %r1, %r1, 2; }\n"
              "{ bra DONE; mov.u32 %r1, 1; DONE: add.u32 %r1, %r1, 4; }\n"
              "bra DONE; mov.u32 %r1, 1; DONE: add.u32 %r1, %r1, 8;\n") == 14);
  // A label of an outer block is in reach, behind its last statement too.
  CHECK(value("mov.u32 %r1, 5;\n{ bra OUT; }\nmov.u32 %r1, 6;\nOUT:\n") == 5);
  contains(refusal_of("{ INNER: ret; }\nbra INNER;"), "no label 'INNER'");
  // %r12 of %r<20> and of %r1<5> are different registers of the same name.
  contains(refusal(module_text(".reg .b32 %x1<3>;\nmov.u32 %x13, 1;")), "not declared");
  CHECK(value(".reg .b32 %x<2>;\n.reg .b32 %x1<3>;\nmov.u32 %x1, 1; mov.u32 %x12, 2;\n"
              "add.u32 %r1, %x1, %x12;") == 3);
}

TEST_CASE("vector registers", "[virtual][decode]") {
  CHECK(value(".reg .v2 .b32 v;\nmov.u32 v.x, 3;\nmov.u32 v.y, 4;\nsub.u32 %r1, v.y, v.x;") == 1);
  // The letters of colours name the same elements.
  CHECK(value(".reg .v4 .b32 v;\nmov.v4.u32 v, {3, 5, 7, 11};\nsub.u32 %r1, v.a, v.r;\n"
              "mad.lo.u32 %r1, v.g, 100, %r1;\nsub.u32 %r1, %r1, v.b;") == 11 - 3 + 500 - 7);
  contains(refusal_of(".reg .v2 .b32 v;\nmov.u32 a, v.b;"), "'v.b' is not declared");
}

TEST_CASE("immediates", "[virtual][decode]") {
  CHECK(value("mov.u32 %r1, -1;") == 0xFFFFFFFF);
  CHECK(value("mov.b16 %h1, -1;\nmov.u32 %r1, 0;\nmov.b32 %r1, {%h1, %h1};") == 0xFFFFFFFF);
  CHECK(value("mov.f32 %f1, 1.0;\nmov.b32 %r1, %f1;") == 0x3F800000);
  CHECK(value("mov.f32 %f1, -0f3F800000;\nmov.b32 %r1, %f1;") == 0xBF800000);
  CHECK(value("mov.u32 %r1, WARP_SZ;") == 32);
  CHECK(value("mov.f64 %d1, 0f3F800000;\nmov.b64 {%r2, %r1}, %d1;") == 0x3FF00000);
}

TEST_CASE("special registers", "[virtual][decode]") {
  auto tid = values("mov.u32 %r1, %laneid;\nmov.u32 %r2, %warpid;\nmad.lo.u32 %r1, %r2, 100, %r1;",
                    {.block = {64}});
  CHECK(tid[0] == 0);
  CHECK(tid[31] == 31);
  CHECK(tid[33] == 101);
  CHECK(values("mov.u32 %r1, %nctaid.x;", {.grid = {3}})[0] == 3);
  CHECK(values("mov.u32 %r1, %ctaid.x;", {.grid = {3}})[64] == 2);
  CHECK(values("mov.u32 %r1, %lanemask_lt;")[5] == 31);
  CHECK(values("mov.u32 %r1, %cluster_ctarank;", {.grid = {4}, .cluster = {2}})[32 * 3] == 1);
  CHECK(values("mov.u32 %r1, %clusterid.x;", {.grid = {4}, .cluster = {2}})[32 * 3] == 1);
  CHECK(value("mov.u32 %r1, %ntid.y;") == 1);
  // Vectors, whole.
  const std::string all = "mov.v4.u32 {%r2, %r3, %r4, %r5}, %tid;\n.reg .v4 .b32 n;\n"
                          "mov.v4.b32 n, %ntid;\nmad.lo.u32 %r1, %r4, n.y, %r3;\n"
                          "mad.lo.u32 %r1, %r1, n.x, %r2;\nmul.lo.u32 %r1, %r1, n.w;\n"
                          "add.u32 %r1, %r1, %r5;\n";
  const auto linear = values(all + "mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0;\n"
                                   "@%p1 ret;\nmov.u32 %r2, %tid.g; setp.ne.u32 %p1, %r2, 1;\n"
                                   "@%p1 ret;\nmov.u32 %r2, %tid.z; setp.ne.u32 %p1, %r2, 2;\n"
                                   "@%p1 ret;",
                             {.block = {4, 3, 5}});
  CHECK(linear[0] == (2 * 3 + 1) * 4);
  CHECK(values("mov.v4.s32 {%r1, %r2, _, %r3}, %cluster_ctaid;\nadd.u32 %r1, %r1, %r3;",
               {.grid = {4}, .cluster = {2}})[32 * 3] == 1);
  for (const char* name : {"%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_nctaid"})
    CHECK(value(std::string("mov.v4.u32 {%r2, %r1, %r3, %r4}, ") + name +
                ";\nadd.u32 %r1, %r1, %r3;\nadd.u32 %r1, %r1, %r4;") ==
          (std::string_view(name).find("nc") != std::string_view::npos ? 3 : 0));
  // 16-bit code takes the low half.
  CHECK(values("mov.u16 %h1, %ctaid.x;\ncvt.u32.u16 %r1, %h1;", {.grid = {65539}})[65538 * 32] ==
        2);
  CHECK(value("mov.v4.u16 {%h1, %h2, %h3, %h4}, %ntid;\nmov.b32 %r1, {%h2, %h4};") == 0x10001);
  contains(refusal_of("mov.v2.u32 {a, b}, %tid;"), "must have 2 elements");
  contains(refusal_of("mov.u32 a, %tid;"), "'%tid' has four elements");
  contains(refusal_of("mov.v4.u32 {a, b, c, _}, %laneid;"), "must have 4 elements");
  CHECK(value("mov.u64 %rd1, %gridid;\nmov.b64 {%r1, %r2}, %rd1;\nmov.u32 %r1, 7;") == 7);
  CHECK(value("mov.pred %p1, %is_explicit_cluster;\nselp.u32 %r1, 1, 2, %p1;") != 0);
  CHECK(value("mov.u32 %r1, %total_smem_size;") < 1u << 20);
}

TEST_CASE("addresses of shared variables carry the CTA's rank", "[virtual][decode]") {
  const std::string head = ".shared .align 16 .b8 area[64];\n";
  CHECK(value("mov.u32 %r1, area;", head) == exec::kSharedBase);
  CHECK(value("mov.u32 %r1, area+20;", head) == exec::kSharedBase + 20);
  CHECK(value("mov.u64 %rd1, area;\nmov.b64 {%r1, %r2}, %rd1;", head) == exec::kSharedBase);
  auto v = values("mov.u32 %r1, area;", {.grid = {2}, .cluster = {2}}, head);
  CHECK(v[0] == exec::kSharedBase);
  CHECK(v[32] == (1u << 24 | exec::kSharedBase));
  CHECK(value("st.shared.u32 [area+8], 77;\nmov.u32 %r2, area;\nld.shared.u32 %r1, [%r2+8];",
              head) == 77);
}

TEST_CASE("module variables: initial values, pointers, zeros", "[virtual][decode]") {
  const std::string head = ".global .u32 first = 11;\n.const .u32 table[4] = {1, 2, 3};\n"
                           ".global .u64 pointer = generic(table)+8;\n.global .u32 zero[4];\n"
                           ".global .f32 real = 1.0;\n.extern .global .u32 elsewhere;\n";
  CHECK(value("ld.global.u32 %r1, [first];", head) == 11);
  CHECK(value("ld.const.u32 %r1, [table+4];", head) == 2);
  CHECK(value("ld.const.u32 %r1, [table+12];", head) == 0);
  CHECK(value("ld.global.u32 %r1, [zero+12];", head) == 0);
  CHECK(value("ld.global.u32 %r1, [real];", head) == 0x3F800000);
  CHECK(value("ld.global.u64 %rd1, [pointer];\nld.u32 %r1, [%rd1];", head) == 3);
  CHECK(value("mov.u64 %rd1, first;\nst.global.u32 [%rd1], 5;\nld.global.u32 %r1, [first];",
              head) == 5);
  contains(refusal(module_text("ld.global.u32 %r1, [elsewhere];", "", "sm_100a", head)),
           "not defined");
}

TEST_CASE("local variables", "[virtual][decode]") {
  auto v = values(".local .align 16 .b8 depot[64];\n.local .b32 other;\n"
                  "mov.u32 %r2, %tid.x;\nst.local.u32 [depot+4], %r2;\nst.local.u32 [other], 9;\n"
                  "mov.u64 %rd1, depot;\nld.local.u32 %r1, [%rd1+4];\n");
  for (uint32_t i = 0; i < 32; ++i) CHECK(v[i] == i);
}

TEST_CASE("the end of a kernel is its exit", "[virtual][decode]") {
  CHECK(value("mov.u32 %r1, 3;") == 3); // values() ends without ret
}

TEST_CASE("calls with register parameters", "[virtual][decode]") {
  const std::string head = ".func (.reg .b32 r) triple (.reg .b32 x)\n"
                           "{ .reg .b32 t; add.u32 t, x, x; add.u32 r, t, x; ret; }\n";
  auto v = values("mov.u32 %r2, %tid.x;\ncall (%r1), triple, (%r2);\n"
                  "call (%r3), triple, (%r1);\nadd.u32 %r1, %r1, %r3;",
                  {}, head);
  for (uint32_t i = 0; i < 32; ++i) CHECK(v[i] == 12 * i);
  CHECK(value("call.uni (%r1), triple, (14);", head) == 42);
  CHECK(value("mov.u32 %r1, 1;\ncall (_), triple, (14);", head) == 1);
}

TEST_CASE("calls with .param parameters, nested and guarded", "[virtual][decode]") {
  const std::string head =
      ".visible .func (.param .b32 out) add3 (.param .b32 in);\n"
      ".func (.param .b64 result) both (.param .align 4 .b8 pair[8])\n{\n"
      "  .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
      "  ld.param.b32 %r1, [pair]; ld.param.b32 %r2, [pair+4];\n"
      "  { .param .b32 a; .param .b32 r;\n    st.param.b32 [a], %r2;\n"
      "    call.uni (r), add3, (a);\n    ld.param.b32 %r2, [r]; }\n"
      "  mov.b64 %rd1, {%r1, %r2};\n  st.param.b64 [result], %rd1;\n  ret;\n}\n"
      ".visible .func (.param .b32 out) add3 (.param .b32 in)\n{\n"
      "  .reg .b32 %r<2>;\n  ld.param.b32 %r1, [in];\n  add.u32 %r1, %r1, 3;\n"
      "  st.param.b32 [out], %r1;\n}\n";
  auto v = values("mov.u32 %r2, %tid.x;\nmov.u32 %r1, 1000;\nand.b32 %r3, %r2, 1;\n"
                  "setp.ne.u32 %p1, %r3, 0;\n"
                  "{ .param .align 4 .b8 arg[8]; .param .b64 res;\n"
                  "  st.param.b32 [arg], 50;\n  st.param.b32 [arg+4], %r2;\n"
                  "  @%p1 call (res), both, (arg);\n"
                  "  @%p1 ld.param.b64 %rd1, [res];\n"
                  "  @%p1 mov.b64 {%r4, %r5}, %rd1;\n  @%p1 add.u32 %r1, %r4, %r5; }\n",
                  {}, head);
  for (uint32_t i = 0; i < 32; ++i) CHECK(v[i] == (i & 1 ? 53 + i : 1000));
}

TEST_CASE("calls through an alias", "[virtual][decode]") {
  CHECK(value("call (%r1), other;", ".func (.reg .b32 r) five () { mov.u32 r, 5; ret; }\n"
                                    ".func (.reg .b32 r) other ();\n.alias other, five;\n") == 5);
}

TEST_CASE("calls that are refused", "[virtual][decode]") {
  const std::string head = ".func f (.reg .b32 x) { ret; }\n"
                           ".func (.reg .b64 r) w () { ret; }\n";
  auto why = [&](const std::string& body) {
    return refusal(module_text(body, "", "sm_100a", head));
  };
  contains(why("call f;"), "takes 1 arguments");
  contains(why("call f, (%rd1);"), "8 bytes");
  contains(why("call f, (%p1);"), "not both predicates");
  contains(why("call nowhere;"), "'nowhere' is not declared");
  contains(why("call (%r1), w;"), "4 bytes");
  contains(why("call %rd1, ();"), "names its prototype");
  contains(why("call %rd1, (), nothing;"), "'nothing' is no .callprototype");
  contains(why("list: .calltargets f; call %rd1, (), list;"), "whose address is taken");
  contains(why("mov.u64 %rd1, k;"), "'k' is not declared");
}

TEST_CASE("lists of branch targets", "[virtual][decode]") {
  auto v = values("mov.u32 %r2, %tid.x;\nand.b32 %r2, %r2, 1;\n"
                  "list: .branchtargets EVEN, ODD;\nbrx.idx %r2, list;\n"
                  "EVEN: mov.u32 %r1, 10;\nbra JOIN;\nODD: mov.u32 %r1, 20;\nJOIN:\n");
  for (uint32_t i = 0; i < 32; ++i) CHECK(v[i] == (i & 1 ? 20 : 10));
  contains(refusal_of("list: .branchtargets A, B;\nA: brx.idx a, list;"), "no label 'B'");
  contains(refusal_of("brx.idx a, list;"), "no .branchtargets list");
}

TEST_CASE("mutilated modules never crash the builder", "[virtual][decode]") {
  const std::string good = module_text(
      "  .shared .align 8 .b64 bar[2];\n  .local .b8 depot[16];\n  .reg .v2 .f32 v;\n"
      "  mov.u32 %r1, bar+8; ld.param.u64 %rd1, [n]; mov.f32 v.x, 0f3F800000;\n"
      "  { .reg .pred q; L: setp.eq.u32 q, %r1, -5; @!q bra L; }\n"
      "  call (%r1), f, (%r2); { .param .b64 a; st.param.b64 [a], %rd1; call g, (a); }\n"
      "  ts: .branchtargets M, M; M: brx.idx %r1, ts; mov.b64 {%r1, %r2}, %rd1;\n",
      ".param .align 64 .b8 m[128], .param .u64 n", "sm_100a",
      ".extern .shared .b8 dyn[];\n.global .u32 x = 3;\n"
      ".func (.reg .b32 r) f (.reg .b32 x) { add.u32 r, x, 1; ret; }\n"
      ".func g (.param .b64 y) { .reg .b64 t; ld.param.b64 t, [y]; ret; }\n");
  REQUIRE(refusal(good) == "");
  const uint32_t seed = 4711;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (uint32_t n = random() % 3 + 1; n--;) {
      const size_t at = random() % text.size();
      const size_t from = random() % text.size();
      switch (random() % 4) {
      case 0:
        text.erase(at, random() % 6);
        break;
      case 1:
        text.insert(at, text.substr(from, random() % 20));
        break;
      case 2:
        text.replace(at, 3, text.substr(from, 3));
        break;
      default:
        text[at] = "0123456789%rdbf.,;{}[]"[random() % 22];
        break;
      }
    }
    try {
      Decoded d(text);
    } catch (const ptx::ParseError&) {
    } catch (const isa::DecodeError&) {
    }
  }
  SUCCEED();
}

TEST_CASE("the runner reports where it ended", "[virtual][decode]") {
  Vgpu gpu;
  CHECK(gpu.run("nonsense", Params()).refused("expected a directive"));
  CHECK(gpu.run(module_text("frobnicate;"), Params()).refused("frobnicate"));
  CHECK(gpu.run(module_text("ret;"), Params().u32(1)).refused("bytes of parameters"));
  CHECK(gpu.run(module_text("ret;"), Params(), {.block = {2048}}).refused("block"));
  RunResult r = gpu.run(module_text("st.global.u32 [0], 1;"), Params());
  CHECK_FALSE(r.ok);
  CHECK(r.code == exec::FaultCode::illegal_address);
}
