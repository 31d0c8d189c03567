// wl_norm_linear on the virtual GPUs: weights that are folded, bit for bit; the folded form beside
// the plain one in double precision, for means of many sizes; what folding refuses.
#include "tests/reference/linear.hpp"
#include "tests/reference/quantize.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/device_buffer.hpp"
#include "tests/support/virtual_gpu.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace wltest;

namespace {

struct Numbers {
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};
Numbers numbers(int64_t count, wl_dtype type, uint64_t seed) {
  const Random random(seed, 90);
  Numbers out;
  for (int64_t i = 0; i < count; ++i) {
    float value = static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i)) - 0.5);
    uint8_t bytes[4];
    size_t size = 4;
    if (type != WL_F32) {
      const uint16_t code = type == WL_F16 ? encode_f16(double{value}) : encode_bf16(double{value});
      value = static_cast<float>(type == WL_F16 ? decode_f16(code) : decode_bf16(code));
      std::memcpy(bytes, &code, size = 2);
    } else {
      std::memcpy(bytes, &value, 4);
    }
    out.bytes.insert(out.bytes.end(), bytes, bytes + size);
    out.values.push_back(value);
  }
  return out;
}

void fold_on(wl_context* context, int64_t n, int64_t k, wl_norm norm, OutputType type,
             wl_dtype gamma_type, wl_dtype bias_type, bool in_place, uint64_t seed) {
  INFO("n " << n << " k " << k << " norm " << norm << " " << name_of(type) << " gamma "
            << gamma_type << " bias " << bias_type << " in place " << in_place << " seed " << seed);
  const Matrix w = random_matrix(n, k, 1, type, seed);
  const bool layer = norm == WL_NORM_LAYER;
  const Numbers gamma = numbers(k, gamma_type, seed + 1), beta = numbers(k, gamma_type, seed + 2),
                bias = numbers(n, bias_type, seed + 3);
  Norm of_rows;
  of_rows.kind = layer ? Norm::Kind::layer : Norm::Kind::rms;
  of_rows.gamma = gamma.values;
  if (layer) of_rows.beta = beta.values;
  const Folded expected = fold(w, of_rows, bias.values);
  const DeviceBuffer weights(context, w.codes), gammas(context, gamma.bytes),
      betas(context, beta.bytes), biases(context, bias.bytes),
      folded(context, std::vector<uint16_t>(w.codes.size(), 0xFFFF)),
      folded_bias(context, std::vector<float>(static_cast<size_t>(n) + 4, -7.0f));
  wl_norm_linear_args args{};
  args.struct_size = sizeof args;
  args.n = n, args.k = k, args.norm = norm;
  args.x_type = type == OutputType::f16 ? WL_F16 : WL_BF16;
  args.w_type = type == OutputType::f16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  args.w = weights.pointer, args.gamma = gammas.pointer, args.gamma_type = gamma_type;
  args.beta = layer ? betas.pointer : nullptr;
  args.bias = biases.pointer, args.bias_type = bias_type;
  void* const to = in_place ? weights.pointer : folded.pointer;
  const wl_status status =
      wl_norm_linear_fold(context, &args, to, static_cast<float*>(folded_bias.pointer), nullptr);
  INFO(wl_last_error() << virtual_report());
  REQUIRE(status == WL_SUCCESS);
  REQUIRE(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
  std::vector<uint16_t> found(w.codes.size());
  std::vector<float> found_bias(static_cast<size_t>(n) + 4);
  wl_download(context, found.data(), to, 2 * found.size());
  wl_download(context, found_bias.data(), folded_bias.pointer, 4 * found_bias.size());
  CHECK(found == expected.w.codes);
  for (size_t i = 0; i < found_bias.size(); ++i) {
    INFO("bias " << i);
    CHECK(found_bias[i] == (i < static_cast<size_t>(n) ? expected.bias[i] : -7.0f));
  }
}

// Root of the mean square of what D differs from the definition by, over that of D, for rows of
// `mean` and deviations of about 1.
double error_of(wl_context* context, OutputType type, wl_norm_form form, double mean) {
  const int64_t m = 32, n = 64, k = 512;
  const Random random(5, 91);
  Matrix x = random_matrix(m, k, 1, type, 7), w = random_matrix(n, k, 1, type, 8);
  for (uint16_t& code : x.codes)
    code = encode_output(type, std::sqrt(3.0) * decode_output(type, code) + mean);
  Numbers gamma = numbers(k, WL_F32, 9), beta = numbers(k, WL_F32, 10);
  std::vector<double> expected;
  for (int64_t i = 0; i < m; ++i) {
    std::vector<double> row(static_cast<size_t>(k));
    double sum = 0, squares = 0;
    for (size_t j = 0; j < row.size(); ++j)
      sum += row[j] = decode_output(type, x.codes[static_cast<size_t>(i * k) + j]);
    for (const double value : row) squares += (value - sum / k) * (value - sum / k);
    const double rstd = 1 / std::sqrt(squares / k + 1e-5);
    for (size_t j = 0; j < row.size(); ++j)
      row[j] = (row[j] - sum / k) * rstd * double{gamma.values[j]} + double{beta.values[j]};
    for (int64_t column = 0; column < n; ++column) {
      double acc = 0;
      for (size_t j = 0; j < row.size(); ++j)
        acc += row[j] * decode_output(type, w.codes[static_cast<size_t>(column * k) + j]);
      expected.push_back(acc);
    }
  }
  const DeviceBuffer input(context, x.codes), weights(context, w.codes),
      gammas(context, gamma.bytes), betas(context, beta.bytes),
      folded_bias(context, std::vector<float>(static_cast<size_t>(n))),
      d(context, std::vector<float>(static_cast<size_t>(m * n)));
  wl_norm_linear_args args{};
  args.struct_size = sizeof args;
  args.m = m, args.n = n, args.k = k;
  args.x = input.pointer, args.x_type = type == OutputType::f16 ? WL_F16 : WL_BF16;
  args.w = weights.pointer;
  args.w_type = type == OutputType::f16 ? WL_OPERAND_F16 : WL_OPERAND_BF16;
  args.norm = WL_NORM_LAYER, args.eps = 1e-5f;
  args.gamma = gammas.pointer, args.beta = betas.pointer, args.gamma_type = WL_F32;
  args.d = d.pointer, args.d_type = WL_F32;
  if (form == WL_NORM_FOLDED) {
    REQUIRE(wl_norm_linear_fold(context, &args, weights.pointer,
                                static_cast<float*>(folded_bias.pointer), nullptr) == WL_SUCCESS);
    args.form = form;
    args.gamma = args.beta = nullptr;
    args.bias = folded_bias.pointer, args.bias_type = WL_F32;
  }
  wl_plan* plan = nullptr;
  const wl_status status = wl_norm_linear_plan(context, &args, &plan);
  INFO(wl_last_error());
  REQUIRE(status == WL_SUCCESS);
  wl_plan_info info{};
  info.struct_size = sizeof info;
  wl_plan_get_info(plan, &info);
  CHECK(info.launches == 2);
  const DeviceBuffer workspace(context, info.workspace_bytes);
  CHECK(wl_plan_run(plan, workspace.pointer, info.workspace_bytes, nullptr) == WL_SUCCESS);
  CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
  wl_plan_destroy(plan);
  std::vector<float> found(expected.size());
  wl_download(context, found.data(), d.pointer, 4 * found.size());
  double error = 0, all = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += (double{found[i]} - expected[i]) * (double{found[i]} - expected[i]);
    all += expected[i] * expected[i];
  }
  return std::sqrt(error / all);
}

} // namespace

TEST_CASE("weights are folded bit for bit", "[virtual][norm_linear]") {
  wl_context* context = context_of_process();
  REQUIRE(set_checks("all,advice"));
  uint64_t seed = 700;
  for (const wl_norm norm : {WL_NORM_RMS, WL_NORM_LAYER})
    for (const OutputType type : {OutputType::f16, OutputType::bf16})
      for (const wl_dtype bias_type : {WL_F32, WL_F16, WL_BF16}) {
        const wl_dtype same = type == OutputType::f16 ? WL_F16 : WL_BF16;
        const int64_t n = 8 * (1 + static_cast<int64_t>(seed % 5)), k = 64 * (1 + (seed % 7));
        REQUIRE(set_schedule(seed % 2 == 0 ? "lazy" : "random:3"));
        fold_on(context, n, k, norm, type, seed % 3 == 0 ? same : WL_F32, bias_type, seed % 4 == 0,
                seed);
        ++seed;
      }
  REQUIRE(set_checks("off"));
}

// The rule of the public header: plain errors do not depend on the mean, those of the folded form
// grow with it.
TEST_CASE("the folded form's error beside the plain one's", "[virtual][norm_linear]") {
  wl_context* context = context_of_process();
  REQUIRE(set_schedule("lazy"));
  for (const OutputType type : {OutputType::f16, OutputType::bf16}) {
    const double plain = error_of(context, type, WL_NORM_PLAIN, 0);
    for (const double mean : {0.0, 1.0, 8.0, 64.0}) {
      const double straight = error_of(context, type, WL_NORM_PLAIN, mean),
                   folded = error_of(context, type, WL_NORM_FOLDED, mean);
      INFO(name_of(type) << ", mean " << mean << ": plain " << straight << ", folded " << folded);
      CHECK(straight < 1.5 * plain);
      CHECK(folded < 2 * plain * (1 + mean));
      if (mean == 64) CHECK(folded > 4 * plain);
    }
  }
}

TEST_CASE("what folding refuses", "[virtual][norm_linear]") {
  wl_context* context = context_of_process();
  const DeviceBuffer memory(context, size_t{1} << 20);
  wl_norm_linear_args right{};
  right.struct_size = sizeof right;
  right.n = 64, right.k = 128, right.norm = WL_NORM_LAYER;
  right.x_type = WL_F16, right.w_type = WL_OPERAND_F16;
  right.w = memory.pointer, right.gamma = memory.at(65536), right.gamma_type = WL_F32;
  void* const w = memory.at(131072);
  auto* const bias = reinterpret_cast<float*>(memory.at(262144));
  const auto refuses = [&](const char* text, const wl_norm_linear_args& args, void* folded,
                           float* folded_bias) {
    INFO(text);
    CHECK(wl_norm_linear_fold(context, &args, folded, folded_bias, nullptr) != WL_SUCCESS);
    CHECK_THAT(std::string(wl_last_error()), ContainsSubstring(text));
  };
  right.config = reinterpret_cast<const char*>(uintptr_t{16}); // not looked at
  CHECK(wl_norm_linear_fold(context, &right, w, bias, nullptr) == WL_SUCCESS);
  refuses("w_folded: address is null, must not be", right, nullptr, bias);
  refuses("bias_folded: address is null, must not be", right, w, nullptr);
  refuses("must be 16-byte aligned", right, memory.at(131080), bias);
  refuses("must overlap nothing that is read", right, memory.at(16), bias);
  refuses("must overlap nothing that is read", right, memory.at(65536), bias);
  refuses("must not overlap bias_folded", right, w, reinterpret_cast<float*>(w));
  wl_norm_linear_args wrong = right;
  wrong.w_type = WL_OPERAND_NVFP4;
  refuses("must have no block scales in the folded form", wrong, w, bias);
  wrong = right, wrong.k = 100;
  refuses("K = 100 must be a multiple of 64", wrong, w, bias);
  wrong = right, wrong.gamma_type = WL_BF16;
  refuses("gamma_type = 1 must be x_type or WL_F32", wrong, w, bias);
  wrong = right, wrong.struct_size = 8;
  refuses("struct_size", wrong, w, bias);
  CHECK(wl_stream_synchronize(context, nullptr) == WL_SUCCESS);
}
