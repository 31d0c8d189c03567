// What a module may say and ask for, on which device: .version, .target, .const and .shared
// variables. The limits are those of ptxas 13.0.
#pragma once

#include "tools/vgpu/isa/decode.hpp"

#include <string_view>

namespace vgpu::isa {

// 10 * major + minor: all of 9.x, as newer compilers say it, too. An instruction that is not in the
// table is refused by name all the same.
constexpr int kNewestPtx = 99;
constexpr uint64_t kMaxConst = 64 << 10;  // bytes of a module's .const variables
constexpr uint64_t kSharedOfSm = 232'448; // the most that a CTA of any device here has

std::string version_text(int version); // 88 to "8.8"
// "sm_100f" to 100 and 'f'; false when it is no target's name.
bool parse_target(std::string_view text, int& number, char& suffix);
bool runs_on(std::string_view target, int capability);
// Whether an instruction that needs `lowest` ("sm_100a", several with '|') may stand in a module.
bool target_allows(std::string_view module, std::string_view lowest);
// Bytes of static shared memory that an entry may have: an `a` target compiles for one device and
// gets all it has, others 48 KB.
uint64_t static_shared_limit(std::string_view target);

struct ModuleError : DecodeError {
  enum class Kind {
    invalid,     // no device runs it
    too_new,     // .version
    other_device // but not this one
  };
  Kind kind;
  ModuleError(Kind kind_, int line_, const std::string& what)
      : DecodeError(line_, what), kind(kind_) {}
};

// `capability`: 10 * major + minor of the device. Throws ModuleError. Returns the .version, 10 *
// major + minor.
int check_module(const ptx::Module& module, int capability);

} // namespace vgpu::isa
