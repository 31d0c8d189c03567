// The operands of `warpline gemm`: files, random ones, and how tensors lie at strides.
#include "tests/reference/elements.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tensor_files.hpp"
#include "tools/cli/gemm_files.hpp"
#include "tools/cli/image.hpp"

#include <cmath>
#include <cstring>

using namespace warpline::cli;
using wltest::TemporaryDirectory;
using wltest::TensorText;

TEST_CASE("GEMM files: written and read back", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  for (const int64_t batch : {1, 3})
    for (const Beside& beside : {Beside{}, Beside{"f32", false, ""}, Beside{"f16", true, "bf16"},
                                 Beside{"bf16", true, "f32"}, Beside{"", false, "f16"},
                                 Beside{"f32", true, "f16", true}, Beside{"", false, "", true}}) {
      GemmProblem p = make_gemm_problem(5, 16, 128, batch, beside, 3);
      p.product.alpha1 = 0.75f;
      write_gemm_problem(path, p);
      const GemmFile back = read_gemm_problem(path);
      INFO(batch << " " << beside.bias << " " << beside.residual);
      CHECK(back.batched == (batch > 1));
      CHECK(back.unused.empty());
      const wltest::Problem& q = back.problem.product;
      CHECK((q.m == 5 && q.n == 16 && q.k == 128 && q.l == batch));
      CHECK(q.alpha1 == 0.75f);
      CHECK(q.a.values == p.product.a.values);
      CHECK(q.a.scales == p.product.a.scales);
      CHECK(q.b1.values == p.product.b1.values);
      CHECK(q.b1.scales == p.product.b1.scales);
      CHECK(q.b2.values.empty());
      const auto same = [](const Numbers& x, const Numbers& y) {
        return x.bytes == y.bytes && (!x.given() || x.type == y.type);
      };
      CHECK(same(back.problem.bias, p.bias));
      CHECK(same(back.problem.row, p.row));
      CHECK(same(back.problem.residual, p.residual));
      CHECK(same(back.problem.col, p.col));
      CHECK(p.col.given() == beside.col);
      CHECK(p.bias.given() == !beside.bias.empty());
      CHECK(p.row.given() == beside.row);
      CHECK(p.residual.given() == !beside.residual.empty());
    }
}

TEST_CASE("GEMM files: operands of types without scales", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  const std::pair<wl_operand, const char*> types[] = {
      {WL_OPERAND_F16, "F16"},      {WL_OPERAND_BF16, "BF16"},    {WL_OPERAND_TF32, "F32"},
      {WL_OPERAND_E4M3, "F8_E4M3"}, {WL_OPERAND_E5M2, "F8_E5M2"}, {WL_OPERAND_INT8, "I8"},
      {WL_OPERAND_NVFP4, "U8"}};
  for (const auto& [a, a_dtype] : types)
    for (const auto& [b, b_dtype] : types)
      for (const int64_t batch : {1, 3}) {
        INFO(a_dtype << " " << b_dtype << " " << batch);
        const bool blocks = a == WL_OPERAND_NVFP4 || b == WL_OPERAND_NVFP4;
        const int64_t k = blocks ? 64 : 48;
        const GemmProblem p = make_gemm_problem(5, 16, k, batch, {"", false, "f16"}, 3, {a, b});
        write_gemm_problem(path, p);
        const SafetensorsFile raw(path);
        CHECK(raw.find("a")->dtype == a_dtype);
        CHECK(raw.find("b")->dtype == b_dtype);
        CHECK((raw.find("a_scale") != nullptr) == (a == WL_OPERAND_NVFP4));
        const GemmFile back = read_gemm_problem(path);
        CHECK(back.unused.empty());
        const wltest::Problem& q = back.problem.product;
        CHECK((q.m == 5 && q.n == 16 && q.k == k && q.l == batch));
        CHECK((q.a.type == a && q.b1.type == b));
        CHECK(q.a.values == p.product.a.values);
        CHECK(q.a.scales == p.product.a.scales);
        CHECK(q.b1.values == p.product.b1.values);
        CHECK(q.b1.scales == p.product.b1.scales);
      }
}

TEST_CASE("random products are about the same in all types", "[host]") {
  for (const int64_t k : {128, 384}) {
    const wltest::Sums nvfp4 = wltest::accumulate(random_product(9, 16, k, 2, {}, 7, 2));
    for (int type = WL_OPERAND_F16; type <= WL_OPERAND_MXFP4; ++type) {
      const auto operand = static_cast<wl_operand>(type);
      const wltest::Problem p = random_product(9, 16, k, 2, {operand, operand}, 7, 2);
      CHECK((p.a.type == operand && p.b1.type == operand && p.b2.type == operand));
      CHECK(p.a.values.size() == 18 * p.a.row_bytes());
      const wltest::Sums sums = wltest::accumulate(p);
      double apart = 0, all = 0;
      for (size_t i = 0; i < sums.acc1.size(); ++i) {
        apart += std::pow(sums.acc1[i] * double{p.alpha1} - nvfp4.acc1[i], 2) +
                 std::pow(sums.acc2[i] * double{p.alpha2} - nvfp4.acc2[i], 2);
        all += std::pow(nvfp4.acc1[i], 2) + std::pow(nvfp4.acc2[i], 2);
      }
      INFO("type " << type << " k " << k << ": " << std::sqrt(apart / all));
      CHECK(apart > 0);
      CHECK(std::sqrt(apart / all) < 0.25);
      // Elements that a 6-bit product of code and scale does not hold.
      if (wltest::element_bits(operand) >= 16) {
        size_t longer = 0;
        for (int64_t i = 0; i < p.a.k; ++i) {
          const uint32_t code = wltest::element_at(operand, p.a.values.data(), i);
          const int mantissa = operand == WL_OPERAND_F16 ? 10 : operand == WL_OPERAND_BF16 ? 7 : 23;
          longer += (code & ((1u << (mantissa - 5)) - 1)) != 0;
        }
        CHECK(longer > static_cast<size_t>(p.a.k) / 3);
      }
    }
  }
  // A K that is no multiple of 16 is the first part of a longer one.
  const wltest::Problem cut = random_product(3, 8, 20, 1, {WL_OPERAND_TF32, WL_OPERAND_TF32}, 7, 1);
  CHECK((cut.k == 20 && cut.a.k == 20 && cut.b1.k == 20 && cut.b2.values.empty()));
  CHECK(cut.a.values.size() == 3 * 20 * 4);
}

TEST_CASE("GEMM files: the factors of the tensors go into alpha", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  const wltest::Problem p =
      wltest::make_problem(2, 8, 64, 1, wltest::InputKind::public_problem, 1, 1);
  const float factors[] = {0.5f, 0.25f, 3};
  std::vector<OutputTensor> tensors = {{"alpha", "F32", {}, &factors[0], 4},
                                       {"a_tensor_scale", "F32", {1}, &factors[1], 4},
                                       {"b_tensor_scale", "F32", {1, 1}, &factors[2], 4},
                                       {"b1", "F32", {1}, &factors[2], 4}};
  add_operand(&tensors, "a", false, p.a);
  add_operand(&tensors, "b", false, p.b1);
  write_safetensors(path, tensors, {});
  const GemmFile file = read_gemm_problem(path);
  CHECK(file.problem.product.alpha1 == 0.375f);
  CHECK(file.unused == std::vector<std::string>{"b1"});
}

TEST_CASE("GEMM files: wrong types, shapes and names", "[host]") {
  const std::vector<TensorText> right = {{"a", "U8", "[2,32]"},
                                         {"b", "U8", "[8,32]"},
                                         {"a_scale", "F8_E4M3", "[2,4]"},
                                         {"b_scale", "F8_E4M3", "[8,4]"}};
  const auto read = [](const std::string& path) { read_gemm_problem(path); };
  const auto with = [&](const TensorText& more) {
    std::vector<TensorText> tensors = right;
    tensors.push_back(more);
    return wltest::refusal_of(tensors, read);
  };
  const auto without = [&](size_t i, const TensorText& instead) {
    std::vector<TensorText> tensors = right;
    tensors[i] = instead;
    return wltest::refusal_of(tensors, read);
  };
  CHECK(wltest::refusal_of(right, read) == "accepted");
  CHECK(without(1, {"b1", "U8", "[8,32]"}) == "has no tensor \"b\" (it has \"b1\")");
  CHECK(without(1, {"b", "U8", "[1,8,32]"}) ==
        "tensor \"b_scale\" has shape [8, 4], must be [1, 8, 4]: one scale for 16 values of \"b\", "
        "K = 64");
  CHECK(wltest::refusal_of(
            {right[0], right[2], {"b", "U8", "[1,8,32]"}, {"b_scale", "F8_E4M3", "[1,8,4]"}},
            read) == "tensors \"a\" and \"b\" differ in their batch dimension");
  CHECK(
      without(1, {"b", "I8", "[8,64]"}) ==
      "tensor \"b\" is I8, which has no block scales, but there is a tensor \"b_scale\" (a factor "
      "of the whole is \"b_tensor_scale\")");
  CHECK(without(0, {"a", "BOOL", "[2,64]"}) ==
        "tensor \"a\" is BOOL, must be U8, F4, F16, BF16, F32, F8_E4M3, F8_E5M2 or I8");
  CHECK(wltest::refusal_of({{"a", "F16", "[64]"}, {"b", "F16", "[8,64]"}}, read) ==
        "tensor \"a\" has shape [64], must be [rows, K] or [batch, rows, K]");
  CHECK(wltest::refusal_of({{"a", "F16", "[2,64]"}, {"b", "BF16", "[8,72]"}}, read) ==
        "tensor \"b\" has K = 72, \"a\" has K = 64: they must be equal");
  CHECK(wltest::refusal_of({{"a", "F16", "[2,0]"}, {"b", "F16", "[8,0]"}}, read) ==
        "tensor \"a\" has shape [2, 0], each extent must be from 1 to 2^40");
  CHECK(without(3, {"b_scale", "F32", "[8,4]"}) == "tensor \"b_scale\" is F32, must be F8_E4M3");
  for (const char* dtype : {"F32", "F16", "BF16"}) {
    CHECK(with({"bias", dtype, "[8]"}) == "accepted");
    CHECK(with({"residual", dtype, "[2,8]"}) == "accepted");
  }
  CHECK(with({"row", "F32", "[2]"}) == "accepted");
  CHECK(with({"bias", "U8", "[8]"}) == "tensor \"bias\" is U8, must be F32, F16 or BF16");
  CHECK(with({"bias", "F32", "[7]"}) ==
        "tensor \"bias\" has shape [7], must be [8]: one number for each row of \"b\"");
  CHECK(with({"bias", "F32", "[1,8]"}) ==
        "tensor \"bias\" has shape [1, 8], must be [8]: one number for each row of \"b\"");
  CHECK(with({"bias", "F32", "[0]"}) ==
        "tensor \"bias\" has shape [0], must be [8]: one number for each row of \"b\"");
  CHECK(with({"row", "F16", "[2]"}) == "tensor \"row\" is F16, must be F32");
  CHECK(with({"row", "F32", "[8]"}) ==
        "tensor \"row\" has shape [8], must be [2]: one factor for each row of \"a\"");
  CHECK(with({"residual", "F8_E4M3", "[2,8]"}) ==
        "tensor \"residual\" is F8_E4M3, must be F16, BF16 or F32");
  CHECK(with({"residual", "F16", "[8,2]"}) ==
        "tensor \"residual\" has shape [8, 2], must be [2, 8]: rows of \"a\" and rows of \"b\"");
  CHECK(with({"residual", "F16", "[1,2,8]"}) == "tensor \"residual\" has shape [1, 2, 8], must be "
                                                "[2, 8]: rows of \"a\" and rows of \"b\"");
  CHECK(with({"alpha", "F32", "[2]"}) == "tensor \"alpha\" has shape [2], must have one element");
  // With a batch, factors of rows and the residual have its dimension, the bias serves all.
  std::vector<TensorText> batch = {
      {"a", "U8", "[3,2,32]"},           {"b", "U8", "[3,8,32]"}, {"a_scale", "F8_E4M3", "[3,2,4]"},
      {"b_scale", "F8_E4M3", "[3,8,4]"}, {"row", "F32", "[3,2]"}, {"bias", "F32", "[8]"},
      {"residual", "BF16", "[3,2,8]"}};
  CHECK(wltest::refusal_of(batch, read) == "accepted");
  batch[4].shape = "[2]";
  CHECK(wltest::refusal_of(batch, read) ==
        "tensor \"row\" has shape [2], must be [3, 2]: one factor for each row of \"a\"");
}

TEST_CASE("GEMM files: random damage never crashes", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  write_gemm_problem(path, make_gemm_problem(2, 8, 64, 1, {"bf16", true, "f16"}, 1));
  INFO("seed 6");
  CHECK(wltest::refused_damage(wltest::read_text(path), 6,
                               [](const std::string& at) { read_gemm_problem(at); }) > 1000);
}

// Values of one seed are the same whatever their type.
TEST_CASE("GEMM operands: random numbers are of no type's rounding", "[host]") {
  const auto bias = [](const char* type) {
    return values_of(make_gemm_problem(2, 200, 64, 1, {type, false, type}, 7).bias);
  };
  const auto residual = [](const char* type, uint64_t seed) {
    return values_of(make_gemm_problem(20, 16, 64, 2, {"f32", false, type}, seed).residual);
  };
  CHECK(bias("f16") == bias("f32"));
  CHECK(bias("bf16") == bias("f32"));
  CHECK(residual("f16", 7) == residual("f32", 7));
  CHECK(residual("bf16", 7) == residual("f32", 7));
  CHECK(residual("f32", 8) != residual("f32", 7));
  CHECK(residual("f32", 7).size() == 640);
  const std::vector<float> values = bias("f32");
  CHECK(*std::min_element(values.begin(), values.end()) < -4);
  CHECK(*std::max_element(values.begin(), values.end()) > 4);
  const GemmProblem p = make_gemm_problem(20, 16, 64, 2, {"", true, ""}, 7);
  const std::vector<float> row = values_of(p.row);
  CHECK(row.size() == 40);
  CHECK(*std::min_element(row.begin(), row.end()) >= 0.5f);
  CHECK(*std::max_element(row.begin(), row.end()) > 1);
}

TEST_CASE("tensors at strides: placed, gathered, and what strays", "[host]") {
  std::vector<uint8_t> dense(2 * 2 * 3 * 8); // 2 entries, 3 rows, 8 columns of 2 bytes
  for (size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<uint8_t>(i);
  struct Case {
    int64_t ld, batch_stride;
    size_t elements;
  };
  // Dense; gaps behind rows; entries apart; entries that start in the last row's gap.
  for (const Case& c : {Case{0, 0, 48}, {16, 0, 88}, {16, 64, 104}, {24, 56, 112}}) {
    INFO(c.ld << " " << c.batch_stride);
    const Image image{{3, 8, 2, c.ld, c.batch_stride, true}, 2};
    std::vector<uint8_t> bytes = image.placed(dense);
    REQUIRE(bytes.size() == 2 * c.elements);
    CHECK(std::count(bytes.begin(), bytes.end(), 0xFF) ==
          static_cast<std::ptrdiff_t>(bytes.size() - dense.size()));
    int64_t strayed = -1;
    CHECK(image.gathered(bytes, &strayed) == dense);
    CHECK(strayed == 0);
    if (c.ld == 0) continue;
    bytes[16] = 0;                // behind row 0
    bytes[2 * 2 * 16 - 1] = 0x7F; // behind row 1, or its last byte
    const bool in_row = c.ld == 24;
    CHECK((image.gathered(bytes, &strayed) == dense) == !in_row);
    CHECK(strayed == (in_row ? 1 : 2));
  }
  const Image empty{{3, 8, 2, 0, 0, true}, 4};
  CHECK(empty.placed({}) == std::vector<uint8_t>(192, 0xFF));
}
