// host-cost: what the library costs on the host's side.
//
//   host-cost [--m M] [--n N] [--k K] [--starts S] [--calls C] [--json FILE]
//
// run      wl_plan_run of a made plan, its context current as under a framework: the median over
//          batches of calls that the device's queue has room for, so that no call waits for the
//          device
//          the library's own share is that of the same call with a driver that only answers
// start    cold start after the context exists: wl_dual_gemm_plan, workspace, first run,
// synchronise.
//          Each sample is a process of its own with the driver's cache off; once with the library's
//          machine code, once with CUDA_FORCE_PTX_JIT=1, where the driver compiles the PTX
#include "runtime/src/context.hpp"
#include "tools/bench/problem.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace bench;

namespace {

struct Options {
  Shape shape = {16, 4096, 7168};
  int starts = 5, calls = 64, batches = 100;
  std::string json;
  bool child = false; // one cold start, printed for the parent
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--child") {
      options.child = true;
      continue;
    }
    if (i + 1 == argc) die(name + " needs a value, or is unknown");
    const std::string value = argv[++i];
    if (name == "--m")
      options.shape.m = number(value);
    else if (name == "--n")
      options.shape.n = number(value);
    else if (name == "--k")
      options.shape.k = number(value);
    else if (name == "--starts")
      options.starts = static_cast<int>(number(value));
    else if (name == "--calls")
      options.calls = static_cast<int>(number(value));
    else if (name == "--batches")
      options.batches = static_cast<int>(number(value));
    else if (name == "--json")
      options.json = value;
    else
      die("unknown option " + name);
  }
  return options;
}

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

// One cold start, in milliseconds: what it took, the driver's loading in it, and the same call
// again.
struct Start {
  double total = 0, load = 0, again = 0;
  int precompiled = 0;
};

constexpr const char* start_format = "start %lf %lf %lf %d";

void print_start(const Options& options) {
  wl_context* context = nullptr;
  require(wl_context_create(0, &context));
  uint64_t state = 1;
  Problem problem(context, options.shape, "", &state);
  require(wl_stream_synchronize(context, nullptr));
  const auto start = Clock::now();
  problem.make_plan();
  problem.run(nullptr);
  require(wl_stream_synchronize(context, nullptr));
  const double total = microseconds_since(start);
  const auto again = Clock::now();
  problem.run(nullptr);
  require(wl_stream_synchronize(context, nullptr));
  std::printf("start %f %f %f %d\n", total * 1e-3, problem.info().load_ms,
              microseconds_since(again) * 1e-3, problem.info().precompiled);
}

Start start_in_child(const Options& options, bool jit) {
  const Shape& s = options.shape;
  const std::string command = std::string("CUDA_CACHE_DISABLE=1 CUDA_FORCE_PTX_JIT=") +
                              (jit ? "1" : "0") + " /proc/" + std::to_string(getpid()) +
                              "/exe --child --m " + std::to_string(s.m) + " --n " +
                              std::to_string(s.n) + " --k " + std::to_string(s.k);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) die("no process can be started: " + std::string(std::strerror(errno)));
  Start result;
  const int fields = std::fscanf(pipe, start_format, &result.total, &result.load, &result.again,
                                 &result.precompiled);
  if (pclose(pipe) != 0 || fields != 4) die("a cold start failed: " + command);
  return result;
}

struct StartResult {
  const char *name, *key;
  Spread total, load;
  double again = 0;
};

StartResult starts(const Options& options, bool jit) {
  std::vector<double> total, load, again;
  for (int i = 0; i < options.starts; ++i) {
    const Start start = start_in_child(options, jit);
    if (jit && start.precompiled) die("machine code was loaded despite CUDA_FORCE_PTX_JIT");
    if (!jit && !start.precompiled) return {"machine code", "cubin", {}, {}, 0};
    total.push_back(start.total);
    load.push_back(start.load);
    again.push_back(start.again);
  }
  return {jit ? "JIT" : "machine code", jit ? "jit" : "cubin", spread(total), spread(load),
          spread(again).median};
}

// A driver that only answers, in the place of the real one: what is left is the library's.
class AnswersOnly {
public:
  explicit AnswersOnly(wl_context* context)
      : driver_(const_cast<warpline::Driver*>(context->driver)), before_(driver_->cu) {
    owner = context->handle;
    driver_->cu.CtxGetCurrent = answer;
    driver_->cu.StreamGetCtx = [](cuapi::CUstream, cuapi::CUcontext* c) { return answer(c); };
    driver_->cu.StreamSynchronize = [](cuapi::CUstream) { return cuapi::CUDA_SUCCESS; };
    driver_->cu.LaunchKernelEx = [](const cuapi::CUlaunchConfig*, cuapi::CUfunction, void**,
                                    void**) { return cuapi::CUDA_SUCCESS; };
  }
  ~AnswersOnly() { driver_->cu = before_; }
  AnswersOnly(const AnswersOnly&) = delete;
  AnswersOnly& operator=(const AnswersOnly&) = delete;

private:
  static inline cuapi::CUcontext owner = nullptr;
  static cuapi::CUresult answer(cuapi::CUcontext* context) {
    *context = owner;
    return cuapi::CUDA_SUCCESS;
  }
  warpline::Driver* driver_;
  cuapi::Functions before_;
};

// Microseconds of one wl_plan_run.
Spread run_cost(const Options& options, wl_context* context, wl_stream stream,
                const Problem& problem) {
  std::vector<double> times;
  for (int batch = 0; batch < options.batches + 3; ++batch) {
    require(wl_stream_synchronize(context, stream));
    const auto start = Clock::now();
    for (int call = 0; call < options.calls; ++call) problem.run(stream);
    if (batch >= 3) times.push_back(microseconds_since(start) / options.calls);
  }
  require(wl_stream_synchronize(context, stream));
  return spread(times);
}

std::string json(const Spread& s) {
  char text[128];
  std::snprintf(text, sizeof text, "{\"median\": %.3f, \"least\": %.3f, \"most\": %.3f}", s.median,
                s.least, s.most);
  return text;
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.child) {
    print_start(options);
    return 0;
  }
  const StartResult results[] = {starts(options, false), starts(options, true)};
  wl_context* context = nullptr;
  require(wl_context_create(0, &context));
  uint64_t state = 1;
  Problem problem(context, options.shape, "", &state);
  problem.make_plan();
  wl_stream stream = nullptr;
  require(wl_stream_create(context, &stream));
  const warpline::ContextScope current(*context);
  require(current.status());
  const Spread run = run_cost(options, context, stream, problem);
  Spread own;
  {
    const AnswersOnly driver(context);
    own = run_cost(options, context, stream, problem);
  }

  std::printf("%s, driver %s, %lld x %lld x %lld, %s\n", context->limits.name.c_str(),
              warpline::version_text(context->driver->version).c_str(),
              static_cast<long long>(options.shape.m), static_cast<long long>(options.shape.n),
              static_cast<long long>(options.shape.k), problem.info().config);
  std::printf("%-44s %9s %9s %9s\n", "", "median", "least", "most");
  std::printf("%-44s %9.2f %9.2f %9.2f  us, %d launches\n", "wl_plan_run", run.median, run.least,
              run.most, problem.info().launches);
  std::printf("%-44s %9.2f %9.2f %9.2f  us\n", "  of it the library's own", own.median, own.least,
              own.most);
  std::string text = "{\"device\": \"" + context->limits.name + "\", \"config\": \"" +
                     problem.info().config + "\", \"run_us\": " + json(run) +
                     ", \"own_us\": " + json(own);
  for (const StartResult& r : results) {
    if (r.total.median == 0) {
      std::printf(
          "cold start, %s: the library holds none for this device, or the driver refuses it\n",
          r.name);
      continue;
    }
    const std::string title = std::string("cold start, ") + r.name;
    std::printf("%-44s %9.2f %9.2f %9.2f  ms\n", title.c_str(), r.total.median, r.total.least,
                r.total.most);
    std::printf("%-44s %9.2f %9.2f %9.2f  ms\n", "  of it the driver's loading", r.load.median,
                r.load.least, r.load.most);
    text += std::string(", \"start_") + r.key + "_ms\": " + json(r.total) + ", \"load_" + r.key +
            "_ms\": " + json(r.load);
  }
  text += "}\n";
  if (!options.json.empty()) {
    FILE* file = std::fopen(options.json.c_str(), "w");
    if (file == nullptr) die("cannot write " + options.json);
    std::fputs(text.c_str(), file);
    std::fclose(file);
  }
  return 0;
}
