#include "runtime/src/module.hpp"

#include "runtime/src/context.hpp"
#include "runtime/src/dump.hpp"
#include "runtime/src/log.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace warpline {

namespace {

struct Release {
  int driver; // first driver version, cuDriverGetVersion's number
  int ptx;    // 10 * major + minor
};

// PTX ISA, "Release History": the CUDA release that introduced each PTX version.
constexpr Release releases[] = {
    {11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76},
    {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84},
    {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91}, {13020, 92},
};

constexpr size_t log_bytes = 64 * 1024;

std::string printable_log(const std::vector<char>& buffer) {
  std::string text(buffer.data(), strnlen(buffer.data(), buffer.size()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// What the driver got, byte for byte: the PTX and what its compiler said, or the machine code.
void dump(const Image& image, const char* ending, const std::string& bytes) {
  dump_file(image.name + ending, bytes);
}

wl_status check_image(const wl_context& context, const Image& image) {
  const DeviceLimits& limits = context.limits;
  if (!target_runs_on(image.target, limits.compute_major, limits.compute_minor))
    return fail(WL_ERROR_NOT_SUPPORTED,
                "kernel %s is built for %s and cannot run on %s, compute capability %d.%d (an 'a' "
                "target runs on exactly its own capability, an 'f' target on its family from its "
                "own minor version up)",
                image.name.c_str(), image.target.c_str(), limits.name.c_str(), limits.compute_major,
                limits.compute_minor);
  const int needed = 10 * image.ptx_major + image.ptx_minor;
  const int accepted = ptx_version_of_driver(context.driver->version);
  if (needed <= accepted) return WL_SUCCESS;
  const int driver = driver_of_ptx_version(needed);
  const std::string remedy =
      driver ? format("driver %s or newer is needed", version_text(driver).c_str())
             : "a newer driver is needed";
  return fail(WL_ERROR_INSUFFICIENT_DRIVER,
              "kernel %s is PTX %d.%d, the driver (version %s) accepts PTX up to %d.%d; %s",
              image.name.c_str(), image.ptx_major, image.ptx_minor,
              version_text(context.driver->version).c_str(), accepted / 10, accepted % 10,
              remedy.c_str());
}

// CUDA's own switch, which makes a driver pass over machine code in a fat binary.
bool machine_code_wanted() {
  const char* force = std::getenv("CUDA_FORCE_PTX_JIT");
  return !force || !*force || std::strcmp(force, "0") == 0;
}

// The machine code embedded at build, where there is some for the device. A driver may refuse it
// (an older one, the virtual GPU): then the PTX is compiled.
bool load_machine_code(const wl_context& context, const Image& image, Kernel* kernel) {
  const DeviceLimits& limits = context.limits;
  const EmbeddedCubin* cubin = image.cubin_for(limits.compute_major, limits.compute_minor);
  if (!cubin || context.rewrite || !machine_code_wanted()) return false;
  const std::string code = unpacked(cubin->code);
  // With a place for its reason a driver that refuses does not print it.
  char reason[256] = "";
  cuapi::CUjit_option options[] = {cuapi::CU_JIT_ERROR_LOG_BUFFER,
                                   cuapi::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {reason, reinterpret_cast<void*>(uintptr_t{sizeof reason})};
  const cuapi::CUresult result =
      context.driver->cu.ModuleLoadDataEx(&kernel->module, code.data(), 2, options, values);
  kernel->precompiled = result == cuapi::CUDA_SUCCESS;
  if (kernel->precompiled) {
    dump(image, ".cubin", code);
    return true;
  }
  kernel->module = nullptr;
  WL_LOG(log_calls, "%s: the driver takes no machine code for %s (%s%s%s), its PTX is compiled",
         image.name.c_str(), cubin->target, cu_error_name(*context.driver, result).c_str(),
         reason[0] != 0 ? ": " : "", reason);
  return false;
}

wl_status compile(const wl_context& context, const Image& image, Kernel* kernel) {
  const cuapi::Functions& cu = context.driver->cu;
  std::vector<char> info(log_bytes), errors(log_bytes);
  const auto number = [](uintptr_t value) { return reinterpret_cast<void*>(value); };
  cuapi::CUjit_option options[] = {
      cuapi::CU_JIT_INFO_LOG_BUFFER,  cuapi::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
      cuapi::CU_JIT_ERROR_LOG_BUFFER, cuapi::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
      cuapi::CU_JIT_LOG_VERBOSE,
  };
  void* values[] = {info.data(), number(info.size()), errors.data(), number(errors.size()),
                    number(1)};
  // The verbose log, of registers and spills, comes last: only for those who read it.
  const bool verbose = log_enabled(log_detail) || dump_wanted();
  const auto count = static_cast<unsigned>(std::size(options)) - (verbose ? 0 : 1);
  // cuModuleLoadDataEx reads PTX up to a zero byte, which an image of the caller need not have.
  std::string text = image.text();
  if (context.rewrite) text = context.rewrite(image.name, text);
  const cuapi::CUresult result =
      cu.ModuleLoadDataEx(&kernel->module, text.c_str(), count, options, values);
  kernel->jit_log = printable_log(info);
  const std::string error_log = printable_log(errors);
  if (!error_log.empty()) kernel->jit_log += (kernel->jit_log.empty() ? "" : "\n") + error_log;
  dump(image, ".ptx", text);
  dump(image, ".log", kernel->jit_log);
  if (result == cuapi::CUDA_SUCCESS) return WL_SUCCESS;
  kernel->module = nullptr;
  const std::string context_text =
      format("kernel %s (PTX %d.%d for %s); the driver's log: %s", image.name.c_str(),
             image.ptx_major, image.ptx_minor, image.target.c_str(),
             kernel->jit_log.empty() ? "(empty)" : kernel->jit_log.c_str());
  return fail_cu(*context.driver, result, "cuModuleLoadDataEx", WL_ERROR_JIT, context_text.c_str());
}

wl_status load_module(const wl_context& context, const Image& image, Kernel* kernel) {
  const auto start = std::chrono::steady_clock::now();
  if (!load_machine_code(context, image, kernel)) WL_TRY(compile(context, image, kernel));
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  kernel->load_ms = elapsed.count();
  WL_LOG(
      log_detail, "loaded %s in %.1f ms; %s%s", image.name.c_str(), kernel->load_ms,
      kernel->precompiled ? "machine code of the library" : "JIT log: ", kernel->jit_log.c_str());
  const cuapi::CUresult found =
      context.driver->cu.ModuleGetFunction(&kernel->function, kernel->module, image.entry.c_str());
  if (found != cuapi::CUDA_SUCCESS)
    return fail_cu(
        *context.driver, found, "cuModuleGetFunction", WL_ERROR_JIT,
        format("kernel %s has no entry %s", image.name.c_str(), image.entry.c_str()).c_str());
  return WL_SUCCESS;
}

// A host struct that disagrees with the kernel's .param list would pass garbage without a word. How
// many parameters there are is known from the text: to ask the driver for one too many would be an
// error in the eyes of tools that watch its calls.
wl_status check_params(const wl_context& context, const Kernel& kernel, size_t kernel_params,
                       const std::vector<Param>& params) {
  std::string differences;
  const auto differ = [&](const std::string& text) {
    differences += (differences.empty() ? "" : "; ") + text;
  };
  if (kernel_params < params.size())
    differ(format("the kernel has %zu parameters, the host passes %zu (first surplus: %s)",
                  kernel_params, params.size(), params[kernel_params].name));
  if (kernel_params > params.size())
    differ(
        format("the kernel has %zu parameters, the host passes %zu", kernel_params, params.size()));
  const auto info = context.driver->cu.FuncGetParamInfo;
  if (!info)
    WL_LOG(log_detail,
           "%s: parameter layout not compared, driver %s lacks cuFuncGetParamInfo (12.4)",
           kernel.name.c_str(), version_text(context.driver->version).c_str());
  // Launches pass a pointer to each parameter, so that offsets do not matter, and they cannot be
  // compared: drivers align in the constant bank, whose parameters start at 528 on sm_90.
  for (size_t i = 0; info && i < std::min(params.size(), kernel_params); ++i) {
    const Param& host = params[i];
    size_t offset = 0, size = 0;
    WL_CHECK_CU(*context.driver, FuncGetParamInfo, (kernel.function, i, &offset, &size),
                WL_ERROR_INTERNAL);
    if (size != host.size)
      differ(format("parameter %zu (%s) is %zu bytes in the kernel, %zu bytes on the host", i,
                    host.name, size, host.size));
  }
  if (differences.empty()) return WL_SUCCESS;
  return fail(WL_ERROR_INTERNAL, "kernel %s: parameter layouts differ: %s", kernel.name.c_str(),
              differences.c_str());
}

wl_status query_function(const wl_context& context, Kernel* kernel) {
  const struct {
    cuapi::CUfunction_attribute attribute;
    int* field;
  } fields[] = {
      {cuapi::CU_FUNC_ATTRIBUTE_NUM_REGS, &kernel->registers},
      {cuapi::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &kernel->static_shared_bytes},
      {cuapi::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &kernel->local_bytes},
      {cuapi::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &kernel->max_threads},
  };
  for (const auto& field : fields)
    WL_CHECK_CU(*context.driver, FuncGetAttribute, (field.field, field.attribute, kernel->function),
                WL_ERROR_JIT);
  WL_LOG(log_detail, "%s: %d registers, %d bytes static shared, %d bytes local, %d threads at most",
         kernel->name.c_str(), kernel->registers, kernel->static_shared_bytes, kernel->local_bytes,
         kernel->max_threads);
  return WL_SUCCESS;
}

wl_status set_attributes(const wl_context& context, const KernelNeeds& needs, Kernel* kernel) {
  const int dynamic = needs.dynamic_shared_bytes;
  const int limit = context.limits.shared_bytes_per_block;
  if (dynamic + kernel->static_shared_bytes > limit)
    return fail(WL_ERROR_NOT_SUPPORTED,
                "kernel %s: shared memory = %d bytes (%d dynamic + %d static) must be at most %d "
                "bytes a CTA on %s",
                kernel->name.c_str(), dynamic + kernel->static_shared_bytes, dynamic,
                kernel->static_shared_bytes, limit, context.limits.name.c_str());
  if (dynamic > kernel->dynamic_shared_limit) {
    WL_CHECK_CU(*context.driver, FuncSetAttribute,
                (kernel->function, cuapi::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic),
                WL_ERROR_LAUNCH);
    kernel->dynamic_shared_limit = dynamic;
  }
  if (needs.nonportable_cluster)
    WL_CHECK_CU(*context.driver, FuncSetAttribute,
                (kernel->function, cuapi::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                WL_ERROR_LAUNCH);
  return WL_SUCCESS;
}

wl_status load_new(const wl_context& context, const Image& image, const KernelNeeds& needs,
                   Kernel* kernel) {
  kernel->name = image.name;
  kernel->entry = image.entry;
  kernel->target = image.target;
  kernel->params = needs.params;
  wl_status status = load_module(context, image, kernel);
  if (status == WL_SUCCESS) status = check_params(context, *kernel, image.params, needs.params);
  if (status == WL_SUCCESS) status = query_function(context, kernel);
  if (status == WL_SUCCESS) status = set_attributes(context, needs, kernel);
  if (status != WL_SUCCESS && kernel->module) context.driver->cu.ModuleUnload(kernel->module);
  return status;
}

} // namespace

int ptx_version_of_driver(int driver_version) {
  int result = 0;
  for (const Release& release : releases)
    if (release.driver <= driver_version) result = release.ptx;
  // A driver newer than the table accepts at least what its last line says.
  return result;
}

int driver_of_ptx_version(int ptx_version) {
  for (const Release& release : releases)
    if (release.ptx >= ptx_version) return release.driver;
  return 0;
}

wl_status load_kernel(wl_context& context, const Image& image, const KernelNeeds& needs,
                      const Kernel** kernel) {
  WL_TRY(check_image(context, image));
  const ContextScope scope(context);
  WL_TRY(scope.status());
  std::lock_guard<std::mutex> lock(context.kernels_mutex);
  const auto found = context.kernels.find(image.name);
  if (found != context.kernels.end()) {
    WL_TRY(set_attributes(context, needs, found->second.get()));
    *kernel = found->second.get();
    return WL_SUCCESS;
  }
  auto loaded = std::make_unique<Kernel>();
  WL_TRY(load_new(context, image, needs, loaded.get()));
  *kernel = loaded.get();
  context.kernels[image.name] = std::move(loaded);
  return WL_SUCCESS;
}

void unload_kernels(wl_context& context) {
  const ContextScope scope(context);
  std::lock_guard<std::mutex> lock(context.kernels_mutex);
  if (scope.status() == WL_SUCCESS)
    for (const auto& [name, kernel] : context.kernels)
      context.driver->cu.ModuleUnload(kernel->module);
  context.kernels.clear();
}

} // namespace warpline
