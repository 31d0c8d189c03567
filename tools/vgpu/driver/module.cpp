// Modules and libraries. Both are the same code behind two kinds of handles.
#include "tools/vgpu/driver/module.hpp"

#include <algorithm>
#include <cstdio>

namespace vgpu::driver {

namespace {

std::shared_ptr<LoadedModule> find_module(Call& c, CUmodule handle) {
  auto module = c.s.modules.find(handle);
  c.require(module != nullptr,
            "hmod = " + hex(reinterpret_cast<uint64_t>(handle)) + " is no live module",
            CUDA_ERROR_INVALID_HANDLE);
  return module;
}

std::shared_ptr<LoadedModule> find_library(Call& c, CUlibrary handle) {
  auto library = c.s.libraries.find(handle);
  c.require(library != nullptr,
            "library = " + hex(reinterpret_cast<uint64_t>(handle)) + " is no live library",
            CUDA_ERROR_INVALID_HANDLE);
  return library;
}

CUresult load_module(const char* name, CUmodule* result, const void* image, unsigned count,
                     const CUjit_option* options, void** values) {
  return entry(name, Need::Context, [&](Call& c) {
    c.require(result, "module is null");
    auto loaded = load_image(c, image, count, options, values);
    loaded->as_module = c.s.modules.add(loaded);
    *result = loaded->as_module;
  });
}

CUresult load_library(const char* name, CUlibrary* result, const void* image, unsigned count,
                      const CUjit_option* options, void** values, unsigned library_options,
                      const int* keys, bool is_file) {
  return entry(name, Need::Context, [&](Call& c) {
    c.require(result, "library is null");
    // 1 BINARY_IS_PRESERVED: the text is copied anyway. 0 belongs to the CUDA runtime's fat
    // binaries.
    c.require(library_options == 0 || keys, "libraryOptions is null");
    for (unsigned i = 0; i < library_options; ++i)
      c.require(keys[i] == 1, "library option " + std::to_string(keys[i]) + " is not supported",
                CUDA_ERROR_NOT_SUPPORTED);
    std::string file;
    if (is_file) file = read_image_file(c, static_cast<const char*>(image));
    auto loaded = load_image(c, is_file ? file.c_str() : image, count, options, values);
    loaded->as_library = c.s.libraries.add(loaded);
    *result = loaded->as_library;
  });
}

CUresult get_global(Call& c, const Module& module, const char* name, CUdeviceptr* pointer,
                    size_t* bytes) {
  c.require(name, "name is null");
  for (const isa::GlobalSymbol& g : module.globals) {
    if (g.name != name || g.function) continue;
    if (pointer) *pointer = g.address;
    if (bytes) *bytes = g.bytes;
    return CUDA_SUCCESS;
  }
  c.refuse(CUDA_ERROR_NOT_FOUND, "the module has no variable '" + std::string(name) + "'");
}

CUfunction get_entry(Call& c, const Module& module, const char* name) {
  c.require(name, "name is null");
  CUfunction function = find_entry(c, module, name);
  if (!function) {
    std::string known;
    for (const auto& p : module.programs) known += (known.empty() ? "" : ", ") + p->name;
    c.refuse(CUDA_ERROR_NOT_FOUND, "the module has no entry '" + std::string(name) +
                                       "'; it has: " + (known.empty() ? "none" : known));
  }
  return function;
}

template <class Handle>
void enumerate(Call& c, const Module& module, Handle* list, unsigned count) {
  c.require(count == 0 || list, "the list is null");
  for (size_t i = 0; i < std::min<size_t>(count, module.functions.size()); ++i)
    list[i] = reinterpret_cast<Handle>(module.functions[i]);
}

} // namespace

Module::~Module() {
  for (const isa::GlobalSymbol& g : globals) memory->free(g.address);
}

CUfunction find_entry(Call&, const Module& module, const char* name) {
  for (size_t i = 0; i < module.programs.size(); ++i)
    if (module.programs[i]->name == name) return module.functions[i];
  return nullptr;
}

std::shared_ptr<LoadedModule> add_module(Call& c, std::shared_ptr<Module> module) {
  module->context = c.context->handle;
  for (const auto& program : module->programs) {
    auto function = std::make_shared<Function>();
    function->module = module;
    function->program = program.get();
    // What a launch may ask for without opting in, see CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED...
    function->max_dynamic_shared =
        std::max(0, 49152 - int(program->dynamic_shared_offset - exec::kSharedBase));
    function->handle = c.s.functions.add(function);
    module->functions.push_back(function->handle);
  }
  auto loaded = std::make_shared<LoadedModule>();
  loaded->context = c.context->handle;
  loaded->module = std::move(module);
  return loaded;
}

// The file that option `source` names, when it has the entry that the image has.
std::string replacement(Call& c, std::string_view image) {
  std::string path;
  {
    std::lock_guard lock(c.s.mutex);
    path = c.s.options.source;
  }
  if (path.empty()) return "";
  std::string text = read_image_file(c, path.c_str());
  size_t at = 0; // of a directive: comments speak of .entry too
  do {
    at = text.find(".entry ", at + 1);
    if (at == std::string::npos) return "";
  } while (text.compare(text.rfind('\n', at) + 1, 2, "//") == 0);
  size_t end = text.find_first_of("( \n", at + 7);
  std::string entry = text.substr(at, end - at);
  size_t found = image.find(entry);
  bool whole = found != std::string_view::npos && found + entry.size() < image.size() &&
               std::string_view("( \n").find(image[found + entry.size()]) != std::string_view::npos;
  return whole ? text : "";
}

std::shared_ptr<LoadedModule> load_image(Call& c, const void* image, unsigned count,
                                         const CUjit_option* options, void** values) {
  Jit jit(c, count, options, values);
  const int device = compute_capability(*c.s.profile);
  c.require(jit.target() == 0 || jit.target() == device,
            "CU_JIT_TARGET = " + std::to_string(jit.target()) + ", the device has " +
                std::to_string(device),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  std::shared_ptr<Module> module;
  c.unlocked([&] {
    std::string_view text = image_text(c, jit, image, device);
    std::string other = replacement(c, text);
    if (!other.empty()) text = other;
    module = build_module(c, jit, text, device);
  });
  c.require(c.context->live, "the context was destroyed meanwhile",
            CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return add_module(c, std::move(module));
}

std::string read_image_file(Call& c, const char* path) {
  c.require(path, "the file name is null");
  std::FILE* file = std::fopen(path, "rb");
  c.require(file, std::string(path) + " cannot be opened", CUDA_ERROR_FILE_NOT_FOUND);
  std::string text;
  char buffer[1 << 16];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, n);
  std::fclose(file);
  return text;
}

// Work that runs or was captured keeps the code alive; the handles end here.
void unload(Call& c, std::shared_ptr<LoadedModule> loaded) {
  for (CUfunction function : loaded->module->functions) c.s.functions.remove(function);
  if (loaded->as_module) c.s.modules.remove(loaded->as_module);
  if (loaded->as_library) c.s.libraries.remove(loaded->as_library);
}

// ---- modules

VGPU_API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                     CUjit_option* options, void** values) {
  return load_module("cuModuleLoadDataEx", module, image, count, options, values);
}
VGPU_API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load_module("cuModuleLoadData", module, image, 0, nullptr, nullptr);
}
VGPU_API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return load_module("cuModuleLoadFatBinary", module, image, 0, nullptr, nullptr);
}

VGPU_API CUresult cuModuleLoad(CUmodule* result, const char* path) {
  return entry("cuModuleLoad", Need::Context, [&](Call& c) {
    c.require(result, "module is null");
    std::string text = read_image_file(c, path);
    auto loaded = load_image(c, text.c_str(), 0, nullptr, nullptr);
    loaded->as_module = c.s.modules.add(loaded);
    *result = loaded->as_module;
  });
}

VGPU_API CUresult cuModuleUnload(CUmodule handle) {
  return entry("cuModuleUnload", Need::Context, [&](Call& c) {
    forbid_in_capture(c);
    auto loaded = find_module(c, handle);
    c.require(!loaded->as_library, "the module belongs to a library; unload that",
              CUDA_ERROR_NOT_PERMITTED);
    unload(c, loaded);
  });
}

VGPU_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return entry("cuModuleGetFunction", Need::Context, [&](Call& c) {
    c.require(function, "hfunc is null");
    *function = get_entry(c, *find_module(c, handle)->module, name);
  });
}

VGPU_API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  return entry("cuModuleGetFunctionCount", Need::Context, [&](Call& c) {
    c.require(count, "count is null");
    *count = unsigned(find_module(c, handle)->module->functions.size());
  });
}

VGPU_API CUresult cuModuleEnumerateFunctions(CUfunction* list, unsigned count, CUmodule handle) {
  return entry("cuModuleEnumerateFunctions", Need::Context,
               [&](Call& c) { enumerate(c, *find_module(c, handle)->module, list, count); });
}

VGPU_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* pointer, size_t* bytes, CUmodule handle,
                                       const char* name) {
  return entry("cuModuleGetGlobal_v2", Need::Context, [&](Call& c) {
    get_global(c, *find_module(c, handle)->module, name, pointer, bytes);
  });
}

VGPU_API CUresult cuModuleGetLoadingMode(int* mode) {
  return entry("cuModuleGetLoadingMode", Need::Init, [&](Call& c) {
    c.require(mode, "mode is null");
    *mode = 1; // eager
  });
}

// ---- libraries

VGPU_API CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options,
                                    void** values, unsigned count, int* library_options, void**,
                                    unsigned library_count) {
  return load_library("cuLibraryLoadData", library, code, count, options, values, library_count,
                      library_options, false);
}
VGPU_API CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options,
                                        void** values, unsigned count, int* library_options, void**,
                                        unsigned library_count) {
  return load_library("cuLibraryLoadFromFile", library, path, count, options, values, library_count,
                      library_options, true);
}

VGPU_API CUresult cuLibraryUnload(CUlibrary handle) {
  return entry("cuLibraryUnload", Need::Context, [&](Call& c) {
    forbid_in_capture(c);
    unload(c, find_library(c, handle));
  });
}

VGPU_API CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  return entry("cuLibraryGetKernel", Need::Init, [&](Call& c) {
    c.require(kernel, "pKernel is null");
    *kernel = reinterpret_cast<CUkernel>(get_entry(c, *find_library(c, handle)->module, name));
  });
}

VGPU_API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary handle) {
  return entry("cuLibraryGetKernelCount", Need::Init, [&](Call& c) {
    c.require(count, "count is null");
    *count = unsigned(find_library(c, handle)->module->functions.size());
  });
}

VGPU_API CUresult cuLibraryEnumerateKernels(CUkernel* list, unsigned count, CUlibrary handle) {
  return entry("cuLibraryEnumerateKernels", Need::Init,
               [&](Call& c) { enumerate(c, *find_library(c, handle)->module, list, count); });
}

VGPU_API CUresult cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
  return entry("cuLibraryGetModule", Need::Context, [&](Call& c) {
    c.require(module, "pMod is null");
    auto loaded = find_library(c, handle);
    if (!loaded->as_module) loaded->as_module = c.s.modules.add(loaded);
    *module = loaded->as_module;
  });
}

VGPU_API CUresult cuLibraryGetGlobal(CUdeviceptr* pointer, size_t* bytes, CUlibrary handle,
                                     const char* name) {
  return entry("cuLibraryGetGlobal", Need::Context, [&](Call& c) {
    get_global(c, *find_library(c, handle)->module, name, pointer, bytes);
  });
}

// ---- kernels of libraries; their handles are functions' handles too

VGPU_API CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return entry("cuKernelGetFunction", Need::Context, [&](Call& c) {
    c.require(function, "pFunc is null");
    *function = find_function(c, kernel)->handle;
  });
}

VGPU_API CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return entry("cuKernelGetLibrary", Need::Init, [&](Call& c) {
    c.require(library, "pLib is null");
    auto function = find_function(c, kernel);
    CUlibrary found = nullptr;
    c.s.libraries.for_each([&](LoadedModule& l) {
      if (l.module == function->module) found = l.as_library;
    });
    c.require(found, "the kernel belongs to no library", CUDA_ERROR_INVALID_HANDLE);
    *library = found;
  });
}

VGPU_API CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  return entry("cuFuncGetModule", Need::Context, [&](Call& c) {
    c.require(module, "hmod is null");
    auto function = find_function(c, handle);
    CUmodule found = nullptr;
    c.s.modules.for_each([&](LoadedModule& l) {
      if (l.module == function->module) found = l.as_module;
    });
    c.require(found, "the function's library has no module yet", CUDA_ERROR_INVALID_HANDLE);
    *module = found;
  });
}

} // namespace vgpu::driver
