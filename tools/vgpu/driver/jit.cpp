// PTX images: which are accepted, and the log of those that are not.
#include "tools/vgpu/driver/module.hpp"

#include "tools/vgpu/isa/builder.hpp"
#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/isa/types.hpp"
#include "tools/vgpu/ptx/parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace vgpu::driver {

namespace {

constexpr int kNewestPtx = 91;
constexpr size_t kMaxInstructions = 1 << 24;
constexpr size_t kMaxErrors = 20;  // that are listed
constexpr int kLastJitOption = 40; // CUDA 13.0 knows fewer; beyond is a mistake

// PTX ISA, Table of .target: lowest .version that knows the target. Older ones are not checked.
struct TargetVersion {
  int number;
  char suffix;
  int version;
};
constexpr TargetVersion kTargetVersions[] = {
    {90, 0, 78},    {90, 'a', 80},  {100, 0, 86},   {100, 'a', 86}, {100, 'f', 88},
    {101, 0, 86},   {101, 'a', 86}, {101, 'f', 88}, {103, 0, 88},   {103, 'a', 88},
    {103, 'f', 88}, {110, 0, 90},   {110, 'a', 90}, {110, 'f', 90}, {120, 0, 87},
    {120, 'a', 87}, {120, 'f', 88}, {121, 0, 88},   {121, 'a', 88}, {121, 'f', 88},
};

std::string version_text(int version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

std::string at_line(int line, const std::string& severity, const std::string& what) {
  return "vgpu ptx input, line " + std::to_string(line) + "; " + severity + ": " + what;
}

[[noreturn]] void give_up(Call& call, Jit& jit, CUresult code) {
  jit.error("vgpu fatal   : PTX compilation aborted due to errors");
  call.refuse(code, jit.errors());
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

void check_target(Call& call, Jit& jit, const ptx::Module& tree, int version, int capability) {
  const int line = line_of(tree, ".target");
  bool named = false;
  for (const std::string& text : tree.targets) {
    int number = 0;
    char suffix = 0;
    if (!isa::parse_target(text, number, suffix)) {
      if (text.starts_with("sm_") || text.starts_with("compute_")) {
        jit.error(at_line(line, "error   ", "unknown target '" + text + "'"));
        give_up(call, jit, CUDA_ERROR_INVALID_PTX);
      }
      continue; // texturing mode, debug
    }
    named = true;
    for (const TargetVersion& t : kTargetVersions)
      if (t.number == number && t.suffix == suffix && version < t.version) {
        jit.error(at_line(line, "error   ",
                          "target " + text + " needs .version " + version_text(t.version) +
                              " or later, the module says " + version_text(version)));
        give_up(call, jit, CUDA_ERROR_INVALID_PTX);
      }
    if (!runs_on(number, suffix, capability)) {
      jit.error(at_line(line, "fatal   ",
                        ".target " + text + " cannot run on a device of compute capability " +
                            version_text(capability)));
      call.refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, jit.errors());
    }
  }
  if (!named) {
    jit.error(at_line(line, "error   ", "the module has no .target"));
    give_up(call, jit, CUDA_ERROR_INVALID_PTX);
  }
}

} // namespace

// ---- options and logs

Jit::Jit(Call& call, unsigned count, const CUjit_option* options, void** values) {
  call.require(count == 0 || (options && values), "options or optionValues is null");
  for (unsigned i = 0; i < count; ++i) {
    const auto number = reinterpret_cast<uintptr_t>(values[i]);
    switch (options[i]) {
    case CU_JIT_INFO_LOG_BUFFER:
      info_.buffer = static_cast<char*>(values[i]);
      break;
    case CU_JIT_ERROR_LOG_BUFFER:
      error_.buffer = static_cast<char*>(values[i]);
      break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      info_.size = unsigned(number);
      info_.used = &values[i];
      break;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      error_.size = unsigned(number);
      error_.used = &values[i];
      break;
    case CU_JIT_WALL_TIME:
      wall_time_ = &values[i];
      break;
    case CU_JIT_TARGET:
      target_ = int(number & 0xFFFF);
      break;
    case CU_JIT_TARGET_FROM_CUCONTEXT:
      target_ = 0;
      break;
    default:
      // The rest steers a machine-code compiler (optimisation level, caching, register caps).
      call.require(int(options[i]) >= 0 && int(options[i]) <= kLastJitOption,
                   "JIT option " + std::to_string(int(options[i])) + " is unknown");
    }
  }
}

void Jit::Log::write() {
  if (!buffer || size == 0) return;
  size_t n = std::min(text.size(), size - 1);
  std::memcpy(buffer, text.data(), n);
  buffer[n] = '\0';
  if (used) *used = reinterpret_cast<void*>(uintptr_t(n ? n + 1 : 0));
}

void Jit::flush() {
  info_.write();
  error_.write();
  if (wall_time_) {
    // A float in the first bytes of the value's slot, in milliseconds.
    float ms =
        std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start_).count();
    std::memcpy(wall_time_, &ms, sizeof ms);
  }
}

// ---- images

std::string_view image_text(Call& call, Jit& jit, const void* image, int capability) {
  call.require(image, "image is null");
  const auto* bytes = static_cast<const unsigned char*>(image);
  auto starts = [&](std::initializer_list<unsigned char> magic) {
    size_t i = 0; // stops at the first difference, so never beyond a string's end
    for (unsigned char m : magic)
      if (bytes[i++] != m) return false;
    return true;
  };
  const char* binary = starts({0x7F, 'E', 'L', 'F'}) ? "a cubin"
                       : starts({0x50, 0xED, 0x55, 0xBA}) || starts({0xB1, 0x43, 0x62, 0x46})
                           ? "a fat binary"
                           : nullptr;
  if (binary) {
    jit.error(std::string("vgpu fatal   : the image is ") + binary +
              "; the virtual GPU runs PTX text only");
    call.refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, jit.errors());
  }
  const bool printable = bytes[0] == '\t' || bytes[0] == '\n' || bytes[0] == '\r' ||
                         (bytes[0] >= 0x20 && bytes[0] < 0x7F);
  if (!printable) {
    jit.error("vgpu fatal   : the image is neither PTX text nor a known binary");
    call.refuse(CUDA_ERROR_INVALID_IMAGE, jit.errors());
  }
  std::string_view text(static_cast<const char*>(image));
  if (text.starts_with(kLinkedPrefix)) {
    size_t end = text.find('\n');
    int linked = 0;
    std::from_chars(text.data() + kLinkedPrefix.size(), text.data() + end, linked);
    if (linked != capability) {
      jit.error("vgpu fatal   : the image was linked for compute capability " +
                version_text(linked) + ", the device has " + version_text(capability));
      call.refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, jit.errors());
    }
    text.remove_prefix(end + 1);
  }
  return text;
}

ptx::Module parse_module(Call& call, Jit& jit, std::string_view text, int capability) {
  ptx::Module tree;
  try {
    tree = ptx::parse(text);
  } catch (const ptx::ParseError& e) {
    jit.error(at_line(e.line, "error   ",
                      std::string(e.what()) + " (column " + std::to_string(e.column) + ")"));
    give_up(call, jit, CUDA_ERROR_INVALID_PTX);
  }
  const int version = parse_version(tree.version);
  if (version < 0) {
    jit.error(at_line(line_of(tree, ".version"), "error   ", "the module has no .version"));
    give_up(call, jit, CUDA_ERROR_INVALID_PTX);
  }
  if (version > kNewestPtx) {
    jit.error(at_line(line_of(tree, ".version"), "fatal   ",
                      "unsupported .version " + tree.version + "; the newest supported is " +
                          version_text(kNewestPtx)));
    call.refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, jit.errors());
  }
  if (tree.address_size != 64) {
    jit.error(
        at_line(line_of(tree, ".address_size"), "error   ", "only .address_size 64 is known"));
    give_up(call, jit, CUDA_ERROR_INVALID_PTX);
  }
  check_target(call, jit, tree, version, capability);
  return tree;
}

std::shared_ptr<Module> build_module(Call& call, Jit& jit, std::string_view text, int capability) {
  auto module = std::make_shared<Module>();
  module->memory = call.s.memory;
  module->tree = parse_module(call, jit, text, capability);
  module->ptx_version = parse_version(module->tree.version);
  bool failed = false;
  // DecodeError's text begins with the line already.
  auto failure = [&](const isa::DecodeError& e) {
    std::string what = e.what(), line = "line " + std::to_string(e.line);
    if (what.starts_with(line)) what.erase(0, line.size());
    if (what.starts_with(": ")) what.erase(0, 2);
    jit.error(at_line(e.line, "error   ", what));
    failed = true;
  };
  try {
    module->globals = isa::place_globals(module->tree, *module->memory);
    for (const ptx::Variable& v : module->tree.variables)
      if (v.space == "const" && !v.is_extern) module->const_bytes += isa::variable_bytes(v);
    if (module->const_bytes > 65536)
      throw isa::DecodeError(line_of(module->tree, ".const"),
                             std::to_string(module->const_bytes) +
                                 " bytes of .const variables; 65536 are allowed");
    const isa::ModuleIndex index(module->tree, module->globals);
    size_t instructions = 0, errors = 0;
    for (const ptx::Function& f : module->tree.functions) {
      if (!f.is_entry || !f.has_body) continue;
      try {
        auto program = isa::decode(index, f);
        // Every entry has a copy of the functions it calls.
        instructions += program->code.size();
        if (instructions > kMaxInstructions) {
          failure({f.line, "the module's entries have more than " +
                               std::to_string(kMaxInstructions) + " instructions"});
          break;
        }
        const uint32_t limit = uint32_t(call.s.profile->shared_per_block);
        if (program->dynamic_shared_offset - exec::kSharedBase > limit)
          throw isa::DecodeError(
              f.line, "entry '" + f.name + "' uses " +
                          std::to_string(program->dynamic_shared_offset - exec::kSharedBase) +
                          " bytes of static shared memory; " + std::to_string(limit) +
                          " are available");
        jit.info("vgpu info    : entry '" + f.name + "' for " + program->target + ": at most " +
                 std::to_string(program->entry_registers) + " registers, " +
                 std::to_string(program->static_shared_bytes) + " bytes shared, " +
                 std::to_string(program->local_bytes) + " bytes local, " +
                 std::to_string(program->param_bytes) + " bytes parameters");
        module->programs.push_back(std::move(program));
      } catch (const isa::DecodeError& e) {
        failure(e);
        if (++errors == kMaxErrors) break;
      }
    }
  } catch (const isa::DecodeError& e) {
    failure(e);
  }
  if (failed) give_up(call, jit, CUDA_ERROR_INVALID_PTX);
  return module;
}

} // namespace vgpu::driver
