// The operands of `warpline gemm`: files, random ones, and how tensors lie at strides.
#include "tests/support/catch.hpp"
#include "tests/support/tensor_files.hpp"
#include "tools/cli/gemm_files.hpp"
#include "tools/cli/image.hpp"

#include <cstring>

using namespace warpline::cli;
using wltest::TemporaryDirectory;
using wltest::TensorText;

TEST_CASE("GEMM files: written and read back", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  for (const int64_t batch : {1, 3})
    for (const Beside& beside : {Beside{}, Beside{"f32", false, ""}, Beside{"f16", true, "bf16"},
                                 Beside{"bf16", true, "f32"}, Beside{"", false, "f16"}}) {
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
      CHECK(p.bias.given() == !beside.bias.empty());
      CHECK(p.row.given() == beside.row);
      CHECK(p.residual.given() == !beside.residual.empty());
    }
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
