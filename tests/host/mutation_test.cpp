// Which mutants of kernels are the same fault, and in which kernel that is run.
#include "tests/support/catch.hpp"
#include "tests/support/temporary.hpp"
#include "tests/virtual/mutation/shares.hpp"
#include "tests/virtual/mutation/summary.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

using namespace wltest;

namespace {

const std::string kText = R"(.target sm_90a
  mov.u32 shared_base, 0;
producer:
  mbarrier.try_wait.parity.shared::cta.b64 done, [empty_barrier + 4096], phase;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full_barrier], 8192;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [b], 8, [full_barrier];
consumer:
  mbarrier.try_wait.parity.shared::cta.b64 done, [full_barrier], phase;
  ld.shared.v4.b32 {a, b, c, d}, [stage_address];
  mul.rn.f32 e, a, b;
  bar.warp.sync 0xffffffff;
  @leader mbarrier.arrive.shared::cta.b64 _, [empty_barrier + 4096];
  st.global.b32 [output], e;
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kText;
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

std::vector<uint64_t> identities(const std::string& text) {
  std::vector<uint64_t> out;
  for (const Mutant& m : make_mutants(text)) out.push_back(m.identity);
  return out;
}

Share share(const std::string& kernel, double work, const std::string& text) {
  Share s{kernel, work, make_mutants(text), {}, {}, {}, {}};
  s.told.resize(s.mutants.size(), false);
  return s;
}

} // namespace

TEST_CASE("mutants of places that differ in numbers and types are the same", "[host][mutation]") {
  const std::vector<uint64_t> all = identities(kText);
  CHECK(std::set<uint64_t>(all.begin(), all.end()).size() == all.size());
  CHECK(identities(with("8192;", "0x400;")) == all);
  CHECK(identities(with("+ 4096", "+ 64")) == all);
  CHECK(identities(with("v4.b32 {a, b, c, d}", "v2.f32 {a, b}")) == all);
  CHECK(identities(with("  mul.rn.f32 e, a, b;\n", "")) == all);
}

TEST_CASE("mutants of places that order something else are others", "[host][mutation]") {
  const std::vector<uint64_t> all = identities(kText);
  const struct {
    const char *from, *to;
  } changes[] = {
      {"sm_90a", "sm_100f"},
      {"consumer:", "drain:"},
      {"@leader", "@other"},
      {"ld.shared.v4", "ld.global.v4"},
      {"  bar.warp.sync 0xffffffff;\n", "  bar.warp.sync 0xffffffff;\n  fence.proxy.async;\n"},
      {"[full_barrier], phase", "[other_barrier], phase"},
      {"arrive.shared::cta", "arrive.relaxed.cluster.shared::cluster"},
  };
  for (const auto& c : changes) {
    INFO(c.from << " -> " << c.to);
    CHECK(identities(with(c.from, c.to)) != all);
  }
  // What waits for a barrier counts at those who arrive on it, however far away.
  const std::vector<Mutant> a = make_mutants(kText),
                            b = make_mutants(with("ld.shared.v4", "ld.global.v4"));
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].instruction.find("expect_tx") != std::string::npos)
      CHECK(a[i].identity != b[i].identity);
}

TEST_CASE("a mutant's text is the kernel's but for one line", "[host][mutation]") {
  for (const Mutant& m : make_mutants(kText)) {
    const std::string text = mutated(kText, m);
    CHECK(text != kText);
    CHECK(text.find(m.line_text) != std::string::npos);
    std::string back = text;
    back.replace(back.find(m.line_text), m.line_text.size(), "  " + m.instruction);
    CHECK(back == kText);
  }
}

TEST_CASE("a mutant that kernels have in common is run in one of them", "[host][mutation]") {
  const auto count = [](const Share& s) {
    return static_cast<size_t>(std::count(s.here.begin(), s.here.end(), true));
  };
  std::vector<Share> kernels = {share("a_sm90_t64", 10, kText), share("a_sm90_t32", 1, kText)};
  const size_t mutants = kernels[0].mutants.size();
  // The cheaper one.
  CHECK(share_out(kernels, false, {}).all == std::vector<size_t>{1});
  CHECK(count(kernels[0]) == 0);
  CHECK(count(kernels[1]) == mutants);
  CHECK(kernels[0].judge == std::vector<size_t>(mutants, 1));
  // All of all, or of one that is named.
  CHECK(share_out(kernels, true, {}).all.size() == 2);
  CHECK(count(kernels[0]) == mutants);
  CHECK(share_out(kernels, false, {"a_sm90_t64"}).all.size() == 2);
  CHECK(count(kernels[0]) == mutants);
  // What is told of one need not be run in the other.
  kernels[0].told.assign(mutants, true);
  CHECK(share_out(kernels, false, {}).all == std::vector<size_t>{0});
  CHECK(count(kernels[1]) == 0);
  // Never one with a reason to survive, where another has none.
  const std::string text = with("consumer:", "consumer_tile:");
  std::vector<Share> once = {share("a_sm100_once", 1, text), share("a_sm100_n64", 10, text)};
  share_out(once, false, {});
  for (size_t i = 0; i < mutants; ++i)
    if (once[0].mutants[i].label == "consumer_tile" &&
        !equivalent_reason("a_sm100_once", once[0].mutants[i]).empty() &&
        equivalent_reason("a_sm100_n64", once[1].mutants[i]).empty())
      CHECK(once[0].judge[i] == 1);
  CHECK(count(once[1]) > 0);
}

TEST_CASE("a mutant of each site is run ahead of the rest", "[host][mutation]") {
  // The same statements, with another fence between: other places, the same sites but for its own.
  const std::string fenced =
      with("  bar.warp.sync 0xffffffff;\n", "  bar.warp.sync 0xffffffff;\n  fence.proxy.async;\n");
  std::vector<Share> kernels = {share("a_sm90_t64", 10, fenced), share("a_sm90_t32", 1, kText),
                                share("a_sm90_t16", 1, with("consumer:", "consumer3:"))};
  const auto ahead = [&](size_t k) {
    return std::count(kernels[k].ahead.begin(), kernels[k].ahead.end(), true);
  };
  const auto judged_of = [&] {
    std::vector<std::vector<bool>> judged;
    for (const Share& s : kernels) judged.push_back(s.told);
    return count_sites(kernels, judged);
  };
  Turns turns = share_out(kernels, false, {});
  CHECK(turns.ahead == std::vector<size_t>{1, 0});
  const auto all = static_cast<std::ptrdiff_t>(kernels[1].mutants.size());
  CHECK(ahead(1) == all);
  CHECK(ahead(0) == 1);
  CHECK(ahead(2) == 0);
  for (const Share& s : kernels)
    for (size_t i = 0; i < s.mutants.size(); ++i)
      if (s.ahead[i]) CHECK(s.here[i]);
  SiteCounts counts = judged_of();
  CHECK(counts.all == static_cast<size_t>(all) + 1);
  CHECK(counts.judged == 0);
  CHECK(counts.open == std::vector<size_t>{counts.all, counts.all - 1, counts.all - 1});
  // Those that have been run are ahead no more; their places elsewhere remain.
  for (Share& s : kernels) s.told = s.ahead;
  turns = share_out(kernels, false, {});
  CHECK(turns.ahead.empty());
  CHECK(turns.all.size() == 3);
  counts = judged_of();
  CHECK(counts.judged == counts.all);
  CHECK(counts.open == std::vector<size_t>(3, 0));
}

TEST_CASE("a site is not judged where there is a reason to survive and elsewhere is none",
          "[host][mutation]") {
  const std::string text = with("consumer:", "consumer_tile:");
  std::vector<Share> kernels = {share("a_sm100_once", 1, text), share("a_sm100_n64", 10, text)};
  kernels[0].told.assign(kernels[0].mutants.size(), true);
  share_out(kernels, false, {});
  size_t excused = 0;
  for (size_t i = 0; i < kernels[0].mutants.size(); ++i) {
    const bool only_here = !equivalent_reason("a_sm100_once", kernels[0].mutants[i]).empty() &&
                           equivalent_reason("a_sm100_n64", kernels[1].mutants[i]).empty();
    CHECK(kernels[1].ahead[i] == only_here);
    excused += only_here;
  }
  CHECK(excused > 0);
  const SiteCounts counts = count_sites(kernels, {kernels[0].told, kernels[1].told});
  CHECK(counts.all - counts.judged == excused);
}

TEST_CASE("mutants: a page says again what was read of it", "[host][mutation]") {
  const std::string row = "| second | 7 | label | `bar.sync 0;` | delete | ";
  SummaryLine first{"text 0123456789abcdef", {true, false, true}, 2, 0, {{"no reader", 1}}, "", {}},
      second = first;
  second.survived = 1, second.survivors = {row};
  // Rows of those that stand for others begin with a kernel's name, too.
  const std::vector<StandIns> others = {{"first", {"second"}, 3, 1}, {"second", {}, 0, 2}};
  const auto page = [&](const SummaryLine& a, const SummaryLine& b) {
    return summary_page({{"first", a}, {"second", b}}, others, Counts{2, 6, 5, 4, 3, 2}, 13, 32);
  };
  const TemporaryDirectory directory;
  std::string text = page(first, second);
  for (int turn = 0; turn < 2; ++turn) {
    std::ofstream(directory / "page.md") << text;
    const auto lines = read_summary(directory / "page.md");
    REQUIRE(lines.size() == 2);
    CHECK(lines.at("first").survivors.empty());
    CHECK(lines.at("second").survivors.size() == 1);
    CHECK(page(lines.at("first"), lines.at("second")) == text);
  }
}
