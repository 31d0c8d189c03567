// The environment of the virtual driver, and the end of launches that do not end by themselves.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_kernels.hpp"

#include <fstream>
#include <iterator>

using namespace cuapi;
using namespace wltest;

namespace {

class Environment {
public:
  Environment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { unsetenv(name_); }

private:
  const char* name_;
};

struct Start {
  CUresult result;
  std::string message, stats;
};
Start start(const char* name, const std::string& value) {
  VgpuDriver d;
  const Environment environment(name, value);
  const CUresult result = d.cu.Init(0);
  return {result, result == CUDA_SUCCESS ? "" : d.message(), d.stats()};
}

// Waits for a flag that nobody raises.
const char* const kPoll = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry poll(.param .u64 flag)
{
  .reg .b32 seen;
  .reg .b64 flag_at;
  .reg .pred down;
  ld.param.u64 flag_at, [flag];
again:
  ld.acquire.gpu.global.u32 seen, [flag_at];
  setp.eq.u32 down, seen, 0;
  @down bra again;
  ret;
}
)";

} // namespace

TEST_CASE("driver: the environment is refused by name", "[virtual][driver]") {
  struct Case {
    const char *name, *value, *says;
  };
  for (const Case& c :
       {Case{"VGPU_CHECK", "zzz", "the choices are off, all, or a list of races, definedness"},
        Case{"VGPU_CHECK", "races,", "check \"\" is not known"},
        Case{"VGPU_SCHEDULE", "soon", "random:SEED"}, Case{"VGPU_THREADS", "two", "from 0 to 4096"},
        Case{"VGPU_THREADS", "99999999999", "from 0 to 4096"},
        Case{"VGPU_STRICT", "yes", "from 0 to 1"}, Case{"VGPU_LIMIT", "1e9", "must be a number"},
        Case{"VGPU_LIMIT", "-1", "must be a number"}, Case{"VGPU_SMS", "many", "from 0 to 4096"},
        Case{"VGPU_SMS", "0", "at least 1"}, Case{"VGPU_RULES", "wait-ld", "RULE=stop"},
        Case{"VGPU_RULES", "bounds=off", "is a fault"},
        Case{"VGPU_RULES", "wait-xx=off", "there is no rule"}}) {
    INFO(c.name << "=" << c.value);
    const Start s = start(c.name, c.value);
    CHECK(s.result == CUDA_ERROR_INVALID_VALUE);
    CHECK_THAT(s.message, ContainsSubstring(std::string("cuInit: ") + c.name + ": "));
    CHECK_THAT(s.message, ContainsSubstring(c.says));
  }
  CHECK(start("VGPU_CHECK", "races,barriers").result == CUDA_SUCCESS);
  CHECK_THAT(start("VGPU_LIMIT", "77").stats, ContainsSubstring("\"instruction_limit\": 77,"));
  CHECK_THAT(start("VGPU_LIMIT", "").stats,
             ContainsSubstring("\"instruction_limit\": 1000000000,"));
  CHECK_THAT(start("VGPU_SCHEDULE", "hold:3").stats, ContainsSubstring("\"hold:3\""));
  // What the program has set itself stays.
  VgpuDriver d;
  const Environment environment("VGPU_SCHEDULE", "soon");
  REQUIRE(d.set_option("schedule", "eager") == 0);
  CHECK(d.cu.Init(0) == CUDA_SUCCESS);
  CHECK_THAT(std::string(d.stats()), ContainsSubstring("\"eager\""));
}

TEST_CASE("driver: a variable that there is not is named", "[virtual][driver]") {
  TemporaryDirectory directory;
  const std::string file = directory / "report";
  VgpuDriver d;
  REQUIRE(d.set_option("report", file.c_str()) == 0);
  const Environment environment("VGPU_CHEK", "all");
  CHECK(d.cu.Init(0) == CUDA_SUCCESS);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK_THAT(text, ContainsSubstring("unknown in the environment: VGPU_CHEK (known are ") &&
                       ContainsSubstring("VGPU_CHECK, "));
}

TEST_CASE("driver: the user sees what is wrong", "[virtual][driver]") {
  const ChildResult r = run_child({build_file("warpline"), "dual-gemm", "-m", "64", "-n", "64",
                                   "-k", "256", "--device", "virtual:b200"},
                                  {{"VGPU_CHECK", "zzz"}});
  INFO(r.out << r.err);
  CHECK(r.status != 0);
  CHECK_THAT(r.err, ContainsSubstring("VGPU_CHECK: check \"zzz\" is not known"));
}

TEST_CASE("driver: the environment sets the number of SMs", "[virtual][driver]") {
  VgpuDriver d("h200");
  const Environment environment("VGPU_SMS", "7");
  d.open();
  int sms = 0;
  REQUIRE(d.cu.DeviceGetAttribute(&sms, CUdevice_attribute(16), 0) == CUDA_SUCCESS);
  CHECK(sms == 7);
}

TEST_CASE("driver: kernels of others are told of errors and run on", "[virtual][driver]") {
  static const char* const text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry _Z5twicePj(.param .u64 out)
{
  .reg .b64 at;
  .shared .align 8 .b64 bar;
  ld.param.u64 at, [out];
  mbarrier.init.shared::cta.b64 [bar], 3;
  mbarrier.init.shared::cta.b64 [bar], 1;
  st.global.u32 [at], 6;
  ret;
}
)";
  struct Case {
    const char *strict, *rules;
    CUresult result;
    bool told;
  };
  for (const Case& c : {Case{"", "", CUDA_SUCCESS, true}, Case{"0", "", CUDA_SUCCESS, true},
                        Case{"1", "", CUDA_ERROR_LAUNCH_FAILED, false},
                        Case{"", "mbarrier-again=off", CUDA_SUCCESS, false},
                        Case{"", "error=stop", CUDA_ERROR_LAUNCH_FAILED, false},
                        Case{"1", "barriers=tell", CUDA_SUCCESS, true}}) {
    INFO("VGPU_STRICT=" << c.strict << " VGPU_RULES=" << c.rules);
    TemporaryDirectory directory;
    const std::string file = directory / "report";
    VgpuDriver d("h200");
    const Environment strict("VGPU_STRICT", c.strict), rules("VGPU_RULES", c.rules);
    REQUIRE(d.set_option("report", file.c_str()) == 0);
    d.open();
    CUmodule module = nullptr;
    REQUIRE(d.cu.ModuleLoadDataEx(&module, text, 0, nullptr, nullptr) == CUDA_SUCCESS);
    CUdeviceptr out = d.upload(std::vector<uint32_t>{0});
    kernels::Launch l;
    l.grid = 5;
    l.block = 1;
    const auto entry = kernels::entry_of(d, module, "_Z5twicePj");
    for (int again = 0; again < 3; ++again)
      REQUIRE(kernels::launch(d, entry, l, {&out}) == (again == 0 ? CUDA_SUCCESS : c.result));
    CHECK(d.cu.CtxSynchronize() == c.result);
    std::ifstream in(file);
    const std::string report{std::istreambuf_iterator<char>(in), {}};
    INFO(report);
    if (c.result != CUDA_SUCCESS) CHECK(report.starts_with("vgpu: barriers: ")); // named once
    const size_t first = report.find("(error, rule mbarrier-again)");
    CHECK((first != std::string::npos) == c.told);
    if (!c.told) continue;
    CHECK(report.find("mbarrier-again", first + 30) == std::string::npos); // once for all launches
    CHECK_THAT(report, ContainsSubstring("at twice, line 10"));
    CHECK_THAT(report, ContainsSubstring("5 times here"));
  }
}

TEST_CASE("driver: a kernel that polls for ever ends", "[virtual][driver]") {
  for (const unsigned grid : {1u, 3u}) {
    INFO(grid << " CTAs");
    VgpuDriver d("h200");
    {
      const Environment environment("VGPU_LIMIT", "1000000");
      d.open();
    }
    CUmodule module = nullptr;
    REQUIRE(d.cu.ModuleLoadDataEx(&module, kPoll, 0, nullptr, nullptr) == CUDA_SUCCESS);
    CUdeviceptr flag = d.upload(std::vector<uint32_t>{0});
    kernels::Launch l;
    l.grid = grid;
    l.block = 64;
    REQUIRE(kernels::launch(d, kernels::entry_of(d, module, "poll"), l, {&flag}) == CUDA_SUCCESS);
    CHECK(d.cu.CtxSynchronize() == CUDA_ERROR_LAUNCH_TIMEOUT);
    const std::string report = d.report();
    INFO(report);
    for (const char* part : {"ran 1000000 warp-instructions", "kernel poll", "2 of 2 warps live",
                             "(after again)", "VGPU_LIMIT"})
      CHECK_THAT(report, ContainsSubstring(part));
  }
}
