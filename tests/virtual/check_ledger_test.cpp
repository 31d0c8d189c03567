// The BARRIER LEDGER table at a kernel's head against what ran: tables that are right, bent ones,
// and those of all configurations of the engine.
#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/grouped/grouped.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/moe/moe.hpp"
#include "tests/problems/problem.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/dual_gemm_nvfp4_run.hpp"
#include "tests/support/dual_gemm_run.hpp"
#include "tests/support/ledger_names.hpp"
#include "tests/support/linear_run.hpp"
#include "tests/support/temporary.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tests/support/virtual_gpu.hpp"
#include "tools/vgpu/check/ledger.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/trace/head.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace wltest;
using namespace vgpu;
using warpline::gemm::Config;

namespace {

const std::string kHead = "// BARRIER LEDGER\n"
                          "//   | barrier | n | count | bytes | arrives | waits | first |\n"
                          "//   |---------|---|-------|-------|---------|-------|-------|\n";
const std::string kFull = "//   | full[s] | STAGES | 1 | 16 * STAGES | 0 | 1 (2) | 0 |\n",
                  kEmpty = "//   | empty | 1 | W | 0 | 1- | 0 | 1 |\n";

// Warp 0 loads 32 bytes for each of two barriers, warp 1 waits for them and gives its place back.
const std::string kBody = R"(
  .shared .align 16 .b8 area[64];
  .shared .align 8 .b64 bar[3];
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  setp.eq.u32 %p2, %r1, 32;
  ld.param.u64 %rd1, [in];
  @!%p1 bra ready;
  mbarrier.init.shared::cta.b64 [bar], 1;
  mbarrier.init.shared::cta.b64 [bar + 8], 1;
  mbarrier.init.shared::cta.b64 [bar + 16], 1;
  fence.mbarrier_init.release.cluster;
ready:
  bar.sync 0;
  @!%p1 bra consumer;
w0:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar + 16], 1;
  @!%p3 bra w0;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area], [%rd1], 32, [bar];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar + 8], 32;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area + 32], [%rd1], 32, [bar + 8];
w1:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar + 16], 0;
  @!%p3 bra w1;
consumer:
  @!%p2 bra over;
w2:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;
  @!%p3 bra w2;
w3:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar + 8], 0;
  @!%p3 bra w3;
  mbarrier.arrive.shared::cta.b64 _, [bar + 16];
over:
  ret;)";

RunResult run(const std::string& head, const std::string& names) {
  Vgpu gpu("b200");
  Launch l;
  l.block = {64, 1, 1};
  l.checks = check::kAll | check::kLedger;
  l.names = names;
  return gpu.run(head + module_text(kBody, ".param .u64 in"),
                 Params().u64(gpu.upload(std::vector<uint32_t>(64))), l);
}

void option(const char* key, const std::string& value) {
  INFO(key << " = " << value);
  REQUIRE(set_option(key, value));
}

// Of the device that runs the configuration: one cluster, or some that share K, of which a spread
// tile's wait for each other.
int sms_of(const Config& config) {
  if (config.spread) return 32;
  if (config.helped) return 4; // two tiles, a helper each
  return config.cluster[0] * (config.grid == warpline::gemm::Grid::stream_k ? 4 : 1);
}

// Whole tiles: tables give the bytes of those. Several tiles for each cluster of the device, each
// of more steps of K than there are stages.
DualGemmCase whole_tiles(const Config& config) {
  const bool blackwell = config.family == warpline::gemm::Family::sm100;
  DualGemmCase c;
  c.config = config.name;
  c.seed = 77;
  c.m = blackwell ? 256 * config.cluster_m : config.helped ? config.tile_m : 2 * config.tile_m;
  c.n = config.columns() *
        (blackwell ? config.cluster_n * 2 * sms_of(config) / config.cluster[0] : 2);
  if (config.d_type == WL_NVFP4) c.n = (c.n + 63) / 64 * 64;
  c.k = config.tile_k * (config.stages + 2) * config.split_k * (config.helped ? 3 : 1);
  c.out = config.d_type == WL_BF16 ? OutputType::bf16 : OutputType::f16;
  return c;
}

// "" when the run is right, else what is said.
std::string run_of(wl_context* context, const Config& config) {
  const DualGemmCase c = whole_tiles(config);
  if (config.b_tensors == 1) {
    const LinearRun run(context, {c.m, c.n, c.k, c.l, config.d_type, config.name, c.seed});
    if (!run.message().empty()) return run.message();
    if (run.run(nullptr) != WL_SUCCESS || wl_stream_synchronize(context, nullptr) != WL_SUCCESS)
      return wl_last_error();
    return run.check();
  }
  if (config.d_type == WL_NVFP4) {
    const Problem p = make_problem(c.m, c.n, c.k, 1, c.kind, c.seed);
    const Nvfp4Result r = run_dual_gemm_nvfp4(context, p, 0.5f, c.config);
    return r.status == WL_SUCCESS ? "" : r.message;
  }
  const DualGemmResult r = run_dual_gemm(context, c);
  if (r.status != WL_SUCCESS) return r.message;
  return r.bound.passed() ? "" : describe(r.bound);
}

// The same, and whether the configuration's table agrees. In a process where nobody else has a
// context: a report spoils it.
std::string ledger_of(const Config& config, const std::string& schedule) {
  option("sms", std::to_string(sms_of(config)));
  wl_context* context = nullptr;
  REQUIRE(wl_context_create(0, &context) == WL_SUCCESS);
  option("check", "ledger");
  option("define", names_text(ledger_names(config)));
  option("schedule", schedule);
  option("report", "none");
  std::string said = run_of(context, config);
  if (!said.empty()) said += "\n" + virtual_report();
  wl_context_destroy(context);
  return said;
}

void start_device(const char* profile) {
  setenv("WARPLINE_DRIVER", (std::string("virtual:") + profile).c_str(), 1);
  int devices = 0;
  REQUIRE(wl_device_count(&devices) == WL_SUCCESS);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What a table says, and what the kernel does with its barriers: its statements about them, and
// those that copy, without their numbers. Of the names' values whether they are 0, 1 or more.
std::string barriers_of(const Config& config) {
  const std::vector<std::string> lines = lines_of(config.image().text());
  std::string all;
  for (const auto& row : trace::ledger_of(lines))
    for (const std::string& cell : row) all += cell + "|";
  for (const auto& [name, value] : ledger_names(config))
    all += name + "=" + (value == "0" || value == "1" ? value : "more") + "|";
  std::set<std::string> statements;
  for (const std::string& line : lines) {
    const size_t first = line.find_first_not_of(' ');
    if (first == std::string::npos || line[first] == '/' || line[first] == '.') continue;
    if (line.find("mbarrier") == std::string::npos && line.find("bulk") == std::string::npos &&
        line.find("commit") == std::string::npos)
      continue;
    std::string without;
    for (size_t i = first; i < line.size(); ++i)
      if (std::isdigit(static_cast<unsigned char>(line[i])) == 0) without += line[i];
    statements.insert(without);
  }
  for (const std::string& statement : statements) all += statement + "|";
  return all;
}

// Counts of a kernel's mbarriers by their places, as its text initialises them and as its table
// says, a row of equal ones as one: some kernels have a loop over stages.
std::string counts_of(const Config& config) {
  const std::vector<std::string> lines = lines_of(config.image().text());
  std::map<uint64_t, std::string> found;
  const std::string init = "mbarrier.init.shared::cta.b64 [";
  for (const std::string& line : lines) {
    const size_t at = line.find(init), end = line.rfind(", ");
    if (at == std::string::npos || line.find("//") < at) continue;
    const size_t plus = line.find(" + ", at);
    found[plus < end ? std::stoull(line.substr(plus + 3)) : 0] =
        line.substr(end + 2, line.rfind(';') - end - 2);
  }
  std::vector<std::string> text, table;
  const auto add = [](std::vector<std::string>* to, const std::string& count) {
    if (to->empty() || to->back() != count) to->push_back(count);
  };
  for (const auto& [place, count] : found) add(&text, count);
  const check::LedgerNames names = ledger_names(config);
  for (const auto& row : trace::ledger_of(lines))
    if (check::formula_value(row[1], names) != 0)
      add(&table, std::to_string(check::formula_value(row[2], names)));
  std::string said;
  for (const auto* of : {&text, &table}) {
    said += of == &text ? "the text initialises " : "; the table says ";
    for (const std::string& count : *of) said += count + " ";
  }
  return text == table ? "" : said;
}

// What a table says is true under every schedule; `make false-alarms` runs each kernel under many.
// Of kernels that do the same with their barriers the first is run.
void expect_all_configs(const char* target) {
  size_t i = 0;
  std::set<std::string> ran;
  for (const warpline::gemm::Table* table :
       {&warpline::dual_gemm::configs(), &warpline::linear::configs()})
    for (const Config& config : *table) {
      if (std::string(config.target) != target) continue;
      INFO(config.name << ", " << names_text(ledger_names(config)));
      CHECK(counts_of(config) == "");
      if (!ran.insert(barriers_of(config)).second) continue;
      const char* const schedule = i++ % 2 == 0 ? "lazy" : "random:5";
      INFO("schedule " << schedule << ", seed 77");
      CHECK(ledger_of(config, schedule) == "");
    }
}

std::vector<const Config*> configs_of_groups() {
  std::vector<const Config*> all;
  for (const warpline::gemm::Table* table :
       {&warpline::grouped::linear_configs(), &warpline::grouped::dual_configs(),
        &warpline::moe::up_configs(), &warpline::moe::down_configs()})
    for (const Config& config : *table) all.push_back(&config);
  return all;
}

// Each product's own: a layer has two.
std::string names_of_groups() {
  vgpu::check::LedgerNames names{{"EDGES", "1"}}; // tiles may reach beyond the matrices
  for (const Config* config : configs_of_groups())
    for (const auto& [name, value] : ledger_names(*config))
      names[std::string(config->name) + "." + name] = value;
  return names_text(names);
}

// A size of a drawn problem of groups, from its text.
int64_t size_of(const std::string& text, const char* name) {
  const size_t at = text.find(std::string(", ") + name + " ");
  return at == std::string::npos ? INT64_MAX : std::stoll(text.substr(at + 4));
}

// The first drawn problem that names the configuration and fills all of its stages.
std::string ledger_of_drawn(const problems::Operation& operation,
                            const problems::Configuration& configuration) {
  option("sms", std::to_string(configuration.sms));
  option("wgmma_accumulation", problems::adds_f8_on_hopper(configuration) ? "hopper" : "exact");
  wl_context* context = nullptr;
  REQUIRE(wl_context_create(0, &context) == WL_SUCCESS);
  option("check", "ledger");
  option("report", "none");
  std::string said;
  bool ran = false;
  for (size_t index = 0; index < 100; ++index) {
    const problems::Problem drawn = problems::make_problem(operation, configuration, 77, index,
                                                           nullptr, problems::Values::none);
    if (drawn.config.empty() && operation.name != "moe") continue;
    if (size_of(drawn.text, "k") < configuration.depth ||
        size_of(drawn.text, "m") < configuration.rows)
      continue;
    const problems::Problem problem = problems::make_problem(operation, configuration, 77, index);
    option("schedule", problem.schedule);
    said = problems::run(context, problem);
    if (!said.empty()) said += "\n" + problem.text + "\n" + virtual_report();
    ran = true;
    break;
  }
  wl_context_destroy(context);
  return ran ? said : "no problem names it";
}

void expect_drawn_configs(const char* profile) {
  option("define", names_of_groups());
  const std::vector<const Config*> configs = configs_of_groups();
  std::set<std::string> ran;
  int configurations = 0;
  for (const problems::Operation& operation : problems::operations()) {
    if (operation.name.find("grouped") == std::string::npos && operation.name != "moe") continue;
    for (const problems::Configuration& configuration : operation.configurations) {
      if (configuration.profile != profile) continue;
      INFO(operation.name << " " << configuration.name);
      const auto own = std::find_if(configs.begin(), configs.end(), [&](const Config* config) {
        return config->name == configuration.name;
      });
      if (own != configs.end()) {
        CHECK(counts_of(**own) == "");
        if (!ran.insert(operation.name + barriers_of(**own)).second) continue;
      }
      CHECK(ledger_of_drawn(operation, configuration) == "");
      ++configurations;
    }
  }
  CHECK(configurations > 0);
}

} // namespace

TEST_CASE("ledger: the kernel's table against what ran", "[virtual]") {
  const std::string names = "STAGES=2,W=1";
  RunResult r = run(kHead + kFull + kEmpty, names);
  INFO(r.text);
  CHECK(r.ok);
  CHECK(r.stats.advice().empty());
  const struct {
    const char *from, *to, *part;
  } bent[] = {
      {"| 1 | 16 *", "| 2 | 16 *", "full[0], at shared offset"},
      {"| 1 | 16 *", "| 2 | 16 *", "awaits 1 arrivals; the table says 2"},
      {"16 * STAGES", "(16 + 1) * STAGES", "got 32 bytes in 1 phase; the table says 34"},
      {"16 * STAGES", "16 or STAGES", "got 32 bytes in 1 phase; the table says 2 or 16"},
      {"| 0 | 1 (2)", "| 3 | 1 (2)", "full: an arrival by warp 0, which the table does not name"},
      {"| 0 | 1 (2)", "| 0 3 | 1 (2)", "full: an arrival by warp 3 is in the table, but did not"},
      {"| 0 | 1 (2)", "| 0 (commit) | 1 (2)", "full: an arrival by warp 0, which the table"},
      {"1 (2) |", "2 |", "full: a wait by warp 1, which the table does not name"},
      {"1 (2) |", "1 2 |", "full: a wait by warp 2 is in the table, but did not happen"},
      {"(2) | 0", "(2) | 1", "full[0], at shared offset"},
      {"(2) | 0", "(2) | 2", "\"2\" is no parity"},
      {"(2) | 0", "(2) | 1", "holds up the first wait of warp 1; the table says parity 1"},
      {"| 0 | 1 |\n", "| 0 | 0 |\n", "lets the first wait of warp 0 pass; the table says parity 0"},
      {"1-", "2-", "empty: an arrival by warp 1, which the table does not name"},
      {"STAGES | 1", "3 | 1", "initialises 3 mbarriers; the table has 4"},
      {"STAGES | 1", "DEPTH | 1", "\"DEPTH\" has DEPTH, a name without a value"},
      {"STAGES | 1", "(2 | 1", "\"(2\" lacks a bracket"},
      {"STAGES | 1", "2 2 | 1", "\"2 2\" is no formula"},
      {"| 1 (2) | 0 |", "| 1 |", "a line of the table has 6 cells"},
      {"// BARRIER LEDGER", "// THE BARRIERS", "no table under // BARRIER LEDGER"},
  };
  for (const auto& b : bent) {
    std::string head = kHead + kFull + kEmpty;
    REQUIRE(head.find(b.from) != std::string::npos);
    head.replace(head.find(b.from), std::string(b.from).size(), b.to);
    r = run(head, names);
    INFO(head << r.text);
    CHECK(r.faulted("barriers", "ledger: "));
    CHECK(r.faulted("barriers", b.part));
  }
}

TEST_CASE("ledger: tiles that reach beyond the matrices", "[virtual]") {
  std::string head = kHead + kFull + kEmpty;
  auto bend = [&](const std::string& from, const std::string& to) {
    REQUIRE(head.find(from) != std::string::npos);
    head.replace(head.find(from), from.size(), to);
  };
  bend("16 * STAGES", "32 * STAGES");
  bend("1 (2)", "1 2");
  CHECK(run(head, "STAGES=2,W=1").faulted("barriers", "got 32 bytes in 1 phase"));
  CHECK(run(head, "STAGES=2,W=1,EDGES=0").faulted("barriers", "got 32 bytes in 1 phase"));
  const RunResult r = run(head, "STAGES=2,W=1,EDGES=1");
  INFO(r.text);
  CHECK(r.ok);
  CHECK(r.stats.advice().empty());
  bend("32 * STAGES", "8 * STAGES"); // not more than those of a whole tile
  CHECK(run(head, "STAGES=2,W=1,EDGES=1").faulted("barriers", "the table says 16"));
  bend("| 1 | 8 *", "| 2 | 8 *");
  CHECK(run(head, "STAGES=2,W=1,EDGES=1").faulted("barriers", "awaits 1 arrivals"));
}

TEST_CASE("ledger: a kernel without mbarriers needs no table; values of names", "[virtual]") {
  Vgpu gpu("b200");
  Launch l;
  l.checks = check::kLedger;
  CHECK(gpu.run(module_text("  ret;", ""), Params(), l).ok);
  check::LedgerNames names;
  std::string error;
  CHECK(check::parse_names("A=1, the set=4-7 9", names, &error));
  CHECK(names == check::LedgerNames{{"A", "1"}, {"the set", "4-7 9"}});
  for (const char* bad : {"A", "=1", "A=", "A=1,B"}) {
    INFO(bad);
    CHECK_FALSE(check::parse_names(bad, names, &error));
    CHECK(error.find("must be NAME=VALUE") != std::string::npos);
  }
}

TEST_CASE("ledger: the configurations keep their tables", "[virtual]") {
  for (const char* tag :
       {"[.b200-ledger]", "[.h200-ledger]", "[.b200-drawn-ledger]", "[.h200-drawn-ledger]"}) {
    const ChildResult child = run_child({build_file("tests/virtual"), tag}, {}, 600);
    INFO(child.out << child.err);
    CHECK(child.status == 0);
  }
}

TEST_CASE("tables of the Blackwell configurations, in a process of their own", "[.b200-ledger]") {
  start_device("b200");
  expect_all_configs("sm_100f");
  const Config* config = warpline::dual_gemm::find_config("dual_gemm_sm100_pair_n64_f16");
  REQUIRE(config);
  const std::string text = config->image().text();
  TemporaryDirectory directory;
  const struct {
    const char *from, *to;
  } bent[] = {{"| FULL          |", "| 2 * FULL      |"},
              {"| DRAINS       |", "| 8            |"},
              {"| 4-11       | 2          | 1 ", "| 4-10       | 2          | 1 "},
              {"| 3          | 0 1 2 4-11 | 0 ", "| 3          | 1 2 4-11   | 0 "}};
  for (const auto& b : bent) {
    std::string other = text;
    INFO(b.from);
    REQUIRE(other.find(b.from) != std::string::npos);
    other.replace(other.find(b.from), std::string(b.from).size(), b.to);
    std::ofstream(directory / "bent.ptx") << other;
    option("source", directory / "bent.ptx");
    const std::string said = ledger_of(*config, "lazy");
    INFO(said);
    CHECK(said.find("ledger: ") != std::string::npos);
  }
}

TEST_CASE("tables of the Hopper configurations, in a process of their own", "[.h200-ledger]") {
  start_device("h200");
  expect_all_configs("sm_90a");
}

TEST_CASE("tables of groups on Blackwell, in a process of their own", "[.b200-drawn-ledger]") {
  start_device("b200");
  expect_drawn_configs("b200");
}

TEST_CASE("tables of groups and layers on Hopper, in a process of their own",
          "[.h200-drawn-ledger]") {
  start_device("h200");
  expect_drawn_configs("h200");
}
