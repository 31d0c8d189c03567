// The instruction table: its pattern language, and that every row is well formed.
#include "tests/support/catch.hpp"

#include "tools/vgpu/isa/builder.hpp"
#include "tools/vgpu/isa/pattern.hpp"
#include "tools/vgpu/isa/target.hpp"
#include "tools/vgpu/ptx/parser.hpp"

#include <set>
#include <stdexcept>

namespace {

using namespace vgpu;
using isa::Match;
using isa::Pattern;
using isa::Signature;

std::vector<std::string> split(const std::string& opcode) {
  std::vector<std::string> tokens(1);
  for (char c : opcode)
    if (c == '.')
      tokens.emplace_back();
    else
      tokens.back() += c;
  return tokens;
}

bool matches(const char* pattern, const std::string& opcode, Match& m) {
  size_t reached = 0;
  return Pattern::compile(pattern).match(split(opcode), m, reached);
}

bool matches(const char* pattern, const std::string& opcode) {
  Match m;
  return matches(pattern, opcode, m);
}

ptx::Statement statement(const std::string& text) {
  return ptx::parse(".entry k() {\n" + text + "\n}").functions[0].statements[0];
}

bool takes(const char* signature, const std::string& operands) {
  size_t reached = 0;
  char wanted = 0;
  return Signature::compile(signature).match(statement("op " + operands + ";").operands, reached,
                                             wanted);
}

} // namespace

TEST_CASE("opcode patterns", "[virtual][forms]") {
  CHECK(matches("mbarrier try_wait", "mbarrier.try_wait"));
  CHECK_FALSE(matches("mbarrier try_wait", "mbarrier.try_wait.parity"));
  CHECK_FALSE(matches("mbarrier try_wait", "mbarrier"));
  Match m;
  CHECK(matches("mbarrier try_wait parity? sem{acquire|relaxed}? space{shared|shared::cta} b64",
                "mbarrier.try_wait.parity.shared::cta.b64", m));
  CHECK(m.has("parity"));
  CHECK_FALSE(m.has("sem"));
  CHECK(m.get("sem").empty());
  CHECK(m.get("space") == "shared::cta");
  CHECK_FALSE(m.has("b64")); // words that must be there are not bound
  Match n;
  CHECK(matches("op{add|sub} type{u32|s32}", "sub.s32", n));
  CHECK(n.get("op") == "sub");
}

TEST_CASE("optional words are tried both ways", "[virtual][forms]") {
  CHECK(matches("x a? a", "x.a"));
  CHECK(matches("x a? a", "x.a.a"));
  CHECK_FALSE(matches("x a? a", "x.a.a.a"));
  Match m;
  CHECK(matches("x p{a|b}? q{a|b}", "x.a", m));
  CHECK(m.get("p").empty());
  CHECK(m.get("q") == "a");
}

TEST_CASE("modifiers in another order", "[virtual][forms]") {
  auto shuffled = [](const char* pattern, const std::string& opcode, Match& m) {
    return Pattern::compile(pattern).match_shuffled(split(opcode), m);
  };
  Match m;
  const char* atom = "atom sem{relaxed|acquire}? scope{cta|gpu}? op{add|min} noftz? type{s32|f16}";
  CHECK(shuffled(atom, "atom.add.relaxed.gpu.s32", m));
  CHECK(m.get("sem") == "relaxed");
  CHECK(m.get("op") == "add");
  CHECK_FALSE(m.has("noftz"));
  CHECK(shuffled(atom, "atom.f16.noftz.min", m));
  const size_t bound = m.size();
  CHECK_FALSE(shuffled(atom, "atom.add.min.s32", m));                   // two of one item
  CHECK_FALSE(shuffled(atom, "atom.relaxed.s32", m));                   // an item is missing
  CHECK_FALSE(shuffled(atom, "add.atom.s32", m));                       // the first word stays
  CHECK_FALSE(shuffled("cvt d{f16|f32} a{f16|f32}", "cvt.f16.f32", m)); // which is which?
  CHECK(m.size() == bound);
  // What CUDA's headers write.
  for (const char* text :
       {"atom.add.relaxed.gpu.s32 d, [a], b;", "max.s32.relu d, a, b;", "ex2.approx.f32.ftz d, a;",
        "vote.ballot.sync.b32 d, p, m;", "red.and.release.cta.b32 [a], b;",
        "atom.global.v2.f32.add d, [a], b;", "atom.cas.acq_rel.sys.b128 d, [a], b, c;"}) {
    Match n;
    INFO(text);
    CHECK(isa::find_form(statement(text), n, nullptr));
  }
  Match n;
  CHECK_FALSE(isa::find_form(statement("mul.s32.lo d, a, b;"), n, nullptr)); // ptxas refuses it too
}

TEST_CASE("a star takes whatever follows", "[virtual][forms]") {
  CHECK(matches("x *", "x"));
  CHECK(matches("x op{a|b} *", "x.b.c.d"));
  CHECK_FALSE(matches("x op{a|b} *", "x.c"));
  CHECK(takes("*", "{a, b}, [c, {d}], 5"));
}

TEST_CASE("malformed rows are found", "[virtual][forms]") {
  for (const char* bad :
       {"", "x?", "a{b|c", "a {b}", "a{}", "a{b|}", "a$b", "a{b}c", "*", "x * y"}) {
    INFO(bad);
    CHECK_THROWS_AS(Pattern::compile(bad), std::logic_error);
  }
  for (const char* bad : {"d,,s", "q", "ds", "?", "d,", "d??"}) {
    INFO(bad);
    CHECK_THROWS_AS(Signature::compile(bad), std::logic_error);
  }
}

TEST_CASE("operand signatures", "[virtual][forms]") {
  CHECK(takes("d,s", "%r1, 5"));
  CHECK(takes("d", "%r1|%p1"));
  CHECK(takes("d", "_"));
  CHECK(takes("d", "{a, b}"));
  CHECK_FALSE(takes("d", "5"));
  CHECK_FALSE(takes("d", "-a"));
  CHECK(takes("s", "-a"));
  CHECK(takes("s", "0f3F800000"));
  CHECK_FALSE(takes("s", "[a]"));
  CHECK(takes("p", "!p"));
  CHECK(takes("m", "[a+4]"));
  CHECK_FALSE(takes("m", "a"));
  CHECK(takes("t", "[a, {b, c}]"));
  CHECK(takes("v", "{b, c}"));
  CHECK(takes("v", "b"));
  CHECK(takes("n", "label"));
  CHECK_FALSE(takes("n", "1"));
  CHECK(takes("m,s,v?,p,s?", "[a], b, p"));
  CHECK(takes("m,s,v?,p,s?", "[a], b, {c}, p"));
  CHECK(takes("m,s,v?,p,s?", "[a], b, {c}, p, 1"));
  CHECK_FALSE(takes("m,s,v?,p,s?", "[a], b"));
}

TEST_CASE("targets", "[virtual][forms]") {
  using isa::target_allows;
  CHECK(target_allows("sm_100f", ""));
  CHECK(target_allows("sm_100f", "sm_90"));
  CHECK(target_allows("sm_100f", "sm_100a"));
  CHECK(target_allows("sm_103a", "sm_100a"));
  CHECK(target_allows("sm_90a", "sm_90a"));
  CHECK(target_allows("sm_90a", "sm_90a|sm_100a"));
  CHECK(target_allows("sm_103f", "sm_90a|sm_100a"));
  CHECK_FALSE(target_allows("sm_90", "sm_90a|sm_100a"));
  CHECK_FALSE(target_allows("sm_90", "sm_90a"));
  CHECK_FALSE(target_allows("sm_100a", "sm_90a"));
  CHECK_FALSE(target_allows("sm_90a", "sm_100a"));
  CHECK_FALSE(target_allows("sm_80", "sm_90"));
  CHECK_FALSE(target_allows("compute_90", "sm_90"));
}

TEST_CASE("every row of the instruction table is well formed", "[virtual][forms]") {
  REQUIRE_FALSE(isa::forms().empty());
  std::set<std::pair<std::string, std::string>> seen;
  for (const isa::Form& f : isa::forms()) {
    INFO(f.pattern << " | " << f.operands);
    CHECK_NOTHROW(Pattern::compile(f.pattern));
    CHECK_NOTHROW(Signature::compile(f.operands));
    CHECK((f.decoder != nullptr) == (f.status != isa::Status::refused));
    CHECK((*f.why != 0) == (f.status == isa::Status::refused));
    const std::string section = f.section;
    CHECK_FALSE(section.empty());
    CHECK(section.find_first_not_of("0123456789.-, ") == std::string::npos);
    int number = 0;
    char suffix = 0;
    for (std::string_view targets = f.target; !targets.empty();) {
      const size_t bar = std::min(targets.find('|'), targets.size());
      CHECK(isa::parse_target(targets.substr(0, bar), number, suffix));
      targets.remove_prefix(std::min(bar + 1, targets.size()));
    }
    CHECK(seen.emplace(f.pattern, f.operands).second); // a second row would never be reached
  }
}

TEST_CASE("an unknown form is refused by name and the nearest one is told", "[virtual][forms]") {
  Match m;
  std::string why;
  CHECK_FALSE(isa::find_form(statement("frobnicate.u32 a, b;"), m, &why));
  CHECK(why.find("'frobnicate'") != std::string::npos);
  CHECK_FALSE(isa::find_form(statement("mbarrier.init.shared::moon.b64 [a], 1;"), m, &why));
  CHECK(why.find(".shared::moon") != std::string::npos);
  CHECK_FALSE(isa::find_form(statement("mbarrier.init.shared::cta.b64 a, 1;"), m, &why));
  CHECK(why.find("operand 1 must be an address") != std::string::npos);
  CHECK_FALSE(isa::find_form(statement("mbarrier.init.shared::cta.b64 [a];"), m, &why));
  CHECK(why.find("operand 2 is missing") != std::string::npos);
  CHECK_FALSE(isa::find_form(statement("mbarrier.init.shared::cta.b64 [a], 1, 2;"), m, &why));
  CHECK(why.find("takes 2 operands, not 3") != std::string::npos);
  CHECK(m.size() == 0);
  CHECK(isa::find_form(statement("mbarrier.init.shared::cta.b64 [a], 1;"), m, &why));
}
