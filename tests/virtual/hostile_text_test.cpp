// Text of 10 MB in one line, deep nesting, very many of everything: refused or read, in bounded
// time and memory. A size at which work that grows with the square would not end.
#include "tests/support/catch.hpp"

#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/ptx/parser.hpp"

using namespace vgpu;
using namespace wltest;

namespace {

const std::string kHead = ".version 8.0\n.target sm_90\n.address_size 64\n";

std::string repeated(const std::string& part, size_t bytes) {
  std::string s;
  s.reserve(bytes + part.size());
  while (s.size() < bytes) s += part;
  return s;
}

std::string numbered(const std::string& before, const std::string& after, size_t n) {
  std::string s;
  for (size_t i = 0; i < n; ++i) s += before + std::to_string(i) + after;
  return s;
}

// What it says, "" when it is read and decoded.
std::string answer(const std::string& text) {
  try {
    const ptx::Module module = ptx::parse(text);
    mem::DeviceMemory memory(uint64_t(1) << 30);
    const auto globals = isa::place_globals(module, memory);
    const isa::ModuleIndex index(module, globals);
    for (const ptx::Function& f : module.functions)
      if (f.is_entry) isa::decode(index, f);
  } catch (const ptx::ParseError& e) {
    return e.what();
  } catch (const isa::DecodeError& e) {
    return e.what();
  }
  return "";
}

} // namespace

TEST_CASE("lines of 10 MB", "[virtual][hostile]") {
  constexpr size_t kSize = 10 << 20;
  const std::string open = kHead + ".visible .entry k() { .reg .b32 a; ", close = " ret; }";
  CHECK(answer(open + "/*" + repeated("x ", kSize) + "*/" + close) == "");
  CHECK(answer(open + repeated("add.u32 a, a, a; ", kSize / 4) + close) == "");
  CHECK_THAT(answer(open + "add.u32 " + repeated("a,", kSize) + "a;" + close),
             ContainsSubstring("4096 operands"));
  CHECK_THAT(answer(open + "mov.b32 a, {" + repeated("a,", kSize) + "a};" + close),
             ContainsSubstring("1024"));
  CHECK_THAT(answer(open + "mov.b32 a, [" + repeated("a,", kSize) + "a];" + close),
             ContainsSubstring("1024"));
  CHECK_THAT(answer(open + repeated("a", kSize) + ";" + close),
             ContainsSubstring("a name of more than"));
  CHECK_THAT(answer(open + "add" + repeated(".u32", kSize) + " a;" + close),
             ContainsSubstring("40 parts"));
  CHECK_THAT(answer(open + "mov.b32 a, 1" + repeated("+1", kSize) + ";" + close) + "|",
             ContainsSubstring("|"));
  CHECK_THAT(answer(open + repeated("0", kSize) + ";" + close),
             ContainsSubstring("expected a statement"));
  CHECK_THAT(answer(kHead + "\"" + repeated("s", kSize)), ContainsSubstring("not closed"));
}

TEST_CASE("deep nesting", "[virtual][hostile]") {
  constexpr size_t kSize = 1 << 20;
  const std::string open = kHead + ".visible .entry k() { .reg .b32 a; ";
  for (const char* part :
       {"{", "mov.b32 a, (", "mov.b32 a, {", "mov.b32 a, [", "mov.b32 a, -", "mov.b32 a, 1?"}) {
    INFO(part);
    const std::string head = std::string(part).substr(0, std::string(part).size() - 1);
    CHECK_THAT(answer(open + head + repeated(std::string(part).substr(head.size()), kSize)),
               ContainsSubstring("nested more than 200 deep") || ContainsSubstring("expected"));
  }
}

TEST_CASE("very many variables, entries, functions and labels", "[virtual][hostile]") {
  constexpr size_t kMany = 60'000;
  const std::string entry = ".visible .entry k() { ret; }\n";
  CHECK(answer(kHead + numbered(".global .b8 v", ";\n", kMany) + entry) == "");
  CHECK(answer(kHead + numbered(".const .b8 c", ";\n", 20'000) +
               numbered(".entry k", "() { ret; }\n", kMany)) == "");
  CHECK(answer(kHead + numbered(".func f", " () { ret; }\n", kMany) +
               numbered(".entry k", "() { ret; }\n", kMany)) == "");
  CHECK(answer(kHead + ".entry k() {\n" + numbered("L", ": ret;\n", kMany) + "}\n") == "");
  CHECK(answer(kHead + ".entry k() {\n" + numbered(".reg .b32 r", ";\n", kMany) + "}\n") == "");
  // A chain of calls, and functions that all call through pointers.
  std::string chain = ".func f0 () { ret; }\n", net = ".global .u64 table[3000] = {p0";
  for (size_t i = 1; i < 20'000; ++i)
    chain += ".func f" + std::to_string(i) + " () { call f" + std::to_string(i - 1) + "; ret; }\n";
  CHECK(answer(kHead + chain + ".entry k() { call f19999; ret; }\n") == "");
  for (size_t i = 1; i < 3000; ++i) net += ", p" + std::to_string(i);
  net += "};\n";
  for (size_t i = 0; i < 3000; ++i)
    net += ".func p" + std::to_string(i) +
           " () { .reg .b64 a; x: .callprototype _ (); mov.u64 a, table; " +
           "call a, (), x; ret; }\n";
  CHECK_THAT(answer(kHead + net +
                    ".entry k() { .reg .b64 a; x: .callprototype _ (); call a, (), x; ret; }\n"),
             ContainsSubstring("too many calls through pointers"));
}
