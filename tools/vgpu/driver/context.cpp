// Contexts: the device's primary one and others, and the calling thread's stack of current ones.
#include "tools/vgpu/driver/context.hpp"

#include "tools/vgpu/driver/state.hpp"

namespace vgpu::driver {

namespace {

// Without a destructor: destructors of global objects call the driver when the thread's other
// objects are gone.
class ContextStack {
public:
  bool empty() const { return size_ == 0; }
  CUcontext& back() { return at_[size_ - 1]; }
  void push_back(CUcontext context) {
    if (size_ == kMost)
      throw Refusal{CUDA_ERROR_OUT_OF_MEMORY,
                    "the thread has " + std::to_string(kMost) + " current contexts on its stack",
                    true};
    at_[size_++] = context;
  }
  void pop_back() { --size_; }

private:
  static constexpr size_t kMost = 256;
  CUcontext at_[kMost];
  size_t size_;
};
thread_local constinit ContextStack stack{};

constexpr unsigned kApiVersion = 3020; // what cuCtxGetApiVersion says of every context since 3.2
constexpr unsigned kFlagMask = 0xFF;

void check_device(Call& c, CUdevice device) {
  c.require(device == 0, "device " + std::to_string(device) + " does not exist; there is one, 0",
            CUDA_ERROR_INVALID_DEVICE);
}

void check_flags(Call& c, unsigned flags) {
  c.require((flags & ~kFlagMask) == 0, "flags = " + hex(flags) + " has unknown bits");
}

std::shared_ptr<Context> new_context(Call& c, unsigned flags) {
  auto context = std::make_shared<Context>();
  context->flags = flags;
  context->api_version = kApiVersion;
  context->id = c.s.next_id++;
  context->handle = c.s.contexts.add(context);
  return context;
}

std::shared_ptr<Context> find_live(Call& c, CUcontext handle) {
  auto context = c.s.contexts.find(handle);
  c.require(context != nullptr, "no such context", CUDA_ERROR_INVALID_CONTEXT);
  c.require(context->live, "the context has been destroyed", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return context;
}

void make_current(CUcontext handle) {
  if (stack.empty()) {
    if (handle) stack.push_back(handle);
  } else if (handle) {
    stack.back() = handle;
  } else {
    stack.pop_back();
  }
}

CUresult create(const char* name, CUcontext* result, unsigned flags, CUdevice device,
                const void* parameters) {
  return entry(name, Need::Init, [&](Call& c) {
    check_device(c, device);
    c.require(result, "pctx is null");
    check_flags(c, flags);
    c.require(!parameters, "execution affinity and CIG parameters are not supported",
              CUDA_ERROR_NOT_SUPPORTED);
    auto context = new_context(c, flags);
    context->live = true;
    stack.push_back(context->handle);
    *result = context->handle;
  });
}

// The primary context keeps its handle over release and retain, as it does in libcuda.
Context& primary(Call& c) {
  if (!c.s.primary) {
    c.s.primary = new_context(c, 0);
    c.s.primary->primary = true;
  }
  return *c.s.primary;
}

void end_primary(Call& c, Context& context) {
  context.live = false;
  context.retained = 0;
  destroy_context_resources(c, context);
}

// Limits that CUDA knows and their defaults. The stack's and the heap's hold; the others bound
// nothing.
constexpr int kStackSize = 0, kHeapSize = 2;
constexpr size_t kMostStack = 512 << 10; // local memory of a thread
bool default_limit(int which, size_t* value) {
  switch (which) {
  case kStackSize:
    *value = 1024;
    return true;
  case 1:
    *value = 8 << 20;
    return true; // PRINTF_FIFO_SIZE
  case kHeapSize:
    *value = 8 << 20;
    return true; // MALLOC_HEAP_SIZE
  case 5:
    *value = 64;
    return true; // MAX_L2_FETCH_GRANULARITY
  case 6:
    *value = 0;
    return true; // PERSISTING_L2_CACHE_SIZE
  default:
    return false;
  }
}

} // namespace

static size_t limit(const Context& context, int which) {
  size_t value = 0;
  default_limit(which, &value);
  if (auto it = context.limits.find(which); it != context.limits.end()) value = it->second;
  return value;
}

uint32_t stack_bytes(const Context& context) { return uint32_t(limit(context, kStackSize)); }
uint64_t heap_bytes(const Context& context) { return limit(context, kHeapSize); }

CUcontext current_context() { return stack.empty() ? nullptr : stack.back(); }

// ---- the primary context

VGPU_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return entry("cuDevicePrimaryCtxRetain", Need::Init, [&](Call& c) {
    c.require(context, "pctx is null");
    check_device(c, device);
    Context& p = primary(c);
    p.live = true;
    ++p.retained;
    *context = p.handle;
  });
}

VGPU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return entry("cuDevicePrimaryCtxRelease_v2", Need::Init, [&](Call& c) {
    check_device(c, device);
    Context& p = primary(c);
    c.require(p.retained > 0, "the primary context is not retained", CUDA_ERROR_INVALID_CONTEXT);
    if (--p.retained == 0) end_primary(c, p);
  });
}
VGPU_ALIAS(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease)

VGPU_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return entry("cuDevicePrimaryCtxReset_v2", Need::Init, [&](Call& c) {
    check_device(c, device);
    end_primary(c, primary(c));
  });
}
VGPU_ALIAS(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset)

VGPU_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return entry("cuDevicePrimaryCtxSetFlags_v2", Need::Init, [&](Call& c) {
    check_device(c, device);
    check_flags(c, flags);
    primary(c).flags = flags;
  });
}
VGPU_ALIAS(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags)

VGPU_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return entry("cuDevicePrimaryCtxGetState", Need::Init, [&](Call& c) {
    check_device(c, device);
    Context& p = primary(c);
    if (flags) *flags = p.flags;
    if (active) *active = p.live;
  });
}

// ---- contexts of the program

VGPU_API CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create("cuCtxCreate_v2", context, flags, device, nullptr);
}

VGPU_API CUresult cuCtxCreate_v3(CUcontext* context, void* affinity, int count, unsigned flags,
                                 CUdevice device) {
  return create("cuCtxCreate_v3", context, flags, device, count ? affinity : nullptr);
}

VGPU_API CUresult cuCtxCreate_v4(CUcontext* context, void* parameters, unsigned flags,
                                 CUdevice device) {
  // Three fields: affinity list, its length, CIG parameters. All zero asks for nothing.
  struct Parameters {
    void* affinity;
    int affinities;
    void* cig;
  };
  auto* p = static_cast<const Parameters*>(parameters);
  bool plain = !p || (p->affinities == 0 && !p->cig);
  return create("cuCtxCreate_v4", context, flags, device, plain ? nullptr : parameters);
}

VGPU_API CUresult cuCtxDestroy_v2(CUcontext handle) {
  return entry("cuCtxDestroy_v2", Need::Init, [&](Call& c) {
    auto context = find_live(c, handle);
    c.require(!context->primary, "the primary context is released, not destroyed",
              CUDA_ERROR_INVALID_CONTEXT);
    context->live = false;
    destroy_context_resources(c, *context);
    c.s.contexts.remove(handle);
    if (current_context() == handle) stack.pop_back();
  });
}

VGPU_API CUresult cuCtxSetCurrent(CUcontext handle) {
  return entry("cuCtxSetCurrent", Need::Init, [&](Call& c) {
    if (handle) find_live(c, handle);
    make_current(handle);
  });
}

VGPU_API CUresult cuCtxGetCurrent(CUcontext* context) {
  return entry("cuCtxGetCurrent", Need::Init, [&](Call& c) {
    c.require(context, "pctx is null");
    *context = current_context();
  });
}

VGPU_API CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return entry("cuCtxPushCurrent_v2", Need::Init, [&](Call& c) {
    find_live(c, handle);
    stack.push_back(handle);
  });
}

VGPU_API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return entry("cuCtxPopCurrent_v2", Need::Init, [&](Call& c) {
    c.require(!stack.empty(), "no context is current", CUDA_ERROR_INVALID_CONTEXT);
    if (context) *context = stack.back();
    stack.pop_back();
  });
}

VGPU_API CUresult cuCtxGetDevice(CUdevice* device) {
  return entry("cuCtxGetDevice", Need::AnyContext, [&](Call& c) {
    c.require(device, "device is null");
    *device = 0;
  });
}

VGPU_API CUresult cuCtxGetFlags(unsigned* flags) {
  return entry("cuCtxGetFlags", Need::AnyContext, [&](Call& c) {
    c.require(flags, "flags is null");
    *flags = c.context->flags;
  });
}

VGPU_API CUresult cuCtxSetFlags(unsigned flags) {
  return entry("cuCtxSetFlags", Need::AnyContext, [&](Call& c) {
    check_flags(c, flags);
    c.context->flags = flags;
  });
}

VGPU_API CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  return entry("cuCtxGetId", Need::Init, [&](Call& c) {
    c.require(id, "ctxId is null");
    CUcontext h = handle ? handle : current_context();
    *id = find_live(c, h)->id;
  });
}

VGPU_API CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  return entry("cuCtxGetApiVersion", Need::Init, [&](Call& c) {
    c.require(version, "version is null");
    CUcontext h = handle ? handle : current_context();
    *version = find_live(c, h)->api_version;
  });
}

VGPU_API CUresult cuCtxSynchronize(void) {
  return entry("cuCtxSynchronize", Need::Context, [&](Call& c) {
    forbid_in_capture(c);
    c.require(c.s.captures.empty(), "a stream is being captured",
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    c.execute([] {});
    if (c.context->sticky != CUDA_SUCCESS) c.refuse(c.context->sticky, "");
  });
}

VGPU_API CUresult cuCtxGetLimit(size_t* value, int which) {
  return entry("cuCtxGetLimit", Need::Context, [&](Call& c) {
    c.require(value, "pvalue is null");
    c.require(default_limit(which, value), "limit " + std::to_string(which) + " is unknown",
              kUnsupportedLimit);
    if (auto it = c.context->limits.find(which); it != c.context->limits.end()) *value = it->second;
  });
}

VGPU_API CUresult cuCtxSetLimit(int which, size_t value) {
  return entry("cuCtxSetLimit", Need::Context, [&](Call& c) {
    size_t ignored;
    c.require(default_limit(which, &ignored), "limit " + std::to_string(which) + " is unknown",
              kUnsupportedLimit);
    c.require(which != kStackSize || value <= kMostStack, "a stack of " + std::to_string(value) +
                                                              " bytes; a thread has at most " +
                                                              std::to_string(kMostStack));
    c.context->limits[which] = value;
  });
}

VGPU_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return entry("cuCtxGetStreamPriorityRange", Need::Context, [&](Call&) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
  });
}

VGPU_API CUresult cuCtxGetCacheConfig(int* config) {
  return entry("cuCtxGetCacheConfig", Need::Context, [&](Call& c) {
    c.require(config, "pconfig is null");
    *config = 0;
  });
}

VGPU_API CUresult cuCtxSetCacheConfig(int config) {
  return entry("cuCtxSetCacheConfig", Need::Context, [&](Call& c) {
    c.require(config >= 0 && config <= 3, "config = " + std::to_string(config) + " is unknown");
  });
}

VGPU_API CUresult cuCtxResetPersistingL2Cache(void) {
  return entry("cuCtxResetPersistingL2Cache", Need::Context, [](Call&) {});
}

} // namespace vgpu::driver
