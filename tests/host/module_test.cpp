#include "runtime/embed/pack.hpp"
#include "runtime/src/module.hpp"
#include "tests/support/child.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/log_file.hpp"
#include "tests/support/temporary.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

using namespace warpline;
using wltest::ContainsSubstring;
using wltest::FakeGpu;
using wltest::ScopedEnv;

namespace {

const char text_100f[] = "// .version in a comment is not the directive\n"
                         ".version 8.8\n.target sm_100f\n.address_size 64\n"
                         ".visible .entry example(\n  .param .u64 d,\n"
                         "  .param .align 64 .b8 a_map[128]\n)\n{\n  ret;\n}\n";
const char text_90a[] = ".version 8.6\n.target sm_90a, debug\n";

Image image_100f() { return make_image("example_sm100", "example", text_100f); }

// A host that passes a pointer and a tensor map, and a kernel that takes the same.
KernelNeeds matching_needs(wltest::FakeDriver* fake) {
  fake->param_count = 2;
  fake->param_offset[0] = 0, fake->param_size[0] = 8;
  fake->param_offset[1] = 112, fake->param_size[1] = 128;
  return {{{"d", 0, 8}, {"a_map", 128, 128}}, 200 * 1024, false};
}

} // namespace

TEST_CASE("images know their version and target", "[host][module]") {
  const Image image = image_100f();
  CHECK(image.target == "sm_100f");
  CHECK(image.ptx_major == 8);
  CHECK(image.ptx_minor == 8);
  const Image hopper = make_image("x", "x", text_90a);
  CHECK(hopper.target == "sm_90a");
  CHECK(hopper.ptx_minor == 6);
  const Image empty = make_image("x", "x", "");
  CHECK(empty.target.empty());
  CHECK(empty.ptx_major == 0);
}

TEST_CASE("which target runs where", "[host][module]") {
  CHECK(target_runs_on("sm_90a", 9, 0));
  CHECK_FALSE(target_runs_on("sm_90a", 10, 0));
  CHECK(target_runs_on("sm_100a", 10, 0));
  CHECK_FALSE(target_runs_on("sm_100a", 10, 3));
  CHECK(target_runs_on("sm_100f", 10, 0));
  CHECK(target_runs_on("sm_100f", 10, 3));
  CHECK_FALSE(target_runs_on("sm_103f", 10, 0));
  CHECK_FALSE(target_runs_on("sm_100f", 12, 0));
  CHECK_FALSE(target_runs_on("sm_100f", 9, 0));
  CHECK(target_runs_on("sm_80", 9, 0));
  CHECK_FALSE(target_runs_on("sm_90", 8, 9));
  CHECK_FALSE(target_runs_on("", 9, 0));
  CHECK_FALSE(target_runs_on("compute_90", 9, 0));
  CHECK(target_family("sm_100f") == "sm100");
  CHECK(target_family("sm_90a") == "sm90");
}

TEST_CASE("the embedded index lists whole PTX files", "[host][module]") {
  const std::vector<Image> images = embedded_images();
  CHECK_FALSE(images.empty());
  for (const Image& image : images) {
    INFO(image.name);
    CHECK(image.ptx_major >= 8);
    CHECK(image.target.substr(0, 3) == "sm_");
    const std::string text = image.text();
    CHECK(text == wltest::read_text(wltest::build_file("ptx/" + image.name + ".ptx")));
    CHECK(image.target == read_ptx_header(text).target);
    CHECK_THAT(text, ContainsSubstring(".entry " + image.entry));
    // Machine code, of a build that found ptxas, is the file that ptxas wrote.
    for (uint64_t i = 0; i < image.embedded->cubin_count; ++i) {
      const EmbeddedCubin& cubin = image.embedded->cubins[i];
      const std::string file = "cubin/" + image.name + "." + cubin.target + ".cubin";
      CHECK(unpacked(cubin.code) == wltest::read_text(wltest::build_file(file)));
    }
  }
}

TEST_CASE("a kernel is loaded once, by many threads", "[host][module]") {
  FakeGpu gpu;
  wl_context& context = gpu.context();
  const KernelNeeds needs = matching_needs(gpu.fake);
  std::vector<const Kernel*> kernels(6, nullptr);
  std::vector<std::thread> threads;
  for (const Kernel*& kernel : kernels)
    threads.emplace_back([&] { load_kernel(context, image_100f(), needs, &kernel); });
  for (std::thread& thread : threads) thread.join();
  for (const Kernel* kernel : kernels) CHECK(kernel == kernels[0]);
  REQUIRE(kernels[0]);
  CHECK(gpu.fake->loads == 1);
  CHECK(gpu.fake->loaded_text == std::string(text_100f));
  CHECK_FALSE(gpu.fake->verbose_log); // nobody reads it
  CHECK(gpu.fake->dynamic_shared_limit == 200 * 1024);
  CHECK(kernels[0]->registers == 168);
  CHECK(kernels[0]->max_threads == 384);
  CHECK(kernels[0]->load_ms >= 0);

  // More shared memory for the same kernel raises the limit without loading again.
  KernelNeeds more = needs;
  more.dynamic_shared_bytes = 220 * 1024;
  more.nonportable_cluster = true;
  const Kernel* again = nullptr;
  CHECK(load_kernel(context, image_100f(), more, &again) == WL_SUCCESS);
  CHECK(again == kernels[0]);
  CHECK(gpu.fake->loads == 1);
  CHECK(gpu.fake->dynamic_shared_limit == 220 * 1024);
  CHECK(gpu.fake->nonportable);
}

namespace {

// A row with PTX for the family and machine code for 10.0 alone.
struct EmbeddedExample {
  std::string text = text_100f, code = std::string("\177ELF, 10.0 only", 15);
  Pieces of_text = find_pieces(PackBase(""), text), of_code = find_pieces(PackBase(""), code);
  PackCodes codes = [&] {
    PackCounts counts;
    counts.add(of_text, text);
    counts.add(of_code, code);
    return counts.codes();
  }();
  std::string packed_text = write_pieces(codes, of_text, text);
  std::string packed_code = write_pieces(codes, of_code, code);
  EmbeddedCubin cubin{"sm_100a",
                      {packed_code.data(), packed_code.size(), code.size(), nullptr, &codes}};
  EmbeddedPtx row{"example_sm100",
                  "sm_100f",
                  {packed_text.data(), packed_text.size(), text.size(), nullptr, &codes},
                  &cubin,
                  1,
                  8,
                  8,
                  2};
};

} // namespace

TEST_CASE("machine code is loaded where the library holds some for the device", "[host][module]") {
  const EmbeddedExample example;
  FakeGpu gpu;
  const ScopedEnv no_force("CUDA_FORCE_PTX_JIT", "0");
  const KernelNeeds needs = matching_needs(gpu.fake);
  const Kernel* kernel = nullptr;
  REQUIRE(load_kernel(gpu.context(), make_image(example.row), needs, &kernel) == WL_SUCCESS);
  CHECK(kernel->precompiled);
  CHECK(kernel->jit_log.empty());
  CHECK(gpu.fake->loads == 1);
  CHECK(gpu.fake->loaded_text == example.code);
}

TEST_CASE("where there is no machine code to load the PTX is compiled", "[host][module]") {
  const EmbeddedExample example;
  const struct {
    const char* what;
    cuapi::CUresult answer;
    int minor;
    const char* force;
    int loads;
    const char* log;
  } cases[] = {
      {"the driver refuses it", cuapi::CUDA_ERROR_NOT_FOUND, 0, "0", 2,
       "example_sm100: the driver takes no machine code for sm_100a (CUDA_ERROR_NOT_FOUND), its "
       "PTX is compiled"},
      {"another device of the family", cuapi::CUDA_SUCCESS, 3, "0", 1, "wl_context_create"},
      {"CUDA_FORCE_PTX_JIT", cuapi::CUDA_SUCCESS, 0, "1", 1, "wl_context_create"},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const wltest::LogFile log("2");
    FakeGpu gpu;
    const ScopedEnv force("CUDA_FORCE_PTX_JIT", c.force);
    gpu.fake->binary_result = c.answer;
    gpu.fake->compute_minor = c.minor;
    const KernelNeeds needs = matching_needs(gpu.fake);
    const Kernel* kernel = nullptr;
    REQUIRE(load_kernel(gpu.context(), make_image(example.row), needs, &kernel) == WL_SUCCESS);
    CHECK_FALSE(kernel->precompiled);
    CHECK(gpu.fake->loads == c.loads);
    CHECK(gpu.fake->loaded_text == example.text);
    CHECK_THAT(wltest::read_text(log.path), ContainsSubstring(c.log));
  }
}

TEST_CASE("a driver too old for the PTX version is told both numbers", "[host][module]") {
  FakeGpu gpu(12080);
  const Kernel* kernel = nullptr;
  CHECK(load_kernel(gpu.context(), image_100f(), matching_needs(gpu.fake), &kernel) ==
        WL_ERROR_INSUFFICIENT_DRIVER);
  CHECK(kernel == nullptr);
  CHECK(gpu.fake->loads == 0);
  CHECK_THAT(wl_last_error(), ContainsSubstring("example_sm100 is PTX 8.8") &&
                                  ContainsSubstring("(version 12.8) accepts PTX up to 8.7") &&
                                  ContainsSubstring("driver 12.9 or newer"));
}

TEST_CASE("a kernel of another device is refused before the driver sees it", "[host][module]") {
  FakeGpu gpu;
  gpu.fake->compute_major = 9;
  const Kernel* kernel = nullptr;
  CHECK(load_kernel(gpu.context(), image_100f(), matching_needs(gpu.fake), &kernel) ==
        WL_ERROR_NOT_SUPPORTED);
  CHECK(gpu.fake->loads == 0);
  CHECK_THAT(wl_last_error(),
             ContainsSubstring("sm_100f") && ContainsSubstring("compute capability 9.0"));
}

TEST_CASE("a JIT failure carries the kernel's name and the driver's log", "[host][module]") {
  FakeGpu gpu;
  wl_context& context = gpu.context();
  const KernelNeeds needs = matching_needs(gpu.fake);
  gpu.fake->load_result = cuapi::CUDA_ERROR_INVALID_PTX;
  gpu.fake->load_log = "ptxas application ptx input, line 42; error : Unknown modifier\n";
  const Kernel* kernel = nullptr;
  CHECK(load_kernel(context, image_100f(), needs, &kernel) == WL_ERROR_JIT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("CUDA_ERROR_INVALID_PTX (218)") &&
                                  ContainsSubstring("kernel example_sm100 (PTX 8.8 for sm_100f)") &&
                                  ContainsSubstring("line 42; error : Unknown modifier"));
  gpu.fake->load_result = cuapi::CUDA_SUCCESS;
  gpu.fake->function_result = cuapi::CUDA_ERROR_NOT_FOUND;
  CHECK(load_kernel(context, image_100f(), needs, &kernel) == WL_ERROR_JIT);
  CHECK_THAT(wl_last_error(), ContainsSubstring("has no entry example"));
  CHECK(gpu.fake->unloads == 1);
  gpu.fake->function_result = cuapi::CUDA_SUCCESS;
  CHECK(load_kernel(context, image_100f(), needs, &kernel) == WL_SUCCESS);
}

TEST_CASE("parameter layouts are compared", "[host][module]") {
  FakeGpu gpu;
  wl_context& context = gpu.context();
  const KernelNeeds needs = matching_needs(gpu.fake);
  const Kernel* kernel = nullptr;

  gpu.fake->param_size[1] = 64;
  CHECK(load_kernel(context, image_100f(), needs, &kernel) == WL_ERROR_INTERNAL);
  CHECK_THAT(wl_last_error(), ContainsSubstring("parameter 1 (a_map) is 64 bytes in the kernel, "
                                                "128 bytes on the host"));
  gpu.fake->param_size[1] = 128;
  std::string text = text_100f;
  text.replace(text.find(" d,"), 3, " d)\n{ // ");
  const Image fewer = make_image("example_sm100", "example", text);
  CHECK(fewer.params == 1);
  CHECK(load_kernel(context, fewer, needs, &kernel) == WL_ERROR_INTERNAL);
  CHECK_THAT(wl_last_error(), ContainsSubstring("has 1 parameters, the host passes 2") &&
                                  ContainsSubstring("a_map"));
  text = text_100f;
  text.replace(text.find(" d,"), 3, " d, .param .u32 m,");
  const Image more = make_image("example_sm100", "example", text);
  CHECK(load_kernel(context, more, needs, &kernel) == WL_ERROR_INTERNAL);
  CHECK_THAT(wl_last_error(), ContainsSubstring("has 3 parameters, the host passes 2"));
  CHECK(gpu.fake->unloads == 3);
}

TEST_CASE("too much shared memory is refused with the device's limit", "[host][module]") {
  FakeGpu gpu;
  KernelNeeds needs = matching_needs(gpu.fake);
  gpu.fake->static_shared_bytes = 1024;
  needs.dynamic_shared_bytes = 232448 - 1023;
  const Kernel* kernel = nullptr;
  CHECK(load_kernel(gpu.context(), image_100f(), needs, &kernel) == WL_ERROR_NOT_SUPPORTED);
  CHECK_THAT(wl_last_error(), ContainsSubstring("232449 bytes") && ContainsSubstring("232448"));
  needs.dynamic_shared_bytes = 232448 - 1024;
  CHECK(load_kernel(gpu.context(), image_100f(), needs, &kernel) == WL_SUCCESS);
}

TEST_CASE("WARPLINE_DUMP_DIR receives the PTX as loaded and the log", "[host][module]") {
  namespace fs = std::filesystem;
  FakeGpu gpu;
  const fs::path directory =
      fs::temp_directory_path() / ("warpline_dump_test_" + std::to_string(getpid())) / "deep";
  const ScopedEnv variable("WARPLINE_DUMP_DIR", directory.string());
  gpu.fake->load_log = "a warning";
  const KernelNeeds needs = matching_needs(gpu.fake);
  const Kernel* kernel = nullptr;
  CHECK(load_kernel(gpu.context(), image_100f(), needs, &kernel) == WL_SUCCESS);
  const auto contents = [&](const char* name) {
    std::stringstream text;
    text << std::ifstream(directory / name).rdbuf();
    return text.str();
  };
  CHECK(contents("example_sm100.ptx") == text_100f);
  CHECK(contents("example_sm100.log") == "a warning");
  CHECK(gpu.fake->verbose_log);
  fs::remove_all(directory.parent_path());
}
