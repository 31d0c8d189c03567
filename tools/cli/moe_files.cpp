#include "tools/cli/moe_files.hpp"

#include "tools/cli/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

namespace warpline::cli {
namespace {

constexpr const char* projections[][3] = {{"gate_proj", "up_proj", "down_proj"},
                                          {"w1", "w3", "w2"}};
constexpr char experts_part[] = "experts.", weight_ending[] = ".weight",
               whole_ending[] = "_scale_2", input_ending[] = ".input_scale";

// The number behind "experts." at `at`, -1: none with a dot behind it.
int64_t expert_number(const std::string& name, size_t at) {
  int64_t number = -1;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + at, end, number);
  return error == std::errc{} && number >= 0 && rest != end && *rest == '.' ? number : -1;
}

std::string stem(const std::string& name) {
  return name.ends_with(weight_ending) ? name.substr(0, name.size() - std::strlen(weight_ending))
                                       : name;
}

class LayerFile {
public:
  LayerFile(const std::string& path, const std::string& layer)
      : file_(path, {}), ahead_(layer.empty() ? "" : layer + ".") {}

  void read_weights(int64_t first, const std::function<void(double)>& progress, LayerTensors* t) {
    const std::set<int64_t> numbers = expert_numbers();
    for (size_t i = 0; i < 3; ++i) {
      const std::string all = name_of_all(i);
      if (!all.empty()) {
        read_all(all, i, t);
      } else {
        if (numbers.empty()) refuse_without_experts();
        if (numbers.count(first) == 0)
          file_.refuse("has experts " + std::to_string(*numbers.begin()) + " to " +
                       std::to_string(*numbers.rbegin()) +
                       ", --first-expert must be one of them, is " + std::to_string(first));
        read_each(i, first, *numbers.rbegin() - first + 1, progress, t);
      }
    }
  }

  void read_tokens(LayerTensors* t) {
    if (const Tensor* x = take("x")) {
      file_.require_dtype(*x, {"F16", "BF16"});
      const auto [rows, columns] = extents(*x, "[T, H]");
      t->x = {rows,
              columns,
              1,
              x->dtype == "F16" ? wltest::OutputType::f16 : wltest::OutputType::bf16,
              {}};
      t->x.codes = read_as<uint16_t>(*x);
    }
    if (const Tensor* ids = take("ids")) {
      file_.require_dtype(*ids, {"I32", "I64"});
      extents(*ids, "[T, top_k]");
      ids_shape_ = ids->shape;
      if (ids->dtype == "I32")
        t->ids = read_as<int32_t>(*ids);
      else
        for (const int64_t id : read_as<int64_t>(*ids)) {
          if (id != static_cast<int32_t>(id))
            file_.refuse("tensor \"ids\" has " + std::to_string(id) +
                         ", must be from -2^31 to 2^31 - 1");
          t->ids.push_back(static_cast<int32_t>(id));
        }
    }
    if (const Tensor* weights = take("weights")) {
      file_.require_dtype(*weights, {"F32"});
      if (t->ids.empty()) file_.refuse("has tensor \"weights\" but no \"ids\" that they belong to");
      file_.require_shape(*weights, ids_shape_, "one for each of \"ids\"");
      t->weights = read_as<float>(*weights);
    }
  }

  void take_sizes(const LayerTensors& t, LayerSizes* sizes) const {
    const wltest::Operand &gate = t.w[0], &up = t.w[1], &down = t.w[2];
    const auto text = [](const wltest::Operand& w) {
      return "[" + std::to_string(w.l) + ", " + std::to_string(w.rows) + ", " +
             std::to_string(w.k) + "]";
    };
    if (up.l != gate.l || up.rows != gate.rows || up.k != gate.k)
      file_.refuse("weights of gate are " + text(gate) + ", those of up " + text(up) +
                   ": both are [experts, I, H]");
    if (down.l != gate.l || down.rows != gate.k || down.k != gate.rows)
      file_.refuse("weights of gate are " + text(gate) + ", those of down " + text(down) +
                   ": they are [experts, I, H] and [experts, H, I]");
    sizes->experts = gate.l, sizes->hidden = gate.k, sizes->intermediate = gate.rows;
    if (!t.x.codes.empty()) {
      if (t.x.k != sizes->hidden)
        file_.refuse("tensor \"x\" has rows of " + std::to_string(t.x.k) +
                     ", must have H = " + std::to_string(sizes->hidden) + ", that of the weights");
      sizes->tokens = t.x.rows;
      sizes->type = t.x.type == wltest::OutputType::f16 ? "f16" : "bf16";
    }
    if (t.ids.empty()) return;
    const auto tokens = static_cast<int64_t>(ids_shape_[0]);
    if (!t.x.codes.empty() && tokens != t.x.rows)
      file_.refuse("tensor \"ids\" has " + std::to_string(tokens) + " rows, \"x\" has " +
                   std::to_string(t.x.rows) + ": they must be equal");
    sizes->tokens = tokens, sizes->top_k = static_cast<int64_t>(ids_shape_[1]);
  }

  std::vector<std::string> unused() const { return file_.unused(); }

private:
  ProductFile file_;
  std::string ahead_;
  std::vector<uint64_t> ids_shape_;

  const Tensor* take(const std::string& name) {
    file_.take(name);
    return file_.find(name);
  }

  template <class Number>
  std::vector<Number> read_as(const Tensor& tensor) const {
    const std::vector<uint8_t> bytes = file_.read(tensor);
    std::vector<Number> numbers(bytes.size() / sizeof(Number));
    if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

  std::pair<int64_t, int64_t> extents(const Tensor& tensor, const char* of) const {
    const std::vector<uint64_t>& s = tensor.shape;
    const auto sized = [](uint64_t extent) { return extent > 0 && extent <= uint64_t{1} << 40; };
    if (s.size() != 2 || !sized(s[0]) || !sized(s[1]))
      file_.refuse("tensor " + shown_name(tensor.name) + " has shape " + shape_text(s) +
                   ", must be " + of);
    return {static_cast<int64_t>(s[0]), static_cast<int64_t>(s[1])};
  }

  std::set<int64_t> expert_numbers() const {
    std::set<int64_t> numbers;
    const std::string start = ahead_ + experts_part;
    for (const Tensor& tensor : file_.tensors())
      if (tensor.name.starts_with(start)) {
        const int64_t number = expert_number(tensor.name, start.size());
        if (number >= 0) numbers.insert(number);
      }
    return numbers;
  }

  // Of all experts; "" where there is none.
  std::string name_of_all(size_t i) const {
    for (const auto& names : projections)
      for (const char* ending : {"", weight_ending})
        if (file_.find(ahead_ + names[i] + ending) != nullptr) return ahead_ + names[i] + ending;
    return "";
  }
  // Of one; where there is none, the first that was looked for.
  std::string name_of_each(size_t i, int64_t expert) const {
    const std::string start = ahead_ + experts_part + std::to_string(expert) + ".";
    for (const auto& names : projections)
      if (file_.find(start + names[i] + weight_ending) != nullptr)
        return start + names[i] + weight_ending;
    return start + projections[0][i] + weight_ending;
  }

  [[noreturn]] void refuse_without_experts() const {
    std::string elsewhere;
    for (const Tensor& tensor : file_.tensors()) {
      const size_t at = tensor.name.find(std::string(".") + experts_part);
      if (at == std::string::npos) continue;
      elsewhere = "; it has those of --layer " + tensor.name.substr(0, at);
      break;
    }
    file_.refuse("has no weights of experts: no tensor " +
                 shown_name(ahead_ + "experts.0.gate_proj.weight") + " or " +
                 shown_name(ahead_ + "gate_proj") + ", nor w1 in their places" + elsewhere);
  }

  wltest::Operand matrix(const std::string& name, bool of_all) {
    file_.take(name), file_.take(name + scale_ending);
    bool batched = false;
    wltest::Operand w = file_.read_operand(name, &batched);
    if (w.type != WL_OPERAND_NVFP4)
      file_.refuse("tensor " + shown_name(name) + " is " + file_.find(name)->dtype +
                   ", must be NVFP4: U8 or F4, with " + shown_name(name + scale_ending));
    if (batched != of_all)
      file_.refuse("tensor " + shown_name(name) + " has shape " +
                   shape_text(file_.find(name)->shape) + ", must be " +
                   (of_all ? "[experts, rows, K/2]" : "[rows, K/2]"));
    const std::string bias = stem(name) + ".bias";
    if (file_.find(bias) != nullptr)
      file_.refuse("has tensor " + shown_name(bias) +
                   ": biases are not taken from files, wl_moe has them in its arguments");
    return w;
  }

  // Factors of the whole matrices, one for each or one for all, into `alpha`; and the largest
  // input_scale.
  void factors(const std::string& name, size_t i, int64_t count, LayerTensors* t) {
    const Tensor* whole = take(name + whole_ending);
    std::vector<float> numbers(static_cast<size_t>(count), 1.0f);
    if (whole != nullptr) {
      file_.require_dtype(*whole, {"F32"});
      const std::vector<float> read = read_as<float>(*whole);
      if (read.size() != 1 && read.size() != numbers.size())
        file_.refuse("tensor " + shown_name(whole->name) + " has shape " +
                     shape_text(whole->shape) + ", must have one element" +
                     (count > 1 ? " or " + std::to_string(count) : ""));
      for (size_t e = 0; e < numbers.size(); ++e) numbers[e] = read[read.size() == 1 ? 0 : e];
    }
    t->alpha[i].insert(t->alpha[i].end(), numbers.begin(), numbers.end());
    const Tensor* input = take(stem(name) + input_ending);
    if (input == nullptr) return;
    file_.require_dtype(*input, {"F32"});
    std::optional<float>& scale = t->input_scale[i == 2 ? 1 : 0];
    for (const float value : read_as<float>(*input)) {
      if (!(value >= 0x1p-126f) || !std::isfinite(value))
        file_.refuse("tensor " + shown_name(input->name) + " is " + std::to_string(double{value}) +
                     ", must be positive and finite");
      scale = std::max(scale.value_or(0), value);
    }
  }

  void read_all(const std::string& name, size_t i, LayerTensors* t) {
    t->w[i] = matrix(name, true);
    factors(name, i, t->w[i].l, t);
  }

  void read_each(size_t i, int64_t first, int64_t count,
                 const std::function<void(double)>& progress, LayerTensors* t) {
    wltest::Operand& all = t->w[i];
    for (int64_t e = 0; e < count; ++e) {
      const std::string name = name_of_each(i, first + e);
      const wltest::Operand one = matrix(name, false);
      if (e == 0) {
        all = one;
        all.values.reserve(one.values.size() * static_cast<size_t>(count));
        all.scales.reserve(one.scales.size() * static_cast<size_t>(count));
      } else {
        if (one.rows != all.rows || one.k != all.k)
          file_.refuse("tensor " + shown_name(name) + " is " + std::to_string(one.rows) + " x " +
                       std::to_string(one.k) + ", that of expert " + std::to_string(first) +
                       " is " + std::to_string(all.rows) + " x " + std::to_string(all.k) +
                       ": they must be equal");
        all.values.insert(all.values.end(), one.values.begin(), one.values.end());
        all.scales.insert(all.scales.end(), one.scales.begin(), one.scales.end());
        ++all.l;
      }
      factors(name, i, 1, t);
      progress((static_cast<double>(i) + static_cast<double>(e + 1) / static_cast<double>(count)) /
               3);
    }
  }
};

// Each token's experts differ, as a router's.
void draw_ids(const LayerSizes& s, uint64_t seed, LayerTensors* t) {
  const auto all = static_cast<uint64_t>(s.first + s.experts);
  const wltest::Random choice(seed, 91);
  for (int64_t token = 0; token < s.tokens; ++token) {
    std::vector<int32_t> of_token;
    for (uint64_t j = 0; of_token.size() < static_cast<size_t>(s.top_k); ++j) {
      const uint64_t at = static_cast<uint64_t>(token) * 4096 + j;
      auto id = static_cast<int32_t>(choice.below(at, all));
      if (s.skewed && of_token.empty() && token % 2 == 0) id = static_cast<int32_t>(s.first);
      const bool fresh = std::find(of_token.begin(), of_token.end(), id) == of_token.end();
      if (fresh || j > 2000) of_token.push_back(id);
    }
    t->ids.insert(t->ids.end(), of_token.begin(), of_token.end());
  }
}

void draw_weights(const LayerSizes& s, uint64_t seed, LayerTensors* t) {
  const auto kind = wltest::InputKind::exact;
  wltest::Problem up = wltest::make_problem(1, s.intermediate, s.hidden, s.experts, kind, seed + 1);
  t->w[0] = std::move(up.b1), t->w[1] = std::move(up.b2);
  t->w[2] = wltest::make_problem(1, s.hidden, s.intermediate, s.experts, kind, seed + 2, 1).b1;
  const wltest::Random random(seed, 90);
  for (size_t i = 0; i < 3; ++i)
    for (int64_t e = 0; e < s.experts; ++e)
      t->alpha[i].push_back(
          static_cast<float>((0.5 + random.uniform(static_cast<uint64_t>(e) * 3 + i)) /
                             std::sqrt(static_cast<double>(i == 2 ? s.intermediate : s.hidden))));
}

} // namespace

void draw_layer(const LayerSizes& s, uint64_t seed, LayerTensors* t) {
  const auto type = s.type == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  if (t->x.codes.empty()) t->x = wltest::random_matrix(s.tokens, s.hidden, 1, type, seed);
  if (t->w[0].values.empty()) draw_weights(s, seed, t);
  if (!t->weights.empty()) return;
  // A file's ids without weights have none: they are 1.
  if (!t->ids.empty()) return;
  draw_ids(s, seed, t);
  const wltest::Random random(seed, 90);
  for (int64_t slot = 0; slot < s.tokens * s.top_k; ++slot)
    t->weights.push_back(
        static_cast<float>(random.uniform(static_cast<uint64_t>(slot) + (uint64_t{1} << 40)) * 2 /
                           static_cast<double>(s.top_k)));
}

LayerTensors read_layer(const std::string& path, const std::string& layer, LayerSizes* sizes,
                        const std::function<void(double)>& progress) {
  LayerFile file(path, layer);
  LayerTensors tensors;
  file.read_weights(sizes->first, progress, &tensors);
  file.read_tokens(&tensors);
  file.take_sizes(tensors, sizes);
  const std::vector<std::string> unused = file.unused();
  if (!unused.empty())
    std::fprintf(stderr, "warpline: %s: not used: %s\n", path.c_str(), shown_names(unused).c_str());
  return tensors;
}

void write_layer(const std::string& path, const LayerTensors& t) {
  const wltest::Operand& gate = t.w[0];
  const auto tokens = static_cast<uint64_t>(t.x.rows), hidden = static_cast<uint64_t>(t.x.k);
  const uint64_t top_k = t.ids.size() / tokens;
  const float input_scales[] = {t.input_scale[0].value_or(1), t.input_scale[1].value_or(1)};
  std::vector<OutputTensor> tensors = {
      {"x",
       t.x.type == wltest::OutputType::f16 ? "F16" : "BF16",
       {tokens, hidden},
       t.x.codes.data(),
       t.x.codes.size() * 2},
      {"ids", "I32", {tokens, top_k}, t.ids.data(), t.ids.size() * 4},
      {"weights", "F32", {tokens, top_k}, t.weights.data(), t.weights.size() * 4}};
  for (int64_t e = 0; e < gate.l; ++e)
    for (size_t i = 0; i < 3; ++i) {
      const wltest::Operand& w = t.w[i];
      const std::string name =
          experts_part + std::to_string(e) + "." + projections[0][i] + weight_ending;
      const size_t values = w.values.size() / static_cast<size_t>(w.l),
                   scales = w.scales.size() / static_cast<size_t>(w.l), at = static_cast<size_t>(e);
      tensors.push_back({name, "U8", matrix_shape(false, 1, w.rows, w.k / 2),
                         w.values.data() + at * values, values});
      tensors.push_back({name + scale_ending, "F8_E4M3", matrix_shape(false, 1, w.rows, w.k / 16),
                         w.scales.data() + at * scales, scales});
      tensors.push_back({name + whole_ending, "F32", {}, &t.alpha[i][at], sizeof(float)});
      const size_t input = i == 2 ? 1 : 0;
      if (t.input_scale[input])
        tensors.push_back(
            {stem(name) + input_ending, "F32", {}, &input_scales[input], sizeof(float)});
    }
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline make-example"}});
}

} // namespace warpline::cli
