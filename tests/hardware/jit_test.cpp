// The real driver's compiler accepts every shipped kernel for every target it is meant for, also on
// a machine whose GPU cannot run it: the link is told the target.
#include "runtime/src/driver.hpp"
#include "runtime/src/images.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

using namespace warpline;
using namespace cuapi;

namespace {

// CUjit_target: an "a" target is 0x10000 + compute capability, an "f" (family) target 0x20000 +.
struct Target {
  const char* name;
  unsigned value;
};
const Target kBlackwell[] = {
    {"100a", 0x10000 + 100}, {"100f", 0x20000 + 100}, {"103a", 0x10000 + 103}};
const Target kHopper[] = {{"90a", 0x10000 + 90}};

constexpr unsigned kJitTarget = 9, kErrorBuffer = 5, kErrorBytes = 6; // CUjit_option

} // namespace

TEST_CASE("the driver's JIT accepts every kernel", "[hardware]") {
  wltest::Gpu gpu = wltest::find_gpu();
  if (!gpu.driver || gpu.driver->is_virtual) WL_SKIP("no real CUDA driver");
  const Functions& cu = gpu.driver->cu;
  wltest::CurrentContext current(gpu);
  for (const Image& image : embedded_images()) {
    bool blackwell = target_family(image.target) == "sm100";
    std::vector<Target> targets;
    if (blackwell)
      targets.assign(std::begin(kBlackwell), std::end(kBlackwell));
    else
      targets.assign(std::begin(kHopper), std::end(kHopper));
    for (const Target& target : targets) {
      // Code of one architecture alone, as INT8's for sm_100a.
      const bool alone = blackwell && image.target.ends_with('a');
      if (alone && image.target != std::string("sm_") + target.name) continue;
      std::string log(16384, '\0');
      CUjit_option options[] = {static_cast<CUjit_option>(kJitTarget),
                                static_cast<CUjit_option>(kErrorBuffer),
                                static_cast<CUjit_option>(kErrorBytes)};
      void* values[] = {reinterpret_cast<void*>(uintptr_t(target.value)), log.data(),
                        reinterpret_cast<void*>(uintptr_t(log.size()))};
      CUlinkState state = nullptr;
      REQUIRE(static_cast<int>(cu.LinkCreate(3, options, values, &state)) == 0);
      std::string text = image.text();
      int added = static_cast<int>(cu.LinkAddData(state, static_cast<CUjitInputType>(1),
                                                  text.data(), text.size() + 1, image.name.c_str(),
                                                  0, nullptr, nullptr));
      void* cubin = nullptr;
      size_t bytes = 0;
      int completed = added == 0 ? static_cast<int>(cu.LinkComplete(state, &cubin, &bytes)) : -1;
      INFO(image.name << " for " << target.name << ": " << log.c_str());
      CHECK(added == 0);
      CHECK(completed == 0);
      CHECK(bytes > 1000);
      std::printf("JIT %-32s %-5s %zu bytes\n", image.name.c_str(), target.name, bytes);
      cu.LinkDestroy(state);
    }
  }
}
