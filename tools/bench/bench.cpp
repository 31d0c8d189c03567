// bench: time of the dual GEMM, of wl_gemm or of the quantisation on a GPU, without any framework.
//
// Operand sets rotate: together they exceed three times the L2, so that every call finds its
// weights in DRAM. One CUDA graph holds one call for each set; a time is a graph's time between two
// events over its calls, the median of the replays, launches included. --warm uses one set for all
// calls: the difference proves the flush. The first lines give what a launch costs in such a graph
// (the smallest legal problem) and what a copy of the rotated bytes reaches.
#include "kernels/gemm/operand.hpp"
#include "runtime/src/context.hpp"
#include "tools/bench/problem.hpp"
#include "tools/bench/timing.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using namespace bench;

namespace {

wl_operand operand(const std::string& name) {
  std::string full = "WL_OPERAND_";
  for (const char c : name) full += static_cast<char>(std::toupper(c));
  int type = WL_OPERAND_NVFP4;
  while (warpline::gemm::format_of(static_cast<wl_operand>(type)).name != full) ++type;
  return static_cast<wl_operand>(type);
}

struct Options {
  int64_t n = 4096, k = 7168;
  std::vector<int64_t> m = {1, 16, 64, 256, 512, 4096};
  std::vector<std::string> configs = {""};
  int64_t replays = 30;
  bool warm = false, quantize = false, gemm = false, plain = false;
  std::string a_type = "nvfp4", b_type = "nvfp4", d_type = "f16", norm = "none";
  std::string epilogue = "none";
  bool residual = false;
  std::string json;

  Shape shape(int64_t m) const {
    const wl_dtype d = d_type == "bf16" ? WL_BF16 : d_type == "f32" ? WL_F32 : WL_F16;
    const Epilogue e = epilogue == "alpha"  ? Epilogue::alpha
                       : epilogue == "bias" ? Epilogue::bias
                       : epilogue == "gelu" ? Epilogue::gelu
                                            : Epilogue::none;
    return {m, n, k, operand(a_type), operand(b_type), d, e, plain ? WL_SF_PLAIN : WL_SF_128x4};
  }
  NormOptions norm_options() const {
    return {norm == "rms" ? WL_NORM_RMS : norm == "layer" ? WL_NORM_LAYER : WL_NORM_NONE, residual};
  }
};

Options parse_options(int argc, char** argv) {
  Options o;
  warpline::cli::Options options(
      "bench", "Times the dual GEMM, wl_gemm or the quantisation on the GPU of this machine.", "");
  count(options, "--n", "columns of a product (4096)", o.n);
  count(options, "--k", "the common extent (7168)", o.k);
  counts(options, "--m", "rows of A, one time for each (1,16,64,256,512,4096)", o.m);
  names(options, "--config", "configurations to force (the library's choice)", o.configs);
  count(options, "--replays", "replays of a graph, of which the median counts (30)", o.replays);
  options.flag("--warm", "one set of operands, which L2 may hold", o.warm);
  options.flag("--gemm", "wl_gemm in place of the dual GEMM", o.gemm);
  const std::vector<std::string> types = {"nvfp4", "f16", "bf16", "tf32", "e4m3", "e5m2", "int8"};
  options.choice("--a-type", "of A (nvfp4)", o.a_type, types);
  options.choice("--b-type", "of the weights (nvfp4)", o.b_type, types);
  options.choice("--d-type", "of D (f16)", o.d_type, {"f16", "bf16", "f32"});
  options.choice("--epilogue", "factors, biases on top, of wl_gemm gelu_tanh on top (none)",
                 o.epilogue, {"none", "alpha", "bias", "gelu"});
  options.flag("--plain-scales", "in plain rows, of products on Hopper", o.plain);
  options.flag("--quantize", "the quantisation of an M x K matrix", o.quantize);
  options.choice("--norm", "of the rows that are quantised (none)", o.norm,
                 {"none", "rms", "layer"});
  options.flag("--residual", "with a norm: a residual, and its sums", o.residual);
  options.text("--json", "FILE", "the figures", o.json);
  parse(options, argc, argv);
  if (o.quantize && o.gemm) die("--gemm and --quantize are two operations: give one");
  if (o.quantize && (o.a_type != "nvfp4" || o.b_type != "nvfp4" || o.d_type != "f16"))
    die("--a-type, --b-type and --d-type are of products, not of --quantize");
  if (o.quantize && o.plain) die("--plain-scales is of products");
  if (o.quantize && o.epilogue != "none") die("--epilogue is of products, not of --quantize");
  if (!o.gemm && o.epilogue == "gelu") die("--epilogue gelu is of --gemm");
  if (!o.quantize && o.norm != "none") die("--norm is of --quantize");
  if (o.residual && o.norm == "none") die("--residual is of --norm rms and layer");
  return o;
}

template <class Problem>
constexpr size_t tensors = 1;
template <>
constexpr size_t tensors<Problem> = 2;

double bytes_of(wl_operand type, int64_t rows, int64_t k) {
  const double elements = static_cast<double>(rows) * static_cast<double>(k);
  return elements * warpline::gemm::format_of(type).bits / 8 +
         (warpline::gemm::has_scales(type) ? elements / 16 : 0);
}
size_t weight_bytes(const Shape& s) { return static_cast<size_t>(bytes_of(s.b_type, s.n, s.k)); }

class Bench {
public:
  explicit Bench(const Options& options) : options_(options) {
    require(wl_context_create(0, &context_));
    require(wl_stream_create(context_, &stream_));
    cu_ = &context_->driver->cu;
    if (!cu_->GraphLaunch || !cu_->StreamBeginCapture) die("the driver lacks graphs");
    require(cu_->CtxPushCurrent(context_->handle), "cuCtxPushCurrent");
    interval_ = std::make_unique<Interval>(*cu_, static_cast<cuapi::CUstream>(stream_));
  }

  struct Result {
    std::string config;
    double median = 0, best = 0;
    unsigned grid = 0;
  };

  // Microseconds of one call.
  template <class Problem>
  Result product(const Shape& s, const std::string& config, bool warm) {
    return time(weight_bytes(s) * tensors<Problem>, 64, s.m > 1024 ? 4 : 16, warm,
                [&] { return std::make_unique<Problem>(context_, s, config, &state_); });
  }
  Result quantize(int64_t m, int64_t k, const std::string& config, bool warm) {
    const size_t bytes = 2 * static_cast<size_t>(m) * static_cast<size_t>(k);
    const NormOptions norm = options_.norm_options();
    return time(bytes, 1024, 16, warm, [&] {
      return std::make_unique<Quantization>(context_, m, k, norm, config, &state_);
    });
  }

  // TB/s of a device-to-device copy, bytes read and written. On the virtual GPU, where no figure
  // means anything, it is short.
  double copy_rate() {
    const size_t bytes = size_t{1} << (context_->driver->is_virtual ? 20 : 30);
    Memory from(context_, bytes), to(context_, bytes);
    const auto stream = static_cast<cuapi::CUstream>(stream_);
    double best = 0;
    for (int i = 0; i < 6; ++i) {
      interval_->start();
      require(cu_->MemcpyDtoDAsync(reinterpret_cast<cuapi::CUdeviceptr>(to.get()),
                                   reinterpret_cast<cuapi::CUdeviceptr>(from.get()), bytes, stream),
              "cuMemcpyDtoDAsync");
      best = std::max(best, 2 * static_cast<double>(bytes) / interval_->stop() * 1e-6);
    }
    return best;
  }

  const warpline::DeviceLimits& limits() const { return context_->limits; }
  int driver_version() const { return context_->driver->version; }

private:
  // make() gives a set of operands with its plan to come. `bytes` of a set are read; at most `most`
  // sets, at least `least` calls a graph. On the virtual GPU, where no figure means anything, two
  // sets, each once, and no replay that does not count.
  template <class Make>
  Result time(size_t bytes, size_t most, size_t least, bool warm, const Make& make) {
    const size_t l2 = static_cast<size_t>(std::max(context_->limits.l2_bytes, 1));
    const bool rehearsal = context_->driver->is_virtual;
    const size_t cold = std::min(std::max<size_t>(3 * l2 / bytes + 2, 4), most);
    const size_t count = warm ? 1 : rehearsal ? 2 : cold;
    std::vector<decltype(make())> sets;
    for (size_t i = 0; i < count; ++i) {
      sets.push_back(make());
      sets.back()->make_plan();
    }
    const size_t calls = rehearsal ? count : std::max(count, least);
    const int64_t ahead = rehearsal ? 0 : 2;

    const auto enqueue = [&] {
      for (size_t i = 0; i < calls; ++i) sets[i % count]->run(stream_);
    };
    const auto stream = static_cast<cuapi::CUstream>(stream_);
    enqueue();
    require(wl_stream_synchronize(context_, stream_));
    cuapi::CUgraph graph = nullptr;
    cuapi::CUgraphExec executable = nullptr;
    require(cu_->StreamBeginCapture(stream, cuapi::CU_STREAM_CAPTURE_MODE_RELAXED), "capture");
    enqueue();
    require(cu_->StreamEndCapture(stream, &graph), "capture");
    require(cu_->GraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
    std::vector<double> times;
    for (int64_t replay = 0; replay < options_.replays + ahead; ++replay) {
      interval_->start();
      require(cu_->GraphLaunch(executable, stream), "cuGraphLaunch");
      const double microseconds = interval_->stop();
      if (replay >= ahead) times.push_back(microseconds / static_cast<double>(calls));
    }
    require(cu_->GraphExecDestroy(executable), "cuGraphExecDestroy");
    require(cu_->GraphDestroy(graph), "cuGraphDestroy");
    const Spread time = spread(times);
    const wl_plan_info& info = sets.front()->info();
    return {info.config, time.median, time.least, info.grid[0]};
  }

  Options options_;
  wl_context* context_ = nullptr;
  wl_stream stream_ = nullptr;
  const cuapi::Functions* cu_ = nullptr;
  std::unique_ptr<Interval> interval_;
  uint64_t state_ = 1;
};

} // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  Bench bench(options);
  std::printf("%s, driver %s: copy %.2f TB/s, the smallest call %.2f us\n",
              bench.limits().name.c_str(), warpline::version_text(bench.driver_version()).c_str(),
              bench.copy_rate(), bench.product<Problem>({1, 8, 64}, "", true).median);
  std::printf("%6s %6s %6s %10s %10s %9s %9s %6s  configuration, %s L2\n", "M", "N", "K", "us",
              "best us", "TFLOP/s", "TB/s", "grid", options.warm ? "warm" : "cold");
  std::string json = "[";
  for (const int64_t m : options.m)
    for (const std::string& config : options.configs) {
      const Shape s = options.shape(m);
      const int64_t n = options.quantize ? 0 : s.n;
      const auto r = options.quantize ? bench.quantize(m, s.k, config, options.warm)
                     : options.gemm   ? bench.product<Linear>(s, config, options.warm)
                                      : bench.product<Problem>(s, config, options.warm);
      const double products = options.quantize ? 0 : options.gemm ? 1 : 2;
      // Operands, and what is wide: X, the residual and its sums, or D.
      const double wide = static_cast<double>(m) * static_cast<double>(options.quantize ? s.k : n) *
                          (s.d_type == WL_F32 ? 4 : 2) * (options.residual ? 3 : 1);
      const double bytes =
          bytes_of(s.a_type, m, s.k) + products * bytes_of(s.b_type, s.n, s.k) + wide;
      const double flops =
          2 * products * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(s.k);
      std::printf("%6lld %6lld %6lld %10.2f %10.2f %9.1f %9.2f %6u  %s\n",
                  static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(s.k),
                  r.median, r.best, flops / r.median * 1e-6, bytes / r.median * 1e-6, r.grid,
                  r.config.c_str());
      std::fflush(stdout);
      char entry[320];
      std::snprintf(entry, sizeof entry,
                    "%s\n{\"m\": %lld, \"n\": %lld, \"k\": %lld, \"us\": %.3f, \"best_us\": %.3f, "
                    "\"config\": \"%s\"}",
                    json.size() > 1 ? "," : "", static_cast<long long>(m),
                    static_cast<long long>(n), static_cast<long long>(s.k), r.median, r.best,
                    r.config.c_str());
      json += entry;
    }
  if (!options.json.empty()) write_file(options.json, json + "\n]\n");
  return 0;
}
