// What Definedness knows of bytes of shared and global memory.
#include "tools/vgpu/check/definedness.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vgpu::check {

namespace {

std::string range_text(const exec::Access& a) {
  char address[20];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(a.address));
  return std::to_string(a.bytes) + " bytes of " +
         (a.space == exec::Space::Global ? std::string("global memory at ") + address
                                         : "shared memory at offset " + std::to_string(a.address) +
                                               " of CTA rank " + std::to_string(a.cta));
}

} // namespace

uint8_t* Definedness::stack_byte(uint32_t cta, uint32_t warp, uint32_t lane, uint64_t address) {
  return stack_[cta].data() + (size_t(warp) * 32 + lane) * stack_each_ +
         (address - cluster_.spec.program->local_bytes);
}

void Definedness::access(const exec::Access& a, const exec::Origin& origin,
                         const exec::AsyncOp* op) {
  uint8_t* states = nullptr;
  if (a.space == exec::Space::Global)
    states = cluster_.spec.memory->written(a.address, a.bytes);
  else if (a.space == exec::Space::Shared)
    states = shared_[a.cta].data() + a.address;
  else if (a.space == exec::Space::Local)
    states = stack_byte(origin.cta, origin.warp, origin.lane, a.address);
  else
    return;
  const Rule& rule = facts_.rules[origin.inst->pc];
  if (a.write && rule.kind == Kind::Discard && a.space == exec::Space::Global)
    states = cluster_.spec.memory->make_flags(a.address, a.bytes);
  if (!op && a.write && !a.atomic && rule.kind == Kind::Store)
    stored(a, states, rule, origin);
  else if (!states)
    return; // all of it counts as written
  else if (a.write && a.atomic)
    atomic(a, states, rule, origin);
  else if (op)
    access_by_operation(a, states, rule, origin);
  else if (a.write)
    std::memset(states, rule.kind == Kind::Discard ? kUnwritten : kWritten, a.bytes);
  else if (rule.kind == Kind::Load)
    loaded(a, states, rule, origin.lane);
}

void Definedness::access_lanes(const exec::Access& a, const uint64_t* addresses, uint32_t mask,
                               uint64_t lo, uint64_t hi, const exec::Origin& origin) {
  const Rule& rule = facts_.rules[origin.inst->pc];
  const bool global = a.space == exec::Space::Global;
  if (!global && a.space != exec::Space::Shared) return;
  uint8_t* states =
      global ? cluster_.spec.memory->written(lo, hi - lo) : shared_[a.cta].data() + lo;
  // What happens most: loads of written bytes, and stores of registers that are defined.
  if (!a.write && rule.kind == Kind::Load) {
    if (!states || (hi - lo <= 32ull * a.bytes && all_written(states, hi - lo))) return;
  } else if (a.write && !a.atomic && rule.kind == Kind::Store && stores_written(rule, mask)) {
    for (uint32_t m = states ? mask : 0; m; m &= m - 1)
      std::memset(states + (addresses[std::countr_zero(m)] - lo), kWritten, a.bytes);
    return;
  }
  exec::Access one = a;
  exec::Origin at = origin;
  for (uint32_t m = mask; m; m &= m - 1) {
    at.lane = static_cast<uint32_t>(std::countr_zero(m));
    one.address = addresses[at.lane];
    access(one, at, nullptr);
  }
}

bool Definedness::all_written(const uint8_t* states, uint64_t bytes) {
  uint8_t others = 0;
  for (uint64_t i = 0; i < bytes; ++i) others |= states[i] ^ kWritten;
  return others == 0;
}

bool Definedness::stores_written(const Rule& rule, uint32_t mask) const {
  uint32_t lanes = mask;
  for (uint32_t e = 0; e < rule.elements; ++e) lanes &= moved_[e].written;
  return lanes == mask;
}

// A register is undefined only when no byte of what it gets has been written: programs read the
// last, partly filled word of an array, and structures with gaps, as whole words. Elsewhere, where
// no host fills a part, one unwritten byte is enough.
void Definedness::loaded(const exec::Access& a, const uint8_t* states, const Rule& rule,
                         uint32_t lane) {
  if (all_written(states, a.bytes)) return;
  const uint32_t each = a.bytes / rule.elements;
  for (uint32_t e = 0; e < rule.elements; ++e) {
    const uint8_t *first = states + e * each, *last = first + each;
    const auto has = [&](State s) { return std::find(first, last, s) != last; };
    const bool lost = a.space != exec::Space::Global && has(kUnwritten);
    if (has(kWritten) && !lost) continue;
    moved_[e].written &= ~(1u << lane);
    if (!lost) moved_[e].derived |= 1u << lane;
    if (!lost && !has(kDerived)) moved_[e].copied |= 1u << lane;
  }
}

void Definedness::stored(const exec::Access& a, uint8_t* states, const Rule& rule,
                         const exec::Origin& origin) {
  const bool global = a.space == exec::Space::Global;
  const uint32_t each = a.bytes / rule.elements;
  for (uint32_t e = 0; e < rule.elements; ++e) {
    const auto is = [&](uint32_t lanes) { return (lanes >> origin.lane & 1) != 0; };
    const bool written = is(moved_[e].written), copied = is(moved_[e].copied);
    if (global && !written && !copied) report_output(rule, e, origin);
    if (!states && !written) states = cluster_.spec.memory->make_flags(a.address, a.bytes);
    const State state = written                 ? kWritten
                        : global                ? kUnwritten
                        : copied                ? kCopied
                        : is(moved_[e].derived) ? kDerived
                                                : kUnwritten;
    if (states) std::memset(states + e * each, state, each);
  }
}

void Definedness::report_output(const Rule& rule, uint32_t element, const exec::Origin& origin) {
  const exec::Warp& w = *cluster_.ctas[origin.cta]->warps[origin.warp];
  const uint32_t* slot = origin.inst->op + origin.inst->n_dst + element;
  // Where accesses share the registers, the first that is undefined.
  for (uint32_t i = element + rule.elements; i < rule.data; i += rule.elements)
    if (registers(w)[facts_.at(*slot)].written >> origin.lane & 1) slot += rule.elements;
  report(w, *origin.inst, 1u << origin.lane, *slot, "output", "is stored to global memory");
}

void Definedness::atomic(const exec::Access& a, uint8_t* states, const Rule& rule,
                         const exec::Origin& origin) {
  const uint32_t each = a.bytes / rule.elements;
  for (uint32_t e = 0; e < rule.elements && !rule.replaces; ++e) {
    const uint8_t *first = states + e * each, *last = first + each;
    if (std::find(first, last, kWritten) != last) continue;
    Finding f;
    f.checker = "definedness";
    f.rule = "atomic";
    f.text = range_text(a) + " are changed by an atomic or a reduction, and nothing has written "
                             "them before";
    f.sites.push_back(
        {"this use", Who{origin.cta, origin.warp, 1u << origin.lane, origin.inst->pc, 0}});
    sink_.found(f);
  }
  std::memset(states, kWritten, a.bytes);
}

void Definedness::access_by_operation(const exec::Access& a, uint8_t* states, const Rule& rule,
                                      const exec::Origin& origin) {
  if (a.write)
    std::memset(states, kWritten, a.bytes);
  else if (a.space == exec::Space::Global)
    read_unwritten_ |= std::memchr(states, kUnwritten, a.bytes) != nullptr;
  // An operand's span may be larger than the operand: only one that nobody wrote to is reported.
  else if (!std::memchr(states, kWritten, a.bytes) && !std::memchr(states, kDerived, a.bytes) &&
           !(rule.copies && std::memchr(states, kCopied, a.bytes)))
    report_source(a, origin);
}

void Definedness::report_source(const exec::Access& a, const exec::Origin& origin) {
  const std::vector<uint8_t> found = states(a.space, a.cta, a.address, a.bytes);
  const bool copied = std::find(found.begin(), found.end(), kCopied) != found.end();
  Finding f;
  f.checker = "definedness";
  f.rule = "source";
  f.text =
      range_text(a) + " are read by an asynchronous operation, and nothing has written any " +
      (copied ? "of them: they were copied from global memory that nobody has written" : "of them");
  f.sites.push_back(
      {"issued", Who{origin.cta, origin.warp, 1u << origin.lane, origin.inst->pc, 0}});
  sink_.found(f);
}

std::vector<uint8_t> Definedness::states(exec::Space space, uint32_t cta, uint64_t address,
                                         uint64_t bytes) const {
  const bool global = space == exec::Space::Global;
  const uint8_t* now =
      global ? cluster_.spec.memory->written(address, bytes) : shared_[cta].data() + address;
  if (!now || std::all_of(now, now + bytes, [](uint8_t s) { return s == kWritten; })) return {};
  std::vector<uint8_t> result(now, now + bytes);
  if (global) std::replace(result.begin(), result.end(), uint8_t{kUnwritten}, uint8_t{kCopied});
  return result;
}

void Definedness::put_states(exec::Space space, uint32_t cta, uint64_t address,
                             const uint8_t* states, uint64_t bytes, bool output,
                             const exec::Origin& origin) {
  if (space == exec::Space::Shared) {
    std::memcpy(shared_[cta].data() + address, states, bytes);
    return;
  }
  if (output && !std::memchr(states, kWritten, bytes) && !std::memchr(states, kCopied, bytes)) {
    exec::Access a;
    a.address = address;
    a.bytes = static_cast<uint32_t>(bytes);
    Finding f;
    f.checker = "definedness";
    f.rule = "output";
    f.text = range_text(a) + " get bytes of shared memory that nothing has written, or that depend "
                             "on memory that nothing has written";
    f.sites.push_back(
        {"issued", Who{origin.cta, origin.warp, 1u << origin.lane, origin.inst->pc, 0}});
    sink_.found(f);
  }
  uint8_t* to = cluster_.spec.memory->make_flags(address, bytes);
  for (uint64_t i = 0; to && i < bytes; ++i) to[i] = states[i] == kWritten;
}

} // namespace vgpu::check
