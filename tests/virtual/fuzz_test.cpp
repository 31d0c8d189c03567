// The committed fuzz corpus (tests/fuzz) again, without a fuzzer: every input is answered.
#include "tests/fuzz/targets.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/vgpu_driver.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

using namespace wltest;

namespace {

size_t replay(const std::string& target, const std::function<void(const uint8_t*, size_t)>& run) {
  std::vector<std::filesystem::path> files;
  for (const auto& f :
       std::filesystem::directory_iterator(source_file("tests/fuzz/corpus/" + target)))
    files.push_back(f.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    INFO(path.string());
    CHECK_NOTHROW(run(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
  return files.size();
}

} // namespace

TEST_CASE("fuzz corpus: PTX text", "[virtual][fuzz]") {
  CHECK(replay("ptx", wlfuzz::ptx_text) > 100);
}

TEST_CASE("fuzz corpus: kernels", "[virtual][fuzz]") {
  CHECK(replay("kernel", wlfuzz::kernel) > 100);
}

TEST_CASE("fuzz corpus: driver calls", "[virtual][fuzz]") {
  VgpuDriver d;
  const auto find = [&](const char* name) -> void* {
    void (*f)() = nullptr;
    d.load(f, name);
    return reinterpret_cast<void*>(f);
  };
  CHECK(replay("driver", [&](const uint8_t* p, size_t n) { wlfuzz::driver(p, n, find); }) > 100);
}
