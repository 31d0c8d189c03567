#include "tests/virtual/mutation/rewrite.hpp"

#include "runtime/src/driver.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace wltest {

namespace {

const char* const kText = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry rewrite(.param .align 8 .b8 regions[128])
{
  .reg .pred done;
  .reg .b32 at, count, value;
  .reg .b64 region, base, address;
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

void rewrite(const std::vector<std::pair<void*, size_t>>& regions) {
  struct {
    uint64_t address = 0, words = 0;
  } list[8];
  for (size_t i = 0; i < std::min<size_t>(regions.size(), 8); ++i) {
    list[i].address = reinterpret_cast<uint64_t>(regions[i].first);
    list[i].words = std::min<size_t>(regions[i].second, 4096) / 4;
  }
  void* parameters[] = {list};
  void* none = nullptr;
  call("cuLaunchKernel", entry(), 8u, 1u, 1u, 128u, 1u, 1u, 0u, none,
       static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

} // namespace wltest
