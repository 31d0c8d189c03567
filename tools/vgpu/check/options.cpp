#include "tools/vgpu/check/options.hpp"

namespace vgpu::check {

bool parse_checks(const std::string& text, uint32_t& checks, std::string* error) {
  struct Name {
    const char* name;
    uint32_t bits;
  };
  static const Name names[] = {{"off", 0},
                               {"races", kRaces},
                               {"definedness", kDefinedness},
                               {"barriers", kBarriers},
                               {"advice", kAdvice},
                               {"proxy-reads", kRaces | kProxyReads},
                               {"ledger", kLedger},
                               {"all", kAll}};
  uint32_t result = 0;
  for (size_t at = 0; at <= text.size();) {
    size_t end = text.find(',', at);
    if (end == std::string::npos) end = text.size();
    std::string one = text.substr(at, end - at);
    bool found = false;
    for (const Name& n : names)
      if (one == n.name) {
        result |= n.bits;
        found = true;
      }
    if (!found) {
      if (error)
        *error = "check \"" + one +
                 "\" is not known; the choices are off, all, or a list of races, definedness, "
                 "barriers, advice, proxy-reads, ledger";
      return false;
    }
    at = end + 1;
  }
  checks = result;
  return true;
}

} // namespace vgpu::check
