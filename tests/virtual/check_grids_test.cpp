// Grids that may start before those ahead of them in the stream have ended (programmatic dependent
// launch): what they touch before griddepcontrol.wait.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_kernels.hpp"

#include <string>

using namespace wltest;
using namespace wltest::kernels;

namespace {

// `first` writes a and reads b; `second` runs `body`, with a, b, c in %rd1 .. %rd3; `middle` runs
// its own.
std::string module_of(const std::string& body, const std::string& middle = "") {
  const std::string head = "(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n"
                           "  .reg .pred %p<4>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<8>;\n"
                           "  .shared .align 16 .b8 area[64];\n  .shared .align 8 .b64 bar;\n"
                           "  ld.param.u64 %rd1, [a];\n  ld.param.u64 %rd2, [b];\n"
                           "  ld.param.u64 %rd3, [c];\n  mov.u32 %r1, %tid.x;\n"
                           "  setp.eq.u32 %p1, %r1, 0;\n  mul.wide.u32 %rd4, %r1, 4;\n"
                           "  add.u64 %rd1, %rd1, %rd4;\n  add.u64 %rd2, %rd2, %rd4;\n"
                           "  add.u64 %rd3, %rd3, %rd4;\n";
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry first" + head +
         "  griddepcontrol.launch_dependents;\n  ld.global.u32 %r2, [%rd2];\n"
         "  st.global.u32 [%rd1], %r2;\n  ret;\n}\n.visible .entry second" +
         head + body + "  ret;\n}\n.visible .entry middle" + head + middle + "  ret;\n}\n";
}

enum class Between { nothing, copy, synchronisation, stream };
// Which of the launches are a graph's.
enum class Graph { none, both, second };

// What the launches say when `second` comes behind `first`; "" when it is clean.
std::string report_of(const std::string& body, bool programmatic = true,
                      Between between = Between::nothing, const char* checks = "all,advice",
                      Graph graph = Graph::none, const std::string* middle = nullptr,
                      unsigned ctas = 1) {
  VgpuDriver d("h200");
  d.open();
  d.set_option("check", checks);
  const std::string text = module_of(body, middle != nullptr ? *middle : "");
  JitResult r = jit(d, text.c_str());
  INFO(text << r.error);
  REQUIRE(r.result == CUDA_SUCCESS);
  const std::vector<uint32_t> zeros(64);
  CUdeviceptr a = d.upload(zeros), b = d.upload(zeros), c = d.upload(zeros);
  Launch l;
  l.block = 64;
  const auto capture = [&](bool starts) {
    if (starts)
      REQUIRE(d.cu.StreamBeginCapture(l.stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  };
  if (graph != Graph::none)
    REQUIRE(d.cu.StreamCreate(&l.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  capture(graph == Graph::both);
  REQUIRE(launch(d, entry_of(d, r.module, "first"), l, {&a, &b, &c}) == CUDA_SUCCESS);
  capture(graph == Graph::second);
  if (between == Between::copy) REQUIRE(d.cu.MemcpyHtoD(c, zeros.data(), 4) == CUDA_SUCCESS);
  if (between == Between::synchronisation) REQUIRE(d.cu.CtxSynchronize() == CUDA_SUCCESS);
  if (between == Between::stream)
    REQUIRE(d.cu.StreamCreate(&l.stream, 1 /* CU_STREAM_NON_BLOCKING */) == CUDA_SUCCESS);
  CUlaunchAttribute dependent{};
  dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  dependent.value.programmaticStreamSerializationAllowed = programmatic;
  l.attributes = {dependent};
  if (middle != nullptr) {
    Launch between_them = l;
    between_them.grid = ctas;
    REQUIRE(launch(d, entry_of(d, r.module, "middle"), between_them, {&a, &b, &c}) == CUDA_SUCCESS);
  }
  launch(d, entry_of(d, r.module, "second"), l, {&a, &b, &c});
  if (graph != Graph::none) {
    CUgraph captured = nullptr;
    CUgraphExec executable = nullptr;
    REQUIRE(d.cu.StreamEndCapture(l.stream, &captured) == CUDA_SUCCESS);
    REQUIRE(d.cu.GraphInstantiate(&executable, captured, 0) == CUDA_SUCCESS);
    d.cu.GraphLaunch(executable, l.stream);
  }
  return d.cu.CtxSynchronize() == CUDA_SUCCESS ? "" : d.report();
}

const std::string kRead = "  ld.global.u32 %r2, [%rd1];\n  st.global.u32 [%rd3], %r2;\n";
const std::string kWait = "  griddepcontrol.wait;\n";

} // namespace

TEST_CASE("grids: a read of what the grid ahead writes needs griddepcontrol.wait", "[virtual]") {
  const std::string said = report_of(kRead);
  INFO(said);
  CHECK(said.find("races: order: read of global memory") != std::string::npos);
  CHECK(said.find("write of the same bytes by a grid before it in the stream") !=
        std::string::npos);
  CHECK(said.find("missing: griddepcontrol.wait by this thread, or") != std::string::npos);
  CHECK(report_of(kWait + kRead) == "");
  CHECK(report_of(kRead + kWait) != "");
  // One thread waits, a barrier tells the others.
  CHECK(report_of("  @%p1 griddepcontrol.wait;\n  bar.sync 0;\n" + kRead) == "");
  CHECK(report_of("  bar.sync 0;\n  @%p1 griddepcontrol.wait;\n" + kRead) != "");
  // Bytes that the other does not write may be read at once.
  CHECK(report_of("  ld.global.u32 %r2, [%rd3];\n  st.global.u32 [%rd3], %r2;\n") == "");
  CHECK(report_of("  ld.global.u32 %r2, [%rd2];\n  st.global.u32 [%rd3], %r2;\n") == "");
  CHECK(report_of(kRead, true, Between::nothing, "definedness,barriers") == "");
}

TEST_CASE("grids: a write of what the grid ahead reads or writes needs it too", "[virtual]") {
  for (const char* at : {"%rd1", "%rd2"}) {
    const std::string write = std::string("  st.global.u32 [") + at + "], 7;\n";
    const std::string said = report_of(write);
    INFO(write << said);
    CHECK(said.find("races: order: write of global memory") != std::string::npos);
    CHECK(report_of(kWait + write) == "");
  }
}

TEST_CASE("grids: only launches that ask for it overlap, and only with the one ahead",
          "[virtual]") {
  CHECK(report_of(kRead, false) == "");
  for (const Between b : {Between::copy, Between::synchronisation, Between::stream}) {
    INFO(int(b));
    CHECK(report_of(kRead, true, b) == "");
  }
}

TEST_CASE("grids: what is ahead of a grid that waits before it signals is over behind it",
          "[virtual]") {
  const auto report = [](const std::string& middle, const std::string& body) {
    return report_of(body, true, Between::nothing, "all", Graph::none, &middle);
  };
  const std::string signal = "  griddepcontrol.launch_dependents;\n";
  const std::string write = "  st.global.u32 [%rd3], 7;\n";
  const std::string mine = "  ld.global.u32 %r2, [%rd1];\n";
  CHECK(report(kWait + signal, mine) == "");
  CHECK(report(kWait, mine) == "");
  CHECK(report("  @%p1 griddepcontrol.wait;\n  bar.sync 0;\n" + signal, mine) == "");
  // What the grid between does itself is not.
  CHECK(report(kWait + signal + write, "  ld.global.u32 %r2, [%rd3];\n") != "");
  CHECK(report(kWait + signal + write, kWait + "  ld.global.u32 %r2, [%rd3];\n") == "");
  CHECK(report(signal + kWait, mine) != "");
  CHECK(report("  @%p1 griddepcontrol.wait;\n" + signal, mine) != "");
  CHECK(report(signal, mine) != "");
  CHECK(report("", mine) != "");
}

TEST_CASE("grids: one CTA that waits before it signals is enough, as all must signal or end",
          "[virtual]") {
  const auto report = [](const std::string& of_cta_0) {
    const std::string middle = "  mov.u32 %r3, %ctaid.x;\n  setp.ne.u32 %p2, %r3, 0;\n"
                               "  @%p2 bra other;\n" +
                               of_cta_0 + "other:\n";
    return report_of("  ld.global.u32 %r2, [%rd1];\n", true, Between::nothing, "all", Graph::none,
                     &middle, 2);
  };
  CHECK(report(kWait + "  griddepcontrol.launch_dependents;\n") == "");
  CHECK(report(kWait) == "");
  CHECK(report("  griddepcontrol.launch_dependents;\n" + kWait) != "");
  CHECK(report("") != "");
}

TEST_CASE("grids: one in which nobody waits may end before what is ahead of it", "[virtual]") {
  const auto report = [](const std::string& middle, const std::string& body) {
    return report_of(body, true, Between::nothing, "all", Graph::none, &middle);
  };
  const std::string mine = kWait + "  ld.global.u32 %r2, [%rd1];\n";
  const std::string said = report("", mine);
  INFO(said);
  CHECK(said.find("missing: griddepcontrol.wait by a thread of a grid between the two") !=
        std::string::npos);
  CHECK(report("  @%p1 griddepcontrol.wait;\n", mine) == "");
  // What the grid between writes is over.
  CHECK(report("  st.global.u32 [%rd3], 7;\n", kWait + "  ld.global.u32 %r2, [%rd3];\n") == "");
}

TEST_CASE("grids: kernels of a graph overlap each other, and nothing ahead of it", "[virtual]") {
  const auto report = [](Graph graph, const std::string& body) {
    return report_of(body, true, Between::nothing, "all,advice", graph);
  };
  CHECK(report(Graph::both, kRead).find("races: order: read of global memory") !=
        std::string::npos);
  CHECK(report(Graph::both, kWait + kRead) == "");
  CHECK(report(Graph::second, kRead) == "");
}

TEST_CASE("grids: a copy by the async proxy of what threads of the grid ahead wrote", "[virtual]") {
  auto copy = [](const std::string& before) {
    return "  @!%p1 bra over;\n  mbarrier.init.shared::cta.b64 [bar], 1;\n"
           "  fence.mbarrier_init.release.cluster;\n" +
           before +
           "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n"
           "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area], [%rd1], "
           "64, "
           "[bar];\nagain:\n  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;\n"
           "  @!%p2 bra again;\nover:\n";
  };
  CHECK(report_of(copy("")).find("races: order: read of") != std::string::npos);
  const std::string said = report_of(copy(kWait));
  INFO(said);
  CHECK(said.find("races: proxy: read of global memory") != std::string::npos);
  CHECK(report_of(copy(kWait), true, Between::nothing, "all") == ""); // advice
  CHECK(report_of(copy(kWait + "  fence.proxy.async;\n")) == "");
  CHECK(report_of(copy("  fence.proxy.async;\n" + kWait)) != "");
}
