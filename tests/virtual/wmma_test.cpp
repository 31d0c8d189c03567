// wmma.load, wmma.mma and wmma.store, from memory to memory.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tests/virtual/wmma_text.hpp"
#include "tools/vgpu/check/options.hpp"

using namespace wltest;
using wmma::Form;
using wmma::Product;

namespace {

const std::string kHead =
    "  .reg .b64 pa, pb, pc, pd;\n  ld.param.u64 pa, [a];\n"
    "  ld.param.u64 pb, [b];\n  ld.param.u64 pc, [c];\n  ld.param.u64 pd, [d];\n";

RunResult run(const std::string& body, const Product& p, std::vector<uint8_t>* out,
              uint32_t checks = 0, uint32_t threads = 32) {
  Vgpu gpu;
  Launch l;
  l.block = {threads, 1, 1};
  l.checks = checks;
  const uint64_t a = gpu.upload(p.a.bytes), b = gpu.upload(p.b.bytes), c = gpu.upload(p.c.bytes),
                 d = gpu.upload(std::vector<uint8_t>(p.d.bytes.size(), 0));
  RunResult r = gpu.run(module_text(kHead + body + "  ret;\n",
                                    ".param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d"),
                        Params().u64(a).u64(b).u64(c).u64(d), l);
  if (out) *out = gpu.download<uint8_t>(d, p.d.bytes.size());
  return r;
}

} // namespace

TEST_CASE("wmma: every form", "[virtual][wmma]") {
  uint32_t seed = 4000;
  for (const Form& f : wmma::forms())
    for (uint32_t gap : {0u, 1u})
      for (const char* space : {".global", ""}) {
        const Product p(f, ++seed, gap);
        INFO(p.name() << " space " << space << " gap " << gap << " seed " << seed);
        std::vector<uint8_t> out;
        RunResult r = run(p.text(space), p, &out, vgpu::check::kAll);
        INFO(r.text);
        REQUIRE(r.ok);
        REQUIRE(out == p.d.bytes);
      }
}

TEST_CASE("wmma: fragments in shared memory, and what is done to every element",
          "[virtual][wmma]") {
  const Product p({"m16n16k16", "f16", "f32", "f32", "row", "col", "row", "row"}, 4200, 0);
  // A comes to shared memory first; the product is doubled before it is stored.
  std::string text = p.text("");
  std::string copy = R"(
  .shared .align 32 .b8 tile[512];
  .reg .b32 lane, at; .reg .b64 wide; .reg .b32 w<4>;
  mov.u32 lane, %tid.x;
  mul.wide.u32 wide, lane, 16;
  add.u64 wide, pa, wide;
  ld.global.v4.b32 {w0, w1, w2, w3}, [wide];
  mov.u32 at, tile;
  mad.lo.u32 at, lane, 16, at;
  st.shared.v4.b32 [at], {w0, w1, w2, w3};
  bar.warp.sync -1;
)";
  const size_t load = text.find("wmma.load.a");
  const size_t type = text.find(".f16", load), address = text.find("[pa]", load);
  text.replace(address, 4, "[tile]");
  text.insert(type, ".shared");
  text.insert(text.find("  wmma.load.a"), copy);
  std::string twice;
  for (int i = 0; i < 8; ++i) {
    const std::string d = "wd" + std::to_string(i);
    twice += "  add.f32 " + d + ", " + d + ", " + d + ";\n";
  }
  text.insert(text.find("  wmma.store"), twice);
  std::vector<uint8_t> out;
  RunResult r = run(text, p, &out, vgpu::check::kAll);
  INFO(text << r.text);
  REQUIRE(r.ok);
  for (uint32_t i = 0; i < 256; ++i) {
    float x;
    std::memcpy(&x, &out[4 * i], 4);
    REQUIRE(x == 2 * p.d.value[i]);
  }
  // The barrier is what orders the stores before the loads of other lanes.
  text.erase(text.find("  bar.warp.sync -1;"), 19);
  RunResult raced = run(text, p, &out, vgpu::check::kRaces);
  INFO(raced.text);
  CHECK(raced.faulted("races", "wmma.load.a"));
}

TEST_CASE("wmma and mma: sums of f64 round as the opcode says", "[virtual][wmma]") {
  // One product, (1 + 2^-52)^2, to which lanes of the accumulator add -1 or 1: inexact both times.
  const double x = 1 + 0x1p-52;
  Product p({"m8n8k4", "f64", "f64", "f64", "row", "col", "row", "row"}, 4250, 0);
  for (uint32_t r = 0; r < 8; ++r)
    for (uint32_t k = 0; k < 4; ++k) {
      p.a.set(r, k, wmma::encode("f64", k == 0 ? x : 0), 0);
      p.b.set(k, r, wmma::encode("f64", k == 0 ? (r % 2 ? x : -x) : 0), 0);
      for (uint32_t half : {0u, 4u}) p.c.set(r, k + half, wmma::encode("f64", 0.0), 0);
    }
  const struct {
    const char* name;
    double up, down; // x * x = 1 + 2^-51 + 2^-104, and its negative
  } modes[] = {{"", 1 + 0x1p-51, -1 - 0x1p-51},
               {".rn", 1 + 0x1p-51, -1 - 0x1p-51},
               {".rz", 1 + 0x1p-51, -1 - 0x1p-51},
               {".rm", 1 + 0x1p-51, -1 - 0x1p-51 - 0x1p-52},
               {".rp", 1 + 0x1p-51 + 0x1p-52, -1 - 0x1p-51}};
  for (const auto& mode : modes)
    for (bool behind : {false, true})
      for (bool fragments : {true, false}) {
        std::string text = p.text(".global"), op = "wmma.mma.sync.aligned.row.col.m8n8k4";
        const size_t at = text.find(op);
        text.insert(behind ? text.find(" ", at) : at + op.size(), mode.name);
        // The same fragments serve mma.sync.
        if (!fragments) text.replace(at, op.size(), "mma.sync.aligned.m8n8k4.row.col");
        std::vector<uint8_t> out;
        RunResult r = run(text, p, &out);
        INFO(text << r.text);
        REQUIRE(r.ok);
        for (uint32_t i = 0; i < 64; ++i) {
          double got;
          std::memcpy(&got, &out[8 * i], 8);
          REQUIRE(got == (i % 2 ? mode.up : mode.down));
        }
      }
}

TEST_CASE("wmma: what is wrong", "[virtual][wmma]") {
  const Product p({"m16n16k16", "f16", "f32", "f32", "row", "col", "row", "row"}, 4300, 1);
  auto bent = [&](const std::string& from, const std::string& to) {
    std::string text = p.text(".global");
    text.replace(text.find(from), from.size(), to);
    return run(text, p, nullptr);
  };
  CHECK(bent("[pa]", "[pa+16]").faulted("alignment", "fragment's size of 32 bytes"));
  CHECK(bent("[pa], 24", "[pa], 20").faulted("alignment", "40 bytes; it must be a multiple of 16"));
  CHECK(bent("[pb], 24", "[pb], 1000000").faulted("bounds"));
  CHECK(bent(", wa7}", "}").refused("the fragment has 7 registers; shape and type take 8"));
  CHECK(bent("wmma.load.c.sync.aligned.row.m16n16k16", "wmma.load.c.sync.aligned.row.m8n8k32")
            .refused("no wmma.mma of this shape has accumulators of .f32"));
  CHECK(run(p.text(".global"), p, nullptr, 0, 16).faulted("aligned", "all 32 lanes"));
  std::string lanes = p.text(".global");
  lanes.insert(lanes.find("  wmma.load.b"), "  .reg .b32 lane; .reg .b64 more;\n  mov.u32 lane, "
                                            "%laneid;\n  mul.wide.u32 more, lane, 32;\n  add.u64 "
                                            "pb, pb, more;\n");
  CHECK(run(lanes, p, nullptr).faulted("uniform", "the same in all lanes"));
}
