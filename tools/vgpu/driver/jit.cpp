// PTX images: which are accepted, and the log of those that are not.
#include "tools/vgpu/driver/fatbin.hpp"
#include "tools/vgpu/driver/module.hpp"

#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/isa/target.hpp"
#include "tools/vgpu/isa/types.hpp"
#include "tools/vgpu/ptx/link.hpp"
#include "tools/vgpu/ptx/parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace vgpu::driver {

namespace {

constexpr size_t kMaxInstructions = 1 << 24;
constexpr size_t kMaxErrors = 20;  // that are listed
constexpr int kLastJitOption = 40; // CUDA 13.0 knows fewer; beyond is a mistake

std::string at_line(int line, const std::string& severity, const std::string& what) {
  return "vgpu ptx input, line " + std::to_string(line) + "; " + severity + ": " + what;
}

[[noreturn]] void give_up(Call& call, Jit& jit, CUresult code) {
  jit.error("vgpu fatal   : PTX compilation aborted due to errors");
  jit.refuse(call, code);
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

void Jit::refuse(Call& call, CUresult code) {
  call.refuse(code, errors(), error_.buffer == nullptr);
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
  if (starts({0x7F, 'E', 'L', 'F'})) {
    jit.error("vgpu fatal   : the image is a cubin; the virtual GPU runs PTX text only");
    jit.refuse(call, CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
  if (is_fatbin(image)) {
    std::string error;
    jit.unpacked = fatbin_ptx(image, capability, &error);
    if (jit.unpacked.empty()) {
      jit.error("vgpu fatal   : " + error);
      jit.refuse(call, CUDA_ERROR_NO_BINARY_FOR_GPU);
    }
    return jit.unpacked;
  }
  const bool printable = bytes[0] == '\t' || bytes[0] == '\n' || bytes[0] == '\r' ||
                         (bytes[0] >= 0x20 && bytes[0] < 0x7F);
  if (!printable) {
    jit.error("vgpu fatal   : the image is neither PTX text nor a known binary");
    jit.refuse(call, CUDA_ERROR_INVALID_IMAGE);
  }
  std::string_view text(static_cast<const char*>(image));
  if (text.starts_with(kLinkedPrefix)) {
    size_t end = text.find('\n');
    int linked = 0;
    std::from_chars(text.data() + kLinkedPrefix.size(), text.data() + end, linked);
    if (linked != capability) {
      jit.error("vgpu fatal   : the image was linked for compute capability " +
                isa::version_text(linked) + ", the device has " + isa::version_text(capability));
      jit.refuse(call, CUDA_ERROR_NO_BINARY_FOR_GPU);
    }
    text.remove_prefix(end + 1);
  }
  return text;
}

ptx::Module parse_module(Call& call, Jit& jit, std::string_view text, int capability,
                         int* version) {
  std::vector<ptx::Module> inputs;
  ptx::Module tree;
  int lines = 0; // ahead of the input
  try {
    for (std::string_view rest = text;;) {
      const size_t end = rest.find(kNextInput);
      inputs.push_back(ptx::parse(rest.substr(0, end)));
      if (end == std::string_view::npos) break;
      lines += int(inputs.back().lines.size());
      rest.remove_prefix(rest.find('\n', end) + 1);
    }
    tree = inputs.size() == 1 ? std::move(inputs[0]) : ptx::link(std::move(inputs));
  } catch (const ptx::LinkError& e) {
    jit.error(std::string("vgpu ptx link, error   : ") + e.what());
    give_up(call, jit, CUDA_ERROR_INVALID_PTX);
  } catch (const ptx::ParseError& e) {
    jit.error(at_line(lines + e.line, "error   ",
                      std::string(e.what()) + " (column " + std::to_string(e.column) + ")"));
    give_up(call, jit, CUDA_ERROR_INVALID_PTX);
  }
  using Kind = isa::ModuleError::Kind;
  try {
    const int said = isa::check_module(tree, capability);
    if (version) *version = said;
  } catch (const isa::ModuleError& e) {
    const bool invalid = e.kind == Kind::invalid;
    jit.error(at_line(e.line, invalid ? "error   " : "fatal   ", e.what()));
    if (invalid) give_up(call, jit, CUDA_ERROR_INVALID_PTX);
    jit.refuse(call, e.kind == Kind::too_new ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                             : CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
  return tree;
}

std::shared_ptr<Module> build_module(Call& call, Jit& jit, std::string_view text, int capability) {
  auto module = std::make_shared<Module>();
  module->memory = call.s.memory;
  module->tree = parse_module(call, jit, text, capability, &module->ptx_version);
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
