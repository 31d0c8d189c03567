// Tensor copies by TMA: loads, stores, reductions, multicast, pairs, gather and im2col under every
// schedule, and the faults.
#include "tests/virtual/copy_text.hpp"

using namespace wltest;
using namespace wltest::copies;

TEST_CASE("TMA: a swizzled tile with rows and columns out of bounds", "[virtual][copy]") {
  // 2-D bytes, 200 x 40, pitch 256; box 128 x 16 at (112, 30) and at (-16, -3).
  std::vector<uint8_t> in = random_bytes(256 * 40, 1);
  const int places[][2] = {{112, 30}, {-16, -3}, {0, 0}, {304, 5}};
  for (auto [x, y] : places)
    for (const std::string& schedule : schedules()) {
      INFO("schedule " << schedule << " at " << x << ", " << y);
      std::string body = R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  prefetch.tensormap [%rd1];
  mov.u32 %r1, )" + std::to_string(x) +
                         R"(;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1, {%r1, )" +
                         std::to_string(y) + R"(}], [bar];
issued:
)" + kWait + tile_out(2048);
      Outcome o = run(body, schedule, &kRows, in, 2048);
      INFO(o.result.text);
      REQUIRE(o.result.ok);
      for (int r = 0; r < 16; ++r)
        for (int c = 0; c < 128; ++c) {
          bool inside = x + c >= 0 && x + c < 200 && y + r >= 0 && y + r < 40;
          uint8_t want = inside ? in[size_t((y + r) * 256 + x + c)] : 0;
          INFO("row " << r << " byte " << c);
          // The tile starts on 1024, so offsets swizzle like addresses.
          REQUIRE(int(o.out[swizzle128(uint32_t(r * 128 + c))]) == int(want));
        }
    }
}

TEST_CASE("TMA: loads of rank 1, 3, 4 and 5, with a cache hint", "[virtual][copy]") {
  std::vector<uint8_t> in = random_bytes(16384, 2);
  for (uint32_t rank : {1u, 3u, 4u, 5u})
    for (const std::string& schedule : schedules()) {
      INFO("rank " << rank << " schedule " << schedule);
      MapSpec spec;
      spec.type = 2; // u32
      std::string coordinates;
      uint64_t pitch = 64;
      for (uint32_t i = 0; i < rank; ++i) {
        spec.dim.push_back(i == 0 ? 16 : 4);
        spec.box.push_back(i == 0 ? 8 : 2);
        if (i + 1 < rank) spec.stride.push_back(pitch), pitch *= 4;
        coordinates += (i ? ", " : "") + std::to_string(i == 0 ? 4 : 1);
      }
      uint32_t bytes = 32 << (rank - 1);
      std::string body =
          R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
          std::to_string(bytes) + R"(;
  mov.u64 %rd2, 0x12F0000000000000;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.)" +
          std::to_string(rank) +
          "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
          "[%r20], [%rd1, {" +
          coordinates + "}], [bar], %rd2;\nissued:\n" + kWait + tile_out(bytes);
      Outcome o = run(body, schedule, &spec, in, bytes < 128 ? 128 : bytes);
      INFO(o.result.text);
      REQUIRE(o.result.ok);
      for (uint32_t b = 0; b < bytes; ++b) {
        uint64_t from = 16 + b % 32, step = 64;
        for (uint32_t i = 1, row = b / 32; i < rank; ++i, row /= 2, step *= 4)
          from += (1 + row % 2) * step;
        REQUIRE(o.out[b] == in[from]);
      }
    }
}

TEST_CASE("TMA: stores clip, wait_group.read lets the source go", "[virtual][copy]") {
  // f32 tensor 20 x 12, pitch 128 bytes; box 16 x 8 from (12, 8): 8 x 4 elements are inside.
  MapSpec spec{7, {20, 12}, {128}, {16, 8}, 0, 0};
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::string body = tile_in(512) + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {12, 8}], [%r20];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  st.shared.u32 [%r20], 99;
  cp.async.bulk.wait_group 0;
done:
  ret;
)";
    Outcome o = run(body, schedule, &spec, std::vector<uint8_t>(16), 12 * 128, {}, true);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t y = 0; y < 12; ++y)
      for (uint32_t x = 0; x < 32; ++x) {
        uint32_t got, want = 0xEEEEEEEE;
        std::memcpy(&got, &o.out[y * 128 + x * 4], 4);
        if (y >= 8 && x >= 12 && x < 20) want = tile_word((y - 8) * 16 + x - 12);
        INFO("row " << y << " column " << x);
        REQUIRE(got == want);
      }
  }
}

TEST_CASE("TMA: tensor reductions", "[virtual][copy]") {
  MapSpec spec{2, {32, 4}, {128}, {32, 4}, 0, 0};
  for (const std::string& schedule : schedules()) {
    std::string body = tile_in(512) + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {0, 0}], [%r20];
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd1, {0, 0}], [%r20];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;
)";
    Outcome o = run(body, schedule, &spec, std::vector<uint8_t>(16), 512, {}, true);
    INFO(schedule << o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 128; ++i) {
      uint32_t got;
      std::memcpy(&got, &o.out[i * 4], 4);
      REQUIRE(got == 0xEEEEEEEEu + 2 * tile_word(i));
    }
  }
}

TEST_CASE("TMA: multicast and pairs put data and bytes where they belong", "[virtual][copy]") {
  // Rank 1 multicasts one row to both CTAs; each waits on its own barrier.
  MapSpec spec{0, {256, 8}, {256}, {256, 1}, 0, 0};
  std::vector<uint8_t> in = random_bytes(2048, 3);
  Launch launch;
  launch.grid = launch.cluster = {2};
  const char* const meet = R"(
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p2, %r2, 1;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
)";
  const char* const to_out = R"(
  mul.lo.u32 %r3, %r2, 256;
  cvt.u64.u32 %rd3, %r3;
  add.u64 %rd0, %rd0, %rd3;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)";
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    std::string body = std::string(meet) + R"(
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
  and.pred %p3, %p0, %p2;
  mov.u16 %h1, 3;
  @%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
    [%r20], [%rd1, {0, 5}], [bar], %h1;
)" + kWait + to_out + tile_out(256);
    Outcome o = run(body, schedule, &spec, in, 512, launch);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 512; ++i) REQUIRE(o.out[i] == in[5 * 256 + i % 256]);

    // cta_group::2: each CTA loads its own row, the leader's barrier collects the bytes of both.
    body = std::string(meet) + R"(
  not.pred %p4, %p2;
  and.pred %p3, %p0, %p4;
  @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
  mov.u32 %r4, bar;
  and.b32 %r4, %r4, 0xFEFFFFFF;
  @%p0 cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r20], [%rd1, {0, %r2}], [%r4];
  @%p2 bra waited;
)" + kWait +
           "waited:\n" + to_out + tile_out(256);
    o = run(body, schedule, &spec, in, 512, launch);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 512; ++i) REQUIRE(o.out[i] == in[i]);
  }
}

TEST_CASE("TMA: gather4", "[virtual][copy]") {
  MapSpec spec{0, {256, 8}, {256}, {64, 1}, 0, 0};
  std::vector<uint8_t> in = random_bytes(2048, 4);
  // LLVM writes the mode ahead of the state spaces.
  const char* const forms[] = {"shared::cta.global.tile::gather4",
                               "tile::gather4.shared::cta.global"};
  size_t turn = 0;
  for (const std::string& schedule : schedules()) {
    std::string body = std::string(R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.)") +
                       forms[turn++ % 2] + R"(.mbarrier::complete_tx::bytes [%r20],
    [%rd1, {32, 7, 0, 9, 2}], [bar];
issued:
)" + kWait + tile_out(256);
    Outcome o = run(body, schedule, &spec, in, 256);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    const uint32_t rows[] = {7, 0, 9, 2};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t r = rows[i / 64];
      REQUIRE(o.out[i] == (r < 8 ? in[r * 256 + 32 + i % 64] : 0));
    }
  }
}

TEST_CASE("TMA: misuse is found", "[virtual][copy]") {
  auto load = [](const std::string& dst, const std::string& coordinates, const std::string& bytes,
                 const std::string& dims = "2d") {
    return "@!%p0 bra issued;\n mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " + bytes +
           ";\n mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;\n cp.async.bulk.tensor." + dims +
           ".shared::cluster.global.mbarrier::complete_tx::bytes [" + dst + "], [%rd1, {" +
           coordinates + "}], [bar];\nissued:\n";
  };
  // Read before the wait; poison shows even when nobody looks.
  expect_fault(load("%r20", "0, 0", "2048") + "ld.shared.u32 %r1, [%r20]; bar.sync 0;" + kWait +
                   "ret;",
               "pending", "tensor load", &kRows, kLazy);
  // Written over while it is in flight.
  expect_fault(load("%r20", "0, 0", "2048") + "@%p0 st.shared.u32 [%r20+64], 5;" + kWait + "ret;",
               "pending", "tensor load", &kRows, kLazy);
  // Too many bytes expected: nobody completes them.
  expect_fault(load("%r20", "0, 0", "2064") + kWait + "ret;", "deadlock", "16", &kRows);
  // The CTA leaves before the copy has come.
  expect_fault(load("%r20", "0, 0", "2048") + "ret;", "exit", "tensor load", &kRows, kLazy);
  expect_fault(load("%r20+16", "0, 0", "2048") + kWait + "ret;", "alignment", "128", &kRows);
  expect_fault(load("%r20", "0, 0, 0", "2048", "3d") + kWait + "ret;", "tensormap", "rank 2",
               &kRows);
  // The box sticks out of the window, the map is no map, the barrier does not exist.
  expect_fault(load("%r20+7168", "0, 0", "2048") + kWait + "ret;", "bounds", "window", &kRows);
  expect_fault(load("%r20", "0, 0", "2048") + kWait + "ret;", "tensormap", "no tensor map");
  expect_fault("mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; @%p0 "
               "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
               "complete_tx::bytes [%r20], [%rd1, {0, 0}], [bar+8]; ret;",
               "barriers", "before mbarrier.init", &kRows);
  // A store of bytes outside its source's life: the source is overwritten before it was read.
  expect_fault(tile_in(2048) + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {0, 0}], [%r20];
  cp.async.bulk.commit_group;
  st.shared.u32 [%r20], 1;
  cp.async.bulk.wait_group 0;
done:
  ret;
)",
               "pending", "still reads", &kRows, kLazy);
}

TEST_CASE("TMA: im2col with offsets and a halo", "[virtual][copy]") {
  // N H W C = 2 x 5 x 6 x 16 bytes, a 3 x 3 filter: corners -1 and -1; 12 pixels x 16 channels from
  // pixel (w -1, h -1) of image 0, filter tap (w 2, h 1).
  const int c = 16, width = 6, height = 5, images = 2;
  std::vector<uint8_t> in = random_bytes(size_t(c * width * height * images), 8);
  const char* const body = R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 192;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  mov.u16 %h1, 2;
  mov.u16 %h2, 1;
  cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r20],
    [%rd1, {0, -1, -1, 0}], [bar], {%h1, %h2};
issued:
)";
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    Vgpu gpu;
    uint64_t from = gpu.upload(in), to = gpu.allocate(256);
    vgpu::tensor::Im2colArguments a;
    const uint64_t dim[] = {uint64_t(c), uint64_t(width), uint64_t(height), uint64_t(images)};
    const uint64_t stride[] = {uint64_t(c), uint64_t(c * width), uint64_t(c * width * height)};
    const int lower[] = {-1, -1}, upper[] = {-1, -1};
    const uint32_t ones[] = {1, 1, 1, 1};
    a.rank = 4;
    a.address = reinterpret_cast<const void*>(from);
    a.dim = dim;
    a.stride = stride;
    a.lower = lower;
    a.upper = upper;
    a.channels_per_pixel = uint32_t(c);
    a.pixels_per_column = 12;
    a.element_stride = ones;
    MapBytes map{};
    std::string error = vgpu::tensor::encode_im2col(a, 100, map.bytes);
    INFO(error);
    REQUIRE(error.empty());
    Launch launch;
    launch.schedule = schedule;
    RunResult r = gpu.run(module_text(std::string(kHead) + body + kWait + tile_out(192), kParams),
                          Params().raw(map.bytes, 128, 64).u64(from).u64(to), launch);
    INFO(r.text);
    REQUIRE(r.ok);
    std::vector<uint8_t> out = gpu.download<uint8_t>(to, 192);
    int w = -1, h = -1;
    for (int pixel = 0; pixel < 12; ++pixel) {
      for (int i = 0; i < c; ++i) {
        int x = w + 2, y = h + 1;
        bool inside = x >= 0 && x < width && y >= 0 && y < height;
        INFO("pixel " << pixel << " channel " << i);
        REQUIRE(int(out[size_t(pixel * c + i)]) ==
                (inside ? int(in[size_t((y * width + x) * c + i)]) : 0));
      }
      // The bounding box runs from -1 to dim - 2 along W and H.
      if (++w > width - 2) w = -1, ++h;
    }
  }
}

TEST_CASE("TMA: im2col along W with a halo", "[virtual][copy]") {
  // N W C = 30 x 6 x 64 bytes; pixels from w 2 of image 3 on, one further each; the halo after
  // them.
  std::vector<uint8_t> in = random_bytes(64 * 6 * 30, 9);
  std::string head = kHead; // 136 pixels are more than its tile
  head.replace(head.find("8192"), 4, "8704");
  for (bool quarters : {false, true}) {
    const uint32_t pixels = quarters ? 128 : 5, halo = 2, rows = pixels + halo * (quarters ? 4 : 1);
    const std::string body = "\n  @!%p0 bra issued;\n"
                             "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
                             std::to_string(rows * 64) + R"(;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  mov.u16 %h1, 2;
  mov.u16 %h2, 1;
  cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w)" +
                             (quarters ? "::128" : "") + R"(.mbarrier::complete_tx::bytes [%r20],
    [%rd1, {0, 2, 3}], [bar], {%h1, %h2};
issued:
)";
    for (const std::string& schedule : schedules()) {
      INFO("schedule " << schedule << " quarters " << quarters);
      Vgpu gpu;
      uint64_t from = gpu.upload(in), to = gpu.allocate(rows * 64);
      vgpu::tensor::Im2colArguments a;
      const uint64_t dim[] = {64, 6, 30}, stride[] = {64, 384};
      const int corner = 0;
      const uint32_t ones[] = {1, 1, 1};
      a.rank = 3;
      a.address = reinterpret_cast<const void*>(from);
      a.dim = dim, a.stride = stride, a.element_stride = ones;
      a.lower = a.upper = &corner;
      a.channels_per_pixel = 64, a.pixels_per_column = pixels;
      a.swizzle = 2;
      a.wide = quarters ? 2 : 1;
      MapBytes map{};
      REQUIRE(vgpu::tensor::encode_im2col(a, 100, map.bytes) == "");
      Launch launch;
      launch.schedule = schedule;
      RunResult r = gpu.run(module_text(head + body + kWait + tile_out(rows * 64), kParams),
                            Params().raw(map.bytes, 128, 64).u64(from).u64(to), launch);
      INFO(r.text);
      REQUIRE(r.ok);
      std::vector<uint8_t> out = gpu.download<uint8_t>(to, rows * 64);
      for (uint32_t row = 0; row < rows; ++row) {
        uint32_t position = row;
        if (quarters && row >= 128) position = 32 * ((row - 128) % 4 + 1) + (row - 128) / 4;
        const uint32_t w = (position + 2) % 6 + 1, image = 3 + (position + 2) / 6;
        for (uint32_t i = 0; i < 64; ++i) {
          const uint32_t linear = row * 64 + i, at = linear ^ (linear >> 7 & 3) << 4;
          INFO("row " << row << " byte " << i);
          REQUIRE(int(out[at]) == (w < 6 ? int(in[(image * 6 + w) * 64 + i]) : 0));
        }
      }
    }
  }
}

TEST_CASE("TMA: scatter4, and half reductions of bulk copies", "[virtual][copy]") {
  MapSpec spec{0, {256, 8}, {256}, {64, 1}, 0, 0};
  const char* const forms[] = {"global.shared::cta.tile::scatter4",
                               "tile::scatter4.global.shared::cta"};
  size_t turn = 0;
  for (const std::string& schedule : schedules()) {
    INFO("schedule " << schedule);
    Outcome o = run(tile_in(256) + R"(
  @!%p0 bra done;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  cp.async.bulk.tensor.2d.)" +
                        forms[turn++ % 2] + R"(.bulk_group
    [%rd1, {64, 6, 1, 9, 3}], [%r20];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;
)",
                    schedule, &spec, std::vector<uint8_t>(16), 2048, {}, true);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    const int rows[] = {6, 1, 9, 3};
    std::vector<uint8_t> want(2048, 0xEE);
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t word = tile_word(i / 4);
      if (rows[i / 64] < 8)
        want[size_t(rows[i / 64]) * 256 + 64 + i % 64] = uint8_t(word >> 8 * (i % 4));
    }
    REQUIRE(o.out == want);

    // 1.0 + 1.0 and the like in f16 and bf16, subnormal f32 kept.
    o = run(R"(
  mov.u32 %r5, 0x3C003C00;
  mov.u32 %r6, 0x3F803F80;
  mov.u32 %r7, 0x00000001;
  mov.u32 %r8, 0x80000001;
  @%p0 st.shared.v4.b32 [%r20], {%r5,%r5,%r5,%r5};
  @%p0 st.shared.v4.b32 [%r20+16], {%r6,%r6,%r6,%r6};
  @%p0 st.shared.v4.b32 [%r20+32], {%r7,%r8,%r7,%r8};
  @%p0 st.global.v4.b32 [%rd0], {%r5,%r5,%r5,%r5};
  @%p0 st.global.v4.b32 [%rd0+16], {%r6,%r6,%r6,%r6};
  @%p0 st.global.v4.b32 [%rd0+32], {%r7,%r8,%r7,%r8};
  fence.proxy.async;
  @!%p0 bra done;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%rd0], [%r20], 16;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%rd0+16], [%r20+16], 16;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd0+32], [%r20+32], 16;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;
)",
            schedule, nullptr, std::vector<uint8_t>(16), 48);
    INFO(o.result.text);
    REQUIRE(o.result.ok);
    for (uint32_t i = 0; i < 12; ++i) {
      uint32_t got;
      std::memcpy(&got, &o.out[i * 4], 4);
      const uint32_t sum[] = {0x40004000, 0x40004000, 0};
      REQUIRE(got == (i < 8 ? sum[i / 4] : i % 2 ? 0x80000002u : 2));
    }
  }
}
