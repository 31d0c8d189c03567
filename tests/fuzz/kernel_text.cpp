// Kernels from bytes: each statement is a row of the instruction table with choices and operands
// that mostly fit it, so that most of them decode and run.
#include "tests/fuzz/targets.hpp"

#include "tools/vgpu/isa/forms.hpp"
#include "tools/vgpu/isa/pattern.hpp"
#include "tools/vgpu/isa/types.hpp"

#include <cstdlib>

namespace wlfuzz {

namespace {

using vgpu::isa::Form;
using vgpu::isa::Pattern;
using vgpu::isa::PatternItem;
using vgpu::isa::Signature;
using vgpu::isa::SignatureItem;

struct Row {
  Pattern pattern;
  Signature signature;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> list = [] {
    std::vector<Row> r;
    for (const Form& f : vgpu::isa::forms())
      if (f.status != vgpu::isa::Status::refused)
        r.push_back({Pattern::compile(f.pattern), Signature::compile(f.operands)});
    return r;
  }();
  return list;
}

// What the opcode says about its operands.
struct Hints {
  uint32_t bits = 32;
  size_t count = 1; // elements of a vector
  std::string space;
};

void learn(Hints& h, std::string_view word) {
  if (uint32_t bits = vgpu::isa::type_bits(word)) h.bits = bits;
  auto number = [&](size_t from) {
    return size_t(std::atoi(std::string(word.substr(from)).c_str()));
  };
  if (word.size() > 1 && (word[0] == 'x' || word[0] == 'v') && word[1] >= '1' && word[1] <= '9')
    h.count = number(1);
  if (word.starts_with("m64n")) h.count = number(4) / 2;
  if (word == "16x128b") h.count *= 2;
  if (word == "16x256b") h.count *= 4;
  for (const char* s : {"shared", "global", "local", "param", "const"})
    if (word.starts_with(s) && h.space.empty()) h.space = s;
}

std::string numbered(const char* name, size_t i) { return name + std::to_string(i); }

std::string reg(Reader& c, uint32_t bits) {
  if (c.below(16) == 0) bits = c.pick({1u, 8u, 16u, 32u, 64u, 128u});
  if (bits == 1) return numbered("%p", c.below(4));
  if (bits <= 8) return numbered("%b", c.below(4));
  if (bits <= 16) return numbered("%h", c.below(8));
  if (bits <= 32) return numbered("%r", c.below(16));
  if (bits <= 64) return numbered("%rd", c.below(12));
  return numbered("%q", c.below(2));
}

std::string immediate(Reader& c) {
  return c.pick({"0",
                 "1",
                 "2",
                 "3",
                 "4",
                 "7",
                 "8",
                 "16",
                 "31",
                 "32",
                 "33",
                 "64",
                 "128",
                 "-1",
                 "255",
                 "4096",
                 "0x7fffffff",
                 "0x80000000",
                 "0xffffffffffffffff",
                 "0f3F800000",
                 "0f7FC00000",
                 "0d3FF0000000000000",
                 "1.5"});
}

std::string address(Reader& c, const Hints& h) {
  const char* base = "%rd0";
  if (h.space == "shared")
    base = c.pick({"room", "bar", "room", "bar", "%r0", "%r1", "%rd2", "%far"});
  else if (h.space == "param")
    base = c.pick({"buffer", "map", "buffer"});
  else if (h.space == "local")
    base = c.pick({"own", "own", "%r2"});
  else if (h.space == "const")
    base = "fixed";
  else if (h.space == "global")
    base = c.pick({"%rd0", "%rd1", "%rd0", "shown", "%rd9"});
  else
    base = c.pick({"%rd0", "%rd1", "%r3", "bar", "room", "%rd2", "%tm", "%rdm", "map"});
  std::string s = std::string("[") + base;
  if (c.below(2))
    s += "+" + std::to_string(c.pick({8, 16, 32, 64, 128, 4, 1, 2, 1000, -16, 65536}));
  return s + "]";
}

std::string operand(Reader& c, const Hints& h, char kind) {
  switch (kind) {
  case 'd':
    switch (c.below(16)) {
    case 0:
      return "_";
    case 1:
      return reg(c, h.bits) + "|" + reg(c, 1);
    default:
      if (h.count == 1) return reg(c, h.bits);
      break;
    }
    [[fallthrough]];
  case 'v': {
    size_t n = h.count;
    if (c.below(8) == 0) n = c.pick({1, 2, 3, 4, 5, 8});
    if (n == 1 && c.below(2)) return c.below(4) ? reg(c, h.bits) : immediate(c);
    std::string s = "{";
    const size_t first = c.byte();
    for (size_t i = 0; i < n; ++i) {
      s += i ? ", " : "";
      // Long vectors are accumulators: registers of their own.
      s += n > 8 ? numbered("%w", (first + i) % 256) : reg(c, h.bits);
    }
    return s + "}";
  }
  case 's':
    return c.below(4) ? reg(c, h.bits) : immediate(c);
  case 'p':
    return (c.below(4) ? "" : "!") + numbered("%p", c.below(4));
  case 'm':
    return address(c, h);
  case 't': {
    std::string s = c.below(4) ? "[map, {" : "[%rdm, {";
    for (size_t i = 0, n = 1 + c.below(5); i < n; ++i)
      s += (i ? ", " : "") + (c.below(2) ? reg(c, 32) : immediate(c));
    return s + "}]";
  }
  case 'n':
    return c.pick({"L0", "L1", "L2", "helper", "table", "L3"});
  default:
    return "_";
  }
}

std::string statement(Reader& c) {
  const Row& row = rows()[c.below(rows().size())];
  Hints h;
  std::string s;
  if (c.below(8) == 0) s += "@" + operand(c, h, 'p') + " ";
  bool first = true;
  for (const PatternItem& item : row.pattern.items) {
    if (item.optional && c.below(2)) continue;
    const std::string_view word = item.words[c.below(item.words.size())];
    learn(h, word);
    s += (first ? "" : ".") + std::string(word);
    first = false;
  }
  const char* separator = " ";
  for (const SignatureItem& item : row.signature.items) {
    if (item.optional && c.below(2)) continue;
    s += separator + operand(c, h, item.kind);
    separator = ", ";
  }
  return s + ";";
}

const char* const kHead = R"(
.address_size 64
.global .align 16 .b8 shown[256];
.const .align 16 .b8 fixed[64] = {1, 2, 3};
.func (.param .b32 result) helper(.param .b32 x)
{
  .reg .b32 %a;
  ld.param.b32 %a, [x];
  add.s32 %a, %a, 1;
  st.param.b32 [result], %a;
  ret;
}
.func (.param .b32 result) nest(.param .b32 x)
{
  .local .align 8 .b8 own[24];
  .reg .b32 %a, %b;
  .reg .b64 %d;
  .reg .pred %p;
  .param .b32 y, r;
  ld.param.b32 %a, [x];
  and.b32 %a, %a, 15;
  st.local.b32 [own+4], %a;
  mov.u64 %d, own;
  setp.eq.u32 %p, %a, 0;
  @%p bra done;
  sub.u32 %b, %a, 1;
  st.param.b32 [y], %b;
  call.uni (r), nest, (y);
  ld.param.b32 %b, [r];
  ld.local.b32 %a, [%d+4];
  add.u32 %a, %a, %b;
done:
  st.param.b32 [result], %a;
  ret;
}
.extern .func (.param .b64 block) malloc(.param .b64 bytes);
.extern .func free(.param .b64 block);
.visible .entry k(.param .u64 buffer, .param .align 128 .b8 map[128])
.maxntid 128
{
  .reg .pred %p<4>;
  .reg .b8 %b<4>;
  .reg .b16 %h<8>;
  .reg .b32 %r<16>, %w<256>, %tm, %far;
  .reg .b64 %rd<12>, %rdm;
  .reg .b128 %q<2>;
  .shared .align 1024 .b8 room[8192];
  .shared .align 8 .b64 bar;
  .shared .align 4 .b32 tensor;
  .local .align 16 .b8 own[64];
  .param .b64 bytes, block;
  ld.param.u64 %rd0, [buffer];
  add.u64 %rd1, %rd0, 2048;
  mov.u64 %rdm, map;
  cvta.param.u64 %rdm, %rdm;
  mov.u32 %r0, room;
  mov.u32 %r1, bar;
  mov.u32 %r2, own;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %laneid;
  mov.u32 %r5, %cluster_ctarank;
  mov.u32 %r6, 1;
  mov.u32 %r7, -1;
  mov.u32 %r8, 0x08080490;
  cvt.u64.u32 %rd2, %r0;
  cvta.shared.u64 %rd2, %rd2;
  mov.u64 %rd3, 0x4000404000010040;
  cvt.u64.u32 %rd4, %r3;
  mov.u64 %rd5, -1;
  mapa.shared::cluster.u32 %far, %r0, 0;
  setp.eq.u32 %p0, %r3, 0;
  setp.lt.u32 %p1, %r4, 16;
  setp.ne.u32 %p2, %r6, 0;
  @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
)";

// With blocks and tensor memory of their own target.
const char* const kTensor = R"(
  setp.lt.u32 %p3, %r3, 32;
  @!%p3 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tensor], 64;
ALLOCATED:
  bar.sync 0;
  ld.shared.u32 %tm, [tensor];
)";

std::string call(Reader& c) {
  const char* guard = c.pick({"", "", "@%p1 ", "@!%p0 "});
  switch (c.below(6)) {
  case 0:
    return guard + std::string("call.uni (%r9), nest, (") + reg(c, 32) + ");";
  case 1:
  case 2:
    return std::string("st.param.b64 [bytes], ") +
           c.pick({"%rd4", "8", "100", "1000", "%rd5", "0"}) + "; " + guard +
           "call.uni (block), malloc, (bytes); ld.param.b64 %rd9, [block];";
  case 3:
    return "st.param.b64 [block], " + reg(c, 64) + "; " + guard + "call.uni free, (block);";
  default:
    return guard + std::string("call.uni (%r9), helper, (") + reg(c, 32) + ");";
  }
}

} // namespace

std::string kernel_text(Reader& c, const char* target) {
  const bool blackwell = std::string_view(target) == "sm_100a";
  std::string text = std::string(".version 8.8\n.target ") + target + kHead;
  text += blackwell && c.below(2) ? kTensor : "  mov.u32 %tm, 0;\n  bar.sync 0;\n";
  text += "table: .branchtargets L0, L1, L2;\n";
  const size_t n = 1 + c.below(24);
  for (size_t i = 0; i < n; ++i) {
    if (i % 6 == 0 && i / 6 < 4) text += numbered("L", i / 6) + ":\n";
    text += "  " + (c.below(16) ? statement(c) : call(c)) + "\n";
  }
  for (size_t i = (n + 5) / 6; i < 4; ++i) text += numbered("L", i) + ":\n";
  return text + "  ret;\n}\n";
}

} // namespace wlfuzz
