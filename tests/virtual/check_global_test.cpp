// Definedness of global memory: what nobody has written may be moved, and is reported where it is
// computed with and stored, or becomes an address, a predicate, an atomic's or a tensor operand.
#include "tests/support/vgpu_kernels.hpp"
#include "tests/virtual/copy_text.hpp"
#include "tools/vgpu/check/options.hpp"

using namespace wltest;
using namespace wltest::copies;
using namespace vgpu;

namespace {

// %rd1: 4 KiB that nobody has written, %rd2: the same for output, %rd3: 4 KiB of zeros of which
// %rd4 is a part: this thread's word of it. %r20: shared memory of 1 KiB, %p0: thread 0.
const char* const kBuffers = R"(
  .shared .align 128 .b8 tile[1024];
  .shared .align 8 .b64 bar[2];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u64 %rd3, [zeros];
  mov.u32 %r0, %tid.x;
  setp.eq.u32 %p0, %r0, 0;
  mov.u32 %r20, tile;
  mul.wide.u32 %rd9, %r0, 4;
  add.u64 %rd1, %rd1, %rd9;
  add.u64 %rd2, %rd2, %rd9;
  add.u64 %rd4, %rd3, %rd9;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
  @%p0 mbarrier.init.shared::cta.b64 [bar+8], 1;
  bar.sync 0;
)";

struct Memory {
  Vgpu gpu{"b200"};
  uint64_t in = gpu.allocate(4096), out = gpu.allocate(4096);
  uint64_t zeros = gpu.upload(std::vector<uint8_t>(4096));
  RunResult run(const std::string& body, uint32_t checks = check::kDefinedness,
                const std::string& schedule = "lazy") {
    wltest::Launch l;
    l.checks = checks;
    l.schedule = schedule;
    return gpu.run(module_text(kBuffers + body + "\n  ret;\n",
                               ".param .u64 in, .param .u64 out, .param .u64 zeros"),
                   Params().u64(in).u64(out).u64(zeros), l);
  }
};

void reported(const std::string& body, const std::string& rule, const std::string& text = "") {
  Memory m;
  const RunResult r = m.run(body);
  INFO(body << "\n" << r.text);
  CHECK(r.faulted("definedness", rule + ": "));
  CHECK(r.text.find(text) != std::string::npos);
  CHECK(Memory().run(body, 0).ok);
}

void silent(const std::string& body) {
  for (const std::string& schedule : schedules()) {
    const RunResult r = Memory().run(body, check::kAll, schedule);
    INFO(schedule << body << "\n" << r.text);
    CHECK(r.ok);
  }
}

// Thread 0 loads `bytes` from %rd1 into the tile, and all wait.
std::string bulk_load(uint32_t bytes) {
  const std::string n = std::to_string(bytes);
  return "  @!%p0 bra issued;\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " + n +
         ";\n  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1], " +
         n + ", [bar];\nissued:\n" + kWait;
}
const std::string kBulkStore = R"(
  @!%p0 bra stored;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r20], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
stored:
)";
const std::string kWord = "  shl.b32 %r1, %r0, 2;\n  add.u32 %r1, %r20, %r1;\n"; // of the tile

} // namespace

TEST_CASE("definedness: what is computed from unwritten global memory", "[virtual]") {
  reported("  ld.global.u32 %r1, [%rd1];\n  add.u32 %r1, %r1, 1;\n  st.global.u32 [%rd2], %r1;",
           "output");
  reported("  ld.global.u32 %r1, [%rd1];\n  add.u32 %r1, %r1, 1;\n  st.u32 [%rd2], %r1;", "output");
  reported("  ld.global.f32 %f1, [%rd1];\n  cvt.rn.f16.f32 %h1, %f1;\n  st.global.b16 [%rd2], %h1;",
           "output");
  reported("  ld.global.u32 %r1, [%rd1];\n  setp.gt.u32 %p1, %r1, 5;\n"
           "  @%p1 st.global.u32 [%rd2], 1;",
           "predicate");
  reported("  ld.global.u32 %r1, [%rd1];\n  and.b32 %r1, %r1, 0x3F;\n  cvt.u64.u32 %rd5, %r1;\n"
           "  shl.b64 %rd5, %rd5, 2;\n  add.u64 %rd5, %rd5, %rd3;\n  st.global.u32 [%rd5], 1;",
           "operand");
  // Copies carry it: from one word to another, through shared memory, by every kind of copy.
  reported("  ld.global.u32 %r1, [%rd1];\n  st.global.u32 [%rd4], %r1;\n"
           "  ld.global.u32 %r2, [%rd4];\n  add.u32 %r2, %r2, 1;\n  st.global.u32 [%rd2], %r2;",
           "output");
  const std::string use = kWord + "  ld.shared.u32 %r2, [%r1];\n  add.u32 %r2, %r2, 1;\n"
                                  "  st.global.u32 [%rd4], %r2;\n";
  reported(kWord + "  ld.global.u32 %r2, [%rd1];\n  st.shared.u32 [%r1], %r2;\n" + use, "output");
  reported(kWord +
               "  cp.async.ca.shared.global [%r1], [%rd1], 4;\n  cp.async.wait_all;\n"
               "  bar.sync 0;\n" +
               use,
           "output");
  reported(bulk_load(256) + use, "output");
  // Computed with before it went through shared memory.
  reported(kWord + "  ld.global.u32 %r2, [%rd1];\n  add.u32 %r2, %r2, 1;\n"
                   "  st.shared.u32 [%r1], %r2;\n  ld.shared.u32 %r3, [%r1];\n"
                   "  st.global.u32 [%rd4], %r3;",
           "output");
  reported(bulk_load(256) + kBulkStore +
               "  bar.sync 0;\n  ld.global.u32 %r2, [%rd2];\n  add.u32 %r2, %r2, 1;\n"
               "  st.global.u32 [%rd4], %r2;",
           "output");
  // Written, then discarded.
  reported("  add.u64 %rd5, %rd3, 0;\n  discard.global.L2 [%rd5], 128;\n"
           "  ld.global.u32 %r1, [%rd4];\n  ld.global.u32 %r2, [%rd2+128];\n"
           "  add.u32 %r1, %r1, %r2;\n  st.global.u32 [%rd2], %r1;",
           "output");
}

TEST_CASE("definedness: unwritten global memory that is only moved", "[virtual]") {
  silent("  ld.global.u32 %r1, [%rd1];\n  st.global.u32 [%rd2], %r1;");
  silent("  ld.global.u8 %h1, [%rd1];\n  cvt.u32.u16 %r1, %h1;\n  st.global.u8 [%rd2], %r1;");
  silent("  ld.global.u16 %h1, [%rd1];\n  ld.global.u16 %h2, [%rd4];\n"
         "  mov.b32 %r1, {%h1, %h2};\n  st.global.u32 [%rd2], %r1;");
  silent("  ld.global.u32 %r1, [%rd1];\n  ld.global.u32 %r2, [%rd1+128];\n"
         "  selp.b32 %r1, %r1, %r2, %p0;\n  st.global.u32 [%rd2], %r1;");
  // Computed with, and thrown away.
  silent("  ld.global.u32 %r1, [%rd1];\n  add.u32 %r1, %r1, 1;\n  setp.lt.u32 %p1, %r0, 99;\n"
         "  selp.b32 %r1, 7, %r1, %p1;\n  st.global.u32 [%rd2], %r1;");
  silent(kWord + "  ld.global.u32 %r2, [%rd1];\n  st.shared.u32 [%r1], %r2;\n"
                 "  ld.shared.u32 %r3, [%r1];\n  st.global.u32 [%rd2], %r3;");
  silent(kWord + "  cp.async.ca.shared.global [%r1], [%rd1], 4;\n  cp.async.wait_all;\n"
                 "  ld.shared.u32 %r3, [%r1];\n  st.global.u32 [%rd2], %r3;");
  silent(bulk_load(256) + kBulkStore);
}

TEST_CASE("definedness: what is written in part", "[virtual]") {
  Memory m;
  const std::vector<uint8_t> ones(4096, 1);
  // Structures {u32, u32 gap, u8, three bytes gap, u32}.
  for (uint64_t at = 0; at < 4096; at += 16)
    for (auto [first, bytes] : {std::pair{0, 4}, {8, 1}, {12, 4}})
      m.gpu.write(m.in + at + uint64_t(first), ones.data(), size_t(bytes));
  const std::string load = "  add.u64 %rd5, %rd9, %rd9;\n  add.u64 %rd5, %rd5, %rd5;\n"
                           "  sub.u64 %rd1, %rd1, %rd9;\n  add.u64 %rd1, %rd1, %rd5;\n"
                           "  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n";
  RunResult r = m.run(load + "  add.u32 %r1, %r1, %r4;\n  and.b32 %r3, %r3, 255;\n"
                             "  add.u32 %r1, %r1, %r3;\n  st.global.u32 [%rd2], %r1;");
  INFO(r.text);
  CHECK(r.ok);
  CHECK(m.gpu.download<uint32_t>(m.out, 1)[0] == 0x01010101 * 2 + 1);
  // The structure moves as it is; only its gap stays unwritten.
  const std::string move = load + "  sub.u64 %rd2, %rd2, %rd9;\n  add.u64 %rd2, %rd2, %rd5;\n"
                                  "  st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};\n"
                                  "  ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd2];\n";
  r = m.run(move + "  add.u32 %r5, %r5, %r8;\n  st.global.u32 [%rd4], %r5;");
  INFO(r.text);
  CHECK(r.ok);
  CHECK(m.run(move + "  add.u32 %r6, %r6, 1;\n  st.global.u32 [%rd4], %r6;")
            .faulted("definedness", "output"));
}

TEST_CASE("definedness: atomics and reductions of unwritten memory", "[virtual]") {
  for (const char* body :
       {"  red.global.add.u32 [%rd1], 1;", "  atom.global.add.u32 %r1, [%rd1], 1;",
        "  atom.cas.b32 %r1, [%rd1], 0, 1;", "  red.global.add.f32 [%rd1], 0f3F800000;",
        "  st.shared.u32 [%r20], 1;\n  red.shared.add.u32 [%r20+512], 1;"})
    reported(body, "atomic", "nothing has written");
  reported(kWord + "  st.shared.u32 [%r1], 1;\n  fence.proxy.async.shared::cta;\n  bar.sync 0;\n"
                   "  @!%p0 bra stored;\n"
                   "  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r20], "
                   "128;\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nstored:\n",
           "atomic");
  silent("  red.global.add.u32 [%rd4], 1;\n  atom.global.add.u32 %r1, [%rd4], 1;\n"
         "  st.global.u32 [%rd2], %r1;");
  silent("  atom.global.exch.b32 %r1, [%rd1], 1;\n  ld.relaxed.gpu.global.u32 %r2, [%rd1];\n"
         "  add.u32 %r2, %r2, 1;\n  st.global.u32 [%rd2], %r2;");
}

TEST_CASE("definedness: tensor copies of unwritten rows", "[virtual]") {
  // 16 rows of 64 bytes; rows from `rows` on are never written. Box: all of it.
  const MapSpec spec{0, {64, 16}, {64}, {64, 16}, 0, 0};
  const std::string load = R"(
  ld.param.u64 %rd2, [out];
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1, {0, 0}], [bar];
issued:
)" + std::string(kWait) + kWord +
                           "  ld.shared.u32 %r2, [%r1+512];\n";
  auto run = [&](const std::string& body, size_t rows) {
    Vgpu gpu;
    const uint64_t in = gpu.allocate(1024), out = gpu.allocate(1024);
    gpu.write(in, std::vector<uint8_t>(rows * 64).data(), rows * 64);
    MapBytes map{};
    make_map(in, spec, map);
    wltest::Launch l;
    l.checks = check::kAll;
    return gpu.run(module_text(kHead + body + "  ret;\n", kParams),
                   Params().raw(map.bytes, 128, 64).u64(in).u64(out), l);
  };
  const std::string add = "  add.u32 %r2, %r2, 1;\n  cvt.u64.u32 %rd3, %r0;\n"
                          "  mad.lo.u64 %rd2, %rd3, 4, %rd2;\n  st.global.u32 [%rd2], %r2;\n";
  CHECK(run(load + add, 8).faulted("definedness", "output"));
  CHECK(run(load, 8).ok);
  const RunResult right = run(load + add, 10); // 32 threads: rows 8 and 9
  INFO(right.text);
  CHECK(right.ok);

  // Stores: shared memory that nobody wrote becomes output; what came from unwritten rows moves.
  auto stored = [&](const std::string& before) {
    Vgpu gpu;
    const uint64_t in = gpu.allocate(1024), out = gpu.allocate(1024);
    MapBytes map{};
    make_map(out, spec, map);
    wltest::Launch l;
    l.checks = check::kAll;
    return gpu
        .run(module_text(kHead + before + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {0, 0}], [%r20];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;
)",
                         kParams),
             Params().raw(map.bytes, 128, 64).u64(in).u64(out), l)
        .text;
  };
  CHECK(stored(tile_in(1024)) == "");
  const std::string said = stored(tile_in(512));
  INFO(said);
  CHECK(said.find("definedness: output: ") != std::string::npos);
  CHECK(said.find("get bytes of shared memory that nothing has written") != std::string::npos);
}

TEST_CASE("definedness: an operand of the tensor core that was never written", "[virtual]") {
  // tcgen05.cp of what a bulk load brought.
  auto run = [](bool written) {
    Memory m;
    if (written) m.gpu.write(m.in, std::vector<uint8_t>(16).data(), 16);
    return m.run(R"(
  .shared .align 8 .b64 place;
  mov.u32 %r30, place;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r30], 32;
  bar.sync 0;
  ld.shared.u32 %r31, [%r30];
)" + bulk_load(512) +
                 R"(
  shr.u32 %r1, %r20, 4;
  and.b32 %r1, %r1, 0x3FFF;
  cvt.u64.u32 %rd5, %r1;
  or.b64 %rd5, %rd5, 0x0000400800080000;
  @%p0 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r31], %rd5;
  @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [bar+8];
w1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
  @!%p1 bra w1;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r31, 32;
)");
  };
  const RunResult bad = run(false);
  INFO(bad.text);
  CHECK(bad.faulted("definedness", "copied from global memory that nobody has written"));
  const RunResult good = run(true);
  INFO(good.text);
  CHECK(good.ok);
}

TEST_CASE("definedness: a fragment of wgmma that was never written", "[virtual]") {
  // A in registers, B of zeros; the fragment's last register gets `value`.
  auto run = [](const std::string& value, const std::string& behind = "") {
    Vgpu gpu("h200");
    const uint64_t in = gpu.allocate(1024), out = gpu.allocate(4096);
    wltest::Launch l;
    l.block = {128};
    l.checks = check::kAll;
    return gpu.run(module_text(R"(
  .shared .align 1024 .b8 tile[4096];
  ld.param.u64 %rd1, [in];
  mov.u32 %r0, %tid.x;
  mov.u32 %r20, tile;
  shl.b32 %r1, %r0, 5;
  add.u32 %r1, %r20, %r1;
  mov.b32 %r2, 0;
  st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};
  st.shared.v4.b32 [%r1+16], {%r2, %r2, %r2, %r2};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r20, %r20, 4;
  cvt.u64.u32 %rd2, %r20;
  or.b64 %rd2, %rd2, 0x4000004000010000;
  mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0;
  mov.b32 %r3, 0; mov.b32 %r4, 0; mov.b32 %r5, 0; mov.b32 %r6, 0;
  setp.ne.u32 %p2, %r0, %r0;
)" + value + R"(
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r3, %r4, %r5, %r6}, {%r10, %r11, %r12, %r13}, %rd2, %p2, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)" + behind + R"(
  ret;
)",
                               ".param .u64 in, .param .u64 out", "sm_90a"),
                   Params().u64(in).u64(out), l);
  };
  const RunResult bad = run("");
  INFO(bad.text);
  CHECK(bad.faulted("definedness", "operand: register %r13"));
  // Half of the threads have a row.
  CHECK(run("  setp.lt.u32 %p3, %r0, 64;\n  @%p3 mov.b32 %r13, 0;").faulted("definedness"));
  for (const char* value : {"  mov.b32 %r13, 0;", "  ld.global.b32 %r13, [%rd1];",
                            "  ld.global.b32 %r13, [%rd1];\n  add.u32 %r13, %r13, 1;"}) {
    const RunResult right = run(value);
    INFO(value << right.text);
    CHECK(right.ok);
  }
  // Accumulators that another instruction has touched since the last fence, also by reading them.
  const std::string again = R"(
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r3, %r4, %r5, %r6}, {%r10, %r11, %r12, %r13}, %rd2, %p2, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;)";
  const std::string written = "  mov.b32 %r13, 0;", read = "  add.u32 %r21, %r4, %r4;\n",
                    fence = "  wgmma.fence.sync.aligned;\n";
  CHECK(run(written, read + again)
            .faulted("definedness", "register %r4 was read by another instruction"));
  CHECK(run(written, "  mov.b32 %r5, 0;\n" + again)
            .faulted("definedness", "register %r5 was written by another instruction"));
  CHECK(run(written, again).ok);
  CHECK(run(written, read + fence + again).ok);
}

TEST_CASE("definedness: what the host writes, fills and copies", "[virtual]") {
  using namespace wltest::kernels;
  VgpuDriver d("h200");
  d.open();
  d.set_option("check", "all");
  JitResult j = jit(d, kScale);
  REQUIRE(j.result == CUDA_SUCCESS);
  const CUfunction f = entry_of(d, j.module, "scale");
  const std::vector<uint32_t> data(64, 3);
  const CUdeviceptr written = d.upload(data);
  auto fresh = [&] {
    CUdeviceptr p = 0;
    REQUIRE(d.cu.MemAlloc(&p, 256) == CUDA_SUCCESS);
    return p;
  };
  // The kernel multiplies 64 words of `from`; a fault spoils the context, so it comes last.
  auto clean = [&](CUdeviceptr from) {
    CUdeviceptr to = fresh();
    uint32_t factor = 2;
    wltest::kernels::Launch l;
    l.grid = 2;
    launch(d, f, l, {&from, &factor, &to});
    return d.cu.CtxSynchronize() == CUDA_SUCCESS;
  };
  CUdeviceptr p = fresh();
  CHECK(d.download<uint32_t>(p, 64)[63] == 0xC7C7C7C7); // to look at it is no fault
  REQUIRE(d.cu.MemcpyDtoH(std::vector<uint32_t>(64).data(), p, 256) == CUDA_SUCCESS);
  REQUIRE(d.cu.MemcpyHtoD(p, data.data(), 128) == CUDA_SUCCESS);
  REQUIRE(d.cu.MemcpyHtoD(p + 128, data.data(), 128) == CUDA_SUCCESS);
  CHECK(clean(p));
  auto memset32 = d.symbol<CUresult(CUdeviceptr, unsigned, size_t)>("cuMemsetD32_v2");
  p = fresh();
  REQUIRE(memset32(p, 7, 64) == CUDA_SUCCESS);
  CHECK(clean(p));
  auto copy = d.symbol<CUresult(CUdeviceptr, CUdeviceptr, size_t)>("cuMemcpyDtoD_v2");
  p = fresh();
  REQUIRE(copy(p, written, 256) == CUDA_SUCCESS);
  CHECK(clean(p));
  // Without the check nobody keeps count; with it again, what there is counts as written.
  CUdeviceptr unwritten = fresh();
  d.set_option("check", "races");
  d.set_option("check", "all");
  CHECK(clean(unwritten));
  unwritten = fresh();
  p = fresh();
  REQUIRE(copy(p, written, 256) == CUDA_SUCCESS);
  REQUIRE(copy(p + 128, unwritten, 4) == CUDA_SUCCESS);
  CHECK_FALSE(clean(p));
  CHECK(std::string(d.report()).find("definedness: output: ") != std::string::npos);
}

TEST_CASE("definedness: explored runs start with the same unwritten bytes", "[virtual]") {
  Memory m;
  // A run that leaves `in` written would hide the read from the runs behind it.
  const std::string body = "  ld.global.u32 %r1, [%rd1];\n  st.global.u32 [%rd1], 1;\n"
                           "  st.global.u32 [%rd2], %r1;";
  CHECK(m.run(body, check::kDefinedness, "explore:4").ok);
  CHECK(m.gpu.memory().written(m.in, 4) != nullptr);
  CHECK(*m.gpu.memory().written(m.in, 4) == 1);
  CHECK(*m.gpu.memory().written(m.out, 4) == 0);
}
