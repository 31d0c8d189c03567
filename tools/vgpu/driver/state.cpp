#include "tools/vgpu/driver/state.hpp"
#include "tools/vgpu/check/options.hpp"

#include "tools/vgpu/driver/context.hpp"
#include "tools/vgpu/driver/module.hpp"

#include <cstdio>
#include <cstdlib>
#include <deque>

namespace vgpu::driver {

namespace {

// The thread's message: null before its first, and when its other objects are gone.
thread_local constinit std::string* last_message = nullptr;
struct MessageEnd {
  ~MessageEnd() {
    delete last_message;
    last_message = nullptr;
  }
};

void set_message(std::string text) {
  thread_local MessageEnd end;
  static_cast<void>(end);
  if (!last_message) last_message = new std::string;
  *last_message = std::move(text);
}

State* make_state() {
  auto* s = new State; // never destroyed: other threads may still call while the process exits
  const char* report = std::getenv("VGPU_REPORT");
  if (report && *report) s->options.report = report;
  return s;
}

} // namespace

State& state() {
  static State* s = make_state();
  return *s;
}

int compute_capability(const exec::Profile& profile) { return profile.major * 10 + profile.minor; }

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

namespace {
void use_sm_count(State& s, int count) {
  static auto& made = *new std::deque<exec::Profile>; // profiles are referred to for good
  made.push_back(*s.profile);
  made.back().sm_count = count;
  s.profile = &made.back();
}
} // namespace

CUresult select_profile(State& s, const std::string& name) {
  const exec::Profile* profile = exec::find_profile(name);
  if (!profile) {
    std::string known;
    for (const auto& p : exec::profiles()) known += (known.empty() ? "" : ", ") + p.name;
    throw Refusal{CUDA_ERROR_NO_DEVICE,
                  "there is no virtual device \"" + name + "\"; known: " + known, true};
  }
  if (s.profile == profile) return CUDA_SUCCESS;
  bool live = false;
  s.contexts.for_each([&](Context& c) { live = live || c.live; });
  if (live)
    throw Refusal{CUDA_ERROR_NOT_PERMITTED,
                  "the virtual device cannot change from " + s.profile->name + " to " + name +
                      " while a context lives",
                  true};
  s.profile = profile;
  if (s.options.sms) use_sm_count(s, s.options.sms);
  s.memory = std::make_shared<mem::DeviceMemory>(profile->memory_bytes);
  s.memory->track_writes(s.options.checks & check::kDefinedness);
  return CUDA_SUCCESS;
}

void select_sm_count(State& s, int count) {
  bool live = false;
  s.contexts.for_each([&](Context& c) { live = live || c.live; });
  if (count < 1)
    throw Refusal{CUDA_ERROR_INVALID_VALUE, "the number of SMs must be at least 1", true};
  if (live)
    throw Refusal{CUDA_ERROR_NOT_PERMITTED, "the number of SMs is set before any context is made",
                  true};
  s.options.sms = count;
  if (s.profile) use_sm_count(s, count);
}

void print_report(const std::string& text) {
  std::string destination;
  {
    std::lock_guard guard(state().mutex);
    destination = state().options.report;
  }
  if (destination == "none") return;
  if (destination == "stderr") {
    std::fprintf(stderr, "%s%s", text.c_str(), text.ends_with('\n') ? "" : "\n");
    return;
  }
  if (std::FILE* file = std::fopen(destination.c_str(), "a")) {
    std::fprintf(file, "%s%s", text.c_str(), text.ends_with('\n') ? "" : "\n");
    std::fclose(file);
  } else {
    std::fprintf(stderr, "vgpu: cannot append to %s\n%s\n", destination.c_str(), text.c_str());
  }
}

void record_fault(Context& context, const exec::Fault& fault) {
  State& s = state();
  {
    std::lock_guard guard(s.mutex);
    if (context.sticky == CUDA_SUCCESS) context.sticky = CUresult(int(fault.code));
    s.report = fault.what();
  }
  const std::string text = fault.what();
  print_report(text.starts_with("vgpu: ") ? text : "vgpu: " + text);
}

void note_refusal(const char* name, const Refusal& refusal) noexcept {
  try {
    if (refusal.text.empty()) return;
    set_message(std::string(name) + ": " + refusal.text);
    if (refusal.loud) print_report("vgpu: " + *last_message);
  } catch (...) { // the result code still tells
  }
}

const char* last_message_text() { return last_message ? last_message->c_str() : ""; }

Call::Call(const char* name_, Need need) : s(state()), name(name_), lock(s.mutex) {
  if (need == Need::Nothing) return;
  if (!s.initialised)
    throw Refusal{CUDA_ERROR_NOT_INITIALIZED, "cuInit has not been called", false};
  if (need == Need::Init) return;
  CUcontext handle = current_context();
  if (!handle) throw Refusal{CUDA_ERROR_INVALID_CONTEXT, "no context is current", false};
  context = s.contexts.find(handle);
  if (!context || !context->live)
    throw Refusal{CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context has been destroyed", false};
  if (need == Need::Context && context->sticky != CUDA_SUCCESS)
    throw Refusal{context->sticky, "an earlier kernel of this context failed; see vgpuReport()",
                  false};
}

uint8_t* device_bytes(Call& call, CUdeviceptr address, size_t bytes, const char* argument) {
  uint8_t* p = call.s.memory->find(address, bytes ? bytes : 1);
  if (!p)
    call.refuse(CUDA_ERROR_INVALID_VALUE,
                std::string(argument) + " = " + call.s.memory->explain(address, bytes));
  if (call.s.memory->in_heap(address))
    call.refuse(CUDA_ERROR_INVALID_VALUE, std::string(argument) + " = " + hex(address) +
                                              " lies in memory that a kernel's malloc has given, "
                                              "which only kernels can reach");
  return p;
}

void destroy_context_resources(Call& call, Context& context) {
  State& s = call.s;
  CUcontext handle = context.handle;
  // Work under way in other threads ends first.
  call.lock.unlock();
  s.execution.lock();
  call.lock.lock();
  auto mine = [&](const auto& object) { return object.context == handle; };
  std::erase_if(s.captures, [&](const std::shared_ptr<Capture>& capture) {
    auto origin = s.streams.find(capture->origin);
    return !origin || origin->context == handle;
  });
  // Functions keep their modules, and graphs the functions they launch: graphs go first.
  s.graph_execs.remove_if(mine);
  s.graphs.remove_if(mine);
  s.events.remove_if(mine);
  s.links.remove_if(mine);
  s.streams.remove_if(mine);
  s.functions.remove_if([&](const Function& f) { return f.module->context == handle; });
  s.modules.remove_if(mine);
  s.libraries.remove_if(mine);
  for (auto it = s.allocations.begin(); it != s.allocations.end();) {
    if (it->second == handle) {
      s.memory->free(it->first);
      it = s.allocations.erase(it);
    } else {
      ++it;
    }
  }
  s.memory->drop_heap(reinterpret_cast<uint64_t>(handle));
  for (auto it = s.host_blocks.begin(); it != s.host_blocks.end();) {
    if (it->second.context == handle) {
      s.memory->free(it->first);
      if (!it->second.registered) std::free(reinterpret_cast<void*>(it->first));
      it = s.host_blocks.erase(it);
    } else {
      ++it;
    }
  }
  context.sticky = CUDA_SUCCESS;
  context.limits.clear();
  s.execution.unlock();
}

} // namespace vgpu::driver
