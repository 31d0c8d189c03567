// driver-cost: what the driver takes on the host for what the library asks of it.
//
// calls    the questions of a run, nanoseconds
// launch   one cuLaunchKernelEx of a kernel that ends at once, by what it carries, microseconds;
//          batches of calls that the device's queue has room for
// compile  the JIT of kernels of the library, its cache off: each alone, one after the other, at
// the
//          same time in a thread each, as one text, and under options of the compiler, in turns;
//          milliseconds. The first of a process brings the compiler itself.
#include "runtime/src/context.hpp"
#include "runtime/src/images.hpp"
#include "tools/bench/problem.hpp"
#include "tools/bench/timing.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

using namespace bench;
using namespace cuapi;

namespace {

struct Options {
  int64_t calls = 64, batches = 100, loads = 5;
  std::vector<std::string> kernels;
};

Options parse_options(int argc, char** argv) {
  Options o;
  warpline::cli::Options options(
      "driver-cost", "What the driver takes on the host for what the library asks of it.", "");
  count(options, "--calls", "calls of a batch, fewer than the device's queue holds (64)", o.calls);
  count(options, "--batches", "batches, of which the median counts (100)", o.batches);
  count(options, "--loads", "turns of compiling (5)", o.loads);
  names(options, "--kernels", "kernels to compile (two of the device)", o.kernels);
  parse(options, argc, argv);
  return o;
}

void print(const char* what, std::vector<double> values, const char* unit) {
  const Spread s = spread(std::move(values));
  std::printf("  %-58s %9.2f %9.2f %9.2f  %s\n", what, s.median, s.least, s.most, unit);
}

// ---- launches -----------------------------------------------------------------------------------

// What a launch carries. The library's for Hopper: 600 bytes, a cluster, programmatic dependence.
struct Variant {
  const char* what;
  size_t param_bytes;
  bool cluster_attribute, programmatic;
  bool cluster_in_text; // .reqnctapercluster
  bool packed;          // parameters as one buffer, not one by one
  unsigned shared_bytes;
};
constexpr Variant variants[] = {
    {"8 bytes of parameters", 8, false, false, false, false, 0},
    {"8 bytes, cluster of 2", 8, true, false, false, false, 0},
    {"8 bytes, programmatic dependent", 8, false, true, false, false, 0},
    {"600 bytes", 600, false, false, false, false, 0},
    {"600 bytes, cluster, programmatic (a run of the library)", 600, true, true, false, false, 0},
    {"  and 200 KiB of shared memory", 600, true, true, false, false, 200 * 1024},
    {"  the cluster in the kernel's text", 600, false, true, true, false, 0},
    {"  the parameters in one buffer", 600, true, true, false, true, 0},
};

std::string kernel_text(const Variant& v) {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry ends(";
  for (size_t i = 0; i < v.param_bytes / 8; ++i)
    text += (i ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
  text += ")\n.maxntid 32, 1, 1\n";
  if (v.cluster_in_text) text += ".reqnctapercluster 2, 1, 1\n";
  return text + "{\n  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;\n  ret;\n}\n";
}

class Launcher {
public:
  Launcher(const Functions& cu, const Variant& v) : cu_(cu), packed_(v.packed) {
    const std::string text = kernel_text(v);
    require(cu.ModuleLoadDataEx(&module_, text.c_str(), 0, nullptr, nullptr), "cuModuleLoadDataEx");
    require(cu.ModuleGetFunction(&function_, module_, "ends"), "cuModuleGetFunction");
    if (v.shared_bytes)
      require(cu.FuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(v.shared_bytes)),
              "cuFuncSetAttribute");
    values_.resize(v.param_bytes / 8);
    for (uint64_t& value : values_) addresses_.push_back(&value);
    bytes_ = v.param_bytes;
    config_.gridDimX = 2, config_.gridDimY = config_.gridDimZ = 1;
    config_.blockDimX = 32, config_.blockDimY = config_.blockDimZ = 1;
    config_.sharedMemBytes = v.shared_bytes;
    if (v.cluster_attribute) {
      CUlaunchAttribute& attribute = attributes_[config_.numAttrs++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attribute.value.clusterDim = {2, 1, 1};
    }
    if (v.programmatic) {
      CUlaunchAttribute& attribute = attributes_[config_.numAttrs++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    config_.attrs = attributes_;
  }
  ~Launcher() { cu_.ModuleUnload(module_); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void launch(CUstream stream) {
    config_.hStream = stream;
    // CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE and _END.
    void* extra[] = {reinterpret_cast<void*>(1), values_.data(), reinterpret_cast<void*>(2),
                     &bytes_, nullptr};
    require(cu_.LaunchKernelEx(&config_, function_, packed_ ? nullptr : addresses_.data(),
                               packed_ ? extra : nullptr),
            "cuLaunchKernelEx");
  }

private:
  const Functions& cu_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  std::vector<uint64_t> values_;
  std::vector<void*> addresses_;
  size_t bytes_ = 0;
  CUlaunchAttribute attributes_[2] = {};
  CUlaunchConfig config_{};
  bool packed_;
};

template <class Call>
std::vector<double> batches_of(const Options& options, const Functions& cu, CUstream stream,
                               const Call& call) {
  return batches(
      options.batches, options.calls,
      [&] { require(cu.StreamSynchronize(stream), "cuStreamSynchronize"); }, call);
}

void print_calls(const Options& options, const Functions& cu, CUstream stream) {
  std::printf("calls\n");
  const auto nanoseconds = [&](const char* what, const std::function<void()>& call) {
    std::vector<double> times = batches_of(options, cu, stream, call);
    for (double& time : times) time *= 1000;
    print(what, times, "ns");
  };
  CUcontext context = nullptr;
  nanoseconds("cuCtxGetCurrent", [&] { cu.CtxGetCurrent(&context); });
  nanoseconds("cuStreamGetCtx", [&] { cu.StreamGetCtx(stream, &context); });
  CUstreamCaptureStatus status{};
  if (cu.StreamIsCapturing)
    nanoseconds("cuStreamIsCapturing", [&] { cu.StreamIsCapturing(stream, &status); });
}

void print_launches(const Options& options, const Functions& cu, CUstream stream) {
  std::printf("launch\n");
  for (const Variant& variant : variants) {
    Launcher launcher(cu, variant);
    print(variant.what, batches_of(options, cu, stream, [&] { launcher.launch(stream); }), "us");
  }
  Launcher first(cu, variants[4]), second(cu, variants[4]);
  print("two runs of the library",
        batches_of(options, cu, stream,
                   [&] {
                     first.launch(stream);
                     second.launch(stream);
                   }),
        "us");
  if (!cu.StreamBeginCapture || !cu.GraphLaunch) return;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  require(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
  first.launch(stream);
  second.launch(stream);
  require(cu.StreamEndCapture(stream, &graph), "cuStreamEndCapture");
  require(cu.GraphInstantiate(&executable, graph, 0), "cuGraphInstantiateWithFlags");
  print("a graph of both",
        batches_of(options, cu, stream, [&] { cu.GraphLaunch(executable, stream); }), "us");
  cu.GraphExecDestroy(executable);
  cu.GraphDestroy(graph);
}

// ---- compiling ----------------------------------------------------------------------------------

struct JitOption {
  CUjit_option option;
  uintptr_t value;
};
constexpr auto jit_split_compile = static_cast<CUjit_option>(34); // CUDA 13.0

void compile(const Functions& cu, const std::string& text, const std::vector<JitOption>& options) {
  std::vector<char> log(64 * 1024);
  std::vector<CUjit_option> names = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  std::vector<void*> values = {log.data(), reinterpret_cast<void*>(log.size())};
  for (const JitOption& option : options) {
    names.push_back(option.option);
    values.push_back(reinterpret_cast<void*>(option.value));
  }
  CUmodule module = nullptr;
  const CUresult result = cu.ModuleLoadDataEx(
      &module, text.c_str(), static_cast<unsigned>(names.size()), names.data(), values.data());
  if (result == CUDA_SUCCESS)
    cu.ModuleUnload(module);
  else
    std::printf("  (the driver refuses: %d)\n", static_cast<int>(result));
}

// The texts' entries under the head of the first.
std::string joined(const std::vector<std::string>& texts) {
  std::string result = texts[0];
  for (size_t i = 1; i < texts.size(); ++i) {
    const size_t head = texts[i].find(".address_size 64");
    if (head == std::string::npos) die("a kernel without .address_size 64");
    result += texts[i].substr(texts[i].find('\n', head));
  }
  return result;
}

void print_compiling(const Options& options, const warpline::DeviceLimits& limits,
                     const Functions& cu, CUcontext context) {
  std::printf("compile\n");
  std::vector<std::string> texts, kernels = options.kernels;
  if (kernels.empty())
    kernels = limits.compute_major == 9
                  ? std::vector<std::string>{"dual_gemm_sm90_t128_f16", "dual_gemm_sm90_decode"}
                  : std::vector<std::string>{"dual_gemm_sm100_n64_f16", "quantize_sm100_f16"};
  for (const std::string& kernel : kernels) {
    for (const warpline::Image& image : warpline::embedded_images())
      if (image.name == kernel) texts.push_back(image.text());
    if (texts.empty() || texts.size() != static_cast<size_t>(&kernel - kernels.data()) + 1)
      die("no kernel " + kernel);
  }
  print(("the first: " + kernels[0]).c_str(),
        {1e-3 * microseconds_of([&] { compile(cu, texts[0], {}); })}, "ms");

  struct Way {
    std::string what;
    std::function<void()> compile;
    std::vector<double> milliseconds;
  };
  std::vector<Way> ways;
  const auto add = [&](const std::string& what, const std::vector<std::string>& of,
                       const std::vector<JitOption>& jit) {
    ways.push_back({what,
                    [&cu, of, jit] {
                      for (const std::string& text : of) compile(cu, text, jit);
                    },
                    {}});
  };
  for (size_t i = 0; i < texts.size(); ++i) add(kernels[i], {texts[i]}, {});
  add("one after the other", texts, {});
  ways.push_back({"at the same time, a thread each",
                  [&] {
                    std::vector<std::thread> threads;
                    for (const std::string& text : texts)
                      threads.emplace_back([&] {
                        require(cu.CtxPushCurrent(context), "cuCtxPushCurrent");
                        compile(cu, text, {});
                        CUcontext popped = nullptr;
                        cu.CtxPopCurrent(&popped);
                      });
                    for (std::thread& thread : threads) thread.join();
                  },
                  {}});
  add("as one text", {joined(texts)}, {});
  add("as one text, split compile on all cores", {joined(texts)}, {{jit_split_compile, 0}});
  add("one after the other, a verbose log", texts, {{CU_JIT_LOG_VERBOSE, 1}});
  for (const uintptr_t level : {3, 2, 1, 0})
    add("one after the other, optimisation level " + std::to_string(level), texts,
        {{CU_JIT_OPTIMIZATION_LEVEL, level}});
  for (int64_t i = 0; i < options.loads; ++i)
    for (Way& way : ways) way.milliseconds.push_back(1e-3 * microseconds_of(way.compile));
  for (const Way& way : ways) print(way.what.c_str(), way.milliseconds, "ms");
}

} // namespace

int main(int argc, char** argv) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  const Options options = parse_options(argc, argv);
  wl_context* context = nullptr;
  require(wl_context_create(0, &context));
  const Functions& cu = context->driver->cu;
  const warpline::ContextScope current(*context);
  require(current.status());
  wl_stream stream = nullptr;
  require(wl_stream_create(context, &stream));
  std::printf("%s, driver %s\n  %-58s %9s %9s %9s\n", context->limits.name.c_str(),
              warpline::version_text(context->driver->version).c_str(), "", "median", "least",
              "most");
  print_compiling(options, context->limits, cu, context->handle);
  print_calls(options, cu, static_cast<CUstream>(stream));
  print_launches(options, cu, static_cast<CUstream>(stream));
  return 0;
}
