// WARPLINE_DUMP_DIR of a whole run: the PTX as loaded, the JIT log, the tensor maps decoded.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temporary.hpp"

#include <filesystem>

using wltest::ContainsSubstring;

TEST_CASE("a run leaves its PTX, JIT log and tensor maps", "[host][dump]") {
  wltest::TemporaryDirectory directory;
  const auto run = [&](const std::string& folder) {
    return wltest::run_child({wltest::build_file("warpline"), "dual-gemm", "-m", "128", "-n", "64",
                              "-k", "256", "--device", "virtual:b200", "--config",
                              "dual_gemm_sm100_n64_f16"},
                             {{"WARPLINE_DUMP_DIR", folder}, {"WARPLINE_DRIVER", ""}});
  };
  const auto child = run(directory / "new/dump");
  INFO(child.out << child.err);
  REQUIRE(child.status == 0);
  const std::string stem = directory / "new/dump/dual_gemm_sm100_n64_f16";
  CHECK(wltest::read_text(stem + ".ptx") ==
        wltest::read_text(wltest::build_file("ptx/dual_gemm_sm100_n64_f16.ptx")));
  CHECK(std::filesystem::exists(stem + ".log"));
  const std::string maps = wltest::read_text(directory / "new/dump/tensor_maps.txt");
  for (const char* name : {"A", "B1", "B2", "SFA", "SFB1", "SFB2"})
    CHECK_THAT(maps, ContainsSubstring("tensor map " + std::string(name) + "\n"));
  CHECK_THAT(maps, ContainsSubstring("swizzle 128B"));
  CHECK(child.err == "");
  // A place that cannot be written stops nothing, and is said once.
  const auto refused = run("/dev/null/dump");
  CHECK(refused.status == 0);
  const std::string said = "warpline: WARPLINE_DUMP_DIR = \"/dev/null/dump\" must be a folder that "
                           "can be written: ";
  CHECK(refused.err.find(said) != std::string::npos);
  CHECK(refused.err.find(said) == refused.err.rfind(said));
}
