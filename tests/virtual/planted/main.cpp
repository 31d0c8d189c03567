// build/tests/planted [--program NAME] [--all] [--out PAGE]: faults planted in kernels of other
// compilers (foreign/), and whether a run as users make it notices them: kernels of others, every
// checker, six schedules. A fault is a synchronising instruction that is not there (mutation/; with
// --all each of its changes); it is noticed where a run ends in a fault, is told of an error or of
// advice that the kernel as it is does not bring, or leaves other results; no_faults.txt says whose
// loss is none. Prints a table and what went unnoticed, and writes both to PAGE; the status is 1
// where a kernel as it is is not right, or what is said to be no fault is noticed.
#include "tests/reference/inputs.hpp"
#include "tests/reference/numerics.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/vgpu_run.hpp"
#include "tests/virtual/mutation/mutants.hpp"
#include "tools/cli/options.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/tensor/tensor_map.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

using namespace wltest;

namespace {

// One launch: true where the results are right. Fresh memory each time.
using Program = std::function<bool(Vgpu&, const std::string& text, Launch, RunResult*)>;

struct Entry {
  std::string file, entry, profile;
  Program run;
};

std::vector<int> small_numbers(size_t n, uint64_t seed) {
  const Random random(seed, 0);
  std::vector<int> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = int(random.below(i, 5)) - 2;
  return v;
}

Entry product(const std::string& file, const std::string& profile, uint32_t threads) {
  return {file, "product", profile,
          [=](Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
            const uint32_t m = 200, n = 136, k = 136;
            const std::vector<int> a = small_numbers(m * k, 3), b = small_numbers(n * k, 4);
            std::vector<uint16_t> ha, hb, want(m * n);
            for (const int v : a) ha.push_back(encode_f16(v));
            for (const int v : b) hb.push_back(encode_f16(v));
            for (uint32_t i = 0; i < m; ++i)
              for (uint32_t j = 0; j < n; ++j) {
                int sum = 0;
                for (uint32_t x = 0; x < k; ++x) sum += a[i * k + x] * b[j * k + x];
                want[i * n + j] = encode_f16(sum);
              }
            const uint64_t pa = gpu.upload(ha), pb = gpu.upload(hb), pc = gpu.allocate(m * n * 2),
                           scratch = gpu.allocate(8192);
            l.block = {threads}, l.grid = {2}, l.dynamic_shared = 180'000;
            *r = gpu.run(
                text, Params().u64(pa).u64(pb).u64(pc).u32(m).u32(n).u32(k).u64(scratch).u64(0), l);
            return !r->ok || gpu.download<uint16_t>(pc, m * n) == want;
          }};
}

bool scaled(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  const uint32_t m = 128, n = 128, k = 256;
  const float kValues[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6}, kScales[] = {.5f, 1, 2};
  const uint8_t kCodes[] = {0x30, 0x38, 0x40};
  std::vector<uint8_t> bytes[2], scales[2];
  std::vector<float> values[2], want(m * n);
  for (uint64_t s = 0; s < 2; ++s) {
    const Random random(5, s);
    bytes[s].resize(m * k / 2), scales[s].resize(m * k / 16), values[s].resize(m * k);
    for (size_t i = 0; i < values[s].size(); ++i) {
      const uint64_t code = random.below(i, 16), of_block = random.below(1000000 + i / 16, 3);
      scales[s][i / 16] = kCodes[of_block];
      bytes[s][i / 2] |= uint8_t(code << 4 * (i % 2));
      values[s][i] = (code & 8 ? -1 : 1) * kValues[code & 7] * kScales[of_block];
    }
  }
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t j = 0; j < n; ++j)
      for (uint32_t x = 0; x < k; ++x)
        want[i * n + j] += values[0][i * k + x] * values[1][j * k + x];
  const uint64_t a = gpu.upload(bytes[0]), sa = gpu.upload(scales[0]), b = gpu.upload(bytes[1]),
                 sb = gpu.upload(scales[1]), c = gpu.allocate(m * n * 4);
  l.block = {128}, l.dynamic_shared = 100'000;
  *r = gpu.run(text, Params().u64(a).u64(sa).u64(b).u64(sb).u64(c).u32(n).u32(k).u64(0).u64(0), l);
  return !r->ok || gpu.download<float>(c, m * n) == want;
}

bool rows(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  const uint32_t m = 100, n = 128;
  std::vector<uint16_t> x(m * n), want(64 * n);
  std::vector<int> index(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = uint16_t(i * 7919 % 30000);
  for (size_t i = 0; i < index.size(); ++i) index[i] = int(i * 37 % m);
  for (size_t i = 0; i < want.size(); ++i) want[i] = x[size_t(index[i / n]) * n + i % n];
  const uint64_t px = gpu.upload(x), pi = gpu.upload(index), out = gpu.allocate(64 * n * 2),
                 scratch = gpu.allocate(8192);
  l.block = {128}, l.grid = {2, 2}, l.dynamic_shared = 20'000;
  *r = gpu.run(text, Params().u64(px).u64(pi).u64(out).u32(m).u32(n).u64(scratch).u64(0), l);
  return !r->ok || gpu.download<uint16_t>(out, 64 * n) == want;
}

bool histogram(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  std::vector<int> in(3000), counts(64);
  for (size_t i = 0; i < in.size(); ++i) ++counts[size_t(in[i] = int(i * i % 64))];
  const uint64_t from = gpu.upload(in), out = gpu.upload(std::vector<int>(64));
  l.block = {128}, l.grid = {3}, l.dynamic_shared = 4096;
  *r = gpu.run(text, Params().u64(from).u64(out).u32(3000).u64(0).u64(0), l);
  return !r->ok || gpu.download<int>(out, 64) == counts;
}

bool tile(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  std::vector<int> in(64 * 40), want(in.size(), -1);
  std::iota(in.begin(), in.end(), 0);
  for (size_t y = 16; y < 24; ++y)
    for (size_t x = 32; x < 64; ++x) want[y * 64 + x] = in[y * 64 + x] + 1;
  const uint64_t a = gpu.upload(in), b = gpu.upload(std::vector<int>(in.size(), -1));
  alignas(128) uint8_t maps[2][128];
  for (int i = 0; i < 2; ++i) {
    const uint64_t dim[] = {64, 40}, stride[] = {256};
    const uint32_t box[] = {32, 8}, step[] = {1, 1};
    vgpu::tensor::TiledArguments t;
    t.type = 3;
    t.rank = 2;
    t.address = reinterpret_cast<void*>(i ? b : a);
    t.dim = dim;
    t.stride = stride;
    t.box = box;
    t.element_stride = step;
    if (!vgpu::tensor::encode_tiled(t, 90, maps[i]).empty()) return false;
  }
  l.block = {64};
  *r = gpu.run(text, Params().raw(maps[0], 128, 64).raw(maps[1], 128, 64).s32(32).s32(16), l);
  return !r->ok || gpu.download<int>(b, in.size()) == want;
}

bool bulk(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  std::vector<int> in(64 * 40), want(256);
  std::iota(in.begin(), in.end(), 0);
  for (size_t i = 0; i < want.size(); ++i) want[i] = 2 * int(i);
  const uint64_t a = gpu.upload(in), b = gpu.upload(std::vector<int>(in.size(), -1));
  l.block = {96};
  *r = gpu.run(text, Params().u64(a).u64(b), l);
  return !r->ok || gpu.download<int>(b, 256) == want;
}

bool staged(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  std::vector<int> in(64 * 40), want(5 * 256);
  std::iota(in.begin(), in.end(), 0);
  for (size_t i = 0; i < want.size(); ++i) want[i] = int(i) + (i % 4 ? 0 : int(i / 256));
  const uint64_t a = gpu.upload(in), b = gpu.upload(std::vector<int>(in.size(), -1));
  l.block = {64};
  *r = gpu.run(text, Params().u64(a).u64(b).s32(5), l);
  return !r->ok || gpu.download<int>(b, want.size()) == want;
}

bool sum(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  const std::vector<int> in = small_numbers(5000, 1);
  const uint64_t a = gpu.upload(in), total = gpu.upload(std::vector<int>{0});
  l.block = {96}, l.grid = {3};
  *r = gpu.run(text, Params().u64(a).s32(5000).u64(total), l);
  return !r->ok || gpu.download<int>(total, 1)[0] == std::accumulate(in.begin(), in.end(), 0);
}

bool largest(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  std::vector<float> in(5000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i * 7919 % 4999);
  const uint64_t a = gpu.upload(in), out = gpu.allocate(4);
  l.block = {128}, l.dynamic_shared = 512;
  *r = gpu.run(text, Params().u64(a).s32(5000).u64(out), l);
  return !r->ok || gpu.download<float>(out, 1)[0] == 4998;
}

bool transpose(Vgpu& gpu, const std::string& text, Launch l, RunResult* r) {
  std::vector<float> in(70 * 45), want(in.size());
  std::iota(in.begin(), in.end(), 1.0f);
  for (size_t y = 0; y < 70; ++y)
    for (size_t x = 0; x < 45; ++x) want[x * 70 + y] = in[y * 45 + x];
  const uint64_t a = gpu.upload(in), b = gpu.allocate(in.size() * 4);
  l.block = {32, 8}, l.grid = {2, 3};
  *r = gpu.run(text, Params().u64(a).u64(b).s32(70).s32(45), l);
  return !r->ok || gpu.download<float>(b, in.size()) == want;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      product("triton_90", "h200", 384),
      product("triton_100", "b200", 256),
      {"triton_nvfp4", "scaled", "b200", scaled},
      {"triton_rows", "rows", "b200", rows},
      {"triton_histogram", "histogram", "h200", histogram},
      {"async", "tile", "h200", tile},
      {"async", "bulk", "h200", bulk},
      {"async", "staged", "h200", staged},
      {"reduction", "sum", "h200", sum},
      {"reduction", "largest", "h200", largest},
      {"transpose", "transpose", "h200", transpose},
  };
  return all;
}

// Of one run: what came of it, "" = nothing; told of which rules, at which places.
struct Outcome {
  std::string kind; // "fault", "results"
  std::map<std::string, vgpu::check::Grade> told;
};

// The rule, and the lines that are named: a place of the text, whatever stands around it.
std::string place_of(const std::string& told) {
  std::string place = told.substr(0, told.find(')'));
  for (size_t at = told.find(" line "); at != std::string::npos; at = told.find(" line ", at + 1))
    place += told.substr(at, told.find_first_not_of("0123456789", at + 6) - at);
  return place;
}

Outcome run(const Entry& e, const std::string& text, const std::string& schedule) {
  Vgpu gpu(e.profile);
  Launch l;
  l.entry = e.entry;
  l.strict = false;
  l.checks = vgpu::check::kAll;
  l.schedule = schedule;
  RunResult r;
  const bool right = e.run(gpu, text, l, &r);
  Outcome o;
  o.kind = !r.ok ? "fault" : right ? "" : "results";
  for (const auto& [place, told] : r.stats.told) o.told[place_of(told.text)] = told.grade;
  return o;
}

// Lines of the text that are the entry's: those of others in the same file never run.
std::pair<int, int> lines_of(const std::string& text, const std::string& entry) {
  int number = 0, first = 0, last = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find(".entry " + entry + "(") != std::string::npos) first = number;
    if (first != 0 && last == 0 && line == "}") last = number;
  }
  return {first, last};
}

// Whose loss is no fault: by kernel and line.
std::map<std::string, std::string> read_no_faults() {
  std::ifstream in(source_file("tests/virtual/planted/no_faults.txt"));
  std::map<std::string, std::string> reasons;
  for (std::string line; std::getline(in, line);) {
    const size_t bar = line.find(" | ");
    if (line.empty() || line[0] == '#' || bar == std::string::npos) continue;
    std::istringstream words(line.substr(0, bar));
    std::string kernel, number;
    for (words >> kernel; words >> number;) reasons[kernel + " " + number] = line.substr(bar + 3);
  }
  return reasons;
}

// What noticed it: "fault", "results", "error", "advice", or "none".
const char* const kSchedules[] = {"lazy",     "random:1", "random:2",
                                  "random:3", "random:4", "random:5"};
std::string noticed_by(const Entry& e, const std::string& text,
                       const std::set<std::string>& known) {
  std::string kind = "none";
  for (const char* schedule : kSchedules) {
    const Outcome o = run(e, text, schedule);
    if (!o.kind.empty()) return o.kind;
    for (const auto& [place, grade] : o.told) {
      if (known.count(place) != 0) continue;
      if (grade != vgpu::check::Grade::Advice) return "error";
      kind = "advice";
    }
  }
  return kind;
}

} // namespace

int main(int argc, char** argv) {
  std::string only, out;
  bool all = false;
  warpline::cli::Options options("planted", "The head of tests/virtual/planted/main.cpp says more.",
                                 "");
  options.text("--program", "NAME", "this alone", only);
  options.text("--out", "FILE", "the page", out);
  options.flag("--all", "every mutant", all);
  options.repeated();
  parse(options, argc, argv);
  const std::map<std::string, std::string> no_faults = read_no_faults();
  std::map<std::string, int> sums;
  int wrong = 0;
  std::string table, unnoticed, excused;
  const auto row = [&](const std::string& name, std::map<std::string, int>& n) {
    table += "| " + name;
    for (const char* column :
         {"planted", "no fault", "fault", "results", "error", "advice", "none"})
      table += " | " + std::to_string(n[column]);
    table += " |\n";
  };
  for (const Entry& e : entries()) {
    const std::string name = e.file + "." + e.entry;
    if (!only.empty() && only != name) continue;
    std::ifstream in(source_file("tests/virtual/foreign/" + e.file + ".ptx"));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto [first, last] = lines_of(text, e.entry);
    std::set<std::string> known;
    for (const char* schedule : kSchedules) {
      const Outcome o = run(e, text, schedule);
      for (const auto& [place, grade] : o.told) known.insert(place);
      if (o.kind.empty()) continue;
      std::printf("%s under %s as it is: %s\n", name.c_str(), schedule, o.kind.c_str());
      ++wrong;
    }
    std::map<std::string, int> counts;
    for (const Mutant& m : make_mutants(text)) {
      const bool gone = m.change.starts_with("delete");
      if (m.line < first || m.line > last || (!all && !gone)) continue;
      const std::string place = name + " " + std::to_string(m.line);
      const auto reason = gone ? no_faults.find(place) : no_faults.end();
      std::string kind = noticed_by(e, mutated(text, m), known);
      if (reason != no_faults.end() && kind != "none") {
        std::printf("%s is said to be no fault, and noticed: %s\n", place.c_str(), kind.c_str());
        ++wrong;
      }
      const std::string what = "- `" + place + "`: " + m.change + ": `" + m.instruction + "`";
      if (reason != no_faults.end() && kind == "none") {
        kind = "no fault";
        excused += what + ": " + reason->second + "\n";
      } else if (kind == "none") {
        unnoticed += what + "\n";
      }
      ++counts[kind], ++counts["planted"];
    }
    row("`" + name + "`", counts);
    for (const auto& [kind, count] : counts) sums[kind] += count;
  }
  row("all", sums);
  const int faults = sums["planted"] - sums["no fault"], noticed = faults - sums["none"];
  char share[96];
  std::snprintf(share, sizeof share, "%d of %d faults noticed (%.1f %%)", noticed, faults,
                faults == 0 ? 100.0 : 100.0 * noticed / faults);
  const std::string page =
      "# Faults planted in kernels of other compilers\n\n"
      "Written by `make planted`: what nvcc and Triton made of the sources in `foreign/`, with one "
      "synchronising instruction\nless, run as users do: rules for kernels of others, `--check "
      "all`, `lazy` and five seeds. A fault is noticed where a run\nends in a fault, leaves other "
      "results, or tells of an error or of advice that the kernel as it is does not bring.\n\n" +
      std::string(share) +
      ".\n\n| kernel | planted | no fault | fault | wrong results | error told | advice told | "
      "unnoticed |\n|---|---|---|---|---|---|---|---|\n" +
      table + "\n## Unnoticed\n\n" + unnoticed + "\n## No faults\n\n" + excused;
  std::printf("%s%s%s\n", table.c_str(), unnoticed.c_str(), share);
  if (!out.empty()) {
    std::ofstream to(out);
    to << page;
    if (!to.good()) {
      std::fprintf(stderr, "planted: %s cannot be written\n", out.c_str());
      return 2;
    }
  }
  return wrong != 0;
}
