#include "tools/bench/problem.hpp"

#include "kernels/gemm/operand.hpp"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench {

namespace {

uint64_t next_random(uint64_t* state) { // SplitMix64
  uint64_t z = *state += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Random E2M1 codes, or scales of 0.25 to 2, which are finite 16-bit numbers, too.
std::unique_ptr<Memory> random_bytes(wl_context* context, size_t bytes, bool scales,
                                     uint64_t* state) {
  std::vector<uint8_t> host((bytes + 7) / 8 * 8);
  for (size_t i = 0; i < host.size(); i += 8) {
    uint64_t word = next_random(state);
    if (scales) word = (word & 0x0F0F0F0F0F0F0F0Full) + 0x2828282828282828ull;
    std::memcpy(&host[i], &word, 8);
  }
  auto memory = std::make_unique<Memory>(context, bytes);
  require(wl_upload(context, memory->get(), host.data(), bytes));
  return memory;
}

std::vector<std::string> split(std::string_view text) { // at commas
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at; (at = text.find(',', from)) != std::string_view::npos; from = at + 1)
    parts.emplace_back(text.substr(from, at - from));
  parts.emplace_back(text.substr(from));
  return parts;
}

} // namespace

void die(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, text.c_str());
  std::exit(1);
}
void require(wl_status status) {
  if (status != WL_SUCCESS) die(wl_last_error());
}
void require(cuapi::CUresult result, const char* what) {
  if (result != cuapi::CUDA_SUCCESS) die(std::string(what) + ": error " + std::to_string(result));
}

void count(warpline::cli::Options& options, std::string name, std::string help, int64_t& target) {
  options.integer(std::move(name), std::move(help), target, 1, INT32_MAX);
}

void counts(warpline::cli::Options& options, std::string name, std::string help,
            std::vector<int64_t>& target) {
  options.custom({std::move(name), "N,N,...", std::move(help),
                  [&target](std::string_view text) -> std::string {
                    target.clear();
                    for (const std::string& part : split(text)) {
                      int64_t number = 0;
                      const auto [end, error] =
                          std::from_chars(part.data(), part.data() + part.size(), number);
                      if (error != std::errc{} || end != part.data() + part.size() || number < 1)
                        return "positive whole numbers with commas between";
                      target.push_back(number);
                    }
                    return "";
                  }});
}

void names(warpline::cli::Options& options, std::string name, std::string help,
           std::vector<std::string>& target) {
  options.custom(
      {std::move(name), "NAME,NAME,...", std::move(help), [&target](std::string_view text) {
         target = split(text);
         return std::string();
       }});
}

void write_file(const std::string& path, const std::string& text) {
  FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file != nullptr && std::fputs(text.c_str(), file) >= 0;
  if (file == nullptr || std::fclose(file) != 0 || !written)
    die("cannot write " + path + ": " + std::strerror(errno));
}

Memory::Memory(wl_context* context, size_t bytes) : context_(context) {
  require(wl_malloc(context, bytes, &pointer_));
}
Memory::~Memory() { wl_free(context_, pointer_); }

namespace {

constexpr auto plan_of(const wl_dual_gemm_args&) { return wl_dual_gemm_plan; }
constexpr auto plan_of(const wl_gemm_args&) { return wl_gemm_plan; }
constexpr auto run_of(const wl_dual_gemm_args&) { return wl_dual_gemm_run; }
constexpr auto run_of(const wl_gemm_args&) { return wl_gemm_run; }

// Factors and biases of every product, and wl_gemm's activation.
std::vector<const float**> factors_of(wl_dual_gemm_args& args) {
  return {&args.alpha1, &args.alpha2};
}
std::vector<const float**> factors_of(wl_gemm_args& args) { return {&args.alpha}; }
std::vector<const void**> biases_of(wl_dual_gemm_args& args) { return {&args.bias1, &args.bias2}; }
std::vector<const void**> biases_of(wl_gemm_args& args) { return {&args.bias}; }
void activate(wl_dual_gemm_args&) {}
void activate(wl_gemm_args& args) { args.activation = WL_ACTIVATION_GELU_TANH; }

struct Weights {
  const void **values, **scales;
};
std::vector<Weights> weights_of(wl_dual_gemm_args& args) {
  return {{&args.b1, &args.sfb1}, {&args.b2, &args.sfb2}};
}
std::vector<Weights> weights_of(wl_gemm_args& args) { return {{&args.b, &args.sfb}}; }

} // namespace

template <class Args>
Product<Args>::Product(wl_context* context, const Shape& shape, const std::string& config,
                       uint64_t* state)
    : context_(context), config_(config) {
  const auto fill = [&](wl_operand type, int64_t rows, const void** values, const void** scales) {
    const auto bits = static_cast<size_t>(warpline::gemm::format_of(type).bits);
    const size_t elements = static_cast<size_t>(rows) * static_cast<size_t>(shape.k);
    memory_.push_back(random_bytes(context, elements * bits / 8, bits > 4, state));
    *values = memory_.back()->get();
    if (!warpline::gemm::has_scales(type)) return;
    memory_.push_back(
        random_bytes(context, wl_sf_bytes(shape.sf_layout, rows, shape.k), true, state));
    *scales = memory_.back()->get();
  };
  fill(shape.a_type, shape.m, &args_.a, &args_.sfa);
  for (const Weights& weights : weights_of(args_))
    fill(shape.b_type, shape.n, weights.values, weights.scales);
  memory_.push_back(std::make_unique<Memory>(context, static_cast<size_t>(shape.m * shape.n) *
                                                          (shape.d_type == WL_F32 ? 4 : 2)));
  args_.struct_size = sizeof args_;
  args_.m = shape.m;
  args_.n = shape.n;
  args_.k = shape.k;
  args_.l = 1;
  args_.sf_layout = shape.sf_layout;
  args_.d = memory_.back()->get();
  args_.d_type = shape.d_type;
  args_.a_type = shape.a_type;
  args_.b_type = shape.b_type;
  args_.config = config_.empty() ? nullptr : config_.c_str();
  if (shape.epilogue == Epilogue::none) return;
  for (const float** factor : factors_of(args_)) {
    memory_.push_back(random_bytes(context, sizeof(float), true, state));
    *factor = static_cast<const float*>(memory_.back()->get());
  }
  if (shape.epilogue == Epilogue::alpha) return;
  for (const void** bias : biases_of(args_)) {
    memory_.push_back(
        random_bytes(context, static_cast<size_t>(shape.n) * sizeof(float), true, state));
    *bias = memory_.back()->get();
  }
  args_.bias_type = WL_F32;
  if (shape.epilogue == Epilogue::gelu) activate(args_);
}

template <class Args>
Product<Args>::~Product() {
  wl_plan_destroy(plan_);
}

template <class Args>
void Product<Args>::make_plan(uint32_t flags) {
  wl_plan_destroy(plan_);
  plan_ = nullptr;
  args_.flags = flags;
  require(plan_of(args_)(context_, &args_, &plan_));
  info_.struct_size = sizeof info_;
  require(wl_plan_get_info(plan_, &info_));
  workspace_ = std::make_unique<Memory>(context_, info_.workspace_bytes + 256);
}

template <class Args>
void Product<Args>::run(wl_stream stream) const {
  require(wl_plan_run(plan_, workspace_->get(), info_.workspace_bytes, stream));
}

template <class Args>
void Product<Args>::plan_once() const {
  wl_plan* plan = nullptr;
  require(plan_of(args_)(context_, &args_, &plan));
  wl_plan_destroy(plan);
}

template <class Args>
void Product<Args>::run_with(const Product& other, wl_stream stream) const {
  require(run_of(args_)(plan_, &other.args_, workspace_->get(), info_.workspace_bytes, stream));
}

template class Product<wl_dual_gemm_args>;
template class Product<wl_gemm_args>;

Quantization::Quantization(wl_context* context, int64_t m, int64_t k, const NormOptions& norm,
                           const std::string& config, uint64_t* state)
    : context_(context), config_(config) {
  const size_t elements = static_cast<size_t>(m) * static_cast<size_t>(k);
  // Without NaN where there is a norm: one makes a row of them.
  const bool finite = norm.norm != WL_NORM_NONE;
  x_ = random_bytes(context, 2 * elements, finite, state);
  d_ = std::make_unique<Memory>(context, elements / 2);
  sfd_ = std::make_unique<Memory>(context, wl_sf_bytes(WL_SF_128x4, m, k));
  args_.struct_size = sizeof args_;
  args_.m = m;
  args_.k = k;
  args_.l = 1;
  args_.x = x_->get();
  args_.x_type = WL_BF16;
  args_.d = d_->get();
  args_.sfd = sfd_->get();
  args_.sf_layout = WL_SF_128x4;
  args_.config = config_.empty() ? nullptr : config_.c_str();
  args_.norm = norm.norm;
  if (norm.norm == WL_NORM_NONE) return;
  args_.eps = 1e-5f;
  gamma_ = random_bytes(context, 2 * static_cast<size_t>(k), true, state);
  args_.gamma = gamma_->get();
  args_.gamma_type = WL_BF16;
  if (norm.norm == WL_NORM_LAYER) args_.beta = gamma_->get();
  if (!norm.residual) return;
  residual_ = random_bytes(context, 2 * elements, true, state);
  args_.residual = args_.sum = residual_->get();
}

Quantization::~Quantization() { wl_plan_destroy(plan_); }

void Quantization::make_plan() {
  require(wl_quantize_plan(context_, &args_, &plan_));
  info_.struct_size = sizeof info_;
  require(wl_plan_get_info(plan_, &info_));
}

void Quantization::run(wl_stream stream) const { require(wl_plan_run(plan_, nullptr, 0, stream)); }

} // namespace bench
