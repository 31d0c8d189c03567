// warpline moe as a child process on the virtual GPUs.
#include "tests/support/catch.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/moe_files.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace wltest;

namespace {

// A small layer; an option of `more` takes the place of its own.
std::vector<std::string> small(const std::string& device, const std::vector<std::string>& more) {
  const std::vector<std::pair<std::string, std::string>> own = {
      {"--tokens", "9"}, {"--hidden", "128"},     {"--intermediate", "64"}, {"--experts", "8"},
      {"--top-k", "3"},  {"--first-expert", "2"}, {"--device", device}};
  std::vector<std::string> all = {"moe"};
  for (const auto& [option, value] : own)
    if (std::find(more.begin(), more.end(), option) == more.end())
      all.insert(all.end(), {option, value});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

} // namespace

TEST_CASE("cli: a layer of experts is right on both families", "[virtual][cli][moe]") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> runs = {
      {"virtual:h200", {"--shared", "--out", "f32", "--type", "f16"}},
      {"virtual:h200", {"--a-type", "nvfp4", "--routing", "skewed", "--graph"}},
      {"virtual:b200", {"--shared", "--gate", "clamped", "--out", "f16"}}};
  for (const auto& [device, more] : runs) {
    const ChildResult r = warpline_cli(small(device, more));
    INFO(device << "\n" << r.out << r.err);
    CHECK(r.status == 0);
    CHECK_THAT(r.out, ContainsSubstring("outputs wrong    0 of 1152"));
    CHECK_THAT(r.out, ContainsSubstring("PASS"));
  }
}

// One token's pairs need no order and no launch for the sum. Of more, NVFP4 tokens are quantised by
// a launch of their own. Of many, a launch brings tokens to the first product's order, and one its
// rows to the second's, unless it leaves them so: of I in blocks of 128, scales in atoms.
TEST_CASE("cli: launches of a layer with and without an order", "[virtual][cli][moe]") {
  const auto launches = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--top-k", "2", "--schedule", "lazy"};
    all.insert(all.end(), more.begin(), more.end());
    const ChildResult r = warpline_cli(small("virtual:h200", all));
    INFO(r.out << r.err);
    CHECK(r.status == 0);
    CHECK_THAT(r.out, ContainsSubstring("PASS"));
    const size_t at = r.out.find("\nlaunches ");
    REQUIRE(at != std::string::npos);
    return std::stoi(r.out.substr(at + 10));
  };
  for (const char* routing : {"uniform", "skewed"}) {
    const auto few = [&](const char* tokens, const char* a_type) {
      return launches(
          {"--experts", "16", "--tokens", tokens, "--routing", routing, "--a-type", a_type});
    };
    CHECK(few("1", "bf16") == 2);
    CHECK(few("1", "nvfp4") == 2);
    CHECK(few("12", "bf16") == 4);
    CHECK(few("33", "nvfp4") == 5);
  }
  const auto many = [&](const char* intermediate, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--tokens",  "600", "--hidden",       "1024",
                                    "--experts", "2",   "--intermediate", intermediate};
    all.insert(all.end(), more.begin(), more.end());
    return launches(all);
  };
  CHECK(many("1024", {}) == 5);
  CHECK(many("960", {}) == 6);
  CHECK(many("1024", {"--a-type", "nvfp4"}) == 6);
  CHECK(many("1024", {"--plain-scales"}) == 8);
}

TEST_CASE("cli: what moe refuses", "[virtual][cli][moe]") {
  const auto refused = [](const std::vector<std::string>& more, int status, const char* sentence) {
    check_refusal(warpline_cli(small("virtual:b200", more)), status, sentence);
  };
  refused({"--hidden", "100"}, 2, "H = 100 must be a multiple of 64 elements (nearest: 64, 128)");
  refused({"--a-type", "bf16"}, 2, "a_type = 2 on compute capability 10.0 must be multiplied with");
  refused({"--tokens", "0"}, 2, "T = 0 must be from 1 to 2^30 tokens (nearest: 1)");
  refused({"--layer", "mlp"}, 2, "moe: --layer is for names of a file: --input");
  refused({"--experts", "512", "--hidden", "131072", "--intermediate", "131072"}, 2,
          "moe: tokens, hidden, intermediate, experts, top_k need about ");
}

namespace {

using namespace warpline::cli;

// A tensor of a file, to be written again.
struct Written {
  OutputTensor tensor;
  std::vector<uint8_t> bytes;
};
std::vector<Written> tensors_of(const std::string& path) {
  const SafetensorsFile file(path);
  std::vector<Written> all;
  for (const Tensor& t : file.tensors())
    all.push_back({{t.name, t.dtype, t.shape, nullptr, t.bytes()}, file.read(t)});
  return all;
}
void write(const std::string& path, const std::vector<Written>& all) {
  std::vector<OutputTensor> tensors;
  for (const Written& w : all) {
    tensors.push_back(w.tensor);
    tensors.back().data = w.bytes.data();
    tensors.back().bytes = w.bytes.size();
  }
  write_safetensors(path, tensors, {});
}
Written& named(std::vector<Written>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Written& w) { return w.tensor.name == name; });
  REQUIRE(found != all.end());
  return *found;
}
std::vector<uint8_t> y_of(const std::string& path) {
  const SafetensorsFile file(path);
  REQUIRE(file.find("y") != nullptr);
  CHECK(file.find("y")->dtype == "BF16");
  CHECK(file.find("y")->shape == std::vector<uint64_t>{9, 128});
  return file.read(*file.find("y"));
}

constexpr int kExperts = 3;

void make_layer(const std::string& path) {
  const ChildResult made = warpline_cli({"make-example", "--operation", "moe", "-m", "9", "-n",
                                         "64", "-k", "128", "-l", std::to_string(kExperts), path});
  INFO_CHILD(made);
  REQUIRE(made.status == 0);
  CHECK(made.out == "wrote " + path +
                        ": x [9, 128], ids, weights; gate_proj, up_proj and "
                        "down_proj of 3 experts\n");
}

// The experts' tensors of a name behind each other, as one of all experts: [E, ...].
std::vector<Written> stacked(std::vector<Written> all) {
  std::vector<Written> result;
  for (Written& w : all)
    if (w.tensor.name.rfind("experts.", 0) != 0) result.push_back(w);
  const std::pair<const char*, const char*> names[] = {
      {"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
  for (const auto& [each, one] : names)
    for (const char* ending : {".weight", ".weight_scale", ".weight_scale_2", ".input_scale"}) {
      Written joined;
      for (int e = 0; e < kExperts; ++e) {
        const Written& w = named(all, "experts." + std::to_string(e) + "." + each + ending);
        joined.tensor = w.tensor;
        joined.bytes.insert(joined.bytes.end(), w.bytes.begin(), w.bytes.end());
      }
      joined.tensor.name = one + std::string(ending);
      joined.tensor.shape.insert(joined.tensor.shape.begin(), kExperts);
      result.push_back(joined);
    }
  return result;
}

} // namespace

TEST_CASE("cli: a layer of experts of a safetensors file", "[virtual][cli][moe]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in", other = directory / "other", y = directory / "y";
  make_layer(input);
  const auto run = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"moe", "--input", file, "--output", y, "--verify"};
    words.insert(words.end(), more.begin(), more.end());
    const ChildResult child = warpline_cli(words);
    INFO_CHILD(child);
    REQUIRE(child.status == 0);
    CHECK_THAT(child.out, ContainsSubstring("outputs wrong    0 of 1152"));
    CHECK_THAT(child.out, ContainsSubstring("9 tokens of 128, 3 experts of 64, 2 each, bf16"));
    return y_of(y);
  };
  for (const std::vector<std::string>& device :
       {std::vector<std::string>{"--device", "virtual:h200"},
        {"--device", "virtual:h200", "--a-type", "nvfp4"},
        {"--device", "virtual:b200"}}) {
    const std::vector<uint8_t> expected = run(input, device);
    // The same layer by other names: of all experts; behind a prefix; of a later share of experts.
    write(other, stacked(tensors_of(input)));
    CHECK(run(other, device) == expected);
    std::vector<Written> moved = tensors_of(input);
    for (Written& w : moved)
      if (w.tensor.name.rfind("experts.", 0) == 0) w.tensor.name = "model.7.mlp." + w.tensor.name;
    write(other, moved);
    std::vector<std::string> words = device;
    words.insert(words.end(), {"--layer", "model.7.mlp"});
    CHECK(run(other, words) == expected);
    // Twice the scale of an expert's matrix that tokens choose is another layer.
    std::vector<Written> scaled = tensors_of(input);
    named(scaled, "experts.1.down_proj.weight_scale_2").bytes[3] ^= 0x01;
    write(other, scaled);
    CHECK(run(other, device) != expected);
  }
  // Ids of 64 bits; weights that are not there are 1.
  std::vector<Written> wide = tensors_of(input);
  Written& ids = named(wide, "ids");
  std::vector<uint8_t> bytes(2 * ids.bytes.size());
  for (size_t i = 0; i < ids.bytes.size(); ++i) bytes[i / 4 * 8 + i % 4] = ids.bytes[i];
  ids.bytes = bytes, ids.tensor.dtype = "I64";
  write(other, wide);
  const std::vector<std::string> h200 = {"--device", "virtual:h200"};
  CHECK(run(other, h200) == run(input, h200));
  named(wide, "weights").tensor.name = "not weights";
  write(other, wide);
  CHECK(run(other, h200) != run(input, h200));
  // Weights alone: random tokens.
  std::vector<Written> weights;
  for (const Written& w : tensors_of(input))
    if (w.tensor.name.rfind("experts.", 0) == 0) weights.push_back(w);
  write(other, weights);
  const ChildResult child = warpline_cli({"moe", "--input", other, "--tokens", "5", "--top-k", "3",
                                          "--verify", "--device", "virtual:h200"});
  INFO_CHILD(child);
  CHECK(child.status == 0);
  CHECK_THAT(child.out, ContainsSubstring("5 tokens of 128, 3 experts of 64, 3 each"));
}

TEST_CASE("cli: what moe refuses of a file", "[virtual][cli][moe]") {
  const TemporaryDirectory directory;
  const std::string input = directory / "in", broken = directory / "broken";
  make_layer(input);
  const auto refused = [&](const std::vector<std::string>& names, const std::string& sentence,
                           auto&& change, const std::vector<std::string>& more = {}) {
    std::vector<Written> all = tensors_of(input);
    for (const std::string& name : names) change(named(all, name));
    write(broken, all);
    std::vector<std::string> words = {"moe", "--input", broken, "--device", "virtual:b200"};
    words.insert(words.end(), more.begin(), more.end());
    check_refusal(warpline_cli(words), 2, broken + ": " + sentence);
  };
  const auto renamed = [](const std::string& to) {
    return [to](Written& w) { w.tensor.name = to; };
  };
  const auto shaped = [](std::vector<uint64_t> shape) {
    return [shape](Written& w) { w.tensor.shape = shape; };
  };
  const std::string up = "experts.2.up_proj.weight";
  refused({up}, "has no tensor \"" + up + "\"", renamed("elsewhere"));
  refused({up + "_scale"}, "has no tensor \"" + up + "_scale\"", renamed("elsewhere"));
  refused({up, up + "_scale"},
          "tensor \"" + up + "\" is 32 x 256, that of expert 0 is 64 x 128: they must be equal",
          [&](Written& w) { w.tensor.shape[0] /= 2, w.tensor.shape[1] *= 2; });
  refused({"experts.0.gate_proj.input_scale"},
          "has tensor \"experts.0.gate_proj.bias\": biases are not taken from files",
          renamed("experts.0.gate_proj.bias"));
  refused({"ids", "weights"}, "tensor \"ids\" has 6 rows, \"x\" has 9: they must be equal",
          [](Written& w) {
            w.tensor.shape = {6, 3};
          });
  refused({"ids"}, "has tensor \"weights\" but no \"ids\" that they belong to",
          renamed("elsewhere"));
  refused({"weights"}, "tensor \"weights\" has shape [18], must be [9, 2]: one for each of \"ids\"",
          shaped({18}));
  refused({"x"}, "tensor \"x\" has rows of 64, must have H = 128, that of the weights",
          shaped({18, 64}));
  refused({"x"}, "tensor \"x\" has shape [1152], must be [T, H]", shaped({1152}));
  refused({"experts.1.down_proj.weight_scale_2"},
          "tensor \"experts.1.down_proj.weight_scale_2\" has shape [2], must have one element",
          [](Written& w) {
            w.tensor.shape = {2};
            w.bytes.resize(8);
          });
  const auto same = [](Written&) {};
  refused({}, "has experts 0 to 2, --first-expert must be one of them, is 3", same,
          {"--first-expert", "3"});
  refused({},
          "has no weights of experts: no tensor \"m.experts.0.gate_proj.weight\" or "
          "\"m.gate_proj\", nor w1 in their places\n",
          same, {"--layer", "m"});
  const auto words = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"moe", "--input", input, "--device", "virtual:b200"};
    all.insert(all.end(), more.begin(), more.end());
    return warpline_cli(all);
  };
  for (const char* option : {"--hidden", "--intermediate", "--experts", "--tokens", "--top-k"})
    check_refusal(words({option, "64"}), 2,
                  std::string("moe: ") + option +
                      " cannot be given with --input, the file says it");
  // Where h is NVFP4, nobody else knows its scale.
  std::vector<Written> all = tensors_of(input);
  for (Written& w : all)
    if (w.tensor.name.find("down_proj.input_scale") != std::string::npos) w.tensor.name += "_not";
  write(broken, all);
  check_refusal(warpline_cli({"moe", "--input", broken, "--device", "virtual:b200"}), 2,
                broken + ": has no input_scale of down_proj (or w2)");
}
