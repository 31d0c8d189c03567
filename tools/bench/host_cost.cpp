// host-cost: what the library costs on the host's side.
//
// run      wl_plan_run of a made plan, its context current as under a framework: the median over
//          batches of calls that the device's queue has room for, so that no call waits for the
//          device; with WL_GRAPH_LAUNCH too, and its first run, which makes the graph.
//          The library's own share is that of the same call with a driver that only answers
//          With operands of the run's own (wl_dual_gemm_run) likewise, taking turns with two
//          others'
// plan     wl_dual_gemm_plan of the library's choice and wl_plan_destroy, kernels loaded
// in a row runs that follow one another in a stream, microseconds of the device a run, between two
//          events: what WL_GRAPH_LAUNCH costs there
// start    cold start after the context exists: wl_dual_gemm_plan, workspace, first run, wait.
//          Each sample is a process of its own with the driver's cache off; once with the library's
//          machine code, once with CUDA_FORCE_PTX_JIT=1, where the driver compiles the PTX
// layer    wl_plan_run of a layer of experts, wl_moe, as above: with --layer T,H,I,E,K and BF16
//          activations, multiplied as they are or, with --quantised, as NVFP4; nothing else then
#include "runtime/src/context.hpp"
#include "tools/bench/answers_only.hpp"
#include "tools/bench/layer.hpp"
#include "tools/bench/problem.hpp"
#include "tools/bench/timing.hpp"

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
  int64_t starts = 5, calls = 64, batches = 100, row = 200;
  std::string json;
  std::vector<int64_t> layer;
  bool quantised = false;
  bool child = false; // one cold start, printed for the parent
};

Options parse_options(int argc, char** argv) {
  Options o;
  warpline::cli::Options options("host-cost", "What the library costs on the host's side.", "");
  count(options, "--m", "rows of A (16)", o.shape.m);
  count(options, "--n", "columns of B1 and B2 (4096)", o.shape.n);
  count(options, "--k", "the common extent (7168)", o.shape.k);
  count(options, "--starts", "cold starts, each a process (5)", o.starts);
  count(options, "--calls", "calls of a batch, fewer than the device's queue holds (64)", o.calls);
  count(options, "--batches", "batches, of which the median counts (100)", o.batches);
  count(options, "--row", "runs between two events on the device (200)", o.row);
  counts(options, "--layer",
         "in place of all that, runs of a layer of experts: tokens, hidden, intermediate,\n"
         "experts, experts of a token, as 64,2048,768,128,8",
         o.layer);
  options.flag("--quantised", "its tokens are multiplied as NVFP4", o.quantised);
  options.text("--json", "FILE", "the figures", o.json);
  options.flag("--child", "one cold start, printed for the process that asked", o.child);
  parse(options, argc, argv);
  if (!o.layer.empty() && o.layer.size() != 5)
    die("--layer has " + std::to_string(o.layer.size()) +
        " numbers, must be five: tokens, hidden, intermediate, experts, experts of a token");
  if (o.quantised && o.layer.empty()) die("--quantised is of --layer");
  return o;
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
  const auto run = [&] {
    problem.run(nullptr);
    require(wl_stream_synchronize(context, nullptr));
  };
  const double total = microseconds_of([&] {
    problem.make_plan();
    run();
  });
  const double again = microseconds_of(run);
  std::printf("start %f %f %f %d\n", total * 1e-3, problem.info().load_ms, again * 1e-3,
              problem.info().precompiled);
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
  for (int64_t i = 0; i < options.starts; ++i) {
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

// Of a plan: the host's microseconds of one wl_plan_run, the library's own part, and the device's.
struct RunResult {
  double first = 0;
  Spread run, own, row;
};

// Of runs with others' operands, and of planning: the same, and the library's own part.
struct OtherResult {
  Spread run, run_own, plan, plan_own;
};

OtherResult others(const Options& options, wl_context* context, wl_stream stream,
                   const Problem& problem, const Problem (&with)[2]) {
  const auto wait = [&] { require(wl_stream_synchronize(context, stream)); };
  int64_t turn = 0;
  const auto run = [&] { problem.run_with(with[++turn % 2], stream); };
  const auto plan = [&] { problem.plan_once(); };
  OtherResult result;
  result.run = spread(batches(options.batches, options.calls, wait, run));
  result.plan = spread(batches(options.batches, options.calls, wait, plan));
  const AnswersOnly driver(context);
  result.run_own = spread(batches(options.batches, options.calls, wait, run));
  result.plan_own = spread(batches(options.batches, options.calls, wait, plan));
  return result;
}

template <class Problem>
RunResult runs(const Options& options, wl_context* context, wl_stream stream,
               const Problem& problem) {
  const auto wait = [&] { require(wl_stream_synchronize(context, stream)); };
  const auto run = [&] { problem.run(stream); };
  RunResult result;
  result.first = microseconds_of(run);
  result.run = spread(batches(options.batches, options.calls, wait, run));
  Interval interval(context->driver->cu, static_cast<cuapi::CUstream>(stream));
  std::vector<double> rows;
  for (int i = 0; i < 10; ++i) {
    interval.start();
    for (int64_t call = 0; call < options.row; ++call) run();
    rows.push_back(interval.stop() / static_cast<double>(options.row));
  }
  result.row = spread(rows);
  const AnswersOnly driver(context);
  result.own = spread(batches(options.batches, options.calls, wait, run));
  return result;
}

void print(const std::string& what, const Spread& s, const std::string& unit) {
  std::printf("%-44s %9.2f %9.2f %9.2f  %s\n", what.c_str(), s.median, s.least, s.most,
              unit.c_str());
}

std::string json(const Spread& s) {
  char text[128];
  std::snprintf(text, sizeof text, "{\"median\": %.3f, \"least\": %.3f, \"most\": %.3f}", s.median,
                s.least, s.most);
  return text;
}

int layer_main(const Options& options) {
  wl_context* context = nullptr;
  require(wl_context_create(0, &context));
  const std::vector<int64_t>& l = options.layer;
  uint64_t state = 1;
  Layer layer(context, {l[0], l[1], l[2], l[3], l[4]}, options.quantised, &state);
  wl_stream stream = nullptr;
  require(wl_stream_create(context, &stream));
  const warpline::ContextScope current(*context);
  require(current.status());
  layer.make_plan();
  const RunResult plain = runs(options, context, stream, layer);
  const int launches = layer.info().launches;
  layer.make_plan(WL_GRAPH_LAUNCH);
  const RunResult graph = runs(options, context, stream, layer);
  std::printf(
      "%s, driver %s, wl_moe T %lld, H %lld, I %lld, E %lld, top_k %lld, %s\n",
      context->limits.name.c_str(), warpline::version_text(context->driver->version).c_str(),
      static_cast<long long>(l[0]), static_cast<long long>(l[1]), static_cast<long long>(l[2]),
      static_cast<long long>(l[3]), static_cast<long long>(l[4]), layer.info().config);
  std::printf("%-44s %9s %9s %9s\n", "", "median", "least", "most");
  print("wl_plan_run", plain.run, "us, " + std::to_string(launches) + " launches");
  print("  of it the library's own", plain.own, "us");
  print("  on the device, in a row", plain.row, "us");
  print("wl_plan_run, WL_GRAPH_LAUNCH", graph.run, "us");
  print("  of it the library's own", graph.own, "us");
  print("  on the device, in a row", graph.row, "us");
  if (!options.json.empty())
    write_file(options.json,
               "{\"device\": \"" + context->limits.name + "\", \"config\": \"" +
                   layer.info().config + "\", \"launches\": " + std::to_string(launches) +
                   ", \"run_us\": " + json(plain.run) + ", \"own_us\": " + json(plain.own) +
                   ", \"row_us\": " + json(plain.row) + ", \"graph_run_us\": " + json(graph.run) +
                   ", \"graph_own_us\": " + json(graph.own) +
                   ", \"graph_row_us\": " + json(graph.row) + "}\n");
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  if (options.child) {
    print_start(options);
    return 0;
  }
  if (!options.layer.empty()) return layer_main(options);
  const StartResult results[] = {starts(options, false), starts(options, true)};
  wl_context* context = nullptr;
  require(wl_context_create(0, &context));
  uint64_t state = 1;
  Problem problem(context, options.shape, "", &state);
  wl_stream stream = nullptr;
  require(wl_stream_create(context, &stream));
  const warpline::ContextScope current(*context);
  require(current.status());
  problem.make_plan();
  const RunResult plain = runs(options, context, stream, problem);
  const Problem with[] = {{context, options.shape, "", &state},
                          {context, options.shape, "", &state}};
  const OtherResult other = others(options, context, stream, problem, with);
  problem.make_plan(WL_GRAPH_LAUNCH);
  const RunResult graph = runs(options, context, stream, problem);

  std::printf("%s, driver %s, %lld x %lld x %lld, %s\n", context->limits.name.c_str(),
              warpline::version_text(context->driver->version).c_str(),
              static_cast<long long>(options.shape.m), static_cast<long long>(options.shape.n),
              static_cast<long long>(options.shape.k), problem.info().config);
  std::printf("%-44s %9s %9s %9s\n", "", "median", "least", "most");
  print("wl_plan_run", plain.run, "us, " + std::to_string(problem.info().launches) + " launches");
  print("  of it the library's own", plain.own, "us");
  print("  on the device, in a row", plain.row, "us");
  print("wl_dual_gemm_run, other operands", other.run, "us");
  print("  of it the library's own", other.run_own, "us");
  print("wl_dual_gemm_plan", other.plan, "us");
  print("  of it the library's own", other.plan_own, "us");
  print("wl_plan_run, WL_GRAPH_LAUNCH", graph.run, "us");
  print("  of it the library's own", graph.own, "us");
  print("  on the device, in a row", graph.row, "us");
  std::printf("%-44s %9.2f  us\n", "  the first, which makes the graph", graph.first);
  std::string text =
      "{\"device\": \"" + context->limits.name + "\", \"config\": \"" + problem.info().config +
      "\", \"run_us\": " + json(plain.run) + ", \"own_us\": " + json(plain.own) +
      ", \"row_us\": " + json(plain.row) + ", \"other_run_us\": " + json(other.run) +
      ", \"other_own_us\": " + json(other.run_own) + ", \"plan_us\": " + json(other.plan) +
      ", \"plan_own_us\": " + json(other.plan_own) + ", \"graph_run_us\": " + json(graph.run) +
      ", \"graph_own_us\": " + json(graph.own) + ", \"graph_row_us\": " + json(graph.row) +
      ", \"graph_first_us\": " + std::to_string(graph.first);
  for (const StartResult& r : results) {
    if (r.total.median == 0) {
      std::printf(
          "cold start, %s: the library holds none for this device, or the driver refuses it\n",
          r.name);
      continue;
    }
    print(std::string("cold start, ") + r.name, r.total, "ms");
    print("  of it the driver's loading", r.load, "ms");
    text += std::string(", \"start_") + r.key + "_ms\": " + json(r.total) + ", \"load_" + r.key +
            "_ms\": " + json(r.load);
  }
  if (!options.json.empty()) write_file(options.json, text + "}\n");
  return 0;
}
