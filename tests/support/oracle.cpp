#include "tests/support/oracle.hpp"

#include "tests/support/child.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/temporary.hpp"
#include "tools/vgpu/num/formats.hpp"
#include "tools/vgpu/tensor/tensor_map.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace wltest::oracle {

using namespace cuapi;

namespace {

constexpr size_t kMapBytes = 128;
constexpr double kDeadlineSeconds = 5; // of one kernel on the GPU
constexpr int kMaxRestarts = 80;

std::string hex(uint64_t v) {
  std::ostringstream s;
  s << "0x" << std::hex << v;
  return s.str();
}

std::vector<uint8_t> outputs_of(const Case& c, const std::vector<std::vector<uint8_t>>& buffers) {
  std::vector<uint8_t> all;
  for (size_t i = 0; i < c.buffers.size(); ++i)
    if (c.buffers[i].output) all.insert(all.end(), buffers[i].begin(), buffers[i].end());
  return all;
}

// ---- the virtual side

std::string encode_virtual(const Map& m, uint64_t address, void* out) {
  const auto place = reinterpret_cast<const void*>(address);
  if (m.channels) {
    vgpu::tensor::Im2colArguments a;
    a.type = m.type;
    a.rank = uint32_t(m.dim.size());
    a.address = place;
    a.dim = m.dim.data();
    a.stride = m.strides();
    a.lower = m.lower.data();
    a.upper = m.upper.data();
    a.channels_per_pixel = m.channels;
    a.pixels_per_column = m.pixels;
    a.element_stride = m.element_stride.data();
    a.interleave = m.interleave;
    a.swizzle = m.swizzle;
    a.fill = m.fill;
    return vgpu::tensor::encode_im2col(a, 90, out);
  }
  vgpu::tensor::TiledArguments a;
  a.type = m.type;
  a.rank = uint32_t(m.dim.size());
  a.address = place;
  a.dim = m.dim.data();
  a.stride = m.strides();
  a.box = m.box.data();
  a.element_stride = m.element_stride.data();
  a.interleave = m.interleave;
  a.swizzle = m.swizzle;
  a.fill = m.fill;
  return vgpu::tensor::encode_tiled(a, 90, out);
}

// Output bytes under one schedule.
bool run_virtual(const Case& c, const std::string& text, const std::string& schedule,
                 std::vector<uint8_t>* out, std::string* error) {
  Vgpu gpu("h200");
  Params params;
  std::vector<uint64_t> at;
  for (const Buffer& b : c.buffers) at.push_back(gpu.upload(b.bytes));
  for (const Map& m : c.maps) {
    alignas(128) uint8_t bytes[kMapBytes];
    *error = encode_virtual(m, at[m.buffer], bytes);
    if (!error->empty()) return false;
    params.raw(bytes, kMapBytes, 64);
  }
  for (uint64_t a : at) params.u64(a);
  Launch launch;
  launch.block = c.block;
  launch.grid = c.grid;
  launch.cluster = c.cluster;
  launch.dynamic_shared = c.dynamic_shared;
  launch.schedule = schedule;
  launch.hopper_sums = c.hopper_sums;
  launch.strict = !c.lenient;
  launch.cluster_launch = c.cluster_launch;
  RunResult r = gpu.run(text, params, launch);
  if (!r.ok) {
    *error = "schedule " + schedule + ": " + r.text;
    return false;
  }
  std::vector<std::vector<uint8_t>> buffers;
  for (size_t i = 0; i < at.size(); ++i)
    buffers.push_back(gpu.download<uint8_t>(at[i], c.buffers[i].bytes.size()));
  *out = outputs_of(c, buffers);
  return true;
}

// ---- comparison

// The first rows that differ, operands and both results.
std::string differing_rows(const Case& c, const std::vector<uint8_t>& a,
                           const std::vector<uint8_t>& b) {
  std::string s;
  int shown = 0;
  for (size_t at = 0; at + c.row_bytes <= std::min(a.size(), b.size()) && shown < 8;
       at += c.row_bytes) {
    uint64_t x = 0, y = 0;
    std::memcpy(&x, &a[at], 8);
    std::memcpy(&y, &b[at], 8);
    if (x == y) continue;
    s += shown++ ? ";" : " (";
    for (uint32_t k = 1; k <= c.operands; ++k) {
      uint64_t v = 0;
      std::memcpy(&v, &c.buffers[0].bytes[at + 8 * k], 8);
      s += (k > 1 ? ", " : shown > 1 ? " " : "") + hex(v);
    }
    s += ": GPU " + hex(x) + ", virtual " + hex(y);
  }
  return s.empty() ? s : s + ")";
}

std::string first_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b,
                             const char* name_a, const char* name_b) {
  if (a.size() != b.size())
    return std::to_string(a.size()) + " bytes against " + std::to_string(b.size());
  size_t count = 0, first = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && count++ == 0) first = i;
  if (count == 0) return {};
  size_t word = first / 4 * 4;
  auto value = [&](const std::vector<uint8_t>& v) {
    uint32_t w = 0;
    std::memcpy(&w, &v[word], std::min<size_t>(4, v.size() - word));
    return hex(w);
  };
  return std::to_string(count) + " of " + std::to_string(a.size()) +
         " bytes differ, first at byte " + std::to_string(first) + ": word " + name_a + " " +
         value(a) + ", " + name_b + " " + value(b);
}

// Floats counted in order, so that neighbours differ by 1.
int64_t ordered(uint32_t bits, uint32_t sign) {
  return bits & sign ? -int64_t(bits & (sign - 1)) : int64_t(bits);
}

std::string distances(const Case& c, const std::vector<uint8_t>& a, const std::vector<uint8_t>& b,
                      bool* numbers_agree) {
  bool half = c.compare != Compare::ulp32;
  uint32_t sign = half ? 0x8000u : 0x80000000u;
  uint32_t infinity = !half ? 0x7F800000u : c.compare == Compare::ulp16 ? 0x7C00u : 0x7F80u;
  int64_t worst = 0, where = 0;
  size_t differing = 0, total = 0;
  *numbers_agree = true;
  std::string nan;
  for (size_t at = 0; at + 4 <= a.size(); at += c.row_bytes, ++total) {
    uint32_t x = 0, y = 0;
    std::memcpy(&x, &a[at], half ? 2 : 4);
    std::memcpy(&y, &b[at], half ? 2 : 4);
    if (x == y) continue;
    ++differing;
    bool x_nan = (x & (sign - 1)) > infinity, y_nan = (y & (sign - 1)) > infinity;
    if (x_nan && y_nan) continue;
    if (x_nan != y_nan) {
      *numbers_agree = false;
      nan = "; NaN on one side: row " + std::to_string(at / c.row_bytes) + " GPU " + hex(x) +
            ", virtual " + hex(y);
      continue;
    }
    int64_t d = std::abs(ordered(x, sign) - ordered(y, sign));
    if (d > worst) worst = d, where = int64_t(at / c.row_bytes);
  }
  if (differing == 0) return {};
  return "at most " + std::to_string(worst) + " ulp (row " + std::to_string(where) + "), " +
         std::to_string(differing) + " of " + std::to_string(total) + " differ" + nan;
}

// ---- the GPU's side

struct Failed {
  std::string what;
  bool context_lost = false;
};

class Device {
public:
  explicit Device(const Gpu& gpu) : cu_(gpu.driver->cu) {}

  std::vector<uint8_t> run(const Case& c) {
    std::string text = ptx_text(c);
    std::vector<char> log(16384, '\0');
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log.data(), reinterpret_cast<void*>(uintptr_t(log.size()))};
    CUmodule module = nullptr;
    CUresult loaded = cu_.ModuleLoadDataEx(&module, text.c_str(), 2, options, values);
    if (loaded != CUDA_SUCCESS) throw Failed{"JIT: " + name(loaded) + " " + log.data()};
    CUfunction function = nullptr;
    check(cu_.ModuleGetFunction(&function, module, "k"), "cuModuleGetFunction");
    if (c.dynamic_shared)
      check(cu_.FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 int(c.dynamic_shared)),
            "cuFuncSetAttribute");
    std::vector<CUdeviceptr> at(c.buffers.size());
    for (size_t i = 0; i < at.size(); ++i) {
      check(cu_.MemAlloc(&at[i], c.buffers[i].bytes.size()), "cuMemAlloc");
      check(cu_.MemcpyHtoD(at[i], c.buffers[i].bytes.data(), c.buffers[i].bytes.size()),
            "cuMemcpyHtoD");
    }
    std::vector<CUtensorMap> maps(c.maps.size());
    std::vector<void*> params;
    for (size_t i = 0; i < maps.size(); ++i) {
      encode(c.maps[i], at[c.maps[i].buffer], &maps[i]);
      params.push_back(&maps[i]);
    }
    for (CUdeviceptr& a : at) params.push_back(&a);
    launch(c, function, params.data());

    std::vector<std::vector<uint8_t>> buffers;
    for (size_t i = 0; i < at.size(); ++i) {
      buffers.emplace_back(c.buffers[i].bytes.size());
      check(cu_.MemcpyDtoH(buffers[i].data(), at[i], buffers[i].size()), "cuMemcpyDtoH");
      cu_.MemFree(at[i]);
    }
    cu_.ModuleUnload(module);
    return outputs_of(c, buffers);
  }

private:
  std::string name(CUresult r) const {
    const char* text = nullptr;
    cu_.GetErrorName(r, &text);
    return text ? text : std::to_string(int(r));
  }
  void check(CUresult r, const char* call) const {
    if (r != CUDA_SUCCESS) throw Failed{std::string(call) + ": " + name(r), true};
  }

  void encode(const Map& m, CUdeviceptr address, CUtensorMap* map) const {
    auto* place = reinterpret_cast<void*>(uintptr_t(address));
    auto type = CUtensorMapDataType(m.type);
    auto interleave = CUtensorMapInterleave(m.interleave);
    auto swizzle = CUtensorMapSwizzle(m.swizzle);
    auto fill = CUtensorMapFloatOOBfill(m.fill);
    auto rank = uint32_t(m.dim.size());
    CUresult r;
    if (m.channels) {
      if (!cu_.TensorMapEncodeIm2col) throw Failed{"the driver has no cuTensorMapEncodeIm2col"};
      r = cu_.TensorMapEncodeIm2col(map, type, rank, place, m.dim.data(), m.strides(),
                                    m.lower.data(), m.upper.data(), m.channels, m.pixels,
                                    m.element_stride.data(), interleave, swizzle,
                                    CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
    } else {
      r = cu_.TensorMapEncodeTiled(map, type, rank, place, m.dim.data(), m.strides(), m.box.data(),
                                   m.element_stride.data(), interleave, swizzle,
                                   CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
    }
    if (r != CUDA_SUCCESS) throw Failed{"cuTensorMapEncode: " + name(r)};
  }

  void launch(const Case& c, CUfunction function, void** params) const {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {c.cluster.x, c.cluster.y, c.cluster.z};
    CUlaunchConfig config{};
    config.gridDimX = c.grid.x;
    config.gridDimY = c.grid.y;
    config.gridDimZ = c.grid.z;
    config.blockDimX = c.block.x;
    config.blockDimY = c.block.y;
    config.blockDimZ = c.block.z;
    config.sharedMemBytes = c.dynamic_shared;
    bool clusters = c.cluster_launch || c.cluster.count() > 1;
    config.attrs = clusters ? &attribute : nullptr;
    config.numAttrs = clusters ? 1 : 0;
    check(cu_.LaunchKernelEx(&config, function, params, nullptr), "cuLaunchKernelEx");
    auto start = std::chrono::steady_clock::now();
    while (cu_.StreamQuery) {
      CUresult r = cu_.StreamQuery(nullptr);
      if (r == CUDA_SUCCESS) break;
      if (r != CUDA_ERROR_NOT_READY) check(r, "kernel");
      std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (passed.count() > kDeadlineSeconds)
        throw Failed{"still running after " + std::to_string(int(kDeadlineSeconds)) + " s", true};
      std::this_thread::yield();
    }
    check(cu_.CtxSynchronize(), "kernel");
  }

  const Functions& cu_;
};

void write_file(const std::string& path, const void* data, size_t bytes) {
  std::ofstream file(path + ".part", std::ios::binary);
  file.write(static_cast<const char*>(data), std::streamsize(bytes));
  file.close();
  std::filesystem::rename(path + ".part", path);
}

std::string result_path(const std::string& directory, size_t index) {
  return directory + "/" + std::to_string(index);
}

// Starts workers until every case of one lane (first, first + lanes, ...) has a result or an error.
void run_lane(const std::vector<Case>& cases, const std::vector<std::string>& command,
              const std::string& directory, size_t first, size_t lanes) {
  auto has = [&](size_t i, const char* suffix) {
    return std::filesystem::exists(result_path(directory, i) + suffix);
  };
  size_t next = first;
  for (int restart = 0; next < cases.size() && restart < kMaxRestarts; ++restart) {
    ChildResult r = run_child(command,
                              {{"WL_ORACLE_WORK", directory},
                               {"WL_ORACLE_START", std::to_string(next)},
                               {"WL_ORACLE_LANES", std::to_string(lanes)},
                               {"WL_TEST_COUNTS", ""}},
                              120);
    size_t before = next, last = cases.size();
    while (next < cases.size() && (has(next, ".out") || has(next, ".err"))) {
      last = next;
      next += lanes;
    }
    if (next >= cases.size()) return;
    // A worker that lost its context says so in its last file.
    if (next > before && r.status == 3 && has(last, ".err")) continue;
    std::string text = "the worker ended with status " + std::to_string(r.status) +
                       (r.timed_out ? " (120 s over)" : "") + ": " +
                       r.out.substr(r.out.size() > 400 ? r.out.size() - 400 : 0) + r.err;
    write_file(result_path(directory, next) + ".err", text.data(), text.size());
    next += lanes;
  }
}

// Compilation takes most of the time, so several processes share the GPU.
void run_workers(const std::vector<Case>& cases, const std::vector<std::string>& command,
                 const std::string& directory) {
  size_t lanes = std::clamp(std::thread::hardware_concurrency() / 2, 1u, 6u);
  std::vector<std::thread> threads;
  for (size_t lane = 0; lane < lanes; ++lane)
    threads.emplace_back([&, lane] { run_lane(cases, command, directory, lane, lanes); });
  for (std::thread& t : threads) t.join();
}

} // namespace

Case& Case::in(const std::string& parameter, std::vector<uint8_t> bytes) {
  buffers.push_back({parameter, std::move(bytes), false});
  return *this;
}
Case& Case::out(const std::string& parameter, std::vector<uint8_t> bytes) {
  buffers.push_back({parameter, std::move(bytes), true});
  return *this;
}
Case& Case::out(const std::string& parameter, size_t bytes) {
  return out(parameter, std::vector<uint8_t>(bytes, 0xEE));
}

std::string ptx_text(const Case& c) {
  std::string params;
  for (size_t i = 0; i < c.maps.size(); ++i)
    params += "  .param .align 64 .b8 m" + std::to_string(i) + "[128],\n";
  for (const Buffer& b : c.buffers) params += "  .param .u64 " + b.name + ",\n";
  if (!params.empty()) params.resize(params.size() - 2);
  // PTX 8.6 has everything that sm_90a offers here and is read by every driver since 12.7.
  return ".version 8.6\n.target sm_90a\n.address_size 64\n" + c.head + "\n.visible .entry k(\n" +
         params + ")\n.maxntid " + std::to_string(c.block.count()) + ", 1, 1\n" + c.directives +
         "{\n  .reg .pred %p<32>;\n  .reg .b16 %h<32>;\n  .reg .b32 %r<64>;\n"
         "  .reg .b64 %rd<64>;\n  .reg .f32 %f<64>;\n  .reg .f64 %d<32>;\n" +
         c.body + "\n}\n";
}

std::string bounded_wait(const std::string& barrier, const std::string& parity, int id) {
  std::string n = std::to_string(id);
  return "  mov.u32 %r63, 0;\nwait" + n + ": mbarrier.try_wait.parity.shared::cta.b64 %p31, " +
         barrier + ", " + parity + ", 1000;\n  @%p31 bra waited" + n +
         ";\n  add.u32 %r63, %r63, 1;\n" +
         "  setp.gt.u32 %p30, %r63, 500000;\n  @%p30 trap;\n  bra wait" + n + ";\nwaited" + n +
         ":\n";
}

std::vector<uint8_t> random_bytes(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(n);
  for (uint8_t& x : v) x = uint8_t(rng());
  return v;
}

void run_worker(const std::vector<Case>& cases, const std::string& directory, size_t start,
                size_t step) {
  Gpu gpu = find_gpu();
  if (!gpu.driver) throw std::runtime_error("no driver in the worker");
  CurrentContext current(gpu);
  Device device(gpu);
  for (size_t i = start; i < cases.size(); i += step) {
    std::string path = result_path(directory, i);
    try {
      std::vector<uint8_t> out = device.run(cases[i]);
      write_file(path + ".out", out.data(), out.size());
    } catch (const Failed& f) {
      write_file(path + ".err", f.what.data(), f.what.size());
      // Nothing of this context works any more, not even its end.
      if (f.context_lost) _exit(3);
    }
  }
}

Summary run_both(const std::vector<Case>& cases, const std::vector<std::string>& worker) {
  Summary s;
  s.outcomes.resize(cases.size());
  Gpu gpu = find_gpu();
  s.has_gpu = gpu.driver && gpu.major == 9;
  if (!gpu.driver)
    s.why_not = "no CUDA driver or no device";
  else if (!s.has_gpu)
    s.why_not = "the device is not a Hopper GPU";
  else {
    char name[128] = {};
    gpu.driver->cu.DeviceGetName(name, int(sizeof name) - 1, gpu.device);
    s.device = std::string(name) + ", driver " + warpline::version_text(gpu.driver->version) +
               (gpu.driver->is_virtual ? " (virtual driver)" : "");
  }
  TemporaryDirectory directory;

  std::vector<std::vector<uint8_t>> simulated(cases.size());
  std::atomic<size_t> next{0};
  auto simulate = [&] {
    for (size_t i; (i = next++) < cases.size();) {
      const Case& c = cases[i];
      Outcome& o = s.outcomes[i];
      std::string text = ptx_text(c);
      std::vector<std::string> plans{"lazy"};
      if (c.scheduled) plans = {"lazy", "eager", "random:1"};
      for (const std::string& plan : plans) {
        std::vector<uint8_t> out;
        if (!run_virtual(c, text, plan, &out, &o.error)) break;
        if (plan == plans[0])
          simulated[i] = std::move(out);
        else if (out != simulated[i])
          o.error = "schedule " + plan +
                    " against lazy: " + first_difference(out, simulated[i], plan.c_str(), "lazy");
        if (!o.error.empty()) break;
      }
      o.simulated = o.error.empty();
    }
  };
  std::vector<std::thread> threads;
  unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, 12u);
  for (unsigned t = 0; t < count; ++t) threads.emplace_back(simulate);
  if (s.has_gpu) run_workers(cases, worker, directory.path());
  for (std::thread& t : threads) t.join();

  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    Outcome& o = s.outcomes[i];
    std::vector<uint8_t> real;
    if (s.has_gpu) {
      std::string path = directory / std::to_string(i);
      o.ran = std::filesystem::exists(path + ".out");
      if (o.ran) {
        std::string raw = read_text(path + ".out");
        real.assign(raw.begin(), raw.end());
      } else {
        std::string why =
            std::filesystem::exists(path + ".err") ? read_text(path + ".err") : "not reached";
        o.error += (o.error.empty() ? "" : "; ") + ("GPU: " + why);
      }
    }
    if (!c.refused.empty() && !o.simulated && o.error.find(c.refused) != std::string::npos) {
      // A question to the card that the virtual GPU does not answer.
      o.refused = true;
      o.note = "the virtual GPU refuses it (" + c.refused + "); the card: ";
      if (!s.has_gpu)
        o.note += "not asked";
      else if (!o.ran)
        o.note += o.error.substr(o.error.rfind("GPU: ") + 5);
      else
        o.note += "runs" + (c.analyse ? ", " + c.analyse(c, real, {}) : std::string());
      o.error.clear();
    }
    if (o.simulated && o.ran) {
      bool numbers_agree = true;
      if (c.compare == Compare::bits) {
        o.difference = first_difference(real, simulated[i], "GPU", "virtual");
        if (c.operands && !o.difference.empty())
          o.difference += differing_rows(c, real, simulated[i]);
      } else if (c.compare != Compare::measured)
        o.difference = distances(c, real, simulated[i], &numbers_agree);
      o.equal = o.difference.empty();
    }
    if (o.simulated && !c.expected.empty()) {
      std::vector<uint8_t> head(simulated[i].begin(),
                                simulated[i].begin() + std::ptrdiff_t(c.expected.size()));
      std::string d = first_difference(head, c.expected, "virtual", "expected");
      if (!d.empty()) o.difference += (o.difference.empty() ? "" : "; ") + d;
      o.equal = o.difference.empty();
    }
    if (o.simulated && c.refused.empty() && c.analyse && (o.ran || !s.has_gpu))
      o.note = c.analyse(c, real, simulated[i]);
  }
  return s;
}

std::string table(const std::vector<Case>& cases, const Summary& s) {
  struct Row {
    int cases = 0, equal = 0, differing = 0, failed = 0, close = 0;
    std::vector<std::string> notes;
  };
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const Outcome& o = s.outcomes[i];
    if (!rows.count(c.family)) order.push_back(c.family);
    Row& r = rows[c.family];
    ++r.cases;
    auto note = [&](const std::string& text) { r.notes.push_back(c.name + ": " + text); };
    if (!o.error.empty())
      ++r.failed, note("FAILED " + o.error.substr(0, 600));
    else if (!o.difference.empty()) {
      bool ulp = c.compare != Compare::bits;
      ++(ulp ? r.close : r.differing);
      note(o.difference);
    } else if (o.ran && o.simulated && c.compare != Compare::measured)
      ++r.equal;
    if (!o.note.empty()) note(o.note);
  }
  std::ostringstream out;
  Row sum;
  out << "| family | cases | bit-equal | differing | approximations apart | failed |\n"
         "|---|---|---|---|---|---|\n";
  for (const std::string& f : order) {
    const Row& r = rows[f];
    out << "| " << f << " | " << r.cases << " | " << r.equal << " | " << r.differing << " | "
        << r.close << " | " << r.failed << " |\n";
    sum.cases += r.cases, sum.equal += r.equal, sum.differing += r.differing;
    sum.close += r.close, sum.failed += r.failed;
  }
  out << "| all | " << sum.cases << " | " << sum.equal << " | " << sum.differing << " | "
      << sum.close << " | " << sum.failed << " |\n";
  for (const std::string& f : order) {
    if (rows[f].notes.empty()) continue;
    out << "\n**" << f << "**\n\n";
    for (std::string text : rows[f].notes) {
      std::replace(text.begin(), text.end(), '\n', ' ');
      out << "- " << text << "\n";
    }
  }
  return out.str();
}

} // namespace wltest::oracle
