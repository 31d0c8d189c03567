#include "tools/vgpu/isa/target.hpp"

#include "tools/vgpu/isa/types.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string>
#include <tuple>

namespace vgpu::isa {

namespace {

// PTX ISA, Table of .target: lowest .version that knows the target, 0 where it is not checked.
struct Target {
  int number;
  char suffix;
  int version;
};
constexpr Target kTargets[] = {
    {10, 0, 0},     {11, 0, 0},     {12, 0, 0},   {13, 0, 0},     {20, 0, 0},     {21, 0, 0},
    {30, 0, 0},     {32, 0, 0},     {35, 0, 0},   {37, 0, 0},     {50, 0, 0},     {52, 0, 0},
    {53, 0, 0},     {60, 0, 0},     {61, 0, 0},   {62, 0, 0},     {70, 0, 0},     {72, 0, 0},
    {75, 0, 0},     {80, 0, 0},     {86, 0, 0},   {87, 0, 0},     {88, 0, 0},     {89, 0, 0},
    {90, 0, 78},    {90, 'a', 80},  {100, 0, 86}, {100, 'a', 86}, {100, 'f', 88}, {101, 0, 86},
    {101, 'a', 86}, {101, 'f', 88}, {103, 0, 88}, {103, 'a', 88}, {103, 'f', 88}, {110, 0, 90},
    {110, 'a', 90}, {110, 'f', 90}, {120, 0, 87}, {120, 'a', 87}, {120, 'f', 88}, {121, 0, 88},
    {121, 'a', 88}, {121, 'f', 88},
};

std::string name_of(const Target& t) {
  return "sm_" + std::to_string(t.number) + (t.suffix ? std::string(1, t.suffix) : "");
}

// The known target whose number is closest; of those with the same number the same suffix.
std::string nearest(int number, char suffix) {
  return name_of(*std::min_element(
      std::begin(kTargets), std::end(kTargets), [&](const Target& a, const Target& b) {
        auto distance = [&](const Target& t) {
          return std::tuple(std::abs(t.number - number), t.suffix != suffix, t.suffix);
        };
        return distance(a) < distance(b);
      }));
}

// -1 when the text is no version.
int parse_version(const std::string& text) {
  int major = 0, minor = 0;
  const char* end = text.data() + text.size();
  auto r = std::from_chars(text.data(), end, major);
  if (r.ec != std::errc() || r.ptr == end || *r.ptr != '.') return -1;
  r = std::from_chars(r.ptr + 1, end, minor);
  if (r.ec != std::errc() || r.ptr != end || major < 0 || minor < 0 || minor > 9 || major > 99)
    return -1;
  return major * 10 + minor;
}

int line_of(const ptx::Module& tree, std::string_view directive) {
  for (size_t i = 0; i < tree.lines.size(); ++i)
    if (tree.lines[i].find(directive) != std::string::npos) return int(i) + 1;
  return 1;
}

// A plain target runs on its capability and all later ones, an `a` target on exactly its own, an
// `f` target within its major version from its minor one up.
bool runs_on(int number, char suffix, int capability) {
  if (suffix == 'a') return capability == number;
  if (suffix == 'f') return capability / 10 == number / 10 && capability >= number;
  return capability >= number;
}

void check_targets(const ptx::Module& module, int version, int capability) {
  using Kind = ModuleError::Kind;
  const int line = line_of(module, ".target");
  bool named = false;
  for (const std::string& text : module.targets) {
    int number = 0;
    char suffix = 0;
    const bool parsed = parse_target(text, number, suffix);
    if (!parsed && !text.starts_with("sm_") && !text.starts_with("compute_"))
      continue; // texturing mode, debug
    named = true;
    const Target* known = nullptr;
    for (const Target& t : kTargets)
      if (parsed && t.number == number && t.suffix == suffix) known = &t;
    if (!known)
      throw ModuleError(Kind::invalid, line,
                        "unknown target '" + text.substr(0, 80) +
                            "'; the nearest that is known is " + nearest(number, suffix));
    if (version < known->version)
      throw ModuleError(Kind::invalid, line,
                        "target " + text + " needs .version " + version_text(known->version) +
                            " or later, the module says " + version_text(version));
    if (!runs_on(number, suffix, capability))
      throw ModuleError(Kind::other_device, line,
                        ".target " + text + " cannot run on a device of compute capability " +
                            version_text(capability));
  }
  if (!named) throw ModuleError(Kind::invalid, line, "the module has no .target");
}

void check_sizes(const ptx::Module& module) {
  uint64_t total = 0;
  for (const ptx::Variable& v : module.variables) {
    if (v.is_extern) continue;
    const uint64_t bytes = variable_bytes(v);
    if (v.space == "const") total += bytes;
    if (total > kMaxConst)
      throw ModuleError(ModuleError::Kind::invalid, v.line,
                        "at least " + std::to_string(total) +
                            " bytes of .const variables; 65536 are allowed");
    // Used or not: no entry could have it.
    if (v.space == "shared" && bytes > kSharedOfSm)
      throw ModuleError(ModuleError::Kind::invalid, v.line,
                        "the shared variable '" + v.name + "' has " + std::to_string(bytes) +
                            " bytes; a CTA has at most " + std::to_string(kSharedOfSm));
  }
}

} // namespace

std::string version_text(int version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

bool parse_target(std::string_view text, int& number, char& suffix) {
  if (text.substr(0, 3) != "sm_") return false;
  size_t pos = 3;
  number = 0;
  while (pos < text.size() && std::isdigit(uint8_t(text[pos])) && pos < 8)
    number = number * 10 + (text[pos++] - '0');
  suffix = pos < text.size() ? text[pos++] : '\0';
  return pos == text.size() && number > 0 && (suffix == 0 || suffix == 'a' || suffix == 'f');
}

bool runs_on(std::string_view target, int capability) {
  int number = 0;
  char suffix = 0;
  return parse_target(target, number, suffix) && runs_on(number, suffix, capability);
}

// "sm_90": that architecture or a later one. "sm_100a": an architecture-specific feature; targets
// of the same family (same major number) with a suffix have it.
// "sm_90a|sm_100a": any of them.
bool target_allows(std::string_view module, std::string_view lowest) {
  if (size_t bar = lowest.find('|'); bar != std::string_view::npos)
    return target_allows(module, lowest.substr(0, bar)) ||
           target_allows(module, lowest.substr(bar + 1));
  int have = 0, want = 0;
  char have_suffix = 0, want_suffix = 0;
  if (lowest.empty() || !parse_target(lowest, want, want_suffix)) return true;
  if (!parse_target(module, have, have_suffix)) return false;
  if (have < want) return false;
  return !want_suffix || (have_suffix && have / 10 == want / 10);
}

uint64_t static_shared_limit(std::string_view target) {
  int number = 0;
  char suffix = 0;
  return parse_target(target, number, suffix) && suffix == 'a' ? kSharedOfSm : 48 << 10;
}

int check_module(const ptx::Module& module, int capability) {
  using Kind = ModuleError::Kind;
  const int line = line_of(module, ".version"), version = parse_version(module.version);
  if (version < 0) throw ModuleError(Kind::invalid, line, "the module has no .version");
  if (version > kNewestPtx)
    throw ModuleError(Kind::too_new, line,
                      "unsupported .version " + module.version + "; the newest supported is " +
                          version_text(kNewestPtx));
  if (module.address_size != 64)
    throw ModuleError(Kind::invalid, line_of(module, ".address_size"),
                      "only .address_size 64 is known");
  check_targets(module, version, capability);
  check_sizes(module);
  return version;
}

} // namespace vgpu::isa
