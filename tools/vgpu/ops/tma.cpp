#include "tools/vgpu/ops/tma.hpp"

#include <algorithm>
#include <sstream>

namespace vgpu::ops {

using tensor::TmaMode;

namespace {

TmaMode mode_of(std::string_view token) {
  if (token == "tile::gather4") return TmaMode::gather4;
  if (token == "tile::scatter4") return TmaMode::scatter4;
  if (token == "im2col" || token == "im2col_no_offs") return TmaMode::im2col;
  if (token == "im2col::w") return TmaMode::im2col_w;
  if (token == "im2col::w::128") return TmaMode::im2col_w128;
  return TmaMode::tile;
}

} // namespace

TmaOperands tma_operands(DecodeContext& ctx, const Statement& s, const Match& m, OperandReader& r) {
  const Operand& operand = r.next("[map, {coordinates}]");
  const std::string_view mode = m.get("mode");
  TmaOperands t;
  t.dims = m.get("dim")[0] - '0';
  t.mode = mode_of(mode);
  bool rows = t.mode == TmaMode::gather4 || t.mode == TmaMode::scatter4;
  if (rows && t.dims != 2) ctx.refuse(s, "gather4 and scatter4 are .2d");
  if (mode.substr(0, 6) == "im2col" && t.dims < 3) ctx.refuse(s, "im2col needs .3d, .4d or .5d");
  if (operand.kind != Operand::Kind::Tensor || operand.items.size() != 2)
    ctx.refuse(s, "the tensor operand must be [map, {coordinates}]");
  t.map = mem_operand(ctx, operand.items[0], "");
  r.src.push_back(t.map.slot);
  const Operand& v = operand.items[1];
  std::vector<Operand> coordinates =
      v.kind == Operand::Kind::Vector ? v.items : std::vector<Operand>{v};
  t.coordinates = rows ? 5 : t.dims;
  if (static_cast<int>(coordinates.size()) != t.coordinates)
    ctx.refuse(s, std::to_string(coordinates.size()) + " coordinates where " +
                      std::to_string(t.coordinates) + " belong");
  for (int i = 0; i < t.coordinates; ++i)
    r.src.push_back(t.coordinate[i] = ctx.src(coordinates[static_cast<size_t>(i)], RegClass::B32));
  return t;
}

void tma_offsets(DecodeContext& ctx, const Statement& s, TmaOperands& t, OperandReader& r) {
  if (!tensor::is_im2col(t.mode)) return;
  const Operand& operand = r.next("the vector of im2col offsets");
  std::vector<Operand> items =
      operand.kind == Operand::Kind::Vector ? operand.items : std::vector<Operand>{operand};
  t.offsets = t.mode == TmaMode::im2col ? t.dims - 2 : 2;
  if (static_cast<int>(items.size()) != t.offsets)
    ctx.refuse(s, std::to_string(items.size()) + " im2col offsets where " +
                      std::to_string(t.offsets) + " belong");
  for (int i = 0; i < t.offsets; ++i)
    r.src.push_back(t.offset[i] = ctx.src(items[static_cast<size_t>(i)], RegClass::B32));
}

std::shared_ptr<TmaBox> tma_box(Warp& w, const Inst& inst, const TmaOperands& t, uint32_t lane,
                                uint32_t shared, bool store, bool reduce) {
  uint32_t bit = lane_bit(lane);
  uint64_t address = t.map.value(w, lane);
  Access a;
  a.proxy = Proxy::Async;
  a.bytes = tensor::kTensorMapBytes;
  a.alignment = 64;
  if (t.map.mode == MemOperand::Mode::Param) {
    a.space = Space::Param;
    a.address = address;
  } else {
    uint32_t cta = 0;
    a.space = w.cluster().resolve(address, cta, a.address);
    if (a.space != Space::Global && a.space != Space::Param)
      w.fault(inst, bit, FaultCode::invalid_address_space, "tensormap",
              "the tensor map at generic address " + hex(address) +
                  " is not in parameter, constant or global memory");
  }
  const uint8_t* bytes = w.cluster().touch(a, w.origin(inst, bit));
  auto box = std::make_shared<TmaBox>();
  std::string error = tensor::load(bytes, box->map);
  if (!error.empty())
    w.fault(inst, bit, FaultCode::illegal_instruction, "tensormap",
            "the 128 bytes at " + hex(address) + " are no tensor map: " + error);
  if (box->map.rank != t.dims)
    w.fault(inst, bit, FaultCode::illegal_instruction, "tensormap",
            "the instruction is ." + std::to_string(t.dims) + "d, the tensor map has rank " +
                std::to_string(box->map.rank));
  tensor::TmaAccess& x = box->access;
  x.map = &box->map;
  x.mode = t.mode;
  x.store = store;
  x.reduce = reduce;
  x.shared = shared;
  for (int i = 0; i < t.coordinates; ++i)
    x.coordinate[i] = static_cast<int32_t>(w.lanes<uint32_t>(t.coordinate[i])[lane]);
  uint16_t info[3] = {};
  for (int i = 0; i < t.offsets; ++i)
    info[i] = static_cast<uint16_t>(w.lanes<uint32_t>(t.offset[i])[lane]);
  if (tensor::is_wide(t.mode)) { // {wHalo, wOffset}
    x.halo = info[0];
    x.offset[0] = info[1];
  } else {
    std::copy_n(info, 3, x.offset);
  }
  if (shared % 128 != 0)
    w.fault(inst, bit, FaultCode::misaligned_address, "alignment",
            "the shared address of a tensor copy is " + std::to_string(shared % 128) +
                " modulo 128, it must be a multiple of 128 (offset " + hex(shared) + ")");
  error = tensor::check(x);
  if (!error.empty())
    w.fault(inst, bit, FaultCode::illegal_instruction, "tensormap",
            error + " (" + tma_text(*box) + ")");
  return box;
}

std::vector<Range> tma_shared_ranges(const tensor::TmaAccess& access, uint32_t cta, bool write) {
  uint64_t bytes = tensor::shared_bytes(access);
  auto range = [&](uint64_t lo, uint64_t hi) {
    return Range{Space::Shared, write, cta, lo, hi, 0, 128};
  };
  if (access.map->swizzle() == tensor::Swizzle::none ||
      (bytes % 128 == 0 && tensor::is_dense(access)))
    return {range(access.shared, access.shared + bytes)};
  std::vector<Range> ranges;
  tensor::for_each_segment(access, [&](const tensor::Segment& s) {
    if (!ranges.empty() && ranges.back().hi == s.shared)
      ranges.back().hi += s.bytes;
    else
      ranges.push_back(range(s.shared, s.shared + s.bytes));
  });
  return ranges;
}

std::string tma_text(const TmaBox& box) {
  std::ostringstream s;
  const tensor::TensorMap& m = box.map;
  s << m.rank << "-D " << tensor::element_type_name(m.type) << " tensor (";
  for (int i = 0; i < m.rank; ++i) s << (i ? ", " : "") << m.dim[i];
  s << ") at " << hex(m.address) << ", box (";
  for (int i = 0; i < m.rank; ++i) s << (i ? ", " : "") << m.box[i];
  s << ") at coordinates (";
  int n = box.access.mode == TmaMode::gather4 || box.access.mode == TmaMode::scatter4 ? 5 : m.rank;
  for (int i = 0; i < n; ++i) s << (i ? ", " : "") << box.access.coordinate[i];
  s << "), swizzle " << tensor::swizzle_name(m.swizzle());
  return s.str();
}

} // namespace vgpu::ops
