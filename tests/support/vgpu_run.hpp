// Runs small PTX texts on the virtual GPU's executor directly, without the driver API:
//
//   Vgpu gpu("b200");
//   uint64_t out = gpu.allocate(128);
//   RunResult r = gpu.run(module_text(R"(
//     ld.param.u64 %rd1, [out]; ... st.global.u32 [%rd1], %r1; ret;)", ".param .u64 out"),
//     Params().u64(out), {.block = {32}});
//   REQUIRE(r.ok);  INFO(r.text)
//   gpu.download<uint32_t>(out, 32)
#pragma once

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/fault.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace wltest {

// Kernel parameters, packed by the C ABI.
class Params {
public:
  Params& u8(uint8_t v) { return raw(&v, sizeof v, sizeof v); }
  Params& u16(uint16_t v) { return raw(&v, sizeof v, sizeof v); }
  Params& u32(uint32_t v) { return raw(&v, sizeof v, sizeof v); }
  Params& s32(int32_t v) { return raw(&v, sizeof v, sizeof v); }
  Params& u64(uint64_t v) { return raw(&v, sizeof v, sizeof v); }
  Params& f32(float v) { return raw(&v, sizeof v, sizeof v); }
  Params& f64(double v) { return raw(&v, sizeof v, sizeof v); }
  // A parameter passed by value, such as a 128-byte tensor map (alignment 64 or 128).
  Params& raw(const void* data, size_t bytes, size_t alignment);
  const std::vector<uint8_t>& packed() const { return bytes_; }

private:
  std::vector<uint8_t> bytes_;
};

struct Dim {
  uint32_t x = 1, y = 1, z = 1; // {64} is 64 x 1 x 1
  operator std::array<uint32_t, 3>() const { return {x, y, z}; }
  uint32_t count() const { return x * y * z; }
};

struct Launch {
  Dim block{32}, grid{}, cluster{};
  uint32_t dynamic_shared = 0;
  std::string schedule = "lazy"; // "eager", "lazy", "random:SEED"
  std::string entry{};           // "" = the module's only entry
  uint32_t checks = 0;           // tools/vgpu/check/options.hpp
  std::string names{};           // of the ledger's table, with values
  uint64_t instruction_limit = 20'000'000;
  unsigned host_threads = 1;
  bool hopper_sums = false;
  uint32_t stack_bytes = 1024;
  uint64_t heap_bytes = 8 << 20;
  bool strict = true;          // errors stop; else they are told
  std::string rules{};         // check::Rules::apply
  bool cluster_launch = false; // names clusters, even of one CTA
};

struct RunResult {
  enum class Stage { Parse, Decode, Launch, Run, Done };
  bool ok = false;
  Stage stage = Stage::Parse;   // where it ended
  vgpu::exec::FaultCode code{}; // Stage::Run
  std::string checker;          // Stage::Run: the rule that was violated
  std::string text;             // error, or the fault's whole report
  vgpu::exec::Stats stats;      // Stage::Done
  // A fault of the checker whose report contains `part`.
  bool faulted(std::string_view checker_name, std::string_view part = "") const;
  // Refused before it ran, with `part` in the message.
  bool refused(std::string_view part = "") const;
};

class Vgpu {
public:
  explicit Vgpu(const std::string& profile = "b200");
  ~Vgpu();

  vgpu::mem::DeviceMemory& memory() { return *memory_; }
  uint64_t allocate(size_t bytes,
                    uint64_t alignment = 512);     // holds the poison pattern, counts as unwritten
  uint64_t upload(const void* data, size_t bytes); // allocate and fill
  template <class T>
  uint64_t upload(const std::vector<T>& v) {
    return upload(v.data(), v.size() * sizeof(T));
  }
  void read(uint64_t address, void* data, size_t bytes); // throws std::out_of_range
  void write(uint64_t address, const void* data, size_t bytes);
  template <class T>
  std::vector<T> download(uint64_t address, size_t n) {
    std::vector<T> v(n);
    read(address, v.data(), n * sizeof(T));
    return v;
  }
  // Address of a module-scope variable of the last run's module; 0 when there is none.
  uint64_t symbol(const std::string& name) const;

  RunResult run(const std::string& text, const Params& params, const Launch& launch = {});

private:
  const vgpu::exec::Profile* profile_;
  std::unique_ptr<vgpu::mem::DeviceMemory> memory_;
  std::vector<std::pair<std::string, uint64_t>> symbols_;
};

// A module with one entry "k" around a body. `params` is the text between the parentheses.
// Registers ready to use: %p<32> pred, %b<32> b8, %h<32> b16, %r<64> b32, %rd<64> b64, %f<64> f32,
// %d<32> f64, %q<16> b128. `head` goes before the entry (module-scope variables, functions).
std::string module_text(const std::string& body, const std::string& params = "",
                        const std::string& target = "sm_100a", const std::string& head = "");

// "eager", "lazy", "random:1", "random:2", "random:3".
const std::vector<std::string>& schedules();

} // namespace wltest
