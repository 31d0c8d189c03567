// The timeline: its clock on hand-made events, its two files, and what a kernel's head names.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/json.hpp"
#include "tools/vgpu/trace/write.hpp"

#include <algorithm>
#include <set>

using namespace vgpu::trace;
using vgpu::check::Bytes;
using vgpu::check::OpKind;
using vgpu::check::Order;
using vgpu::check::Proxy;
using vgpu::check::Space;
using vgpu::check::Who;
using warpline::cli::Json;
using warpline::cli::parse_json;
using wltest::ContainsSubstring;

namespace {

Who warp(uint32_t index, uint64_t op = 0) {
  Who who;
  who.warp = index;
  who.pc = 10 * index;
  who.op = op;
  return who;
}

// Warp 0 loads 6400 bytes into stage 1 of "full" after 3 instructions; warp 1 waits for them.
Recording load_and_wait() {
  Naming naming;
  naming.roles = {"loader", "mma"};
  naming.barriers = {"full"};
  Timeline t(1, 2, naming);
  t.mbarrier_init(warp(0), 0, 0, 1);
  t.mbarrier_init(warp(0), 0, 8, 1);
  for (int i = 0; i < 3; ++i) t.step(0, 0);
  t.issue(warp(0, 7), OpKind::Load);
  t.mbarrier_expect(warp(0), 0, 8, 6400);
  t.mbarrier_arrive(warp(0), 0, 8, 1, true);
  t.access(warp(0, 7), Bytes{Space::Shared, 0, 0, 6400, 0, 0}, true, Order::Weak, Proxy::Async);
  t.mbarrier_bytes(warp(0, 7), 0, 8, 6400);
  t.mbarrier_phase(0, 8);
  t.finished(warp(0, 7));
  t.step(0, 1);
  t.mbarrier_wait(warp(1), 0, 8, 0, true);
  t.step(0, 1);
  t.close();
  return t.recording();
}

} // namespace

TEST_CASE("trace: who waits goes on when the operation is done", "[virtual][trace]") {
  const Recording r = load_and_wait();
  REQUIRE(r.rows.size() == 3);
  CHECK(r.rows[0].name == "warp 0 loader");
  CHECK(r.rows[2].name == "loads");
  // 500 ticks and one for each 64 bytes, from tick 3 on.
  const auto load =
      std::find_if(r.spans.begin(), r.spans.end(), [](const Span& s) { return s.name == "load"; });
  REQUIRE(load != r.spans.end());
  CHECK(load->begin == 3);
  CHECK(load->end == 603);
  CHECK(load->stage == 1);
  const auto wait =
      std::find_if(r.spans.begin(), r.spans.end(), [](const Span& s) { return s.wait; });
  REQUIRE(wait != r.spans.end());
  CHECK(wait->name == "full[1]");
  CHECK(wait->row == 1);
  CHECK(wait->begin == 1);
  CHECK(wait->end == 603);
  CHECK(r.end == 604);
}

// Two stages: stage 0 is full from tick 10 to 40, stage 1 from 20 to 50 and again from 70 to 90.
TEST_CASE("trace: a stage is in use from the phase that filled it to the one that frees it",
          "[virtual][trace]") {
  Naming naming;
  naming.barriers = {"full", "empty", "acc_full"};
  Timeline t(1, 3, naming);
  for (uint32_t kind = 0; kind < 3; ++kind)
    for (uint32_t stage = 0; stage < 2; ++stage)
      t.mbarrier_init(warp(kind), 0, 16 * kind + 8 * stage, 1);
  uint64_t now = 0;
  const auto phase = [&](uint64_t tick, uint32_t kind, uint32_t stage) {
    for (; now < tick; ++now) t.step(0, 0);
    t.mbarrier_arrive(warp(0), 0, 16 * kind + 8 * stage, 1, true);
    t.mbarrier_phase(0, 16 * kind + 8 * stage);
  };
  phase(10, 0, 0);
  phase(20, 0, 1);
  phase(40, 1, 0);
  phase(50, 1, 1);
  phase(60, 2, 0);
  phase(70, 0, 1);
  phase(90, 1, 1);
  const vgpu::trace::StageUse use = t.stage_use();
  CHECK(use.stages == 2);
  CHECK(use.filled == 30 + 30 + 20);
  CHECK(use.ticks == 90 - 10);

  const Timeline unnamed(1, 1, {});
  CHECK(unnamed.stage_use().stages == 0);
  CHECK(unnamed.stage_use().ticks == 0);
}

TEST_CASE("trace: a wait for what is long done takes no time", "[virtual][trace]") {
  Timeline t(1, 2, {});
  t.mbarrier_init(warp(0), 0, 0, 1);
  t.step(0, 0);
  t.mbarrier_arrive(warp(0), 0, 0, 1, true);
  t.mbarrier_phase(0, 0);
  for (int i = 0; i < 5; ++i) t.step(0, 1);
  t.mbarrier_wait(warp(1), 0, 0, 0, true);
  t.mbarrier_wait(warp(1), 0, 0, UINT64_MAX, true); // the phase before the first
  t.close();
  for (const Span& s : t.recording().spans) CHECK_FALSE(s.wait);
}

TEST_CASE("trace: operations of the tensor core follow each other", "[virtual][trace]") {
  Timeline t(1, 1, {});
  for (uint64_t op : {1, 2}) {
    t.issue(warp(0, op), OpKind::Mma);
    t.access(warp(0, op), Bytes{Space::Tensor, 0, 0, 64, 0, 128}, true, Order::Weak, Proxy::Tensor);
    t.finished(warp(0, op));
  }
  t.close();
  const Recording& r = t.recording();
  REQUIRE(r.spans.size() == 2);
  CHECK(r.spans[0].end == 32); // 128 x 64 / 256
  CHECK(r.spans[1].begin == 32);
  CHECK(r.spans[1].end == 64);
}

TEST_CASE("trace: both files hold the spans", "[virtual][trace]") {
  Recording r = load_and_wait();
  r.rows[0].name = "warp \"0\" <loader> & more";
  const Json json = parse_json(to_chrome_json(r, "a \"title\""));
  size_t spans = 0, names = 0;
  for (const Json& event : json.find("traceEvents")->items) {
    const std::string phase = event.find("ph")->text;
    spans += phase == "X";
    names += phase == "M" && event.find("name")->text == "thread_name";
  }
  CHECK(spans == r.spans.size());
  CHECK(names == r.rows.size());
  CHECK(parse_json(to_chrome_json({}, "")).find("traceEvents")->items.empty());

  const std::string svg = to_svg(r, "<title>");
  CHECK_THAT(svg, ContainsSubstring("&lt;title>"));
  CHECK_THAT(svg, ContainsSubstring("warp \"0\" &lt;loader> &amp; more"));
  CHECK_THAT(svg, ContainsSubstring("waits for full[1]: ticks 1 to 603"));
  CHECK(svg.find("href") == std::string::npos); // nothing from elsewhere
  CHECK_THAT(to_svg({}, ""), ContainsSubstring("</svg>"));
}

TEST_CASE("trace: roles and barriers come from the kernel's head", "[virtual][trace]") {
  const std::vector<std::string> lines = {
      "// ROLES",
      "//   | warp | name      | registers | work |",
      "//   |------|-----------|-----------|------|",
      "//   | 0    | loader    | 40        | TMA  |",
      "//   | 2-3  | consumer0 | 232       | MMA  |",
      "//   |      |           |           | and more |",
      "//   Launched with 64 registers a thread.",
      "// BARRIER LEDGER           first: parity of the first wait",
      "//   | barrier  | n      | count |",
      "//   |----------|--------|-------|",
      "//   | full[s]  | STAGES | 2     |",
      "//   | empty[s] | STAGES | 1     |",
  };
  CHECK(roles_of(lines) == std::vector<std::string>{"loader", "", "consumer0", "consumer0"});
  CHECK(barriers_of(lines) == std::vector<std::string>{"full", "empty"});
  CHECK(roles_of({}).empty());
}

TEST_CASE("trace: a dual GEMM leaves its timeline", "[virtual][trace]") {
  wltest::TemporaryDirectory directory;
  const auto child =
      wltest::run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "128", "-n", "128",
                         "-k", "2048", "--device", "virtual:b200", "--config",
                         "dual_gemm_sm100_n64_f16", "--trace", directory / "t"});
  INFO(child.out << child.err);
  REQUIRE(child.status == 0);
  const std::string stem = directory / "t.dual_gemm_sm100_n64_f16";
  const Json json = parse_json(wltest::read_text(stem + ".json"));
  std::set<std::string> rows, waits;
  for (const Json& event : json.find("traceEvents")->items) {
    if (event.find("ph")->text == "M" && event.find("name")->text == "thread_name")
      rows.insert(event.find("args")->find("name")->text);
    else if (event.find("ph")->text == "X" && event.find("cat")->text == "wait")
      waits.insert(event.find("name")->text);
  }
  for (const char* row :
       {"warp 0 operands", "warp 2 mma", "warp 4 consumer0", "loads", "tensor core"})
    CHECK(rows.count(row) == 1);
  CHECK(waits.count("full[0]") == 1);
  CHECK(waits.count("empty[0]") == 1);
  CHECK(waits.count("tile_full[0]") == 1);
  const std::string svg = wltest::read_text(stem + ".svg");
  CHECK(svg.rfind("<svg", 0) == 0);
  CHECK_THAT(svg, ContainsSubstring("warp 2 mma"));
}
