#include "runtime/src/context.hpp"
#include "tests/problems/nvfp4.hpp"
#include "tests/reference/numerics.hpp"
#include "tests/support/captured_graph.hpp"
#include "tests/support/device_buffer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

namespace wltest::problems {

namespace {

constexpr size_t guard = 256, boundary = 512;

// Bytes of device memory at an address of a given misalignment, with a guard before them. Behind
// them is another, or, with Behind::nothing, the end of the allocation: reading there is a fault.
enum class Behind { guard, nothing };
class Guarded {
public:
  Guarded(wl_context* context, size_t bytes, size_t misalignment, uint8_t fill,
          Behind behind = Behind::guard)
      : buffer_(context,
                boundary + misalignment + bytes + (behind == Behind::guard ? guard + boundary : 0)),
        bytes_(bytes), image_(guard + bytes + (behind == Behind::guard ? guard : 0), fill) {
    // Allocations start at a boundary, on a GPU and on the virtual one.
    first_ = boundary + misalignment - guard;
    write_all();
  }
  uint8_t* pointer() const { return buffer_.at(first_ + guard); }
  void write(const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), image_.begin() + guard);
    write_all();
  }
  void fill(uint8_t byte) { write(Bytes(bytes_, byte)); }
  Bytes read_all() const {
    Bytes all(image_.size());
    wl_download(buffer_.context, all.data(), buffer_.at(first_), all.size());
    return all;
  }
  // As it was last written from here, guards included.
  const Bytes& image() const { return image_; }

private:
  void write_all() const {
    wl_upload(buffer_.context, buffer_.at(first_), image_.data(), image_.size());
  }
  DeviceBuffer buffer_;
  size_t bytes_, first_ = 0;
  Bytes image_;
};

std::string at_byte(const std::string& name, size_t i, unsigned found, unsigned expected) {
  char text[96];
  std::snprintf(text, sizeof text, " byte %zu is 0x%02x, not 0x%02x", i, found, expected);
  return name + text;
}

std::string input_changed(const std::string& name, const Guarded& memory) {
  const Bytes now = memory.read_all();
  return now == memory.image() ? "" : name + ", an input, or memory around it, was written to";
}

// How many numbers of its type an output may lie beside the expected one where exponentials are a
// GPU's own: one after rounding to 16 bits; of FP32 as many as some places of ex2, rcp and what is
// multiplied by them make.
constexpr int64_t beside_in_16_bits = 1, beside_in_f32 = 64;

float value_of(const Output& o, const uint8_t* bytes) {
  float value = 0;
  uint16_t code = 0;
  std::memcpy(o.element == 4 ? static_cast<void*>(&value) : &code, bytes, o.element);
  if (o.element == 4) return value;
  return static_cast<float>(o.infinity == 0x7C00 ? decode_f16(code) : decode_bf16(code));
}

// `now`: what lies in the memory, guards included.
std::string output_wrong(const Output& o, const Guarded& memory, const Bytes& now, size_t run,
                         const std::vector<bool>& written, bool exponentials) {
  const Bytes& expected = o.runs[run % o.runs.size()];
  const int64_t beside = exponentials ? o.element == 2 ? beside_in_16_bits : beside_in_f32 : 0;
  const auto magnitude = [&](const uint8_t* bytes) {
    uint32_t code = 0;
    std::memcpy(&code, bytes, o.element);
    return code & ((uint32_t{1} << (8 * o.element - 1)) - 1);
  };
  for (size_t i = 0; i < now.size(); ++i) {
    const bool inside = i >= guard && i < guard + expected.size();
    if (!inside || !written[i - guard]) {
      if (now[i] != memory.image()[i])
        return at_byte(o.name + ", where nothing is to be written:", i - guard, now[i],
                       memory.image()[i]);
      continue;
    }
    if (now[i] == expected[i - guard]) continue;
    if (o.infinity != 0) {
      const size_t first = (i - guard) / o.element * o.element;
      const auto nan = [&](const uint8_t* bytes) { return magnitude(bytes) > o.infinity; };
      if (nan(&now[guard + first]) && nan(&expected[first])) continue;
      // Numbers counted from zero.
      const auto place = [&](const uint8_t* bytes) {
        const int64_t from_zero = magnitude(bytes);
        return (bytes[o.element - 1] & 0x80) != 0 ? -from_zero : from_zero;
      };
      const uint8_t *const found = &now[guard + first], *const wanted = &expected[first];
      if (exponentials && !nan(found) && !nan(wanted)) {
        if (std::abs(place(found) - place(wanted)) <= beside) continue;
        const float slack =
            o.slack.empty() ? 0 : value_of(o, &o.slack[run % o.slack.size()][first]);
        if (std::fabs(value_of(o, found) - value_of(o, wanted)) <= slack) continue;
      }
    }
    return at_byte(o.name, i - guard, now[i], expected[i - guard]);
  }
  return "";
}

struct PlanOwner {
  wl_plan* plan = nullptr;
  ~PlanOwner() { wl_plan_destroy(plan); }
};
struct StreamOwner {
  wl_context* context;
  wl_stream stream = nullptr;
  ~StreamOwner() {
    if (stream) wl_stream_destroy(context, stream);
  }
};

} // namespace

const char* const no_plan = "no plan: ";

std::string run(wl_context* context, const Problem& p, const Neighbour& neighbour) {
  const Way way = neighbour ? Way::default_stream : p.way;
  std::map<std::string, std::unique_ptr<Guarded>> memory;
  std::map<std::string, std::unique_ptr<Guarded>> elsewhere; // that a plan is made for
  Addresses addresses, planned;
  Regions regions;
  const auto plan_for = [&](const std::string& name, size_t bytes, size_t misalignment) {
    planned[name] = addresses[name];
    if (!p.run_with || p.planned.count(name) != 0) return;
    auto& m = elsewhere[name];
    m = std::make_unique<Guarded>(context, 2 * bytes, misalignment, 0x66);
    planned[name] = m->pointer();
  };
  uint8_t fill = 0xA5;
  for (const Input& in : p.inputs) {
    if (!in.within.empty()) {
      addresses[in.name] = addresses.at(in.within);
      planned[in.name] = planned.at(in.within);
      continue;
    }
    auto& m = memory[in.name];
    // 0xFF: NaN in all types but E2M1.
    m = std::make_unique<Guarded>(context, in.runs[0].size(), in.misalignment, 0xFF,
                                  Behind::nothing);
    addresses[in.name] = m->pointer();
    regions[in.name] = {m->pointer(), in.runs[0].size()};
    plan_for(in.name, in.runs[0].size(), in.misalignment);
  }
  for (const Output& out : p.outputs) {
    auto& m = memory[out.name];
    m = std::make_unique<Guarded>(context, out.runs[0].size(), out.misalignment, fill);
    addresses[out.name] = m->pointer();
    regions[out.name] = {m->pointer(), out.runs[0].size()};
    plan_for(out.name, out.runs[0].size(), out.misalignment);
  }
  const auto failed = [](wl_status s) { return s != WL_SUCCESS; };
  PlanOwner owner;
  if (failed(p.plan(context, planned, &owner.plan))) return no_plan + std::string(wl_last_error());
  wl_plan_info info{};
  info.struct_size = sizeof info;
  wl_plan_get_info(owner.plan, &info);
  if (!p.config.empty() && p.config != info.config)
    return "the plan is of " + std::string(info.config) + ", not of " + p.config;
  Guarded workspace(context, info.workspace_bytes, p.workspace_misalignment, 0xFF);
  void* const space = info.workspace_bytes != 0 ? workspace.pointer() : nullptr;

  StreamOwner stream{context};
  if (way == Way::own_stream && failed(wl_stream_create(context, &stream.stream)))
    return wl_last_error();
  const auto enqueue = [&](int run, wl_stream on) {
    wl_status status = WL_SUCCESS;
    for (int i = 0; i < p.in_a_row && status == WL_SUCCESS; ++i)
      status = p.run_with ? p.run_with(run, owner.plan, addresses, space, info.workspace_bytes, on)
                          : wl_plan_run(owner.plan, space, info.workspace_bytes, on);
    return status;
  };
  CapturedGraph graph(context);
  if (way == Way::captured && failed(graph.capture([&](wl_stream on) { return enqueue(0, on); })))
    return wl_last_error();

  for (int i = 0; i < p.runs; ++i) {
    const std::string run = p.runs > 1 ? "run " + std::to_string(i + 1) + ": " : "";
    const auto of = [i](const std::vector<Bytes>& runs) -> const Bytes& {
      return runs[static_cast<size_t>(i) % runs.size()];
    };
    for (const Input& in : p.inputs)
      if (in.within.empty()) memory[in.name]->write(of(in.runs));
    for (const Output& out : p.outputs)
      if (out.before.empty())
        memory[out.name]->fill(fill);
      else
        memory[out.name]->write(of(out.before));
    fill = static_cast<uint8_t>(~fill);
    if (neighbour) neighbour(regions, Side::ahead);
    if (way == Way::captured ? failed(graph.launch()) : failed(enqueue(i, stream.stream)))
      return run + wl_last_error();
    if (neighbour) neighbour(regions, Side::behind);
    if (way != Way::captured && failed(wl_stream_synchronize(context, stream.stream)))
      return run + wl_last_error();
    const bool own_exponentials = p.exponentials && !context->driver->is_virtual;
    const auto number = static_cast<size_t>(i);
    std::map<std::string, Bytes> now;
    std::map<std::string, const Output*> outputs;
    for (const Output& out : p.outputs)
      now[out.name] = memory[out.name]->read_all(), outputs[out.name] = &out;
    if (own_exponentials && !p.blocks.empty())
      accept_near_blocks(p.blocks[number % p.blocks.size()], *outputs.at("d"), *outputs.at("sfd"),
                         number, &now.at("d")[guard], &now.at("sfd")[guard]);
    std::string wrong;
    for (const Output& out : p.outputs)
      if (wrong.empty())
        wrong = output_wrong(
            out, *memory[out.name], now[out.name], number,
            out.written_by.empty() ? out.written : out.written_by[number % out.written_by.size()],
            own_exponentials);
    for (const Input& in : p.inputs)
      if (wrong.empty() && in.within.empty()) wrong = input_changed(in.name, *memory[in.name]);
    for (const auto& [name, m] : elsewhere)
      if (wrong.empty() && m->read_all() != m->image())
        wrong = "the " + name + " of the plan, which is not the run's, was written to";
    const Bytes after = workspace.read_all();
    for (size_t b = 0; b < guard && wrong.empty(); ++b)
      if (after[b] != 0xFF || after[after.size() - 1 - b] != 0xFF)
        wrong = "memory around the workspace was written to";
    if (!wrong.empty()) return run + wrong;
  }
  return "";
}

std::vector<size_t> first_problems(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

Problem make_problem(const Operation& operation, const Configuration& configuration, uint64_t seed,
                     size_t index, Varied* varied, Values values) {
  Draw draw(seed, configuration.name, index);
  Problem p = operation.make(configuration, draw, values);
  const bool waits_in_memory = configuration.most_tiles < INT64_MAX;
  // CTAs that wait for each other's flags in memory take up to 5 s a run under all checks,
  if (waits_in_memory && p.checks == "all") p.runs = 1;
  // A register that is read undefined is so in many problems, and to look for it takes a fifth of
  // their time: every other one of a product is looked at.
  if (operation.args.find("gemm") != std::string::npos && index % 2 == 1 && p.checks != "all")
    p.checks = draw.note<std::string>("checks", "off");
  // and up to a minute under other schedules than these.
  if (p.schedule.empty() && waits_in_memory)
    p.schedule = draw.pick<const char*>("schedule", {"random:1", "random:2", "random:3"});
  if (p.schedule.empty())
    p.schedule =
        draw.pick<const char*>("schedule", {"lazy", "eager", "random:1", "reverse", "random:2"});
  p.text = draw.text();
  if (varied != nullptr) draw.add_to(*varied);
  return p;
}

} // namespace wltest::problems
