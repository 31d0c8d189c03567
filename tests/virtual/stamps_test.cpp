// Stamps: what is added to a kernel's text, what is read from the records, and whole runs.
#include "runtime/src/images.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/json.hpp"
#include "tools/stamps/stamps.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

using namespace warpline::stamps;
using vgpu::trace::Recording;
using vgpu::trace::Span;
using warpline::cli::Json;
using warpline::cli::parse_json;
using wltest::ContainsSubstring;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool is_stamp(const std::string& line) {
  return line.find("wl_stamp_") != std::string::npos || line.find(buffer_name) != std::string::npos;
}

// Two warps; warp 0 loads into full[1], warp 1 waits for it.
const char two_roles[] = R"(// ROLES
//   | warp | name   |
//   |------|--------|
//   | 0    | loader |
//   | 1    | mma    |
//
// BARRIER LEDGER
//   | barrier  |
//   |----------|
//   | full[s]  |
.version 8.1
.target sm_90a
.visible .entry pair(.param .u64 in)
.maxntid 64, 1, 1
{
  .reg .b32 bar;
  .reg .b64 source;
  .reg .pred p, leader;
  mbarrier.init.shared::cta.b64 [bar + 8], 1;
  @leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bar], [source], 64, [bar + 16];
  @leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bar], [source], 64, [bar + 16];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 p, [bar + 16], 0;
  @!p bra wait;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {}, p;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ret;
}
)";

class Buffer {
public:
  explicit Buffer(const Stamped& stamped) : stamped_(stamped), bytes_(stamped.buffer_bytes()) {}
  // The clock is a multiple of 2: two ticks a nanosecond.
  void add(uint32_t cta, uint32_t warp, What what, uint64_t clock, uint32_t value = 0,
           bool end = false, size_t which = 0) {
    size_t site = 0;
    for (size_t seen = 0; site < stamped_.sites.size(); ++site)
      if (stamped_.sites[site].what == what && seen++ == which) break;
    REQUIRE(site < stamped_.sites.size());
    const size_t ring = size_t{cta} * stamped_.warps + warp;
    const uint64_t record[2] = {clock, (2 * site + end) | uint64_t{value} << 32};
    std::memcpy(&bytes_[(ring * stamped_.records + next_[ring]++) * 16], record, 16);
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

private:
  const Stamped& stamped_;
  std::vector<uint8_t> bytes_;
  std::map<size_t, size_t> next_;
};

// Both warps start at 1000 ns on their SM's clock 50000 and end 400 ns later.
Buffer filled(const Stamped& stamped) {
  Buffer buffer(stamped);
  const uint32_t full0 = 0x10008, full1 = 0x10010;
  for (uint32_t warp = 0; warp < 2; ++warp) {
    buffer.add(0, warp, What::time, 1000);
    buffer.add(0, warp, What::start, 50000);
    buffer.add(0, warp, What::barrier, 50010, full0);
    if (warp == 0) buffer.add(0, warp, What::load, 50100, full1);
    if (warp == 1) {
      buffer.add(0, warp, What::wait, 50040, full1);
      buffer.add(0, warp, What::wait, 50500, full1, true);
      buffer.add(0, warp, What::mma, 50510);
      buffer.add(0, warp, What::commit, 50520);
      buffer.add(0, warp, What::wait, 50530, 0, false, 1);
      buffer.add(0, warp, What::wait, 50700, 0, true, 1);
    }
    buffer.add(0, warp, What::end, 50800);
    buffer.add(0, warp, What::time, 1400);
  }
  return buffer;
}

const Span* find(const Recording& r, const std::string& row, const std::string& name) {
  for (const Span& s : r.spans)
    if (r.rows[s.row].name == row && s.name == name) return &s;
  return nullptr;
}

} // namespace

TEST_CASE("stamps: every line of every kernel stays", "[virtual][stamps]") {
  for (const warpline::Image& image : warpline::embedded_images()) {
    INFO(image.name);
    const std::string ptx = image.text();
    const std::vector<std::string> before = lines_of(ptx);
    // The shipped text, and so its machine code, holds no stamp.
    CHECK(std::none_of(before.begin(), before.end(), is_stamp));
    const Stamped stamped = stamp(ptx);
    std::vector<std::string> after = lines_of(stamped.text);
    after.erase(std::remove_if(after.begin(), after.end(), is_stamp), after.end());
    CHECK(after == before);

    const auto lines_with = [&](const char* part) {
      return std::count_if(before.begin(), before.end(), [&](const std::string& line) {
        return line.substr(0, line.find("//")).find(part) != std::string::npos;
      });
    };
    const auto sites = [&](What what, const std::string& name) {
      return std::count_if(stamped.sites.begin(), stamped.sites.end(),
                           [&](const Site& s) { return s.what == what && s.name == name; });
    };
    // No wait is left out.
    CHECK(sites(What::wait, "mbarrier") == lines_with("try_wait"));
    CHECK(sites(What::wait, "wgmma.wait_group") == lines_with("wgmma.wait_group"));
    CHECK(sites(What::wait, "barrier.cluster") == lines_with("barrier.cluster.wait"));
    CHECK(sites(What::end, "") == lines_with(" ret;"));
  }
}

TEST_CASE("stamps: what is added", "[virtual][stamps]") {
  const Stamped stamped = stamp(two_roles, 1, 32);
  CHECK(stamped.warps == 2);
  CHECK(stamped.buffer_bytes() == 16 * 2 * 32);
  CHECK_THAT(stamped.text,
             ContainsSubstring(".visible .global .align 16 .b8 warpline_stamps[1024];"));
  CHECK_THAT(stamped.text, ContainsSubstring("and.pred wl_stamp_now, leader, wl_stamp_on;"));
  CHECK(stamped.roles == std::vector<std::string>{"loader", "mma"});
  CHECK(stamped.barriers == std::vector<std::string>{"full"});
  size_t loads = 0; // a run of like copies is stamped once
  for (const Site& s : stamped.sites) loads += s.what == What::load;
  CHECK(loads == 1);
}

TEST_CASE("stamps: PTX of another form is refused", "[virtual][stamps]") {
  CHECK_THROWS_AS(stamp(""), std::invalid_argument);
  CHECK_THROWS_AS(stamp(".visible .entry x()\n{\n  ret;\n}\n"), std::invalid_argument);
  CHECK_THROWS_AS(stamp(".visible .entry x()\n.maxntid 2048, 1, 1\n{\n  ret;\n}\n"),
                  std::invalid_argument);
}

TEST_CASE("stamps: records become a timeline in nanoseconds", "[virtual][stamps]") {
  const Stamped stamped = stamp(two_roles, 1, 32);
  const Recording r = decode(stamped, filled(stamped).bytes(), false);
  CHECK(std::string(r.unit) == "ns");
  CHECK_FALSE(r.truncated);
  const Span* wait = find(r, "warp 1 mma", "full[1]");
  REQUIRE(wait);
  CHECK(wait->wait);
  CHECK(wait->begin == 20);
  CHECK(wait->end == 250);
  const Span* load = find(r, "loads", "load");
  REQUIRE(load);
  CHECK(load->begin == 50);
  CHECK(load->end == 250); // when warp 1 saw the barrier complete
  CHECK(load->stage == 1);
  const Span* mma = find(r, "tensor core", "wgmma.mma_async");
  REQUIRE(mma);
  CHECK(mma->begin == 255);
  CHECK(mma->end == 350);
  CHECK(mma->stage == 1);
  CHECK(r.end == 400);
}

TEST_CASE("stamps: a full buffer says so, an empty one makes no rows", "[virtual][stamps]") {
  const Stamped stamped = stamp(two_roles, 1, 12);
  CHECK(decode(stamped, std::vector<uint8_t>(stamped.buffer_bytes()), false).rows.empty());
  CHECK_FALSE(decode(stamped, filled(stamped).bytes(), false).truncated);
  const Stamped small = stamp(two_roles, 1, 6);
  Buffer buffer(small);
  for (int i = 0; i < 6; ++i) buffer.add(0, 0, What::start, 100);
  CHECK(decode(small, buffer.bytes(), false).truncated);
}

TEST_CASE("stamps: runs on the virtual GPU stay right and leave timelines", "[virtual][stamps]") {
  struct Case {
    const char *device, *config, *wait;
    std::vector<std::string> rows;
  };
  for (const Case& c :
       {Case{"virtual:h200",
             "dual_gemm_sm90_t64_f16",
             "full[0]",
             {"warp 0 weights", "warp 1 activations", "warp 4 consumer0", "loads", "tensor core"}},
        Case{"virtual:b200",
             "dual_gemm_sm100_pair_n64_f16",
             "acc_full[0]",
             {"warp 0 operands", "warp 2 mma", "loads", "tensor core", "tensor memory"}}}) {
    const wltest::TemporaryDirectory directory;
    const wltest::ChildResult child =
        wltest::run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "64", "-n", "128",
                           "-k", "1024", "--device", c.device, "--config", c.config, "--stamps",
                           "--trace", directory / "t", "--schedule", "random:5"},
                          {{"WARPLINE_DRIVER", ""}});
    INFO(c.config << "\n" << child.out << child.err);
    REQUIRE(child.status == 0);
    const std::string stem = directory / "t." + c.config;
    const Json json = parse_json(wltest::read_text(stem + ".json"));
    std::set<std::string> rows, waits;
    for (const Json& event : json.find("traceEvents")->items) {
      if (event.find("name")->text == "thread_name")
        rows.insert(event.find("args")->find("name")->text);
      if (event.find("cat") && event.find("cat")->text == "wait")
        waits.insert(event.find("name")->text);
    }
    for (const std::string& row : c.rows) CHECK(rows.count(row) == 1);
    CHECK(waits.count(c.wait) == 1);
    const std::string svg = wltest::read_text(stem + ".svg");
    CHECK_THAT(svg, ContainsSubstring("no time of a device") && ContainsSubstring("</svg>"));
  }
}

TEST_CASE("stamps: without a place for the timeline nothing runs", "[virtual][stamps]") {
  const wltest::ChildResult child =
      wltest::run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "64", "--device",
                         "virtual:b200", "--stamps"},
                        {{"WARPLINE_DRIVER", ""}});
  CHECK(child.status == 2);
  CHECK_THAT(child.err, ContainsSubstring("--stamps needs --trace PREFIX"));
  for (const char* stamps : {"--verify", "--stamps"}) {
    const wltest::ChildResult nowhere =
        wltest::run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "64", "--device",
                           "virtual:b200", stamps, "--trace", "/dev/null/t"},
                          {{"WARPLINE_DRIVER", ""}});
    CHECK(nowhere.status == 2);
    CHECK(nowhere.out == "");
    CHECK_THAT(nowhere.err,
               ContainsSubstring("/dev/null/t: cannot be written: /dev/null is not a directory"));
  }
}

TEST_CASE("stamps: ptxas takes stamped kernels without spills", "[virtual][stamps]") {
  const std::string ptxas = wltest::run_child({wltest::source_file("tools/find_ptxas.sh")}).out;
  if (ptxas.empty()) WL_SKIP("no ptxas");
  const wltest::TemporaryDirectory directory;
  for (const auto& [row, target] : {std::pair{"dual_gemm_sm90_t256_f16", "sm_90a"},
                                    {"dual_gemm_sm90_t64_f16", "sm_90a"},
                                    {"dual_gemm_sm100_pair_n128_f16", "sm_100a"}}) {
    const std::string ptx = wltest::read_text(wltest::build_file("ptx/") + row + ".ptx");
    wltest::write_text(directory / "k.ptx", stamp(ptx).text);
    const wltest::ChildResult child =
        wltest::run_child({ptxas.substr(0, ptxas.find('\n')), "-v", std::string("-arch=") + target,
                           directory / "k.ptx", "-o", directory / "k.cubin"});
    INFO(row << "\n" << child.err);
    CHECK(child.status == 0);
    CHECK_THAT(child.err, ContainsSubstring(" 0 bytes spill stores"));
    CHECK(child.err.find("C75") == std::string::npos);
  }
}
