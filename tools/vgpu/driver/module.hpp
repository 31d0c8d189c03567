// From PTX text to programs: what cuModuleLoadData, cuLibraryLoadData and cuLink* share.
#pragma once

#include "tools/vgpu/driver/state.hpp"

#include <string>
#include <string_view>

namespace vgpu::driver {

// The options of a JIT call. The logs grow while the call works and are written to the caller's
// buffers, with the sizes used, when it ends.
class Jit {
public:
  Jit(Call& call, unsigned count, const CUjit_option* options, void** values);
  ~Jit() { flush(); }
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  void info(const std::string& line) { info_.text += line + "\n"; }
  void error(const std::string& line) { error_.text += line + "\n"; }
  const std::string& errors() const { return error_.text; } // so far
  // With the errors so far; a caller that has no buffer for them finds them in the report.
  [[noreturn]] void refuse(Call& call, CUresult code);
  int target() const { return target_; } // compute capability, 0 = the device's
  std::string unpacked;                  // PTX of a fat binary
  void flush();

private:
  struct Log {
    char* buffer = nullptr;
    size_t size = 0;
    void** used = nullptr;
    std::string text;
    void write();
  };
  Log info_, error_;
  int target_ = 0;
  void** wall_time_ = nullptr;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// First line of what cuLinkComplete returns: the capability it was linked for. The rest is PTX.
inline constexpr std::string_view kLinkedPrefix = "// vgpu linked image for ";

struct Link {
  CUcontext context = nullptr;
  std::unique_ptr<Jit> jit;
  int capability = 0;
  std::string text, image;
};

// Finds out what the image is; returns its PTX text or refuses with a log. `capability`: of the
// device that shall run it.
std::string_view image_text(Call& call, Jit& jit, const void* image, int capability);
// Parses, and checks what the module says and asks for; the errors go to the log. `version`: takes
// the module's .version, 10 * major + minor.
ptx::Module parse_module(Call& call, Jit& jit, std::string_view text, int capability,
                         int* version = nullptr);
// All of it: globals placed, every entry decoded. No lock is held.
std::shared_ptr<Module> build_module(Call& call, Jit& jit, std::string_view text, int capability);
// Makes function handles. Lock held.
std::shared_ptr<LoadedModule> add_module(Call& call, std::shared_ptr<Module> module);
// The entry's function, null when there is none.
CUfunction find_entry(Call& call, const Module& module, const char* name);
std::shared_ptr<LoadedModule> load_image(Call& call, const void* image, unsigned count,
                                         const CUjit_option* options, void** values);
std::string read_image_file(Call& call, const char* path);
void unload(Call& call, std::shared_ptr<LoadedModule> loaded);

} // namespace vgpu::driver
