// What kernels of others do that the ISA's letter or this project's own kernels do not: rules with
// grades (tools/vgpu/check/rules.def). Strict, the rule ends the launch; lenient, the run is told
// once a place, goes on, and its results are right.
#include "tests/virtual/copy_text.hpp"
#include "tests/virtual/tcgen05_text.hpp"

#include "tools/vgpu/check/options.hpp"

#include <fstream>
#include <iterator>

using namespace wltest;
using namespace vgpu;

namespace {

// One kernel of module_text, out[] of `words`.
struct Outcome {
  RunResult result;
  std::vector<uint32_t> out;
};

struct Trial {
  std::string body, target = "sm_90a", profile = "h200", head{};
  Launch launch{};
  uint32_t words = 64;
};

Outcome run(const Trial& t, const std::string& schedule, bool strict, uint32_t checks = 0,
            const std::string& rules = "") {
  Vgpu gpu(t.profile);
  const uint64_t out = gpu.upload(std::vector<uint32_t>(t.words, 0));
  Launch launch = t.launch;
  launch.schedule = schedule;
  launch.strict = strict;
  launch.checks = checks;
  launch.rules = rules;
  Outcome o;
  o.result =
      gpu.run(module_text(t.body, ".param .u64 out", t.target, t.head), Params().u64(out), launch);
  if (o.result.ok) o.out = gpu.download<uint32_t>(out, t.words);
  return o;
}

// Strict it stops somewhere (rules that only some schedules can see: `seen` of them at least);
// lenient it runs on under every schedule, told of that rule and of nothing else.
void expect_rule(const Trial& t, const std::string& rule, const std::string& grade,
                 const std::string& checker, const std::vector<uint32_t>& right,
                 size_t seen = ~size_t(0)) {
  size_t stopped = 0, told = 0;
  for (const std::string& schedule : schedules()) {
    INFO(rule << " under " << schedule);
    const RunResult strict = run(t, schedule, true).result;
    INFO(strict.text);
    CHECK((strict.ok || strict.faulted(checker)));
    stopped += !strict.ok;
    const Outcome o = run(t, schedule, false);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    CHECK(std::equal(right.begin(), right.end(), o.out.begin()));
    const auto& all = o.result.stats.told;
    CHECK(all.size() <= 1);
    for (const auto& [place, text] : all) {
      ++told;
      CHECK_THAT(text.text, ContainsSubstring("(" + grade + ", rule " + rule + ")"));
    }
    CHECK(run(t, schedule, false, 0, rule + "=off").result.stats.told.empty());
    CHECK(run(t, schedule, false, 0, rule + "=stop").result.ok == strict.ok);
    CHECK(run(t, schedule, true, 0, rule + "=tell").result.ok);
  }
  const size_t least = std::min(seen, schedules().size());
  CHECK(stopped >= least);
  CHECK(told >= least);
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

const char* const kBar = R"(
  .shared .align 8 .b64 bar[2];
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p0, %r0, 0;
)";

} // namespace

TEST_CASE("rules: a try_wait that is only looked at comes back", "[virtual][rules]") {
  Trial t;
  t.launch.block = {1};
  t.body = std::string(kBar) + R"(
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  selp.b32 %r1, 1, 0, %p1;
  st.global.u32 [%rd0], %r1;
  mbarrier.arrive.shared::cta.b64 _, [bar];
w: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra w;
  mov.u32 %r1, 7;
  st.global.u32 [%rd0+4], %r1;
  ret;
)";
  for (const std::string& schedule : schedules()) {
    INFO(schedule);
    const Outcome o = run(t, schedule, true, check::kAll);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    CHECK(o.out[0] == 0);
    CHECK(o.out[1] == 7);
  }
}

TEST_CASE("rules: a wait orders what follows once its answer is looked at", "[virtual][rules]") {
  // The answer is ignored; looked at too late; looked at by selp; looked at by the branch.
  struct Case {
    const char *after, *before_store;
    bool right;
  };
  for (const Case& c :
       {Case{"", "", false}, Case{"", "@!%p1 bra w;", false},
        Case{"selp.b32 %r3, 1, 0, %p1;\n  setp.eq.u32 %p2, %r3, 0;\n  @%p2 bra w;", "", true},
        Case{"@!%p1 bra w;", "", true}, Case{"@%p1 bra on;\n  bra w;", "", true}}) {
    INFO(c.after << " | " << c.before_store);
    Trial t;
    t.launch.block = {1};
    t.head = ".global .align 16 .b32 data[32];\n";
    t.body = std::string(kBar) + R"(
  .shared .align 128 .b8 buf[128];
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  mov.u64 %rd1, data;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 128, [bar];
w: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  )" + c.after +
             R"(
on:
  ld.shared.u32 %r1, [buf];
  )" + c.before_store +
             "\n  st.global.u32 [%rd0], %r1;\n  ret;\n";
    for (const std::string& schedule : schedules()) {
      INFO(schedule);
      const RunResult r = run(t, schedule, true, check::kAll).result;
      INFO(r.text);
      if (c.right)
        CHECK(r.ok);
      else
        CHECK(r.faulted("races", "whose answer is looked at"));
    }
  }
}

TEST_CASE("rules: a bulk reduction adds for every lane", "[virtual][rules]") {
  Trial t;
  t.body = std::string(kBar) + R"(
  .shared .align 128 .b8 buf[128];
  mov.u32 %r1, 1;
  mov.u32 %r2, buf;
  @%p0 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};
  fence.proxy.async.shared::cta;
  bar.warp.sync 0xffffffff;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r2], 16;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
)";
  for (const std::string& schedule : schedules()) {
    const Outcome o = run(t, schedule, true, check::kAll);
    INFO(schedule << ": " << o.result.text);
    REQUIRE(o.result.ok);
    CHECK(o.out[0] == 32);
    CHECK(o.out[3] == 32);
    CHECK(o.out[4] == 0);
  }
}

TEST_CASE("rules: a tensor store by all lanes is one store", "[virtual][rules]") {
  using namespace copies;
  const MapSpec map{0, {256, 16}, {256}, {128, 16}, 0, 0};
  // Every lane waits for it, and lane 5 alone may then use the source again.
  auto body = [](const char* wait, const char* by) {
    return tile_in(2048) +
           "  mov.b64 %rd1, map;\n  cvta.param.u64 %rd1, %rd1;\n"
           "  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {0, 0}], [%r20];\n"
           "  cp.async.bulk.commit_group;\n" +
           wait + "  setp.eq.u32 %p6, %r0, " + by +
           ";\n  mov.u32 %r40, 77;\n  @%p6 st.shared.u32 [%r20+4], %r40;\n  ret;\n";
  };
  for (const std::string& schedule : schedules()) {
    INFO(schedule);
    Launch launch;
    launch.checks = check::kAll;
    for (const char* by : {"0", "5", "31"}) {
      const copies::Outcome o =
          copies::run(body("  cp.async.bulk.wait_group.read 0;\n", by), schedule, &map,
                      random_bytes(4096, 3), 4096, launch, true);
      INFO(o.result.text);
      REQUIRE(o.result.ok);
      CHECK(o.result.stats.tma_stores == 1);
      uint32_t word = 0;
      std::memcpy(&word, o.out.data() + 4, 4);
      CHECK(word == tile_word(1));
      CHECK_FALSE(
          copies::run(body("", by), schedule, &map, random_bytes(4096, 3), 4096, launch, true)
              .result.ok);
    }
    // Other coordinates in each lane: 32 stores.
    const std::string own =
        tile_in(2048) +
        "  mov.b64 %rd1, map;\n  cvta.param.u64 %rd1, %rd1;\n  and.b32 %r41, %r0, 1;\n  shl.b32 "
        "%r41, %r41, 7;\n"
        "  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r41, 0}], [%r20];\n"
        "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\n  ret;\n";
    const copies::Outcome o =
        copies::run(own, schedule, &map, random_bytes(4096, 3), 4096, launch, true);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    CHECK(o.result.stats.tma_stores == 2);
  }
}

TEST_CASE("rules: a CTA leaves while its store reads", "[virtual][rules]") {
  Trial t;
  t.launch.block = {1024};
  t.words = 1024;
  t.body = std::string(kBar) + R"(
  .shared .align 128 .b8 buf[4096];
  mov.u32 %r2, buf;
  shl.b32 %r1, %r0, 2;
  add.u32 %r1, %r1, %r2;
  st.shared.u32 [%r1], %r0;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @!%p0 ret;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 4096;
  cp.async.bulk.commit_group;
  ret;
)";
  std::vector<uint32_t> right(1024);
  for (uint32_t i = 0; i < 1024; ++i) right[i] = i;
  expect_rule(t, "exit-in-flight", "advice", "exit", right, 1);
}

TEST_CASE("rules: a fence of no tensor map passes", "[virtual][rules]") {
  Trial t;
  t.body = std::string(kBar) + R"(
  selp.b64 %rd1, %rd0, 0, %p0;
  fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
  @%p0 st.global.u32 [%rd0], 1;
  ret;
)";
  const Outcome o = run(t, "lazy", true, check::kAll);
  INFO(o.result.text);
  REQUIRE(o.result.ok);
  CHECK(o.out[0] == 1);
  t.body.replace(t.body.find("0, %p0"), 6, "64, %p0"); // no allocation either
  CHECK(run(t, "lazy", true).result.faulted("bounds"));
}

TEST_CASE("rules: mbarriers again, over and with odd parities", "[virtual][rules]") {
  Trial t;
  const std::string end = R"(
  mbarrier.arrive.shared::cta.b64 _, [bar];
w: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
  @!%p1 bra w;
  st.global.u32 [%rd0], 5;
  ret;
)";
  t.launch.block = {1};
  t.body = std::string(kBar) +
           "mbarrier.init.shared::cta.b64 [bar], 3;\n"
           "mbarrier.init.shared::cta.b64 [bar], 1;\n" +
           end;
  expect_rule(t, "mbarrier-again", "error", "barriers", {5});
  t.body = std::string(kBar) + R"(mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.init.shared::cta.b64 [bar+8], 1;
  st.shared.u32 [bar+12], 9;
  ld.shared.u32 %r1, [bar+12];
  st.global.u32 [%rd0+4], %r1;)" +
           end;
  expect_rule(t, "mbarrier-overwritten", "error", "barriers", {5, 9});
  t.body = std::string(kBar) + R"(mbarrier.init.shared::cta.b64 [bar], 1;
  mov.u32 %r1, 0xFFFFFFFF;
v: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], %r1;
  @!%p1 bra v;)" +
           end;
  expect_rule(t, "parity", "error", "barriers", {5});
}

TEST_CASE("rules: setmaxnreg by some warps, twice, without a bound", "[virtual][rules]") {
  auto trial = [](const std::string& body, const char* directives) {
    Trial t;
    t.launch.block = {128};
    t.body = std::string(kBar) + "shr.u32 %r9, %r0, 5;\nsetp.eq.u32 %p3, %r9, 1;\n" + body +
             "\nbar.sync 0;\n@%p0 st.global.u32 [%rd0], 4;\nret;\n";
    std::string text = module_text(t.body, ".param .u64 out", "sm_90a");
    text.insert(text.find(".param .u64 out)") + 16, directives);
    return std::pair{t, text};
  };
  auto check_rule = [&](const std::string& body, const char* directives, const std::string& rule) {
    auto [t, text] = trial(body, directives);
    for (const std::string& schedule : schedules())
      for (const bool strict : {true, false}) {
        INFO(rule << " " << schedule << " strict " << strict);
        Vgpu gpu("h200");
        const uint64_t out = gpu.upload(std::vector<uint32_t>(4, 0));
        t.launch.schedule = schedule;
        t.launch.strict = strict;
        const RunResult r = gpu.run(text, Params().u64(out), t.launch);
        INFO(r.text);
        if (strict) {
          CHECK(r.faulted("setmaxnreg"));
          continue;
        }
        REQUIRE(r.ok);
        CHECK(gpu.download<uint32_t>(out, 1)[0] == 4);
        REQUIRE(!r.stats.errors().empty());
        CHECK_THAT(*r.stats.errors().begin(), ContainsSubstring("rule " + rule));
      }
  };
  const char* bound = "\n.maxntid 128\n.minnctapersm 1\n.maxnreg 128\n";
  check_rule("@%p3 bra other;\n setmaxnreg.dec.sync.aligned.u32 40;\n bra on;\nother:\n"
             "setmaxnreg.dec.sync.aligned.u32 48;\non:",
             bound, "setmaxnreg-group");
  check_rule("setmaxnreg.dec.sync.aligned.u32 64;\n setmaxnreg.dec.sync.aligned.u32 40;", bound,
             "setmaxnreg-twice");
  check_rule("setmaxnreg.dec.sync.aligned.u32 40;", "", "setmaxnreg-bound");
}

TEST_CASE("rules: a shared address where a generic one belongs", "[virtual][rules]") {
  Trial t;
  t.target = "sm_100a";
  t.profile = "b200";
  t.launch.block = {1};
  t.body = std::string(kBar) + R"(
  mbarrier.init.shared::cta.b64 [bar+8], 1;
  mov.u32 %r1, bar;
  add.u32 %r1, %r1, 8;
  cvt.u64.u32 %rd1, %r1;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];
w: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
  @!%p1 bra w;
  st.global.u32 [%rd0], 3;
  ret;
)";
  expect_rule(t, "narrow-address", "error", "space", {3});
}

TEST_CASE("rules: warps that store the same", "[virtual][rules]") {
  Trial t;
  t.launch.block = {64};
  t.body = std::string(R"(
  ld.param.u64 %rd0, [out];
  mov.u32 %r1, 55;
  st.global.u32 [%rd0], %r1;
  ret;
)");
  for (const std::string& schedule : schedules()) {
    CHECK(run(t, schedule, true, check::kRaces).result.faulted("races", "same-store"));
    const Outcome o = run(t, schedule, false, check::kRaces);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    CHECK(o.out[0] == 55);
    CHECK(o.result.stats.errors().empty());
    REQUIRE(o.result.stats.told.size() == 1);
    CHECK_THAT(o.result.stats.told.begin()->second.text,
               ContainsSubstring("races (advice): same-store"));
  }
}

TEST_CASE("rules: tensor memory without its waits", "[virtual][rules]") {
  using namespace tcgen05;
  Trial t;
  t.target = "sm_100a";
  t.profile = "b200";
  t.launch.block = {32};
  auto with = [](const std::string& middle) {
    return std::string(kShared) + allocate(32) + kOwnLanes + middle + R"(
  ld.param.u64 %rd0, [out];
  shl.b32 %r30, %r0, 2;
  cvt.u64.u32 %rd30, %r30;
  add.u64 %rd30, %rd0, %rd30;
  st.global.u32 [%rd30], %r41;
)" + release(32);
  };
  const std::string store = "add.u32 %r45, %r0, 100;\n"
                            "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%r45};\n";
  const std::string load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r40}, [%r11];\n";
  std::vector<uint32_t> right(32);
  for (uint32_t i = 0; i < 32; ++i) right[i] = i + 101;
  t.body = with(store + "tcgen05.wait::st.sync.aligned;\n" + load + "add.u32 %r41, %r40, 1;\n");
  expect_rule(t, "wait-ld", "error", "pending", right);
  t.body = with(store + load + "tcgen05.wait::ld.sync.aligned;\nadd.u32 %r41, %r40, 1;\n");
  expect_rule(t, "wait-st", "error", "pending", right, 1);
}

TEST_CASE("rules: an allocation of a pair is a meeting", "[virtual][rules]") {
  using namespace tcgen05;
  // Warp 1 of the even CTA writes the odd one's word before both allocate; the odd one's warp 1
  // reads it afterwards.
  auto body = [](const char* meet) {
    return std::string(kShared) + R"(
  .shared .align 4 .b32 word;
  mov.u32 %r0, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p1, %r2, 0;
  setp.eq.u32 %p0, %r0, 0;
  and.pred %p2, %p0, %p1;
  ld.param.u64 %rd0, [out];
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r3, word;
  mapa.shared::cluster.u32 %r4, %r3, 1;
  mov.u32 %r5, 55;
  @%p2 st.shared::cluster.u32 [%r4], %r5;
  bar.warp.sync 0xffffffff;
)" + meet + R"(
  @%p1 bra on;
  ld.shared.u32 %r6, [word];
  @%p0 st.global.u32 [%rd0], %r6;
on:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
)";
  };
  Trial t;
  t.target = "sm_100a";
  t.profile = "b200";
  t.launch.grid = t.launch.cluster = {2};
  for (const std::string& schedule : schedules()) {
    INFO(schedule);
    t.body = body("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;\n"
                  "bar.warp.sync 0xffffffff;\nld.shared.b32 %r10, [slot];\n"
                  "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 32;\n");
    const Outcome o = run(t, schedule, false, check::kRaces);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    CHECK(o.out[0] == 55);
    CHECK(o.result.stats.errors().empty());
    CHECK_FALSE(run(t, schedule, true, check::kRaces).result.ok); // by the letter
    t.body = body("");
    CHECK_FALSE(run(t, schedule, false, check::kRaces).result.stats.errors().empty());
  }
}

TEST_CASE("rules: each is told once a place, and counted", "[virtual][rules]") {
  Trial t;
  t.launch.block = {1};
  t.launch.grid = {6};
  t.body = std::string(kBar) + R"(mbarrier.init.shared::cta.b64 [bar], 1;
  mov.u32 %r2, 8;
again:
  mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 3;
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra again;
  ret;
)";
  const RunResult r = run(t, "lazy", false).result;
  INFO(r.text);
  REQUIRE(r.ok);
  REQUIRE(r.stats.told.size() == 1);
  CHECK(r.stats.told.begin()->second.count == 48);
  CHECK_THAT(r.stats.told.begin()->second.full(), ContainsSubstring("48 times here"));
}

TEST_CASE("rules: names, actions and mistakes", "[virtual][rules]") {
  check::Rules r = check::Rules::lenient();
  std::string error;
  CHECK(r.apply("error=stop,races=tell,wait-ld=off", &error));
  CHECK(r[check::Rule::parity] == check::Action::Stop);
  CHECK(r[check::Rule::races_order] == check::Action::Tell);
  CHECK(r[check::Rule::wait_ld] == check::Action::Off);
  const check::Rules before = r;
  for (auto [list, says] : {std::pair{"wait-ld", "RULE=stop"},
                            {"wait-ld=no", "RULE=stop"},
                            {"wait-xx=off", "there is no rule \"wait-xx\""},
                            {"bounds=tell", "rule bounds is a fault"},
                            {"parity=off,fault=tell", "is a fault"}}) {
    INFO(list);
    CHECK_FALSE(r.apply(list, &error));
    CHECK_THAT(error, ContainsSubstring(says));
    CHECK(r[check::Rule::parity] == before[check::Rule::parity]);
  }
  for (const check::RuleEntry& e : check::rules()) {
    INFO(e.name);
    CHECK(check::find_rule(e.name) == &e);
    CHECK((e.grade != check::Grade::Error || e.own == check::Action::Stop));
    CHECK((check::Rules::lenient().stops(e.rule) == (e.grade == check::Grade::Fault)));
  }
}

TEST_CASE("rules: the document gives each its grade and witness", "[virtual][rules]") {
  const std::string text = read("tools/vgpu/check/RULES.md");
  REQUIRE(!text.empty());
  for (const check::RuleEntry& e : check::rules()) {
    const std::string line = "| `" + std::string(e.name) + "` | " + check::grade_name(e.grade) +
                             " | " + (e.own == check::Action::Stop ? "stops" : "told") + " | " +
                             e.witness + " |";
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
}

TEST_CASE("rules: names of C++ kernels are short in reports", "[virtual][rules]") {
  CHECK(exec::short_name("plain_kernel") == "plain_kernel");
  CHECK(exec::short_name("_Z7largestPKfiPf") == "largest");
  CHECK(exec::short_name("_ZN3gpu4core6kernelINS_4TileILi3EEEEEvT_") == "gpu::core::kernel<...>");
  CHECK(exec::short_name("_ZN12_GLOBAL__N_14stepEi") == "(anonymous namespace)::step");
}

TEST_CASE("rules: metadata of values that are zero", "[virtual][rules]") {
  Trial t;
  t.launch.block = {32};
  // A is 0 but for its first chunk of row 0 (lane 0); codes are 0, which no order of two has.
  auto body = [](const char* a) {
    return std::string(kBar) + "mov.b32 %r1, 0;\n@%p0 mov.b32 %r1, " + a + R"(;
  mov.b32 %r2, 0;
  mov.b32 %r3, 0x3C003C00;
  mov.f32 %f0, 0f00000000;
  mov.b32 %r9, 0;
  mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2},
    {%r3, %r3}, {%f0, %f0, %f0, %f0}, %r9, 0x0;
  mov.b32 %r10, %f1;
  @%p0 st.global.u32 [%rd0], %r10;
  ret;
)";
  };
  t.body = body("0");
  CHECK(run(t, "lazy", true).result.ok);
  t.body = body("0x3C003C00"); // 1, 1: both of K = 0
  expect_rule(t, "metadata", "error", "sparsity", {0x40000000});
}

TEST_CASE("rules: a tensor map made of zeros on the device", "[virtual][rules]") {
  using namespace copies;
  const std::string make = R"(
  .shared .align 128 .b8 made[128];
  mov.u32 %r50, made;
  shl.b32 %r51, %r0, 2;
  add.u32 %r51, %r51, %r50;
  mov.b32 %r52, 0;
  st.shared.b32 [%r51], %r52;
  bar.warp.sync 0xffffffff;
  ld.param.u64 %rd40, [in];
  add.u64 %rd41, %rd0, 4096;
  @!%p0 bra made_it;
  tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r50], %rd40;
  tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r50], 1;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r50], 0, 128;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r50], 1, 16;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r50], 0, 200;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r50], 1, 40;
  mov.u64 %rd42, 256;
  tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r50], 0, %rd42;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r50], 0, 1;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r50], 1, 1;
  tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r50], 0;
  tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r50], 0;
  tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r50], 0;
  tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r50], 0;
made_it:
  bar.warp.sync 0xffffffff;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd41], [%r50], 128;
  fence.proxy.tensormap::generic.acquire.gpu [%rd41], 128;
  bar.warp.sync 0xffffffff;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
  @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd41, {16, 3}], [bar];
)";
  const auto in = random_bytes(256 * 40, 9);
  for (const std::string& schedule : schedules()) {
    INFO(schedule);
    Launch launch;
    launch.checks = check::kAll;
    const copies::Outcome o =
        copies::run(make + kWait + tile_out(2048), schedule, nullptr, in, 8192, launch);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t y = 0; y < 16; ++y)
      REQUIRE(std::equal(o.out.begin() + 128 * y, o.out.begin() + 128 * (y + 1),
                         in.begin() + 256 * (y + 3) + 16));
  }
}
