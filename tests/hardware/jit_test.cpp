// The real driver's compiler accepts every shipped kernel for every target it is meant for, also on
// a machine whose GPU cannot run it: the link is told the target.
#include "runtime/src/driver.hpp"
#include "runtime/src/images.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/gpu.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <thread>
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

struct Job {
  const Image* image;
  Target target;
};
struct Outcome {
  int created = -1, added = -1, completed = -1;
  size_t bytes = 0;
  std::string log;
};

Outcome link(const Functions& cu, const Job& job) {
  Outcome outcome;
  std::string log(16384, '\0');
  CUjit_option options[] = {static_cast<CUjit_option>(kJitTarget),
                            static_cast<CUjit_option>(kErrorBuffer),
                            static_cast<CUjit_option>(kErrorBytes)};
  void* values[] = {reinterpret_cast<void*>(uintptr_t(job.target.value)), log.data(),
                    reinterpret_cast<void*>(uintptr_t(log.size()))};
  CUlinkState state = nullptr;
  outcome.created = static_cast<int>(cu.LinkCreate(3, options, values, &state));
  if (outcome.created != 0) return outcome;
  std::string text = job.image->text();
  outcome.added = static_cast<int>(cu.LinkAddData(state, static_cast<CUjitInputType>(1),
                                                  text.data(), text.size() + 1,
                                                  job.image->name.c_str(), 0, nullptr, nullptr));
  void* cubin = nullptr;
  if (outcome.added == 0)
    outcome.completed = static_cast<int>(cu.LinkComplete(state, &cubin, &outcome.bytes));
  cu.LinkDestroy(state);
  outcome.log = log.c_str();
  return outcome;
}

} // namespace

TEST_CASE("the driver's JIT accepts every kernel", "[hardware]") {
  wltest::Gpu gpu = wltest::find_gpu();
  if (!gpu.driver || gpu.driver->is_virtual) WL_SKIP("no real CUDA driver");
  const std::vector<Image> images = embedded_images();
  std::vector<Job> jobs;
  for (const Image& image : images) {
    const bool blackwell = target_family(image.target) == "sm100";
    // Code of one architecture alone, as INT8's for sm_100a.
    const bool alone = blackwell && image.target.ends_with('a');
    const std::vector<Target> targets =
        blackwell ? std::vector<Target>(std::begin(kBlackwell), std::end(kBlackwell))
                  : std::vector<Target>(std::begin(kHopper), std::end(kHopper));
    for (const Target& target : targets)
      if (!alone || image.target == std::string("sm_") + target.name)
        jobs.push_back({&image, target});
  }
  // Each takes a core some tenths of a second.
  std::vector<Outcome> outcomes(jobs.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1u, 16u); ++i)
    threads.emplace_back([&] {
      wltest::CurrentContext current(gpu);
      for (size_t job; (job = next++) < jobs.size();)
        outcomes[job] = link(gpu.driver->cu, jobs[job]);
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    INFO(jobs[i].image->name << " for " << jobs[i].target.name << ": " << outcome.log);
    CHECK(outcome.created == 0);
    CHECK(outcome.added == 0);
    CHECK(outcome.completed == 0);
    CHECK(outcome.bytes > 1000);
    std::printf("JIT %-32s %-5s %zu bytes\n", jobs[i].image->name.c_str(), jobs[i].target.name,
                outcome.bytes);
  }
}
