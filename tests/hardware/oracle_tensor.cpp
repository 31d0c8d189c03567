// Tensor copies: tile mode from 1-D to 5-D with every swizzle, element type, fill and element
// stride, stores and reductions, multicast, and im2col.
#include "tests/hardware/oracle_tile.hpp"
#include "tools/vgpu/tensor/tma.hpp"

#include <random>
#include <stdexcept>

namespace wltest::oracle {

namespace {

using vgpu::tensor::TensorMap;

constexpr uint32_t kTensorBytes = 131072;
const char* const kTypes[] = {"u8",  "u16", "u32",  "s32",     "u64",  "s64",     "f16",
                              "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz"};
const uint32_t kSizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
const char* const kSwizzles[] = {"none", "32B", "64B", "128B"};

std::string text(int64_t v) { return std::to_string(v); }

// The map as the virtual GPU reads it, for the size of its boxes; an error is a case that is no
// case.
bool decode(Map m, TensorMap* out) {
  m.null_stride = false;
  alignas(64) uint8_t bytes[128];
  std::string error;
  const auto place = reinterpret_cast<const void*>(uintptr_t(0x100000));
  if (m.channels) {
    vgpu::tensor::Im2colArguments a;
    a.type = m.type, a.rank = uint32_t(m.dim.size()), a.address = place;
    a.dim = m.dim.data(), a.stride = m.strides();
    a.lower = m.lower.data(), a.upper = m.upper.data();
    a.channels_per_pixel = m.channels, a.pixels_per_column = m.pixels;
    a.element_stride = m.element_stride.data();
    a.interleave = m.interleave, a.swizzle = m.swizzle, a.fill = m.fill;
    error = vgpu::tensor::encode_im2col(a, 90, bytes);
  } else {
    vgpu::tensor::TiledArguments a;
    a.type = m.type, a.rank = uint32_t(m.dim.size()), a.address = place;
    a.dim = m.dim.data(), a.stride = m.strides();
    a.box = m.box.data(), a.element_stride = m.element_stride.data();
    a.interleave = m.interleave, a.swizzle = m.swizzle, a.fill = m.fill;
    error = vgpu::tensor::encode_tiled(a, 90, bytes);
  }
  return error.empty() && vgpu::tensor::load(bytes, *out).empty();
}

std::string coordinates(const std::vector<int>& c) {
  std::string s = "{";
  for (size_t i = 0; i < c.size(); ++i) s += (i ? ", " : "") + text(c[i]);
  return s + "}";
}

std::string describe(const Map& m, const std::vector<int>& at) {
  std::string s = text(int64_t(m.dim.size())) + "-D " + kTypes[m.type] + " box";
  if (m.channels) s += " c" + text(m.channels) + " p" + text(m.pixels);
  for (uint32_t b : m.box) s += " " + text(b);
  s += " of";
  for (uint64_t d : m.dim) s += " " + text(int64_t(d));
  s += std::string(" swizzle ") + kSwizzles[m.swizzle];
  bool strided = false;
  for (uint32_t e : m.element_stride) strided = strided || e > 1;
  if (strided) {
    s += " step";
    for (uint32_t e : m.element_stride) s += " " + text(e);
  }
  if (m.null_stride) s += " without strides";
  if (m.interleave) s += " interleave " + text(16 * m.interleave) + "B";
  if (m.fill) s += " NaN fill";
  return s + " at " + coordinates(at);
}

// Coordinate 0 counts in units of 16 bytes: the largest not above `at`.
int on_units(const Map& m, int at) {
  int unit = std::max(1, 16 / int(kSizes[m.type]));
  return at - (at % unit + unit) % unit;
}

// Bytes that a barrier counts, and those up to the end of the box in shared memory.
struct BoxBytes {
  uint32_t counted = 0, tile = 0;
};

BoxBytes box_bytes(const Map& m, const std::vector<int>& at, bool* legal) {
  TensorMap map;
  *legal = decode(m, &map);
  if (!*legal) return {};
  vgpu::tensor::TmaAccess access;
  access.map = &map;
  if (m.channels) access.mode = vgpu::tensor::TmaMode::im2col;
  access.shared = 0x1000000;
  for (size_t i = 0; i < at.size(); ++i) access.coordinate[i] = at[i];
  access.coordinate[0] = on_units(m, at[0]); // a question to the card may be beside them
  *legal = vgpu::tensor::check(access).empty();
  if (!*legal) return {};
  return {uint32_t(vgpu::tensor::transaction_bytes(access)),
          uint32_t(vgpu::tensor::shared_bytes(access) + 1023) / 1024 * 1024};
}

std::string map_address() { return "  mov.b64 %rd4, m0;\n  cvta.param.u64 %rd4, %rd4;\n"; }

void load(std::vector<Case>& cases, const std::string& family, Map m, std::vector<int> at,
          const std::string& offsets = "", bool must = true, bool as_it_is = false) {
  if (!as_it_is) at[0] = on_units(m, at[0]);
  bool legal = false;
  auto [bytes, tile] = box_bytes(m, at, &legal);
  if (m.interleave) { // not modelled: the bytes that the ISA says arrive
    legal = true;
    bytes = kSizes[m.type];
    for (uint32_t b : m.box) bytes *= b;
    tile = (bytes + 1023) / 1024 * 1024;
  }
  if (!legal || bytes == 0 || tile > 40960) {
    if (must) throw std::logic_error("an oracle case's map is not legal: " + describe(m, at));
    return;
  }
  Case c;
  c.family = family;
  c.name = "load " + describe(m, at) + offsets;
  c.block = {128, 1, 1};
  c.body = tile_head(tile, false) + map_address() + R"(
  mov.u16 %h1, 0; mov.u16 %h2, 1; mov.u16 %h3, 2;
  @!%p0 bra issued;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
           text(bytes) + R"(;
  cp.async.bulk.tensor.)" +
           text(int64_t(m.dim.size())) + "d.shared::cluster.global." +
           (m.channels ? "im2col" : "tile") + ".mbarrier::complete_tx::bytes [%r20], [%rd4, " +
           coordinates(at) + "], [bar]" + offsets + ";\nissued:\n" + bounded_wait("[bar]", "0", 0) +
           tile_out(tile) + "  ret;";
  m.buffer = 0;
  c.maps.push_back(m);
  c.in("in", random_bytes(kTensorBytes, 1000 + uint32_t(cases.size()))).out("out", tile);
  cases.push_back(std::move(c));
}

void store(std::vector<Case>& cases, const std::string& family, Map m, std::vector<int> at,
           const std::string& op = "", bool must = true, bool as_it_is = false) {
  if (!as_it_is) at[0] = on_units(m, at[0]);
  bool legal = false;
  auto [bytes, tile] = box_bytes(m, at, &legal);
  if (!legal || bytes == 0 || tile > 40960) {
    if (must) throw std::logic_error("an oracle case's map is not legal: " + describe(m, at));
    return;
  }
  Case c;
  c.family = family;
  c.name = (op.empty() ? "store " : "reduce " + op + " ") + describe(m, at);
  c.block = {128, 1, 1};
  std::string rank = text(int64_t(m.dim.size())), mode = m.channels ? ".im2col_no_offs" : ".tile";
  c.body = tile_head(tile, true) + map_address() + "  @!%p0 bra done;\n  cp." +
           (op.empty() ? "async.bulk.tensor." : "reduce.async.bulk.tensor.") + rank +
           "d.global.shared::cta." + (op.empty() ? "" : op + ".") + mode.substr(1) +
           ".bulk_group [%rd4, " + coordinates(at) + R"(], [%r20];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;)";
  m.buffer = 1;
  c.maps.push_back(m);
  std::vector<uint8_t> in = random_bytes(tile, 77), out = random_bytes(kTensorBytes, 78);
  bool floating = m.type >= 6;
  if (floating && !op.empty()) { // finite values of like size
    uint32_t size = kSizes[m.type];
    for (uint32_t i = size - 1; i < tile; i += size) in[i] &= 0xBB;
    for (uint32_t i = size - 1; i < kTensorBytes; i += size) out[i] &= 0xBB;
  }
  c.in("in", std::move(in)).out("out", std::move(out));
  cases.push_back(std::move(c));
}

// A tensor of `rank` dimensions, inner one `inner` elements, the others `outer`, rows padded.
Map tile_map(int type, uint32_t rank, uint64_t inner, uint64_t outer, uint32_t box0, uint32_t box,
             int swizzle) {
  Map m;
  m.type = type;
  m.swizzle = swizzle;
  uint64_t pitch = (inner * kSizes[type] + 31) / 16 * 16;
  for (uint32_t i = 0; i < rank; ++i) {
    m.dim.push_back(i ? outer : inner);
    m.box.push_back(i ? box : box0);
    m.element_stride.push_back(1);
    if (i + 1 < rank) m.stride.push_back(pitch), pitch *= outer;
  }
  return m;
}

// Where each 16 bytes of shared memory came from: offsets in the tensor, in units of 16 bytes.
std::string sources(const Case& c, const std::vector<uint8_t>& gpu, const std::vector<uint8_t>&) {
  const std::vector<uint8_t>& in = c.buffers[0].bytes;
  std::string s = "16-byte units come from units";
  for (size_t at = 0; at + 16 <= gpu.size() && at < 1024; at += 16) {
    size_t from = 0;
    while (from + 16 <= in.size() && std::memcmp(&gpu[at], &in[from], 16) != 0) from += 16;
    bool found = from + 16 <= in.size();
    s += found ? " " + text(int64_t(from / 16)) : gpu[at] == 0 ? " zero" : " -";
  }
  return s;
}

void tiles(std::vector<Case>& cases) {
  const std::string family = "tensor copies, tile";
  // Every type and swizzle, a box that leaves the tensor below and above.
  for (int type = 0; type < 13; ++type)
    for (int swizzle = 0; swizzle < 4; ++swizzle) {
      uint32_t span = swizzle == 0 ? 64 : 16u << swizzle, box0 = span / kSizes[type];
      Map m = tile_map(type, 2, 300 / kSizes[type], 40, box0, 16, swizzle);
      int right = int(m.dim[0]) - int(box0) / 2;
      load(cases, family, m, {right, 30});
      load(cases, family, m, {-3, -5});
      if (type >= 6) {
        m.fill = 1;
        load(cases, family, m, {right, 30});
      }
    }
  // Beside the units of 16 bytes.
  for (auto [type, at] : {std::pair{0, 8}, {0, -3}, {6, 4}, {7, 2}, {8, 1}})
    for (int swizzle : {0, 3}) {
      load(cases, family, tile_map(type, 2, 256 / kSizes[type], 40, 64 / kSizes[type], 16, swizzle),
           {at, 3}, "", true, true);
      cases.back().refused = "must be a multiple of 16 bytes";
    }
  // Rows of half the span of the swizzle, and of a quarter.
  for (int swizzle : {1, 2, 3})
    for (uint32_t part : {2u, 4u})
      if ((16u << swizzle) / part >= 16) {
        load(cases, family, tile_map(2, 3, 48, 5, (4u << swizzle) / part, 5, swizzle), {4, 1, 3});
        load(cases, family, tile_map(6, 2, 96, 30, (8u << swizzle) / part, 19, swizzle), {-8, 14});
      }
  // Inside, touching edges, wholly outside.
  Map rows = tile_map(0, 2, 200, 40, 128, 16, 3);
  for (std::vector<int> at : {std::vector<int>{0, 0},
                              {1, 1},
                              {72, 24},
                              {300, 5},
                              {5, 300},
                              {-128, 0},
                              {-127, -15},
                              {-2000000000, 3},
                              {2000000000, -3}})
    load(cases, family, rows, at);
  for (uint32_t rank = 1; rank <= 5; ++rank)
    for (int swizzle = 0; swizzle < 4; ++swizzle) {
      Map m =
          tile_map(2, rank, 24, 5, 4u << (swizzle ? swizzle - 1 : 2), rank > 3 ? 3 : 4, swizzle);
      std::vector<int> above(rank, 1), below(rank, -1);
      above[0] = 4;
      load(cases, family, m, above);
      load(cases, family, m, below);
      std::vector<int> mixed(rank, 2);
      mixed[0] = 18;
      if (rank > 1) mixed[rank - 1] = 3;
      load(cases, family, m, mixed);
    }
  Map bare = tile_map(2, 1, 24, 1, 16, 1, 0);
  bare.null_stride = true;
  load(cases, family, bare, {0});
  cases.back().refused = "globalStrides is null";
  // Element strides: the box is walked in steps; without interleaving dimension 0 is not.
  for (std::vector<uint32_t> step :
       {std::vector<uint32_t>{1, 2, 1}, {1, 1, 3}, {1, 2, 2}, {1, 3, 2}, {1, 8, 1}})
    for (int swizzle : {0, 3}) {
      Map m = tile_map(7, 3, 40, 16, 32, 7, swizzle);
      m.box[2] = 5;
      m.element_stride = step;
      load(cases, family, m, {3, 2, 1});
      load(cases, family, m, {20, 11, 13});
      load(cases, family, m, {-2, -3, -1});
    }
  // Interleaved: slices of 16 or 32 bytes.
  for (int interleave : {1, 2}) {
    Map m;
    m.type = 6; // f16: 8 or 16 channels a slice
    uint32_t slice = interleave == 1 ? 8 : 16;
    m.dim = {slice, 12, 10, 4};
    m.stride = {16u * uint32_t(interleave), 16u * uint32_t(interleave) * 12,
                16u * uint32_t(interleave) * 120};
    m.box = {slice, 6, 4, 2};
    m.element_stride = {1, 1, 1, 1};
    m.interleave = interleave;
    m.swizzle = interleave == 2 ? 1 : 0;
    load(cases, family, m, {0, 3, 2, 1});
    cases.back().refused = "interleaved layouts";
    cases.back().analyse = sources;
  }
  // At random.
  std::mt19937 g(4711);
  auto below = [&](uint32_t n) { return uint32_t(g() % n); };
  for (int made = 0; made < 60; ++made) {
    Map m;
    m.type = int(below(13));
    uint32_t rank = 1 + below(5), size = kSizes[m.type];
    m.swizzle = int(below(4));
    uint32_t span = m.swizzle ? 16u << m.swizzle : 128;
    uint64_t pitch = 0;
    std::vector<int> at;
    for (uint32_t i = 0; i < rank; ++i) {
      m.dim.push_back(i ? 1 + below(i < 3 ? 8 : 3) : 16 + below(60));
      m.box.push_back(i ? 1 + below(i < 3 ? 6 : 2) : 16 / size * (1 + below(span / 16)));
      m.element_stride.push_back(i && below(3) == 0 ? 1 + below(3) : 1);
      if (i == 0) pitch = (m.dim[0] * size + 15) / 16 * 16 + 16 * below(3);
      if (i + 1 < rank) m.stride.push_back(pitch);
      if (i) pitch *= m.dim[i];
      at.push_back(int(below(uint32_t(m.dim[i]) + 8)) - 4);
    }
    if (pitch > kTensorBytes) continue;
    m.fill = m.type >= 6 ? int(below(2)) : 0;
    load(cases, family, m, at, "", false);
  }
}

void stores(std::vector<Case>& cases) {
  const std::string family = "tensor stores, reductions";
  for (int type : {0, 1, 2, 4, 6, 7, 8, 9, 10, 11})
    for (int swizzle = 0; swizzle < 4; ++swizzle) {
      uint32_t span = swizzle == 0 ? 64 : 16u << swizzle, box0 = span / kSizes[type];
      Map m = tile_map(type, 2, 300 / kSizes[type], 40, box0, 16, swizzle);
      store(cases, family, m, {int(m.dim[0]) - int(box0) / 2, 30});
    }
  Map negative = tile_map(2, 2, 40, 20, 16, 8, 0);
  store(cases, family, negative, {-8, -3});
  cases.back().refused = "a store needs coordinates of 0 and above";
  cases.back().analyse = [](const Case& c, const std::vector<uint8_t>& gpu,
                            const std::vector<uint8_t>&) {
    // Elements inside are rows 0 to 4, columns 0 to 7 of the tensor; the box is 16 x 8.
    const std::vector<uint8_t>& before = c.buffers[1].bytes;
    size_t changed = 0, clipped = 0, pitch = c.maps[0].stride[0];
    for (size_t i = 0; i < gpu.size(); ++i) {
      size_t y = i / pitch, x = i % pitch / 4;
      changed += gpu[i] != before[i];
      bool inside = y < 5 && x < 8;
      clipped +=
          gpu[i] == (inside ? c.buffers[0].bytes[((y + 3) * 16 + x + 8) * 4 + i % 4] : before[i]);
    }
    return std::to_string(changed) + " bytes changed, " +
           (clipped == gpu.size() ? "exactly" : "not") + " the box clipped to the tensor";
  };
  for (uint32_t rank = 1; rank <= 5; ++rank) {
    Map m = tile_map(2, rank, 24, 4, 8, 3, rank % 4 > 1 ? 1 : 0);
    std::vector<int> at(rank, 2);
    at[0] = 20;
    store(cases, family, m, at);
    store(cases, family, m, at, "add");
  }
  store(cases, family, tile_map(2, 2, 40, 20, 16, 8, 0), {2, 3}, "", true, true);
  cases.back().refused = "must be a multiple of 16 bytes";
  // The tensor ends inside a unit of 16 bytes.
  for (int type : {0, 2, 6}) {
    Map m = tile_map(type, 2, 300 / kSizes[type], 40, 64 / kSizes[type], 16, 0);
    if (type) store(cases, family, m, {256 / int(kSizes[type]), 30}, "add");
    m.dim.resize(1), m.box.resize(1), m.element_stride.resize(1), m.stride.clear();
    store(cases, family, m, {256 / int(kSizes[type])});
  }
  for (int swizzle : {1, 2, 3}) { // rows of half the span
    store(cases, family, tile_map(2, 3, 48, 5, 2u << swizzle, 3, swizzle), {4, 1, 3});
    store(cases, family, tile_map(6, 2, 96, 30, 4u << swizzle, 7, swizzle), {8, 25}, "add");
  }
  for (int type : {2, 3, 4, 5})
    for (const char* op : {"add", "min", "max", "inc", "dec", "and", "or", "xor"}) {
      bool wrap = op[0] == 'i' || op[0] == 'd';
      if (wrap && type != 2) continue;
      if (type == 5 && std::string(op) == "add") continue; // no signed 64-bit addition
      store(cases, family, tile_map(type, 2, 32, 10, 16 * 4 / kSizes[type], 8, 0), {20, 5}, op);
      if (type == 5 && op[0] != 'm') cases.back().refused = "the reduction does not exist";
    }
  for (int type : {6, 7, 9})
    for (const char* op : {"add", "min", "max"}) {
      if (type == 7 && op[0] == 'm') continue;
      store(cases, family, tile_map(type, 2, 48, 10, 16, 8, 0), {40, 5}, op);
    }
}

// Which f32 bits a copy changes, and how: every kind of value, 8 rows of 32.
std::vector<uint32_t> special_words() {
  std::vector<uint32_t> v;
  for (uint32_t x :
       {0x00000000u, 0x00000001u, 0x00001000u, 0x00001FFFu, 0x00002000u, 0x00003000u, 0x007FE000u,
        0x007FF000u, 0x007FFFFFu, 0x00800000u, 0x00800FFFu, 0x00801000u, 0x00803000u, 0x3F800000u,
        0x3F800FFFu, 0x3F801000u, 0x3F801001u, 0x3F802FFFu, 0x3F803000u, 0x3F803001u, 0x3FFFE000u,
        0x3FFFF000u, 0x7F7FE000u, 0x7F7FEFFFu, 0x7F7FF000u, 0x7F7FFFFFu, 0x7F800000u, 0x7F800001u,
        0x7F801000u, 0x7F8AEE1Fu, 0x7F900000u, 0x7FA00000u, 0x7FBFFFFFu, 0x7FC00000u, 0x7FC01000u,
        0x7FC01FFFu, 0x7FFFE000u, 0x7FFFEFFFu, 0x7FFFF000u, 0x7FFFFFFFu})
    v.push_back(x), v.push_back(x | 0x80000000u);
  std::mt19937 g(5);
  while (v.size() < 256) v.push_back(g());
  return v;
}

std::string changes(const std::vector<uint32_t>& from, const std::vector<uint8_t>& gpu) {
  std::string s = "values that the card changes:";
  char line[48];
  for (size_t i = 0; i < from.size() && i < 80 && 4 * i + 4 <= gpu.size(); ++i) {
    uint32_t word;
    std::memcpy(&word, &gpu[4 * i], 4);
    if (word == from[i]) continue;
    std::snprintf(line, sizeof line, " %08x->%08x", from[i], word);
    s += line;
  }
  return s;
}

void specials(std::vector<Case>& cases) {
  std::vector<uint32_t> words = special_words();
  auto report = [words](const Case&, const std::vector<uint8_t>& gpu, const std::vector<uint8_t>&) {
    return changes(words, gpu);
  };
  for (int type : {7, 10, 11, 12}) {
    Map m = tile_map(type, 2, 32, 8, 32, 8, 0);
    m.stride = {128};
    load(cases, "tensor copies, tile", m, {0, 0});
    cases.back().name += ", every kind of value";
    cases.back().buffers[0].bytes = bytes_of(words);
    cases.back().analyse = report;
    store(cases, "tensor stores, reductions", m, {0, 0});
    cases.back().name += ", every kind of value";
    cases.back().buffers[0].bytes = bytes_of(words);
    cases.back().buffers[1].bytes.assign(1024, 0);
    cases.back().analyse = report;
    for (uint32_t to : {0u, 0x80000000u, 0x00800000u, 0x3F800000u}) {
      store(cases, "tensor stores, reductions", m, {0, 0}, "add");
      cases.back().name += ", every kind of value to " + text(int64_t(to));
      cases.back().buffers[0].bytes = bytes_of(words);
      cases.back().buffers[1].bytes = bytes_of(std::vector<uint32_t>(256, to));
      if (type > 10) cases.back().refused = "the reduction does not exist";
      cases.back().analyse = report;
    }
  }
}

void multicast(std::vector<Case>& cases) {
  for (uint32_t n : {2u, 4u, 8u}) {
    Map m = tile_map(7, 2, 64, 64, 32, 8, 3);
    std::string mask = text((1 << n) - 1);
    Case c;
    c.family = "tensor multicast";
    c.name = "each CTA of " + text(n) + " multicasts 8 rows to all";
    c.block = {128, 1, 1};
    c.grid = c.cluster = {n, 1, 1};
    uint32_t tile = 8192;
    c.body = tile_head(tile, false) + map_address() +
             "  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " + text(1024 * n) +
             ";\n" + kClusterMeet + R"(
  @!%p0 bra issued;
  mad.lo.u32 %r24, %r2, 1024, %r20;
  mul.lo.u32 %r25, %r2, 8;
  sub.u32 %r25, %r25, 4;
  mov.u16 %h1, )" +
             mask + R"(;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r24], [%rd4, {40, %r25}], [bar], %h1;
issued:
)" + bounded_wait("[bar]", "0", 0) +
             kClusterMeet + tile_out(tile) + "  ret;";
    c.maps.push_back(m);
    c.in("in", random_bytes(kTensorBytes, n)).out("out", tile * n);
    cases.push_back(std::move(c));
  }
  Case c;
  c.family = "tensor multicast";
  c.name = "prefetch of a tensor and of its map";
  c.block = {128, 1, 1};
  c.body = tile_head(1024, false) + map_address() +
           "  @%p0 prefetch.tensormap [%rd4];\n"
           "  @%p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd4, {0, 0}];\n" +
           tile_out(1024) + "  ret;";
  c.maps.push_back(tile_map(7, 2, 64, 64, 32, 8, 3));
  c.in("in", random_bytes(kTensorBytes, 1)).out("out", 1024);
  cases.push_back(std::move(c));
}

// Convolution of 3 taps a dimension, padding 1: base pixels from -1 to dim - 2.
void im2col(std::vector<Case>& cases) {
  const std::string family = "tensor copies, im2col";
  for (uint32_t rank : {3u, 4u, 5u})
    for (int swizzle = 0; swizzle < 4; ++swizzle)
      for (int type : {6, 7, 0}) {
        uint32_t size = kSizes[type], span = swizzle ? 16u << swizzle : 64;
        Map m;
        m.type = type;
        m.swizzle = swizzle;
        m.dim = {uint64_t(96 / size)};
        uint64_t pitch = 112;
        for (uint32_t i = 1; i < rank; ++i) {
          m.dim.push_back(i + 1 == rank ? 2 : 5 + i);
          m.stride.push_back(pitch);
          pitch *= m.dim[i];
        }
        m.element_stride.assign(rank, 1);
        m.lower.assign(rank - 2, -1);
        m.upper.assign(rank - 2, -1);
        m.channels = span / size;
        m.pixels = 20;
        std::string offsets = rank == 3 ? "{%h3}" : rank == 4 ? "{%h3, %h1}" : "{%h2, %h3, %h1}";
        std::vector<int> corner(rank, -1), inner(rank, 1);
        corner[0] = inner[0] = 0;
        corner[rank - 1] = 0;
        load(cases, family, m, corner, ", " + offsets);
        inner[0] = int(m.dim[0]) - int(m.channels) / 2;
        load(cases, family, m, inner, ", " + offsets);
        if (rank == 4 && swizzle > 1) { // rows of half the span
          Map half = m;
          half.channels /= 2;
          half.pixels = 40;
          load(cases, family, half, corner, ", " + offsets);
        }
        if (rank == 3 && type == 7) {
          inner[0] = 1;
          load(cases, family, m, inner, ", " + offsets, true, true);
          cases.back().refused = "must be a multiple of 16 bytes";
        }
        if (type != 0 && swizzle == 0) {
          m.fill = 1;
          load(cases, family, m, corner, ", " + offsets);
        }
        if (rank == 4 && swizzle == 3 && type == 6) { // a stride of two pixels
          m.fill = 0;
          m.element_stride = {1, 2, 2, 1};
          load(cases, family, m, corner, ", " + offsets, false);
        }
        if (swizzle % 2 == 0 && type != 0) {
          m.fill = 0;
          m.element_stride.assign(rank, 1);
          m.lower.assign(rank - 2, 0);
          m.upper.assign(rank - 2, 0);
          store(cases, family, m, inner, "", false);
        }
      }
}

} // namespace

void add_tensor_cases(std::vector<Case>& cases) {
  tiles(cases);
  stores(cases);
  specials(cases);
  multicast(cases);
  im2col(cases);
}

} // namespace wltest::oracle
