// Bulk copies and reductions both ways and between CTAs, multicast, cp.async.
#include "tests/hardware/oracle_tile.hpp"

namespace wltest::oracle {

namespace {

std::string text(uint64_t v) { return std::to_string(v); }

void bulk(std::vector<Case>& cases) {
  auto add = [&](const std::string& name, const std::string& body, std::vector<uint8_t> in,
                 std::vector<uint8_t> out, uint32_t cluster = 1) -> Case& {
    Case c;
    c.family = "bulk copies";
    c.name = name;
    c.body = body + "  ret;";
    c.block = {128, 1, 1};
    c.grid = c.cluster = {cluster, 1, 1};
    c.in("in", std::move(in)).out("out", std::move(out));
    cases.push_back(std::move(c));
    return cases.back();
  };
  auto poison = [](size_t n) { return std::vector<uint8_t>(n, 0xEE); };

  for (uint32_t bytes : {16u, 48u, 1024u, 8192u})
    for (const char* hint : {"", ".L2::cache_hint"})
      add("global to shared, " + text(bytes) + hint,
          tile_head(8192, false) +
              "  mov.u64 %rd5, 0x12F0000000000000;\n  @!%p0 bra issued;\n"
              "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
              text(bytes) +
              ";\n  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + hint +
              " [%r20], [%rd1+32], " + text(bytes) + ", [bar]" + (*hint ? ", %rd5" : "") +
              ";\nissued:\n" + bounded_wait("[bar]", "0", 0) + tile_out(8192),
          random_bytes(8224, bytes), poison(8192));
  add("two loads of one phase, a third of the next", tile_head(4096, false) + R"(
  @!%p0 bra issued;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20+128], [%rd1], 256, [bar];
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20+1024], [%rd1+256], 512, [bar];
issued:
)" + bounded_wait("[bar]", "0", 0) + R"(
  bar.sync 0;
  @!%p0 bra again;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1+1024], 64, [bar];
again:
)" + bounded_wait("[bar]", "1", 1) + tile_out(4096),
      random_bytes(4096, 7), poison(4096));
  for (uint32_t bytes : {16u, 2048u})
    add("shared to global, " + text(bytes),
        tile_head(2048, true) +
            "  @!%p0 bra done;\n  cp.async.bulk.global.shared::cta.bulk_group "
            "[%rd0+64], [%r20], " +
            text(bytes) + R"(;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  st.shared.u32 [%r20], 99;
  cp.async.bulk.wait_group 0;
done:
)",
        random_bytes(2048, bytes), poison(2176));
  add("three groups of stores, waited for in turn", tile_head(1024, true) + R"(
  @!%p0 bra done;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r20], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0+256], [%r20+256], 256;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0+512], [%r20+512], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0+768], [%r20+768], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 2;
  ld.global.u32 %r1, [%rd0];
  cp.async.bulk.wait_group 0;
  st.global.u32 [%rd0+1024], %r1;
done:
)",
      random_bytes(1024, 3), poison(1028));

  const char* const ops[] = {"add.u32",       "add.s32",        "add.u64", "min.s32", "min.u32",
                             "max.u32",       "max.s64",        "min.u64", "and.b32", "or.b64",
                             "xor.b32",       "inc.u32",        "dec.u32", "add.f32", "add.f64",
                             "add.noftz.f16", "add.noftz.bf16", "min.f16", "max.bf16"};
  for (const char* op : ops) {
    std::string o = op, type = o.substr(o.rfind('.') + 1);
    std::vector<uint8_t> in = random_bytes(1024, 11), out = random_bytes(1024, 12);
    // No NaN and no infinity: their payloads are a matter of the conversion tests.
    if (type == "f16" || type == "bf16" || type == "f32" || type == "f64") {
      uint32_t size = type == "f64" ? 8 : type == "f32" ? 4 : 2;
      for (uint32_t i = size - 1; i < 1024; i += size) in[i] &= 0xBB, out[i] &= 0xBB;
    }
    add("reduce into global, " + o,
        tile_head(1024, true) + R"(
  @!%p0 bra done;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.)" +
            o + R"( [%rd0], [%r20], 1024;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
)",
        in, out);
  }
  add("prefetch into L2",
      tile_head(256, false) + "  @%p0 cp.async.bulk.prefetch.L2.global [%rd1], 256;\n" +
          tile_out(256),
      random_bytes(256, 1), poison(256));

  for (uint32_t n : {2u, 4u, 8u}) {
    std::string of = ", cluster of " + text(n), mask = text((1u << n) - 1);
    const std::string next = "  add.u32 %r3, %r2, 1;\n  setp.eq.u32 %p1, %r3, " + text(n) +
                             ";\n  @%p1 mov.u32 %r3, 0;\n"
                             "  mapa.shared::cluster.u32 %r22, %r20, %r3;\n"
                             "  mapa.shared::cluster.u32 %r23, %r21, %r3;\n";
    add("shared to the next CTA's shared" + of, tile_head(2048, true) + kClusterMeet + next + R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
  st.shared.u32 [%r20], %r2;
  fence.proxy.async.shared::cta;
  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r22+1024], [%r20], 512, [%r23];
issued:
)" + bounded_wait("[bar]", "0", 0) + kClusterMeet + tile_out(2048),
        random_bytes(2048, n), poison(2048 * n), n);
    for (const char* op : {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32",
                           "inc.u32", "dec.u32", "add.u64"})
      if (n == 4)
        add("reduce into the next CTA's shared, " + std::string(op) + of,
            tile_head(2048, true) + kClusterMeet + next + R"(
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
  cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.)" +
                op + R"( [%r22+1024], [%r20], 512, [%r23];
issued:
)" + bounded_wait("[bar]", "0", 0) +
                kClusterMeet + tile_out(2048),
            random_bytes(2048, n), poison(2048 * n), n);
    // Every CTA multicasts its own 256 bytes to all, and once to a part of them.
    add("multicast by every CTA" + of,
        tile_head(4096, false) + "  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
            text(256 * n) + ";\n" + kClusterMeet + R"(
  @!%p0 bra issued;
  shl.b32 %r24, %r2, 8;
  add.u32 %r25, %r20, %r24;
  cvt.u64.u32 %rd6, %r24;
  add.u64 %rd6, %rd1, %rd6;
  mov.u16 %h1, )" +
            mask + R"(;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r25], [%rd6], 256, [bar], %h1;
issued:
)" + bounded_wait("[bar]", "0", 0) +
            kClusterMeet + tile_out(4096),
        random_bytes(256 * n, n), poison(4096 * n), n);
    std::string part = text((0x5A5Au & ((1u << n) - 1)) | 2u);
    add("multicast to a part" + of,
        tile_head(1024, false) +
            "  mov.u32 %r5, 1;\n  shl.b32 %r5, %r5, %r2;\n  and.b32 %r5, %r5, " + part +
            ";\n  setp.ne.u32 %p2, %r5, 0;\n  and.pred %p3, %p2, %p0;\n"
            "  @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;\n" +
            kClusterMeet + R"(
  setp.eq.u32 %p4, %r2, 0;
  and.pred %p4, %p4, %p0;
  mov.u16 %h1, )" +
            part + R"(;
  @%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r20+256], [%rd1], 512, [bar], %h1;
  @!%p2 bra landed;
)" + bounded_wait("[bar]", "0", 0) +
            "landed:\n" + kClusterMeet + tile_out(1024),
        random_bytes(512, n), poison(1024 * n), n);
  }
}

void small_copies(std::vector<Case>& cases) {
  auto add = [&](const std::string& name, const std::string& body) {
    Case c;
    c.family = "cp.async";
    c.name = name;
    c.block = {128, 1, 1};
    c.body = tile_head(4096, false) + R"(
  mad.lo.u32 %r22, %r0, 32, %r20;
  mul.wide.u32 %rd5, %r0, 32;
  add.u64 %rd5, %rd1, %rd5;
)" + body + "  bar.sync 0;\n" +
             tile_out(4096) + "  ret;";
    c.in("in", random_bytes(4096, 21)).out("out", 4096);
    cases.push_back(std::move(c));
  };
  for (uint32_t n : {4u, 8u, 16u}) {
    std::string size = text(n);
    add("ca, " + size,
        "  cp.async.ca.shared.global [%r22], [%rd5], " + size + ";\n  cp.async.wait_all;\n");
    add("source smaller, zeros after it, " + size,
        "  and.b32 %r23, %r0, " + text(n) + ";\n  cp.async.ca.shared.global [%r22+16], [%rd5], " +
            size + ", %r23;\n  cp.async.commit_group;\n  cp.async.wait_group 0;\n");
    add("ignored source, " + size,
        "  and.b32 %r23, %r0, 1;\n  setp.eq.u32 %p1, %r23, 0;\n  cp.async.ca.shared::cta.global "
        "[%r22], [%rd5+16], " +
            size + ", %p1;\n  cp.async.wait_all;\n");
  }
  add("cg, 16, with a prefetch size", "  cp.async.cg.shared.global.L2::128B [%r22], [%rd5], 16;\n"
                                      "  cp.async.wait_all;\n");
  add("three groups", R"(
  cp.async.ca.shared.global [%r22], [%rd5], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r22+4], [%rd5+4], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r22+8], [%rd5+8], 8;
  cp.async.commit_group;
  cp.async.wait_group 2;
  ld.shared.u32 %r24, [%r22];
  cp.async.wait_group 0;
  st.shared.u32 [%r22+16], %r24;
)");
  for (const char* kind : {"", ".noinc"})
    add(std::string("arrival on an mbarrier") + kind,
        "  @%p0 mbarrier.init.shared::cta.b64 [bar+8], " + text(*kind ? 128 : 1) +
            ";\n  bar.sync 0;\n  cp.async.cg.shared.global [%r22], [%rd5], 16;\n"
            "  cp.async.mbarrier.arrive" +
            kind + ".shared::cta.b64 [bar+8];\n" +
            (*kind ? "" : "  bar.sync 0;\n  @%p0 mbarrier.arrive.shared::cta.b64 _, [bar+8];\n") +
            bounded_wait("[bar+8]", "0", 0));
}

} // namespace

void add_copy_cases(std::vector<Case>& cases) {
  bulk(cases);
  small_copies(cases);
}

} // namespace wltest::oracle
