#include "runtime/src/rules.hpp"

#include <algorithm>
#include <cinttypes>

namespace warpline {

namespace {

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

std::string number(int64_t value) { return std::to_string(value); }

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

} // namespace

const char* rule_kind_name(RuleKind kind) {
  switch (kind) {
  case RuleKind::range:
    return "range";
  case RuleKind::multiple:
    return "multiple";
  case RuleKind::alignment:
    return "alignment";
  case RuleKind::pointer:
    return "pointer";
  case RuleKind::memory:
    return "memory";
  case RuleKind::overlap:
    return "overlap";
  case RuleKind::support:
    return "support";
  }
  return "?";
}

Verdict violated(std::string finding, std::string nearest) {
  return {false, std::move(finding), std::move(nearest)};
}

Verdict in_range(int64_t value, int64_t least, int64_t greatest) {
  return in_range(value, least, greatest, least);
}

Verdict in_range(int64_t value, int64_t least, int64_t greatest, int64_t nearest_least) {
  if (value >= least && value <= greatest) return holds();
  return violated(" = " + number(value), number(value < least ? nearest_least : greatest));
}

Verdict flags_among(uint32_t flags, uint32_t allowed) {
  if ((flags & ~allowed) == 0) return holds();
  return violated(" = " + number(flags), number(flags & allowed));
}

Verdict multiple_of(int64_t value, int64_t multiple, int64_t least, int64_t greatest) {
  if (value < least || value > greatest || value % multiple == 0) return holds();
  const int64_t below = value / multiple * multiple;
  std::string nearest = below >= least && below > 0 ? number(below) : "";
  if (below <= greatest - multiple)
    nearest += (nearest.empty() ? "" : ", ") + number(below + multiple);
  return violated(" = " + number(value), nearest);
}

Verdict not_null(const void* pointer) { return pointer ? holds() : violated(": address is null,"); }

Verdict aligned(const void* pointer, uint64_t bytes) {
  const uint64_t address = address_of(pointer);
  const uint64_t rest = address % bytes;
  if (rest == 0) return holds();
  const uint64_t below = address - rest;
  std::string nearest = below != 0 ? format("0x%" PRIx64, below) : "";
  if (below <= UINT64_MAX - bytes)
    nearest += (nearest.empty() ? "" : ", ") + format("0x%" PRIx64, below + bytes);
  return violated(
      format(": address 0x%" PRIx64 " is %" PRIu64 " modulo %" PRIu64 ",", address, rest, bytes),
      nearest);
}

Verdict disjoint(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes,
                 const std::string& b_name) {
  if (!a || !b || a_bytes == 0 || b_bytes == 0) return holds();
  const uint64_t a_begin = address_of(a), b_begin = address_of(b);
  // Differences instead of ends, which may overflow.
  const bool apart =
      a_begin <= b_begin ? b_begin - a_begin >= a_bytes : a_begin - b_begin >= b_bytes;
  if (apart) return holds();
  return violated(format(": %" PRIu64 " bytes at 0x%" PRIx64 " overlap %s, %" PRIu64
                         " bytes at 0x%" PRIx64 ",",
                         a_bytes, a_begin, b_name.c_str(), b_bytes, b_begin));
}

Verdict disjoint(const Extent& a, const Extent& b) {
  return disjoint(a.start, a.bytes, b.start, b.bytes, b.name);
}

Verdict disjoint(const Extent& a, std::span<const Extent> others) {
  for (const Extent& other : others) {
    Verdict verdict = disjoint(a, other);
    if (!verdict.holds) return verdict;
  }
  return holds();
}

std::vector<std::string> nearest_names(std::string_view word,
                                       const std::vector<std::string>& candidates, size_t count,
                                       size_t greatest) {
  std::vector<std::pair<size_t, const std::string*>> near;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance <= greatest) near.emplace_back(distance, &candidate);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(count, near.size()); ++i) names.push_back(*near[i].second);
  return names;
}

bool product(std::initializer_list<int64_t> factors, int64_t* result) {
  int64_t value = 1;
  for (const int64_t factor : factors)
    if (factor < 0 || __builtin_mul_overflow(value, factor, &value)) return false;
  *result = value;
  return true;
}

std::string Violation::sentence() const {
  std::string text = rule.argument + verdict.finding + " " + rule.text;
  if (!verdict.nearest.empty()) text += " (nearest: " + verdict.nearest + ")";
  return text;
}

wl_status report_violations(const std::string& operation,
                            const std::vector<Violation>& violations) {
  if (violations.empty()) return WL_SUCCESS;
  const auto all = [&](RuleKind kind) {
    return std::all_of(violations.begin(), violations.end(),
                       [&](const Violation& violation) { return violation.rule.kind == kind; });
  };
  // Inside a public entry its name already heads the message.
  std::string message = *current_entry() ? "" : operation + ": ";
  for (const Violation& violation : violations) message += violation.sentence() + "; ";
  message += format("%zu rule%s violated, nothing was launched", violations.size(),
                    violations.size() == 1 ? "" : "s");
  const wl_status status = all(RuleKind::alignment) ? WL_ERROR_MISALIGNED
                           : all(RuleKind::memory)  ? WL_ERROR_WRONG_DEVICE
                           : all(RuleKind::support) ? WL_ERROR_NOT_SUPPORTED
                                                    : WL_ERROR_INVALID_ARGUMENT;
  return fail_with(status, message);
}

} // namespace warpline
