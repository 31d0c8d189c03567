// build/fuzz/fuzz: libFuzzer runs the target that FUZZ_TARGET names: ptx, kernel or driver.
#include "tests/fuzz/targets.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace {
void (*target)(const uint8_t*, size_t) = nullptr;

void run_driver(const uint8_t* data, size_t size) {
  wlfuzz::driver(data, size, [](const char* name) { return dlsym(RTLD_DEFAULT, name); });
}
} // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("FUZZ_TARGET");
  if (name && !std::strcmp(name, "ptx")) target = wlfuzz::ptx_text;
  if (name && !std::strcmp(name, "kernel")) target = wlfuzz::kernel;
  if (name && !std::strcmp(name, "driver")) target = run_driver;
  if (target) return 0;
  std::fprintf(stderr, "fuzz: FUZZ_TARGET must be ptx, kernel or driver\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target(data, size);
  return 0;
}
