// PTX text to syntax tree: every form of facts/ptx_forms.md, and hostile text.
#include "tests/support/catch.hpp"

#include "tools/vgpu/ptx/parser.hpp"

#include <bit>
#include <chrono>
#include <random>

namespace {

using namespace vgpu::ptx;
using K = Operand::Kind;

const std::string kHead = ".version 9.0\n.target sm_100a\n.address_size 64\n";

Module body(const std::string& text) { return parse(kHead + ".entry k() {\n" + text + "\n}\n"); }

Statement statement(const std::string& text) {
  Module m = body(text);
  REQUIRE(m.functions.size() == 1);
  REQUIRE(m.functions[0].statements.size() == 1);
  return m.functions[0].statements[0];
}

// The operand of "op x, OPERAND;".
Operand operand(const std::string& text) {
  Statement s = statement("op " + text + ";");
  REQUIRE(s.operands.size() == 1);
  return s.operands[0];
}

std::string error_of(const std::string& text, int* line = nullptr, int* column = nullptr) {
  try {
    parse(text);
  } catch (const ParseError& e) {
    if (line) *line = e.line;
    if (column) *column = e.column;
    return e.what();
  }
  return "";
}

} // namespace

TEST_CASE("module directives", "[virtual][parser]") {
  Module m = parse(".version 8.8\n.target sm_100f, debug\n.address_size 64\n"
                   ".file 1 \"a.cu\", 123, 456\n"
                   "@@DWARF .section\n"
                   ".section .debug_str { // text }\ninfo: .b8 95 /* } */\n }\n"
                   ".visible .entry a() { ret; }\n.alias x, y;\n");
  CHECK(m.version == "8.8");
  CHECK(m.targets == std::vector<std::string>{"sm_100f", "debug"});
  CHECK(m.address_size == 64);
  REQUIRE(m.functions.size() == 1);
  CHECK(m.functions[0].is_visible);
  REQUIRE(m.aliases.size() == 1);
  CHECK(m.aliases[0].second == "y");
  CHECK(m.lines[0] == ".version 8.8");
}

TEST_CASE("module variables and initial values", "[virtual][parser]") {
  Module m = parse(kHead + ".extern .shared .align 16 .b8 smem[];\n"
                           ".global .align 4 .b8 bytes[4] = {1, 0x2, 0b11, 07};\n"
                           ".visible .const .f32 c = 0f3F800000;\n"
                           ".global .s32 x[3][2] = { {1,2}, {3} };\n"
                           ".global .u32 open[] = {5, 6, 7,};\n"
                           ".global .u64 p = generic(x)+8;\n"
                           ".global .u8 low[2] = {0xff(x), 0xff00(x+4)};\n"
                           ".global .attribute(.managed) .v4 .f32 v;\n"
                           ".weak .global .f64 d = -1.5;\n");
  REQUIRE(m.variables.size() == 9);
  const auto& v = m.variables;
  CHECK(v[0].is_extern);
  CHECK(v[0].alignment == 16);
  CHECK(v[0].dims == std::vector<uint64_t>{0});
  CHECK(v[1].init[3].value == 7);
  CHECK(v[2].init[0].width == 32);
  CHECK(v[3].init.size() == 4);
  CHECK(v[3].init[2].value == 3);
  CHECK(v[4].dims == std::vector<uint64_t>{3});
  CHECK(v[5].init[0].name == "x");
  CHECK(v[5].init[0].offset == 8);
  CHECK(v[6].init[1].value == 0xff00);
  CHECK(v[6].init[1].offset == 4);
  CHECK(v[7].vector == 4);
  CHECK(v[8].is_weak);
  CHECK(std::bit_cast<double>(v[8].init[0].value) == -1.5);
}

TEST_CASE("kernel heads", "[virtual][parser]") {
  Module m = parse(kHead + ".visible .entry k(\n"
                           " .param .align 64 .b8 map[128],\n"
                           " .param .u64 .ptr .global .align 16 out,\n"
                           " .param .u32 n\n)\n"
                           ".maxntid 384, 1, 1\n.minnctapersm 1\n.reqnctapercluster 2\n"
                           ".explicitcluster .maxclusterrank 8 .maxnreg 168\n"
                           ".pragma \"nounroll\";\n{ ret; }\n");
  const Function& f = m.functions[0];
  REQUIRE(f.params.size() == 3);
  CHECK(f.params[0].alignment == 64);
  CHECK(f.params[0].dims == std::vector<uint64_t>{128});
  CHECK(f.params[1].alignment == 0); // .align describes what it points to
  CHECK(f.params[1].name == "out");
  REQUIRE(f.directives.size() == 7);
  CHECK(f.directives[0].values == std::vector<uint64_t>{384, 1, 1});
  CHECK(f.directives[2].values == std::vector<uint64_t>{2, 1, 1});
  CHECK(f.directives[6].text == "nounroll");
}

TEST_CASE("functions, declarations and calls", "[virtual][parser]") {
  Module m =
      parse(kHead +
            ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
            ".func nothing .noreturn;\n.func noargs () { ret; }\n"
            ".func (.reg .b32 r) add1 (.reg .b32 x) { add.s32 r, x, 1; ret; }\n"
            ".entry k() {\n"
            "  proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 4 .b8 _[8]);\n"
            "  .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
            "  { .param .b64 p0; .param .b64 p1; .param .b32 ret0;\n"
            "    call.uni (ret0), \n vprintf, \n (p0, p1);\n }\n"
            "  call noargs;\n  call (%r1), add1, (%r2);\n  call nothing, ();\n"
            "  call (ret0), %rd1, (p0), proto;\n}\n");
  REQUIRE(m.functions.size() == 5);
  CHECK_FALSE(m.functions[0].has_body);
  CHECK(m.functions[0].is_extern);
  CHECK(m.functions[3].returns[0].space == "reg");
  const auto& s = m.functions[4].statements;
  REQUIRE(s.size() == 5);
  CHECK(s[0].opcode == std::vector<std::string>{"call", "uni"});
  CHECK(s[0].operands[0].name == "vprintf");
  CHECK(s[0].call_returns.size() == 1);
  CHECK(s[0].call_arguments.size() == 2);
  CHECK(s[0].scope == 1);
  CHECK(s[1].operands.size() == 1);
  CHECK(s[4].operands.size() == 2);
}

TEST_CASE("opcodes", "[virtual][parser]") {
  CHECK(statement("tcgen05.ld.sync.aligned.32x32b.x2.b32{%r1,%r2},[%r3];").opcode ==
        std::vector<std::string>{"tcgen05", "ld", "sync", "aligned", "32x32b", "x2", "b32"});
  Statement s =
      statement("@!%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
                "complete_tx::bytes.L2::cache_hint [%r1], [%rd1, {%r2, 0}], [%r3], %rd2;");
  CHECK(s.guard.name == "%p1");
  CHECK(s.guard.negated);
  CHECK(s.opcode.size() == 9);
  CHECK(s.opcode[7] == "mbarrier::complete_tx::bytes");
  REQUIRE(s.operands.size() == 4);
  CHECK(s.operands[0].kind == K::Address);
  CHECK(s.operands[1].kind == K::Tensor);
  REQUIRE(s.operands[1].items.size() == 2);
  CHECK(s.operands[1].items[1].kind == K::Vector);
  CHECK(statement("ret;").operands.empty());
}

TEST_CASE("operands", "[virtual][parser]") {
  CHECK(operand("p").name == "p");
  CHECK(operand("%tid.x").name == "%tid.x");
  CHECK(operand("_").kind == K::Sink);
  CHECK(operand("!p").negated);
  CHECK(operand("-r").negated);
  Operand pair = operand("%r1|%p1");
  CHECK(pair.kind == K::Pair);
  CHECK(pair.items[1].name == "%p1");
  CHECK(operand("_|leader").items[0].kind == K::Sink);
  Operand v = operand("{%r1, _, 5}");
  CHECK(v.kind == K::Vector);
  CHECK(v.items[1].kind == K::Sink);
  CHECK(v.items[2].value == 5);
  Operand a = operand("[sym+240]");
  CHECK(a.kind == K::Address);
  CHECK(a.items[0].name == "sym");
  CHECK(a.offset == 240);
  CHECK(a.items[0].offset == 0);
  CHECK(operand("[%r1+-8]").offset == -8);
  CHECK(operand("[%r1 - 8]").offset == -8);
  CHECK(operand("[ %r1 + 4*8 + 2 ]").offset == 34);
  CHECK(operand("[128]").items[0].value == 128);
  CHECK(operand("sym+16").offset == 16);
}

TEST_CASE("constants", "[virtual][parser]") {
  CHECK(operand("-1").value == ~uint64_t(0));
  CHECK(operand("0xFEFFFFF8").value == 0xFEFFFFF8);
  CHECK(operand("-16777224").value == uint64_t(-16777224));
  CHECK(operand("010").value == 8);
  CHECK(operand("0b101").value == 5);
  CHECK(operand("7U").is_unsigned);
  CHECK(operand("1152921504606846976").value == 0x1000000000000000);
  CHECK(operand("18446744073709551615").is_unsigned);
  CHECK(operand("0f3F800000").value == 0x3F800000);
  CHECK(operand("0f3F800000").width == 32);
  CHECK(operand("-0f3F800000").value == 0xBF800000);
  CHECK(operand("0d3FF0000000000000").width == 64);
  CHECK(std::bit_cast<double>(operand("2.5e1").value) == 25.0);
  CHECK(std::bit_cast<double>(operand("1.").value) == 1.0);
  CHECK(operand("1 << 4 | 3").value == 19);
  CHECK(operand("(1 + 2) * 3 - 4 / 2").value == 7);
  CHECK(operand("17 % 5").value == 2);
  CHECK(operand("-7 / 2").value == uint64_t(-3));
  CHECK(operand("-8 >> 1").value == uint64_t(-4));
  CHECK(operand("(.u64)-8 >> 60").value == 15);
  CHECK(operand("~0 & 0xFF").value == 0xFF);
  CHECK(operand("3 > 2 ? 10 : 20").value == 10);
  CHECK(operand("-1 < 1U").value == 0); // usual conversions: unsigned
  CHECK(operand("!0 + WARP_SZ").value == 33);
  CHECK(operand("1 == 1 && 2 != 2 || 0").value == 0);
}

TEST_CASE("blocks, labels and local declarations", "[virtual][parser]") {
  Module m =
      body("  .reg .b32 %r<10>, a, b;\n  .reg .v4 .f32 acc;\n  .reg .pred p;\n"
           "  .shared .align 8 .b64 bar[4], one;\n"
           "  .loc 1 20 3, function_name $L__info_string0, inlined_at 1 12 4\n"
           "  .pragma \"used_bytes_mask 255\";\n"
           "{ .reg .pred P1;\n LAB_WAIT:\n mbarrier.try_wait.parity.shared::cta.b64 P1, [a], b;\n"
           "@P1 bra DONE;\n bra LAB_WAIT;\n DONE:\n}\n"
           "{ .reg .pred P1;\n LAB_WAIT: bra LAB_WAIT;\n DONE: }\n"
           "ts: .branchtargets $L1, $L2;\n"
           "$L1: brx.idx a, ts;\n$L2: ret;");
  const Function& f = m.functions[0];
  REQUIRE(f.scopes.size() == 3);
  CHECK(f.scopes[2].parent == 0);
  CHECK(f.variables[0].range == 10);
  CHECK(f.variables[3].vector == 4);
  CHECK(f.variables[5].dims == std::vector<uint64_t>{4});
  CHECK(f.variables[6].name == "one");
  CHECK(f.variables[6].alignment == 8);
  REQUIRE(f.labels.size() == 6);
  CHECK(f.labels[0].scope == 1);
  CHECK(f.labels[0].statement == 0);
  CHECK(f.labels[1].statement == 3);
  CHECK(f.labels[2].scope == 2);
  REQUIRE(f.branch_targets.size() == 1);
  CHECK(f.branch_targets[0].second.size() == 2);
  CHECK(f.statements[0].line == 13);
}

TEST_CASE("comments and preprocessor lines", "[virtual][parser]") {
  Module m = parse("# 1 \"x.ptx\"\n" + kHead + "/* a\n b */ .entry k() { // c\n# 7\n ret; /**/ }");
  CHECK(m.functions[0].statements[0].line == 8);
  CHECK(parse(std::string(kHead) + std::string("\0", 1)).functions.empty());
  CHECK(parse(kHead + "  #line 4 \"x\"\n.entry k() { ret; }").functions.size() == 1);
  for (const char* line : {"#include \"x.ptx\"", "#define A 1", "# foo", "#", "ret; # 7"}) {
    INFO(line);
    CHECK_THAT(error_of(kHead + ".entry k() {\n" + line + "\nret; }"),
               wltest::ContainsSubstring("is a preprocessor's"));
  }
}

TEST_CASE("strings end on their line", "[virtual][parser]") {
  const std::string entry = "\n.visible .entry k() { ret; }\n";
  for (const char* line : {".file 1 \"abc", ".loc 1 2 3, \"abc", ".section .x { .b8 \"abc }",
                           ".section .x { \"{ }", ".pragma \"abc;"}) {
    INFO(line);
    int at = 0;
    CHECK(error_of(".version 9.0\n" + std::string(line) + entry, &at) ==
          "this string is not closed");
    CHECK(at == 2);
  }
  CHECK(parse(".file 1 \"a } b\"\n.section .x { .b8 \"}\" }" + entry).functions.size() == 1);
  // A directive without its arguments leaves the next line alone.
  CHECK(parse(".loc" + entry).functions.size() == 1);
}

TEST_CASE("errors carry line and column", "[virtual][parser]") {
  int line = 0, column = 0;
  CHECK(error_of(".version 9.0\n.target sm_90\n  .frobnicate 3\n", &line, &column)
            .find("frobnicate") != std::string::npos);
  CHECK(line == 3);
  CHECK(column == 3);
  error_of(kHead + ".entry k() {\n  mov.u32 %r1, ;\n}", &line, &column);
  CHECK(line == 5);
  CHECK(column == 16);
  CHECK(error_of(".entry k() { add.s32 a, b c; }").find("','") != std::string::npos);
}

TEST_CASE("hostile text ends in an error", "[virtual][parser]") {
  auto bad = [](const std::string& text) { return !error_of(text).empty(); };
  CHECK(bad(".entry"));
  CHECK(bad(".entry k() {"));
  CHECK(bad(".entry k() { mov.u32 a, 99999999999999999999; }"));
  CHECK(bad(".entry k() { mov.u32 a, 0f123; }"));
  CHECK(bad(".entry k() { mov.u32 a, 12ab; }"));
  CHECK(bad(".entry k() { mov.u32 a, 1/0; }"));
  CHECK(bad(".entry k() { mov.u32 a, 089; }"));
  CHECK(bad(".entry k() { mov..u32 a, b; }"));
  CHECK(bad(".entry k() { @p ; }"));
  CHECK(bad(".global .u32 x[1099511627776][1099511627776];"));
  CHECK(bad(".global .u32 x[4] = {1,2,3,4,5};"));
  CHECK(bad(".global .u32 x[][1000000000] = {{1}};"));
  CHECK(bad(".global .align 3 .u32 x;"));
  CHECK(bad(".pragma \"x"));
  CHECK(bad("/* never closed"));
  CHECK(bad(std::string(".entry k\0() {}", 14)));
  CHECK(bad(".entry k() { .reg .b32 %r<99999999999>; }"));
  CHECK(bad(".entry k() {" + std::string(100000, '{')));
  CHECK(bad(".entry k() { mov.u32 a, " + std::string(100000, '(') + "1;}"));
  CHECK(bad(".entry k() { mov.u32 a, " + std::string(100000, '-') + "1;}"));
  CHECK(bad(".entry k() { mov.u32 a, " + std::string(100000, '{') + "1;}"));
  CHECK(bad(".entry k() { mov.u32 [" + std::string(100000, '[') + "1;}"));
  CHECK(bad(".entry k() { a" + [] {
    std::string s;
    for (int i = 0; i < 100; ++i) s += ".x";
    return s;
  }() + "; }"));
  CHECK(bad(std::string(70000, 'a')));
  CHECK(bad("\xff\xfe"));
}

TEST_CASE("mutilated text never crashes", "[virtual][parser]") {
  const std::string good =
      kHead + ".extern .shared .align 16 .b8 smem[];\n.global .u32 x[2][2] = {{1},{2,3}};\n"
              ".entry k(.param .u64 .ptr .global .align 4 out) .maxntid 128, 1, 1 {\n"
              ".reg .b32 %r<4>; .reg .pred p;\n{ .reg .pred q; L: @!q bra L; }\n"
              "ld.param.u64 %rd1, [out+8]; shfl.sync.idx.b32 %r1|p, %r2, 0, 31, -1;\n"
              "mov.b64 {%r1, %r2}, 0f3F800000; call (a), f, (b, 3+4*2); }\n";
  REQUIRE(error_of(good).empty());
  const uint32_t seed = 20251121;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (uint32_t n = random() % 4 + 1; n--;) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text.erase(at, random() % 8);
        break;
      case 1:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
        break;
      case 2:
        text[at] = char(random());
        break;
      default:
        text.resize(at + 1);
        break;
      }
    }
    try {
      parse(text);
    } catch (const ParseError&) {
    }
  }
  SUCCEED();
}

TEST_CASE("ten megabytes in about a second", "[virtual][parser]") {
  std::string text = kHead;
  while (text.size() < (10 << 20)) {
    text += ".entry k" + std::to_string(text.size()) + "() {\n .reg .b32 %r<100>;\n";
    for (int i = 0; i < 100; ++i)
      text +=
          "  mad.lo.s32 %r1, %r2, 8, %r3;\n  ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5+16];\n";
    text += "}\n";
  }
  const auto start = std::chrono::steady_clock::now();
  Module m = parse(text);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  INFO(seconds << " s");
  CHECK(m.functions.size() > 1000);
  CHECK(seconds < 10.0); // 0.3 s unloaded and without sanitizers
}
