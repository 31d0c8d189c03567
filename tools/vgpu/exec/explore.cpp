#include "tools/vgpu/exec/explore.hpp"

#include "tools/vgpu/check/options.hpp"

#include <algorithm>
#include <charconv>

namespace vgpu::exec {

namespace {

bool number(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string schedule_text(const std::vector<uint64_t>& late) {
  std::string text = "explore:@";
  for (size_t i = 0; i < late.size(); ++i) text += (i ? "," : "") + std::to_string(late[i]);
  return text;
}

} // namespace

bool parse_exploration(const std::string& text, Exploration& e) {
  std::string_view rest = text;
  if (!rest.starts_with("explore:")) return false;
  rest.remove_prefix(8);
  e = {};
  if (!rest.starts_with("@")) return number(rest, e.runs) && e.runs > 0;
  rest.remove_prefix(1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    uint64_t point = 0;
    if (!number(rest.substr(0, comma), point)) return false;
    e.late.push_back(point);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return false;
  }
  std::sort(e.late.begin(), e.late.end());
  return true;
}

std::vector<uint64_t> late_points(uint64_t run, uint64_t runs, uint64_t points) {
  if (run == 0 || points == 0) return {};
  uint64_t i = run - 1;
  const uint64_t singles = std::min(points, runs - 1);
  // Fewer runs than points: spread over all of them.
  if (i < singles) return {i * points / singles};
  i -= singles;
  for (uint64_t apart = 1; apart < points; ++apart) {
    const uint64_t pairs = points - apart;
    if (i < pairs) return {i, i + apart};
    i -= pairs;
  }
  return {};
}

Stats explore(const LaunchSpec& given, uint64_t runs,
              const std::function<Stats(const LaunchSpec&)>& once) {
  LaunchSpec spec = given;
  spec.schedule = schedule_text({});
  const mem::Snapshot before = spec.memory->snapshot();
  Stats total = once(spec);
  const mem::Snapshot after = spec.memory->snapshot();
  for (uint64_t run = 1; run < runs; ++run) {
    const std::vector<uint64_t> late = late_points(run, runs, total.schedule_points);
    if (late.empty()) break;
    spec.schedule = schedule_text(late);
    spec.trace.clear();
    spec.count = false;
    spec.memory->restore(before);
    const Stats stats = once(spec);
    for (const auto& [place, t] : stats.told) total.told.try_emplace(place, t);
    if (const uint64_t at = spec.memory->first_difference(after)) {
      const std::string text = "vgpu: explore (advice): memory from device address " +
                               std::to_string(at) + " on differs from the first run's; schedule " +
                               spec.schedule;
      const check::Action action = spec.rules[check::Rule::explored];
      if (action == check::Action::Stop ||
          (spec.checks & check::kAdvice && action == check::Action::Tell))
        throw Fault(FaultCode::launch_failed, "explore", text + "\n");
      if (action == check::Action::Tell)
        total.told.try_emplace("explore@" + spec.schedule, Told{check::Grade::Advice, text});
    }
  }
  spec.memory->restore(after);
  return total;
}

} // namespace vgpu::exec
