// Options: by vgpuSetOption, and by the environment where no call has set them.
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/check/ledger.hpp"
#include "tools/vgpu/driver/state.hpp"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace vgpu::driver {

namespace {

struct Variable {
  const char *name, *option;
};
constexpr Variable kVariables[] = {
    {"VGPU_SCHEDULE", "schedule"}, {"VGPU_THREADS", "threads"}, {"VGPU_CHECK", "check"},
    {"VGPU_STRICT", "strict"},     {"VGPU_GRAPH", "graph"},     {"VGPU_LIMIT", "instruction_limit"},
    {"VGPU_RULES", "rules"},       {"VGPU_SMS", "sms"},         {"VGPU_COVERAGE", "coverage"},
};
// Read elsewhere: at every cuInit, and with the state, so that what these calls say goes there.
constexpr const char* kOthers[] = {"VGPU_PROFILE", "VGPU_REPORT"};

std::optional<uint64_t> parse_number(const std::string& text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A misspelt variable would be a check that is never made.
void name_unknown_variables(Call& c) {
  std::string known, unknown;
  for (const Variable& v : kVariables) known += std::string(v.name) + ", ";
  for (const char* name : kOthers) known += std::string(name) + ", ";
  for (char** e = environ; e && *e; ++e) {
    const std::string_view name(*e, std::string_view(*e).find('='));
    if (name.starts_with("VGPU_") && known.find(std::string(name) + ",") == std::string::npos)
      unknown += std::string(unknown.empty() ? "" : ", ") + std::string(name.substr(0, 80));
  }
  if (unknown.empty()) return;
  known.resize(known.size() - 2);
  c.unlocked([&] {
    print_report("vgpu: unknown in the environment: " + unknown + " (known are " + known + ")");
  });
}

void write_coverage() {
  State& s = state();
  std::string prefix;
  {
    std::lock_guard lock(s.mutex);
    prefix = s.options.coverage;
  }
  if (prefix.empty()) return;
  if (const std::string wrong = s.coverage.write(prefix); !wrong.empty())
    print_report("vgpu: coverage: " + wrong);
}

} // namespace

void set_option(Call& c, const std::string& key, const std::string& value) {
  Options& o = c.s.options;
  auto number = [&](uint64_t limit) {
    auto v = parse_number(value);
    if (!v || *v > limit)
      c.refuse(CUDA_ERROR_INVALID_VALUE, "option " + key + " = \"" + value +
                                             "\" must be a number from 0 to " +
                                             std::to_string(limit));
    return *v;
  };
  if (key == "schedule") {
    std::string error;
    if (!exec::make_policy(value, 0, &error)) c.refuse(CUDA_ERROR_INVALID_VALUE, error);
    o.schedule = value;
  } else if (key == "threads") {
    o.threads = unsigned(number(4096));
  } else if (key == "instruction_limit") {
    o.instruction_limit = number(UINT64_MAX);
  } else if (key == "strict" || key == "rules") {
    const bool strict = key == "strict" ? number(1) != 0 : o.strict;
    const std::string list = key == "rules" ? value : o.rules_list;
    check::Rules rules = strict ? check::Rules::strict() : check::Rules::lenient();
    std::string error;
    if (!rules.apply(list, &error)) c.refuse(CUDA_ERROR_INVALID_VALUE, "option rules: " + error);
    o.strict = strict;
    o.rules_list = list;
    o.rules = rules;
  } else if (key == "wgmma_accumulation") {
    c.require(value == "exact" || value == "hopper",
              "option wgmma_accumulation must be exact or hopper");
    o.hopper_sums = value == "hopper";
  } else if (key == "check") {
    std::string error;
    c.require(check::parse_checks(value, o.checks, &error), error);
    const bool tracks = o.checks & check::kDefinedness;
    c.unlocked([memory = c.s.memory, tracks] {
      std::lock_guard guard(state().execution);
      if (memory) memory->track_writes(tracks);
    });
  } else if (key == "define") {
    std::string error;
    check::LedgerNames names;
    c.require(check::parse_names(value, names, &error), "option define: " + error);
    o.names = value;
  } else if (key == "trace") {
    o.trace = value;
  } else if (key == "count") {
    o.count = number(1) != 0;
  } else if (key == "coverage") {
    // What ran under the name before goes there.
    if (!o.coverage.empty()) c.unlocked(write_coverage);
    o.coverage = value;
    // When the program ends: it may launch what it likes until then.
    static const bool registered = std::atexit(write_coverage) == 0;
    static_cast<void>(registered);
  } else if (key == "graph") {
    o.graph = value;
  } else if (key == "source") {
    o.source = value;
  } else if (key == "sms") {
    select_sm_count(c.s, int(number(4096)));
  } else if (key == "report") {
    c.require(!value.empty(), "option report must be stderr, none or the name of a file");
    o.report = value;
  } else if (key == "profile") {
    select_profile(c.s, value);
  } else {
    c.refuse(CUDA_ERROR_INVALID_VALUE,
             "there is no option \"" + key +
                 "\"; known: schedule, threads, instruction_limit, "
                 "strict, rules, wgmma_accumulation, check, define, graph, "
                 "trace, count, coverage, source, sms, report, profile");
  }
}

void read_environment(Call& c) {
  if (c.s.environment_read) return;
  for (const Variable& v : kVariables) {
    const char* value = std::getenv(v.name);
    if (!value || !*value || c.s.set_by_call.contains(v.option)) continue;
    try {
      set_option(c, v.option, value);
    } catch (const Refusal& r) {
      c.refuse(r.code, std::string(v.name) + ": " + r.text, true);
    }
  }
  c.s.environment_read = true;
  name_unknown_variables(c);
}

} // namespace vgpu::driver
