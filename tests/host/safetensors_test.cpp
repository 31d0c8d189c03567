#include "tests/support/catch.hpp"
#include "tests/support/tensor_files.hpp"
#include "tools/cli/dual_gemm_files.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/product.hpp"
#include "tools/cli/quantize_files.hpp"
#include "tools/cli/safetensors.hpp"

#include <cstring>
#include <sys/stat.h>

using namespace warpline::cli;
using wltest::ContainsSubstring;
using wltest::file_bytes;
using wltest::length_bytes;
using wltest::refusal;
using wltest::TemporaryDirectory;
using wltest::tensor_json;

namespace {

std::string refusal_of_bytes(const std::string& bytes) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  wltest::write_text(path, bytes);
  return refusal(path, [&] { SafetensorsFile file(path); });
}

std::string refusal_of_header(const std::string& header, size_t data_bytes = 4) {
  return refusal_of_bytes(file_bytes(header, data_bytes));
}

} // namespace

TEST_CASE("safetensors: write and read back", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  const std::vector<uint8_t> u8 = {1, 2, 3, 4, 5, 6};
  const float f32 = 1.5f;
  write_safetensors(path,
                    {{"a", "U8", {2, 3}, u8.data(), 6},
                     {"s\"\n", "F32", {}, &f32, 4},
                     {"empty", "F16", {0, 8}, nullptr, 0}},
                    {{"key", "value"}});
  CHECK(directory.file_count() == 1);
  const SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == 3);
  const Tensor* a = file.find("a");
  REQUIRE(a);
  CHECK(a->dtype == "U8");
  CHECK(a->shape == std::vector<uint64_t>{2, 3});
  CHECK(file.read(*a) == u8);
  const Tensor* s = file.find("s\"\n");
  REQUIRE(s);
  float back;
  std::memcpy(&back, file.read(*s).data(), 4);
  CHECK(back == f32);
  CHECK(file.find("empty")->bytes() == 0);
  CHECK(file.find("__metadata__") == nullptr);
  const std::string raw = wltest::read_text(path);
  CHECK(static_cast<uint8_t>(raw[0]) % 8 == 0); // the data is 8-byte aligned
}

TEST_CASE("safetensors: a name is written once", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors", long_name(5000000, 'n');
  const auto written = [&](const std::string& first, const std::string& second) {
    return refusal(path, [&] {
      write_safetensors(path, {{first, "U8", {0}, nullptr, 0}, {second, "U8", {0}, nullptr, 0}},
                        {});
    });
  };
  CHECK(written("a", "b") == "accepted");
  CHECK(written("a", "a") == "would have two entries of the name \"a\", nothing was written");
  CHECK_THAT(written("a", "__metadata__"), ContainsSubstring("\"__metadata__\""));
  CHECK(written(long_name, long_name).size() < 200);
  CHECK(SafetensorsFile(path).find("b") != nullptr);
}

TEST_CASE("safetensors: a failed write leaves nothing", "[host]") {
  const TemporaryDirectory directory;
  const std::string missing = directory / "no/such/x.safetensors";
  CHECK_THAT(refusal(missing, [&] { write_safetensors(missing, {}, {}); }),
             ContainsSubstring("cannot be written: No such file"));
  CHECK_THAT(refusal(missing, [&] { check_writable(missing); }),
             ContainsSubstring("cannot be written"));
  const std::string taken = directory / "directory";
  mkdir(taken.c_str(), 0755);
  CHECK_THAT(refusal(taken, [&] { check_writable(taken); }), ContainsSubstring("is a directory"));
  CHECK_THAT(refusal(taken, [&] { write_safetensors(taken, {}, {}); }),
             ContainsSubstring("cannot be written"));
  check_writable(directory / "fine");
  CHECK(directory.file_count() == 1);
}

TEST_CASE("safetensors: what cannot be a file", "[host]") {
  const TemporaryDirectory directory;
  const std::string missing = directory / "missing", fifo = directory / "fifo";
  CHECK_THAT(refusal(missing, [&] { SafetensorsFile file(missing); }),
             ContainsSubstring("cannot be opened: No such file"));
  CHECK(refusal(directory.path(), [&] { SafetensorsFile file(directory.path()); }) ==
        "is not a regular file");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(refusal(fifo, [&] { SafetensorsFile file(fifo); }) == "is not a regular file");
}

TEST_CASE("safetensors: hostile lengths", "[host]") {
  CHECK_THAT(refusal_of_bytes(""), ContainsSubstring("has 0 bytes"));
  CHECK_THAT(refusal_of_bytes("abc"), ContainsSubstring("has 3 bytes"));
  CHECK_THAT(refusal_of_bytes(length_bytes(~uint64_t{0}) + "{}"),
             ContainsSubstring("header length 18446744073709551615 is beyond the limit"));
  CHECK_THAT(refusal_of_bytes(length_bytes(~uint64_t{0} - 7) + "{}"),
             ContainsSubstring("is beyond the limit"));
  CHECK_THAT(refusal_of_bytes(length_bytes(1 << 30) + "{}"),
             ContainsSubstring("header length 1073741824 is beyond the limit of 100000000 bytes"));
  CHECK_THAT(refusal_of_bytes(length_bytes(99999999) + "{}"),
             ContainsSubstring("is beyond the file's 2 remaining bytes (is the file truncated?)"));
  CHECK_THAT(refusal_of_bytes(length_bytes(0)), ContainsSubstring("does not begin with '{'"));
}

TEST_CASE("safetensors: a header that is no header", "[host]") {
  CHECK_THAT(refusal_of_header("[]"), ContainsSubstring("does not begin with '{'"));
  CHECK_THAT(refusal_of_header("{\"a\":"), ContainsSubstring("not right JSON: the text ends"));
  CHECK_THAT(refusal_of_header("{}x"), ContainsSubstring("text after the end"));
  CHECK_THAT(refusal_of_header("{\"a\":" + std::string(100000, '[')),
             ContainsSubstring("nesting deeper than 8 levels"));
  const std::string a = tensor_json("a", "U8", "[4]", 0, 4);
  CHECK_THAT(refusal_of_header("{" + a + "," + a + "}"),
             ContainsSubstring("the name \"a\" appears twice"));
  CHECK_THAT(refusal_of_header("{\"__metadata__\":{\"a\":1}," + a + "}"),
             ContainsSubstring("__metadata__ must be an object of strings"));
  CHECK_THAT(refusal_of_header("{\"__metadata__\":[]," + a + "}"),
             ContainsSubstring("__metadata__ must be an object of strings"));
  CHECK(refusal_of_header("{" + a + "}   ") == "accepted");
  CHECK(refusal_of_header("{\"__metadata__\":{\"a\":\"b\"}," + a + "}") == "accepted");
}

TEST_CASE("safetensors: a tensor that is not described right", "[host]") {
  CHECK(refusal_of_header("{\"a\":5}") ==
        "tensor \"a\" is described by a number, must be an object");
  CHECK(refusal_of_header("{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}") ==
        "tensor \"a\" has no \"dtype\"");
  CHECK(refusal_of_header("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}") ==
        "tensor \"a\" has no \"shape\"");
  CHECK(refusal_of_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}") ==
        "tensor \"a\" has no \"data_offsets\"");
  CHECK(refusal_of_header("{\"a\":{\"dtype\":8,\"shape\":[4],\"data_offsets\":[0,4]}}") ==
        "tensor \"a\": \"dtype\" is a number, must be a string");
  CHECK(refusal_of_header("{" + tensor_json("a", "U9", "[4]", 0, 4) + "}") ==
        "tensor \"a\" has the unknown dtype \"U9\"");
  for (const char* extent : {"-1", "1.5", "\"4\"", "18446744073709551616", "1e2"})
    CHECK(refusal_of_header("{" + tensor_json("a", "U8", "[" + std::string(extent) + "]", 0, 4) +
                            "}") ==
          "tensor \"a\": extents in \"shape\" must be whole numbers from 0 to 2^64 - 1");
  CHECK(refusal_of_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}") ==
        "tensor \"a\": data_offsets must be two numbers, has 1");
  CHECK(refusal_of_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,-4]}}") ==
        "tensor \"a\": data_offsets must be whole numbers from 0 to 2^64 - 1");
  CHECK_THAT(refusal_of_header(
                 "{" + tensor_json("a", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4]", 0, 4) + "}"),
             ContainsSubstring("has 17 dimensions"));
}

TEST_CASE("safetensors: sizes and offsets", "[host]") {
  const uint64_t huge = ~uint64_t{0};
  CHECK(refusal_of_header("{" + tensor_json("a", "U8", "[4]", 4, 0) + "}") ==
        "tensor \"a\": data_offsets [4, 0] are reversed");
  CHECK_THAT(refusal_of_header("{" + tensor_json("a", "U8", "[8]", 0, 8) + "}"),
             ContainsSubstring("lie beyond the file's 4 bytes of data (is the file truncated?)"));
  CHECK_THAT(refusal_of_header("{" + tensor_json("a", "U8", "[4]", huge - 3, huge) + "}"),
             ContainsSubstring("lie beyond the file's 4 bytes of data"));
  CHECK(refusal_of_header("{" + tensor_json("a", "U8", "[5]", 0, 4) + "}") ==
        "tensor \"a\": data_offsets hold 4 bytes, but U8 [5] takes 5");
  CHECK(refusal_of_header("{" + tensor_json("a", "F32", "[2]", 0, 4) + "}") ==
        "tensor \"a\": data_offsets hold 4 bytes, but F32 [2] takes 8");
  CHECK_THAT(
      refusal_of_header("{" + tensor_json("a", "U8", "[4294967296,4294967296,4]", 0, 4) + "}"),
      ContainsSubstring("the product of shape [4294967296, 4294967296, 4] overflows"));
  // 2^62 elements of 64 bits: 2^68 bits, whose low 64 bits are 0
  CHECK_THAT(refusal_of_header("{" + tensor_json("a", "BOOL", "[4611686018427387904]", 0, 0) + "}"),
             ContainsSubstring("overflows 64 bits"));
  CHECK(refusal_of_header("{" + tensor_json("a", "U8", "[3]", 0, 3) + "," +
                          tensor_json("b", "U8", "[2]", 2, 4) + "}") ==
        "tensors \"a\" and \"b\" overlap at data byte 2");
  CHECK(refusal_of_header("{" + tensor_json("a", "U8", "[4]", 0, 4) + "," +
                          tensor_json("b", "U8", "[4]", 0, 4) + "}") ==
        "tensors \"a\" and \"b\" overlap at data byte 0");
  CHECK(refusal_of_header("{" + tensor_json("a", "U8", "[1]", 0, 1) + "," +
                          tensor_json("b", "U8", "[1]", 3, 4) + "}") ==
        "data bytes 1 to 3 belong to no tensor");
  CHECK(refusal_of_header("{" + tensor_json("a", "U8", "[2]", 0, 2) + "}") ==
        "the tensors end at data byte 2, the file at 4");
  CHECK(refusal_of_header("{}", 0) == "accepted");
  CHECK(refusal_of_header("{" + tensor_json("b", "U8", "[2]", 2, 4) + "," +
                          tensor_json("a", "U8", "[2]", 0, 2) + "}") == "accepted");
}

TEST_CASE("safetensors: F4 shapes count elements or bytes", "[host]") {
  CHECK(refusal_of_header("{" + tensor_json("a", "F4", "[2,4]", 0, 4) + "}") == "accepted");
  CHECK(refusal_of_header("{" + tensor_json("a", "F4", "[2,2]", 0, 4) + "}") == "accepted");
  CHECK(refusal_of_header("{" + tensor_json("a", "F4", "[3,4]", 0, 4) + "}") ==
        "tensor \"a\": data_offsets hold 4 bytes, but F4 [3, 4] takes 6");
}

TEST_CASE("safetensors: random damage never crashes", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  write_dual_gemm_problem(path, make_dual_gemm_problem(2, 8, 64, 1, "f16", 1));
  INFO("seed 5");
  CHECK(wltest::refused_damage(wltest::read_text(path), 5,
                               [](const std::string& at) { read_dual_gemm_problem(at); }) > 1000);
}

TEST_CASE("dual GEMM files: written and read back", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  for (int64_t batch : {1, 3})
    for (const char* bias : {"", "f32", "f16", "bf16"}) {
      const DualGemmProblem made = make_dual_gemm_problem(5, 16, 128, batch, bias, 3);
      const wltest::Problem& p = made.product;
      write_dual_gemm_problem(path, made);
      const DualGemmFile back = read_dual_gemm_problem(path);
      const wltest::Problem& found = back.problem.product;
      CHECK(back.batched == (batch > 1));
      CHECK(back.unused.empty());
      CHECK(found.m == 5);
      CHECK(found.n == 16);
      CHECK(found.k == 128);
      CHECK(found.l == batch);
      CHECK(found.alpha1 == p.alpha1);
      CHECK(found.a.values == p.a.values);
      CHECK(found.b2.values == p.b2.values);
      CHECK(found.b1.scales == p.b1.scales);
      CHECK(back.problem.bias1.given() == (*bias != 0));
      CHECK(back.problem.bias1.bytes == made.bias1.bytes);
      CHECK(back.problem.bias2.bytes == made.bias2.bytes);
      if (*bias == 0) continue;
      CHECK(back.problem.bias1.type == dtype_of(bias));
      CHECK(back.problem.bias2.type == dtype_of(bias));
      CHECK(made.bias1.bytes != made.bias2.bytes);
      // The same numbers in every type, one for each column.
      CHECK(values_of(made.bias2) ==
            values_of(make_dual_gemm_problem(5, 16, 128, batch, "f32", 3).bias2));
      CHECK(values_of(made.bias1).size() == 16);
    }
}

TEST_CASE("quantised matrices: names that would meet are refused", "[host]") {
  const auto judged = [](const std::vector<std::string>& names) {
    std::vector<NamedMatrix> matrices;
    for (const std::string& name : names) matrices.push_back({name, false, {}});
    return refusal("x", [&] { check_names("x", matrices); });
  };
  CHECK(judged({"a", "b1", "b2", "a_scales", "tensor_scale"}) == "accepted");
  CHECK(judged({"a", "a_scale"}) ==
        "tensors \"a\" and \"a_scale\" would both make \"a_scale\" of the output; quantize them "
        "from two files");
  CHECK_THAT(judged({"a_scale", "b", "a"}), ContainsSubstring("\"a_scale\" and \"a\" would both"));
  CHECK_THAT(judged({"a", "a_tensor_scale"}),
             ContainsSubstring("\"a_tensor_scale\" of the output"));
  CHECK_THAT(judged({"a_tensor", "a"}), ContainsSubstring("\"a_tensor_scale\" of the output"));
  const std::string long_name(5000000, 'n');
  CHECK(judged({long_name, long_name + "_scale"}).size() < 400);
}

namespace {

struct Parts {
  std::string a = "[2,32]", a_type = "U8", b1 = "[8,32]", b2 = "[8,32]", b2_type = "U8";
  std::string a_scale = "[2,4]", b1_scale = "[8,4]", b2_scale = "[8,4]", scale_type = "F8_E4M3";
  std::string extra = {}, extra_type = "F32", extra_shape = "[1]";
  std::string bias2_type = {};
  std::string leave_out = {};
};

std::string refusal_of_parts(const Parts& parts) {
  std::vector<wltest::TensorText> tensors;
  for (const wltest::TensorText& t :
       {wltest::TensorText{"a", parts.a_type, parts.a},
        {"b1", "U8", parts.b1},
        {"b2", parts.b2_type, parts.b2},
        {"a_scale", parts.scale_type, parts.a_scale},
        {"b1_scale", parts.scale_type, parts.b1_scale},
        {"b2_scale", parts.scale_type, parts.b2_scale},
        {parts.extra, parts.extra_type, parts.extra_shape},
        {parts.bias2_type.empty() ? "" : "bias2", parts.bias2_type, "[8]"}})
    if (!t.name.empty() && t.name != parts.leave_out) tensors.push_back(t);
  return wltest::refusal_of(tensors, [](const std::string& path) { read_dual_gemm_problem(path); });
}

} // namespace

TEST_CASE("dual GEMM files: wrong types, shapes and names", "[host]") {
  CHECK(refusal_of_parts({}) == "accepted");
  CHECK(refusal_of_parts({.a_type = "F4"}) == "accepted");
  CHECK(refusal_of_parts({.leave_out = "b2"}) == "has no tensor \"b2\"");
  CHECK(refusal_of_parts({.leave_out = "a_scale"}) == "has no tensor \"a_scale\"");
  CHECK(refusal_of_parts({.extra = "b2_scales", .leave_out = "b2_scale"}) ==
        "has no tensor \"b2_scale\" (it has \"b2_scales\")");
  CHECK(refusal_of_parts({.a_type = "BOOL"}) ==
        "tensor \"a\" is BOOL, must be U8, F4, F16, BF16, F32, F8_E4M3, F8_E5M2 or I8");
  CHECK(refusal_of_parts({.a = "[2,64]", .a_type = "F16", .leave_out = "a_scale"}) == "accepted");
  CHECK(refusal_of_parts({.a = "[2,64]", .a_type = "F16"}) ==
        "tensor \"a\" is F16, which has no block scales, but there is a tensor \"a_scale\" (a "
        "factor of the whole is \"a_tensor_scale\")");
  CHECK(refusal_of_parts({.b2 = "[8,64]", .b2_type = "I8", .leave_out = "b2_scale"}) ==
        "tensor \"b1\" is of nvfp4, \"b2\" of int8: they must be equal");
  CHECK(refusal_of_parts({.scale_type = "U8"}) == "tensor \"a_scale\" is U8, must be F8_E4M3");
  CHECK(refusal_of_parts({.a = "[64]"}) ==
        "tensor \"a\" has shape [64], must be [rows, K/2] or [batch, rows, K/2]");
  CHECK(refusal_of_parts({.a = "[0,32]", .a_scale = "[0,4]"}) ==
        "tensor \"a\" has shape [0, 32], each extent must be from 1 to 2^40");
  CHECK(refusal_of_parts({.a = "[2,7]"}) ==
        "tensor \"a\" has K = 14, must be a positive multiple of 64");
  CHECK(refusal_of_parts({.a_scale = "[2,5]"}) ==
        "tensor \"a_scale\" has shape [2, 5], must be [2, 4]: one scale for 16 values of \"a\", "
        "K = 64");
  CHECK(refusal_of_parts({.a_scale = "[8]"}) ==
        "tensor \"a_scale\" has shape [8], must be [2, 4]: one scale for 16 values of \"a\", "
        "K = 64");
  CHECK(refusal_of_parts({.b1 = "[8,64]", .b1_scale = "[8,8]"}) ==
        "tensor \"b1\" has K = 128, \"a\" has K = 64: they must be equal");
  CHECK(refusal_of_parts({.b2 = "[16,32]", .b2_scale = "[16,4]"}) ==
        "tensor \"b2\" has 16 rows, \"b1\" has 8: they must be equal");
  CHECK(refusal_of_parts({.b1 = "[1,8,32]", .b1_scale = "[1,8,4]"}) ==
        "tensors \"a\" and \"b1\" differ in their batch dimension");
  CHECK(refusal_of_parts({.extra = "alpha1"}) == "accepted");
  CHECK(refusal_of_parts({.extra = "alpha1", .extra_shape = "[]"}) == "accepted");
  CHECK(refusal_of_parts({.extra = "alpha2", .extra_shape = "[2]"}) ==
        "tensor \"alpha2\" has shape [2], must have one element");
  CHECK(refusal_of_parts({.extra = "alpha2", .extra_type = "F16"}) ==
        "tensor \"alpha2\" is F16, must be F32");
  for (const char* type : {"F32", "F16", "BF16"}) {
    CHECK(refusal_of_parts({.extra = "bias1", .extra_type = type, .extra_shape = "[8]"}) ==
          "accepted");
    CHECK(refusal_of_parts(
              {.extra = "bias1", .extra_type = type, .extra_shape = "[8]", .bias2_type = type}) ==
          "accepted");
  }
  CHECK(refusal_of_parts({.extra = "bias1", .extra_type = "U8", .extra_shape = "[8]"}) ==
        "tensor \"bias1\" is U8, must be F32, F16 or BF16");
  CHECK(refusal_of_parts({.extra = "bias2", .extra_shape = "[9]"}) ==
        "tensor \"bias2\" has shape [9], must be [8]: one number for each row of \"b2\"");
  CHECK(refusal_of_parts({.extra = "bias1", .extra_shape = "[8]", .bias2_type = "F16"}) ==
        "tensor \"bias1\" is F32, \"bias2\" is F16: they must be equal");
}

TEST_CASE("product files: D is written in its own type and shape", "[host]") {
  const TemporaryDirectory directory;
  const std::string path = directory / "d.safetensors";
  const std::vector<uint16_t> d(48, 0x3C00);
  write_d(path, "gemm", WL_BF16, matrix_shape(true, 3, 2, 8), d.data(), 96);
  const SafetensorsFile file(path);
  REQUIRE(file.find("d"));
  CHECK(file.find("d")->dtype == "BF16");
  CHECK(file.find("d")->shape == std::vector<uint64_t>{3, 2, 8});
  CHECK(file.read(*file.find("d")) == [&] {
    std::vector<uint8_t> bytes;
    for (int i = 0; i < 48; ++i) bytes.insert(bytes.end(), {0x00, 0x3C});
    return bytes;
  }());
}
