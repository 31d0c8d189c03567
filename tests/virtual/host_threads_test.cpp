// A host that gives fewer threads than a launch wants.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_run.hpp"

#include <pthread.h>
#include <system_error>
#include <thread>

using namespace wltest;

namespace {

// No further thread can be made: its stack would be larger than the address space.
class NoMoreThreads {
public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t greedy;
    pthread_attr_init(&greedy);
    pthread_attr_setstacksize(&greedy, size_t(1) << 60);
    pthread_setattr_default_np(&greedy);
    pthread_attr_destroy(&greedy);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

private:
  pthread_attr_t before_;
};

// Each CTA writes its number, or traps where it is `bad`.
const char* const kBody = R"(
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r2, [bad];
  mov.u32 %r1, %ctaid.x;
  setp.eq.u32 %p1, %r1, %r2;
  @%p1 trap;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
  ret;
)";

RunResult run(uint32_t bad, std::vector<uint32_t>* out = nullptr) {
  constexpr uint32_t kCtas = 200;
  Vgpu gpu;
  const uint64_t to = gpu.allocate(kCtas * 4);
  Launch launch;
  launch.grid = {kCtas};
  launch.host_threads = 8;
  RunResult r = gpu.run(module_text(kBody, ".param .u64 out, .param .u32 bad"),
                        Params().u64(to).u32(bad), launch);
  if (out) *out = gpu.download<uint32_t>(to, kCtas);
  return r;
}

} // namespace

TEST_CASE("a launch runs on as many threads as the host gives", "[virtual]") {
  NoMoreThreads none;
  REQUIRE_THROWS_AS(std::thread([] {}).join(), std::system_error);
  std::vector<uint32_t> out;
  const RunResult r = run(~0u, &out);
  INFO(r.text);
  REQUIRE(r.ok);
  for (uint32_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == i);
  CHECK(run(77).faulted("trap"));
}

TEST_CASE("the same with all the threads", "[virtual]") {
  std::vector<uint32_t> out;
  const RunResult r = run(~0u, &out);
  INFO(r.text);
  REQUIRE(r.ok);
  for (uint32_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == i);
  CHECK(run(77).faulted("trap"));
}
