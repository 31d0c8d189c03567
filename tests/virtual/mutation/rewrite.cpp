#include "tests/virtual/mutation/rewrite.hpp"

#include "runtime/src/cuda_api.hpp"
#include "runtime/src/driver.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace wltest {

namespace {

const char* const kText = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry rewrite(.param .align 8 .b8 regions[512])
{
  .reg .pred done;
  .reg .b32 at, count, value;
  .reg .b64 region, base, address;
  griddepcontrol.wait;
  mov.u32 at, %ctaid.x;
  mov.b64 region, regions;
  mad.wide.u32 region, at, 16, region;
  ld.param.u64 base, [region];
  ld.param.u32 count, [region + 8];
  cvta.to.global.u64 base, base;
  mov.u32 at, %tid.x;
next:
  setp.ge.u32 done, at, count;
  @done ret;
  mad.wide.u32 address, at, 4, base;
  ld.global.b32 value, [address];
  st.global.b32 [address], value;
  add.u32 at, at, 128;
  bra next;
}
)";

// What fails after a fault does so for the launches behind it, too.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(warpline::driver_symbol(name));
  if (!function) throw std::runtime_error(std::string("the driver lacks ") + name);
  function(arguments...);
}

void* entry() {
  static void* function = [] {
    void *context = nullptr, *module = nullptr, *found = nullptr;
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxSetCurrent", context);
    call("cuModuleLoadData", &module, static_cast<const void*>(kText));
    call("cuModuleGetFunction", &found, module, "rewrite");
    return found;
  }();
  return function;
}

} // namespace

static void launch(const std::vector<std::pair<void*, size_t>>& regions, bool programmatic) {
  struct {
    uint64_t address = 0, words = 0;
  } list[32];
  for (size_t i = 0; i < std::min<size_t>(regions.size(), 32); ++i) {
    list[i].address = reinterpret_cast<uint64_t>(regions[i].first);
    list[i].words = std::min<size_t>(regions[i].second, 4096) / 4;
  }
  void* parameters[] = {list};
  cuapi::CUlaunchAttribute early{};
  early.id = cuapi::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  cuapi::CUlaunchConfig config{};
  config.gridDimX = 32, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128, config.blockDimY = config.blockDimZ = 1;
  if (programmatic) config.attrs = &early, config.numAttrs = 1;
  call("cuLaunchKernelEx", static_cast<const cuapi::CUlaunchConfig*>(&config), entry(),
       static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

void rewrite(const std::vector<std::pair<void*, size_t>>& regions) { launch(regions, false); }

void rewrite_behind(const std::vector<std::pair<void*, size_t>>& regions) { launch(regions, true); }

} // namespace wltest
