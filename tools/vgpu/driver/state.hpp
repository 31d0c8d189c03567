// What the driver keeps: the device, contexts, and registries of live handles. A handle is a number
// that is never used again and no address, so a stale or foreign one is recognised, never followed.
#pragma once

#include "tools/vgpu/check/grid_uses.hpp"
#include "tools/vgpu/driver/api_types.hpp"
#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/fault.hpp"
#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/ptx/ast.hpp"
#include "tools/vgpu/trace/coverage.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace vgpu::driver {

// Thrown inside entry points only; becomes the call's result. The sentence is what vgpuMessage()
// returns; loud ones go to the report as well.
struct Refusal {
  CUresult code;
  std::string text;
  bool loud = false;
};

// ---- objects behind handles

struct Context {
  CUcontext handle = nullptr;
  bool primary = false, live = false;
  int retained = 0; // primary only
  unsigned flags = 0, api_version = 0;
  uint64_t id = 0;
  CUresult sticky = CUDA_SUCCESS; // error of a kernel; ends all use of the context
  std::map<int, size_t> limits;
};

struct Module;

struct Function {
  CUfunction handle = nullptr;
  std::shared_ptr<Module> module; // the program lives as long as somebody may launch it
  const exec::Program* program = nullptr;
  int max_dynamic_shared = 0;
  int carveout = -1;
  bool nonportable_cluster = false;
  int required_cluster[3] = {0, 0, 0}; // cuFuncSetAttribute; compile-time ones are the program's
  int cluster_policy = 0;
};

struct Module {
  CUcontext context = nullptr;
  std::shared_ptr<mem::DeviceMemory> memory;
  ptx::Module tree; // programs point into it
  std::vector<isa::GlobalSymbol> globals;
  std::vector<std::unique_ptr<exec::Program>> programs;
  std::vector<CUfunction> functions; // handles, in the order of the text
  uint64_t const_bytes = 0;
  int ptx_version = 0; // 10 * major + minor
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();
};

struct LoadedModule { // CUmodule and CUlibrary
  CUcontext context = nullptr;
  std::shared_ptr<Module> module;
  CUmodule as_module = nullptr; // the handles of the same code
  CUlibrary as_library = nullptr;
};

// One piece of work of a stream. Runs with the execution lock held; throws Refusal or exec::Fault.
struct Work {
  std::string what;
  std::function<void()> run;
  bool host = false; // a host callback: runs without the lock
};

// A capture under way. Work is kept in the order of the calls, which respects every dependency that
// streams and events can express; the clocks only tell whether all forked streams were joined.
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  CUstream origin = nullptr;
  bool invalidated = false;
  std::vector<Work> work;
  using Clock = std::map<CUstream, uint64_t>;
  std::map<CUstream, Clock> clocks; // what each member stream has seen of every member
};

struct Stream {
  CUstream handle = nullptr;
  CUcontext context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  std::shared_ptr<Capture> capture;
};

struct Event {
  CUevent handle = nullptr;
  CUcontext context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<Capture> capture; // last recorded in this capture ...
  Capture::Clock clock;             // ... at this point
};

struct Graph {
  CUcontext context = nullptr;
  std::vector<Work> work;
};

struct Link;

// ---- registries

template <class T, class Handle, int Kind>
class Registry {
public:
  Handle add(std::shared_ptr<T> object) {
    uint64_t value = kTag | uint64_t(Kind) << 40 | ++next_ << 4;
    map_.emplace(value, std::move(object));
    return reinterpret_cast<Handle>(value);
  }
  std::shared_ptr<T> find(const void* handle) const {
    auto it = map_.find(reinterpret_cast<uint64_t>(handle));
    return it == map_.end() ? nullptr : it->second;
  }
  bool remove(const void* handle) { return map_.erase(reinterpret_cast<uint64_t>(handle)) != 0; }
  template <class F>
  void remove_if(F&& f) {
    std::erase_if(map_, [&](auto& entry) { return f(*entry.second); });
  }
  template <class F>
  void for_each(F&& f) {
    for (auto& entry : map_) f(*entry.second);
  }
  size_t size() const { return map_.size(); }

private:
  // No canonical x86-64 address, so a program that follows a handle stops there.
  static constexpr uint64_t kTag = 0x7600'0000'0000'0000ull;
  uint64_t next_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<T>> map_;
};

struct Options {
  std::string schedule = "lazy"; // latest legal completion: a missing wait shows
  unsigned threads = 0;
  // Of a cluster: a hundred times what the largest kernels need that anybody would wait for.
  uint64_t instruction_limit = 1'000'000'000;
  uint32_t checks = 0;    // check/options.hpp
  std::string names;      // of a kernel's ledger, with values: check/ledger.hpp
  std::string trace;      // prefix of timeline files
  bool count = false;     // option count: LaunchSpec::count
  std::string graph;      // prefix of files for a deadlock's wait-for graph or a finding
  std::string source;     // PTX file whose entry takes the place of the same entry of any image
  int sms = 0;            // 0: as many as the device has
  bool strict = false;    // errors stop; else they are told and the run goes on
  std::string rules_list; // check::Rules::apply
  std::string coverage;   // prefix of files that say what ran
  check::Rules rules = check::Rules::lenient();
  bool hopper_sums = false;      // option wgmma_accumulation
  std::string report = "stderr"; // stderr, none, or a file to append to
};

struct HostBlock {
  size_t bytes = 0;
  unsigned flags = 0;
  bool registered = false; // by cuMemHostRegister: not ours to free
  CUcontext context = nullptr;
};

struct State {
  std::mutex mutex;     // everything here; never held while work runs
  std::mutex execution; // work on the device, one piece at a time; taken without `mutex`
  bool initialised = false;
  const exec::Profile* profile = nullptr;
  std::shared_ptr<mem::DeviceMemory> memory; // modules outlive a change of the profile
  Options options;
  std::set<std::string> set_by_call; // options that the environment no longer sets
  bool environment_read = false;

  Registry<Context, CUcontext, 1> contexts;
  std::shared_ptr<Context> primary;
  Registry<LoadedModule, CUmodule, 2> modules;
  Registry<LoadedModule, CUlibrary, 3> libraries;
  Registry<Function, CUfunction, 4> functions; // CUkernel handles are the same numbers
  Registry<Stream, CUstream, 5> streams;
  Registry<Event, CUevent, 6> events;
  Registry<Graph, CUgraph, 7> graphs;
  Registry<Graph, CUgraphExec, 8> graph_execs;
  Registry<Link, CUlinkState, 9> links;
  std::vector<std::shared_ptr<Capture>> captures; // under way
  uint64_t next_id = 1;
  std::map<uint64_t, CUcontext> allocations; // cuMemAlloc, by address
  std::map<uintptr_t, HostBlock> host_blocks;

  std::string report; // of the last fault
  // Under the execution lock: pieces of work so far, and the kernels that a kernel behind them in
  // their stream may overlap: those that nothing else came after.
  uint64_t executed = 0;
  struct {
    CUstream stream = nullptr;
    uint64_t last = 0; // of `executed`
    check::GridUses uses;
  } grids;
  exec::Stats stats;
  std::set<std::string> told; // kernels' names with rules and places
  trace::Coverage coverage;
  uint64_t launches = 0;
  double seconds = 0; // in kernels
};

class Call;

State& state();
// The device that VGPU_PROFILE or vgpuSetOption("profile") names. Refused while contexts live.
CUresult select_profile(State& s, const std::string& name);
// The same device with another number of SMs. Refused while contexts live.
void select_sm_count(State& s, int count);
// Throws a Refusal for an unknown option or value.
void set_option(Call& call, const std::string& key, const std::string& value);
// VGPU_CHECK and the like, once; what is wrong there is refused by name.
void read_environment(Call& call);
int compute_capability(const exec::Profile& profile); // 100, 103, 90

// Writes to where the `report` option points. Takes the state lock.
void print_report(const std::string& text);
// Records and prints a fault, and spoils the context. Takes the state lock.
void record_fault(Context& context, const exec::Fault& fault);
void note_refusal(const char* name, const Refusal& refusal) noexcept;

// ---- the frame of every entry point

enum class Need {
  Nothing,   // works before cuInit
  Init,      // cuInit has been called
  Context,   // a live, current context without a sticky error
  AnyContext // a live, current context, spoiled or not
};

class Call {
public:
  Call(const char* name, Need need);
  State& s;
  const char* name;
  std::unique_lock<std::mutex> lock; // of State::mutex
  std::shared_ptr<Context> context;  // the current one

  [[noreturn]] void refuse(CUresult code, const std::string& text, bool loud = false) const {
    throw Refusal{code, text, loud};
  }
  void require(bool condition, const std::string& text,
               CUresult code = CUDA_ERROR_INVALID_VALUE) const {
    if (!condition) refuse(code, text);
  }
  // Runs f on the device: without the state lock, after all earlier work, alone. A fault spoils the
  // context and does not show here, as an asynchronous error would not.
  template <class F>
  void execute(F&& f) {
    lock.unlock();
    try {
      std::lock_guard guard(s.execution);
      ++s.executed;
      f();
    } catch (const exec::Fault& fault) {
      record_fault(*context, fault);
    }
    lock.lock();
  }
  // Runs f without the state lock (parsing, callbacks).
  template <class F>
  void unlocked(F&& f) {
    lock.unlock();
    f();
    lock.lock();
  }
};

template <class F>
CUresult entry(const char* name, Need need, F&& f) noexcept {
  try {
    Call call(name, need);
    f(call);
    return CUDA_SUCCESS;
  } catch (const Refusal& r) {
    note_refusal(name, r);
    return r.code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    note_refusal(name, Refusal{CUDA_ERROR_UNKNOWN, e.what(), true});
    return CUDA_ERROR_UNKNOWN;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

// ---- shared between the files of the driver

// Host pointer to `bytes` of device memory, or a refusal that says what lies there.
uint8_t* device_bytes(Call& call, CUdeviceptr address, size_t bytes, const char* argument);
std::shared_ptr<Stream> find_stream(Call& call, CUstream handle);
// Appends work to the stream: to its capture, or runs it.
void enqueue(Call& call, CUstream stream, Work work);
// Calls that a capture forbids (allocation, synchronous copies, waits, questions about other
// streams, executable graphs made or freed); invalidates the capture.
void forbid_in_capture(Call& call);
// Work on the legacy default stream would be ordered with streams being captured: refused, and the
// captures are over, unless the call is only a question.
void forbid_implicit(Call& call, bool question = false);
// Ends all that belongs to a context. Lock held on entry and exit.
void destroy_context_resources(Call& call, Context& context);
std::shared_ptr<Function> find_function(Call& call, const void* handle);
std::string hex(uint64_t value);

} // namespace vgpu::driver
