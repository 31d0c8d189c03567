// cuInit, devices and their attributes, and the control interface (vgpu*).
#include "tools/vgpu/driver/context.hpp"
#include "tools/vgpu/driver/state.hpp"
#include "tools/vgpu/ops/tma_traffic.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vgpu::driver {

namespace {

constexpr int kDriverVersion = 13000; // CUDA 13.0
constexpr int kVgpuVersion = 1;       // of the control interface

void check_device(Call& c, CUdevice device) {
  c.require(device == 0, "device " + std::to_string(device) + " does not exist; there is one, 0",
            CUDA_ERROR_INVALID_DEVICE);
}

// Attributes by number (CUDA 13.0 knows 1 .. 147); those not listed are features that the virtual
// GPU does not have (textures, memory pools, sharing between processes ...): 0.
int attribute(const exec::Profile& p, int which) {
  constexpr int kNumaNone = -1;
  switch (which) {
  case 1:
    return 1024; // MAX_THREADS_PER_BLOCK
  case 2:
    return 1024; // MAX_BLOCK_DIM_X
  case 3:
    return 1024; // MAX_BLOCK_DIM_Y
  case 4:
    return 64; // MAX_BLOCK_DIM_Z
  case 5:
    return 0x7FFFFFFF; // MAX_GRID_DIM_X
  case 6:
    return 65535; // MAX_GRID_DIM_Y
  case 7:
    return 65535; // MAX_GRID_DIM_Z
  case 8:
    return 49152; // MAX_SHARED_MEMORY_PER_BLOCK
  case 9:
    return 65536; // TOTAL_CONSTANT_MEMORY
  case 10:
    return 32; // WARP_SIZE
  case 11:
    return 0x7FFFFFFF; // MAX_PITCH
  case 12:
    return 65536; // MAX_REGISTERS_PER_BLOCK
  case 13:
    return 1965000; // CLOCK_RATE, kHz: nominal, nothing here is timed by it
  case 14:
    return 512; // TEXTURE_ALIGNMENT
  case 16:
    return p.sm_count;
  case 19:
    return 1; // CAN_MAP_HOST_MEMORY
  case 31:
    return 1; // CONCURRENT_KERNELS
  case 32:
    return 1; // ECC_ENABLED
  case 36:
    return p.major == 9 ? 3201000 : 3996000; // MEMORY_CLOCK_RATE, kHz
  case 37:
    return p.major == 9 ? 6144 : 8192; // GLOBAL_MEMORY_BUS_WIDTH, bits
  case 38:
    return p.l2_bytes;
  case 39:
    return 2048; // MAX_THREADS_PER_MULTIPROCESSOR
  case 41:
    return 1; // UNIFIED_ADDRESSING
  case 75:
    return p.major;
  case 76:
    return p.minor;
  case 78:
    return 1; // STREAM_PRIORITIES_SUPPORTED
  case 79:
    return 1; // GLOBAL_L1_CACHE_SUPPORTED
  case 80:
    return 1; // LOCAL_L1_CACHE_SUPPORTED
  case 81:
    return p.shared_per_sm;
  case 82:
    return 65536; // MAX_REGISTERS_PER_MULTIPROCESSOR
  case 83:
    return 1; // MANAGED_MEMORY
  case 89:
    return 1; // CONCURRENT_MANAGED_ACCESS
  case 91:
    return 1; // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
  case 87:
    return p.major == 9 ? 2 : (p.minor == 0 ? 2 : 64); // single to double precision ratio
  case 95:
    return 1; // COOPERATIVE_LAUNCH
  case 97:
    return p.shared_per_block; // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
  case 99:
    return 1; // HOST_REGISTER_SUPPORTED
  case 106:
    return 32; // MAX_BLOCKS_PER_MULTIPROCESSOR
  case 111:
    return int(exec::kSharedBase); // RESERVED_SHARED_MEMORY_PER_BLOCK
  case 120:
    return 1; // CLUSTER_LAUNCH
  case 126:
    return 1; // MEM_SYNC_DOMAIN_COUNT
  case 127:
    return 1; // TENSOR_MAP_ACCESS_SUPPORTED
  case 131:
    return kNumaNone; // NUMA_ID
  case 134:
    return kNumaNone; // HOST_NUMA_ID
  default:
    return 0;
  }
}

// A UUID made of the profile's name, the same in every process.
void fill_uuid(const exec::Profile& profile, CUuuid* uuid) {
  std::memset(uuid->bytes, 0, sizeof uuid->bytes);
  std::memcpy(uuid->bytes, "warpline", 8);
  std::memcpy(uuid->bytes + 8, profile.name.data(), std::min<size_t>(profile.name.size(), 8));
}

} // namespace

// ---- initialisation

VGPU_API CUresult cuInit(unsigned flags) {
  return entry("cuInit", Need::Nothing, [&](Call& c) {
    c.require(flags == 0, "flags = " + std::to_string(flags) + " must be 0");
    read_environment(c);
    // A later cuInit follows VGPU_PROFILE only when the variable has changed since the last one.
    static std::string& seen = *new std::string;
    const char* variable = std::getenv("VGPU_PROFILE");
    std::string name = variable ? variable : "";
    if (!c.s.profile || (name != seen && !name.empty()))
      select_profile(c.s, name.empty() ? "b200" : name);
    seen = name;
    c.s.initialised = true;
  });
}

VGPU_API CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

// ---- devices

VGPU_API CUresult cuDeviceGetCount(int* count) {
  return entry("cuDeviceGetCount", Need::Init, [&](Call& c) {
    c.require(count, "count is null");
    *count = 1;
  });
}

VGPU_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return entry("cuDeviceGet", Need::Init, [&](Call& c) {
    c.require(device, "device is null");
    check_device(c, ordinal);
    *device = ordinal;
  });
}

VGPU_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return entry("cuDeviceGetName", Need::Init, [&](Call& c) {
    check_device(c, device);
    c.require(name && length > 0, "no room for the name");
    std::snprintf(name, size_t(length), "%s", c.s.profile->full_name.c_str());
  });
}

VGPU_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return entry("cuDeviceGetUuid_v2", Need::Init, [&](Call& c) {
    check_device(c, device);
    c.require(uuid, "uuid is null");
    fill_uuid(*c.s.profile, uuid);
  });
}
VGPU_ALIAS(cuDeviceGetUuid_v2, cuDeviceGetUuid)

VGPU_API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return entry("cuDeviceTotalMem_v2", Need::Init, [&](Call& c) {
    check_device(c, device);
    c.require(bytes, "bytes is null");
    *bytes = c.s.profile->memory_bytes;
  });
}

VGPU_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  return entry("cuDeviceGetAttribute", Need::Init, [&](Call& c) {
    check_device(c, device);
    c.require(value, "value is null");
    c.require(int(which) >= 1 && int(which) <= 147,
              "attribute " + std::to_string(int(which)) + " is unknown (1 .. 147)");
    *value = attribute(*c.s.profile, int(which));
  });
}

VGPU_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return entry("cuDeviceComputeCapability", Need::Init, [&](Call& c) {
    check_device(c, device);
    c.require(major && minor, "major or minor is null");
    *major = c.s.profile->major;
    *minor = c.s.profile->minor;
  });
}

VGPU_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return entry("cuDeviceCanAccessPeer", Need::Init, [&](Call& c) {
    check_device(c, device);
    check_device(c, peer);
    c.require(can, "canAccessPeer is null");
    *can = 0; // a device is not its own peer
  });
}

VGPU_API CUresult cuDeviceGetP2PAttribute(int*, int, CUdevice source, CUdevice destination) {
  return entry("cuDeviceGetP2PAttribute", Need::Init, [&](Call& c) {
    check_device(c, source);
    check_device(c, destination);
    c.refuse(CUDA_ERROR_INVALID_DEVICE, "source and destination are the same device");
  });
}

VGPU_API CUresult cuDeviceGetExecAffinitySupport(int* supported, int, CUdevice device) {
  return entry("cuDeviceGetExecAffinitySupport", Need::Init, [&](Call& c) {
    check_device(c, device);
    c.require(supported, "pi is null");
    *supported = 0;
  });
}

// ---- control

VGPU_API int vgpuVersion(void) { return kVgpuVersion; }

// 0, or a CUresult; vgpuMessage() then says why. Works before cuInit.
VGPU_API int vgpuSetOption(const char* key, const char* value) {
  return entry("vgpuSetOption", Need::Nothing, [&](Call& c) {
    c.require(key && value, "key or value is null");
    set_option(c, key, value);
    c.s.set_by_call.insert(key);
  });
}

// Report of the last fault of any kernel, "" when there was none. Valid until the thread's next
// call of it.
VGPU_API const char* vgpuReport(void) {
  thread_local std::string text;
  State& s = state();
  std::lock_guard guard(s.mutex);
  text = s.report;
  return text.c_str();
}

// Why the calling thread's last refused call was refused: call, argument, value and rule.
VGPU_API const char* vgpuMessage(void) { return last_message_text(); }

VGPU_API const char* vgpuStatsJson(void) {
  thread_local std::string text;
  State& s = state();
  std::lock_guard guard(s.mutex);
  const exec::Stats& t = s.stats;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.6f", s.seconds);
  text = "{\"profile\": \"" + (s.profile ? s.profile->name : std::string()) +
         "\", \"schedule\": \"" + s.options.schedule +
         "\", \"instruction_limit\": " + std::to_string(s.options.instruction_limit) +
         ", \"launches\": " + std::to_string(s.launches) + ", \"seconds\": " + seconds;
  auto add = [&](const char* key, uint64_t value) {
    text += ", \"" + std::string(key) + "\": " + std::to_string(value);
  };
  add("warp_instructions", t.warp_instructions);
  add("mma", t.mma);
  add("mma_flops", t.mma_flops);
  add("tensor_copies", t.tensor_copies);
  add("tma_loads", t.tma_loads);
  add("tma_load_bytes", t.tma_load_bytes);
  add("tma_stores", t.tma_stores);
  add("tma_store_bytes", t.tma_store_bytes);
  add("blocked_waits", t.blocked_waits);
  add("operations", t.operations);
  add("global_load_bytes", t.global_load_bytes);
  add("global_store_bytes", t.global_store_bytes);
  add("store_sectors", t.store_sectors);
  add("partial_sectors", t.partial_sectors);
  add("bank_turns", t.bank_turns);
  add("least_bank_turns", t.least_bank_turns);
  add("stages", t.stages);
  add("stage_ticks", t.stage_ticks);
  add("filled_ticks", t.filled_ticks);
  text += ", \"tensors\": [";
  const char* comma = "";
  for (const auto& [address, tensor] : ops::tensor_traffic()) {
    text += std::string(comma) + "{\"address\": " + std::to_string(address) +
            ", \"loads\": " + std::to_string(tensor.loads) +
            ", \"read_bytes\": " + std::to_string(tensor.read_bytes) +
            ", \"delivered_bytes\": " + std::to_string(tensor.delivered_bytes) + "}";
    comma = ", ";
  }
  text += "]}";
  return text.c_str();
}

VGPU_API void vgpuResetStats(void) {
  State& s = state();
  std::lock_guard guard(s.mutex);
  s.stats = {};
  s.told.clear();
  ops::reset_tensor_traffic();
  s.launches = 0;
  s.seconds = 0;
  s.report.clear();
}

} // namespace vgpu::driver
