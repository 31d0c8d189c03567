// The CUDA runtime's names over the virtual driver (build/vgpu-driver/libcudart.so.13): a program
// of nvcc's where nvcc is found, and fat binaries registered by hand.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

using namespace wltest;

namespace {

// __device__ int total; extern "C" __global__ void add(int* out, int n) adds 3 to n words and
// stores n to total. By nvcc 13.0 for compute_90: its PTX, packed by Zstandard.
const char* const kPacked =
    "50ed55ba01001000a801000000000000010001015000000058010000000000005801000040000000000009005a00"
    "00000000000000000000118000000000000000000000000000006802000000000000480000000000000000000000"
    "0000000028b52ffd606801750a0076513721306becd83613418235a8fdc56c6fa414d41155aae908dc2513a86eaf"
    "870254507c2d002e002e00b0cd686e520cdeb590f360e385ad89a0b396750d4f3229ddbb37d604c11eb9d339df26"
    "6bc28885a227df3558036b2150fcb149355da014f158771f791df7ac0e3aa04a5248c2d85a18bc4ffb165905dcdb"
    "32fc841caf83cd93af0309aa9d58b258307610b0ed9b55e261a09d3e3a87e374527b81fdcd6311a5113dda8c929a"
    "415844f13f1caafa1f1b00aa0faa3ddd6b62312949d14109d55e536aab451483b088524bb27bd35ecadf9f0243c6"
    "a3ad788a26b7d908312840022238eb3a1030c94ed23406d91c1a92e3ef0566800300785c8e35b80d41f3fa8897a7"
    "b0c11160365f101880e34d43d90012815e3a6cc3ae149cca631ab7291c592c62f4c301fa621adeb844b9616cb1f1"
    "1d0c5e801129e2429a2f9c06c1bc23e495ccfdc8b108d5f82204";

// The same kernel, not packed.
const char* const kPlain = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 total;
.visible .entry add(.param .u64 out, .param .u32 n)
{
  .reg .b32 count, thread, value;
  .reg .b64 at, offset;
  .reg .pred beyond, first;
  ld.param.u64 at, [out];
  ld.param.u32 count, [n];
  mov.u32 thread, %tid.x;
  setp.eq.u32 first, thread, 0;
  @first st.global.u32 [total], count;
  setp.ge.u32 beyond, thread, count;
  @beyond ret;
  mul.wide.u32 offset, thread, 4;
  add.u64 at, at, offset;
  ld.global.u32 value, [at];
  add.u32 value, value, 3;
  st.global.u32 [at], value;
  ret;
}
)";

std::vector<uint8_t> from_hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(uint8_t(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

// Head and entries of the container, `kind` 1 PTX, 2 machine code.
std::vector<uint8_t> container(const std::string& payload, uint16_t kind, uint32_t architecture) {
  std::vector<uint8_t> b(16 + 64, 0);
  auto put = [&](size_t at, auto value) { std::memcpy(b.data() + at, &value, sizeof value); };
  const uint64_t padded = (payload.size() + 8) / 8 * 8;
  put(0, uint32_t(0xBA55ED50));
  put(4, uint16_t(1));
  put(6, uint16_t(16));
  put(8, uint64_t(64 + padded));
  put(16, kind);
  put(20, uint32_t(64));
  put(24, padded);
  put(44, architecture);
  b.resize(80 + padded, 0);
  std::copy(payload.begin(), payload.end(), b.begin() + 80);
  return b;
}

struct Wrapper {
  uint32_t magic = 0x466243B1, version = 1;
  const void* data = nullptr;
  const void* rest = nullptr; // version 2: the binaries that are to be linked
};
struct Dim3 {
  unsigned x, y, z;
};

// In a child, so that a test's process keeps no other driver's context.
template <class F>
std::string in_child(F&& f) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string text;
    try {
      text = f();
    } catch (const std::exception& e) {
      text = e.what();
    }
    static_cast<void>(!write(ends[1], text.data(), text.size()));
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  return text;
}

template <class F>
F* symbol(void* library, const char* name) {
  auto* f = reinterpret_cast<F*>(dlsym(library, name));
  if (!f) throw std::runtime_error(std::string("no ") + name);
  return f;
}

// Registers the binary as nvcc's start-up code does, launches `add` and gives what happened.
std::string run_binary(const std::vector<uint8_t>& binary, const char* profile,
                       const char* name_of_library = "vgpu-driver/libcudart.so.13",
                       const std::vector<const void*>& linked = {}) {
  setenv("VGPU_PROFILE", profile, 1);
  setenv("VGPU_REPORT", "none", 1);
  void* library = dlopen(build_file(name_of_library).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return dlerror();
  using Error = int;
  static int host_function, host_variable, unknown;
  Wrapper wrapper;
  wrapper.data = binary.data();
  if (!linked.empty()) wrapper.version = 2, wrapper.rest = linked.data();
  void** handle = symbol<void**(void*)>(library, "__cudaRegisterFatBinary")(&wrapper);
  symbol<void(void**, const void*, char*, const char*, int, void*, void*, void*, void*, int*)>(
      library, "__cudaRegisterFunction")(handle, &host_function, nullptr, "add", -1, nullptr,
                                         nullptr, nullptr, nullptr, nullptr);
  symbol<void(void**, void*, char*, const char*, int, size_t, int, int)>(
      library, "__cudaRegisterVar")(handle, &host_variable, nullptr, "total", 0, 4, 0, 0);
  symbol<void(void**)>(library, "__cudaRegisterFatBinaryEnd")(handle);
  auto name = symbol<const char*(Error)>(library, "cudaGetErrorName");
  auto launch =
      symbol<Error(const void*, Dim3, Dim3, void**, size_t, void*)>(library, "cudaLaunchKernel");
  auto copy = symbol<Error(void*, const void*, size_t, int)>(library, "cudaMemcpy");
  auto from_symbol =
      symbol<Error(void*, const void*, size_t, size_t, int)>(library, "cudaMemcpyFromSymbol");
  void* memory = nullptr;
  int n = 20, words[32] = {}, total = 0;
  std::string s = name(symbol<Error(void**, size_t)>(library, "cudaMalloc")(&memory, sizeof words));
  s += std::string(" ") + name(copy(memory, words, sizeof words, 1));
  void* arguments[] = {&memory, &n};
  s +=
      std::string(" ") + name(launch(&host_function, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr));
  s += std::string(" ") + name(copy(words, memory, sizeof words, 2));
  s += " " + std::to_string(words[19]) + " " + std::to_string(words[20]);
  s += std::string(" ") + name(from_symbol(&total, &host_variable, 4, 0, 2));
  s += " " + std::to_string(total);
  s += std::string(" ") + name(launch(&unknown, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr));
  symbol<void(void**)>(library, "__cudaUnregisterFatBinary")(handle);
  s +=
      std::string(" ") + name(launch(&host_function, {1, 1, 1}, {32, 1, 1}, arguments, 0, nullptr));
  return s;
}

const std::string kRight = "cudaSuccess cudaSuccess cudaSuccess cudaSuccess 3 0 cudaSuccess 20 "
                           "cudaErrorInvalidDeviceFunction cudaErrorInvalidDeviceFunction";

std::string nvcc() {
  for (const char* path : {"/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

} // namespace

TEST_CASE("cudart: fat binaries registered by hand", "[virtual][cudart]") {
  for (const char* profile : {"h200", "b200"}) {
    INFO(profile);
    CHECK(in_child([&] { return run_binary(container(kPlain, 1, 90), profile); }) == kRight);
    CHECK(in_child([&] { return run_binary(from_hex(kPacked), profile); }) == kRight);
  }
}

TEST_CASE("cudart: binaries that the driver links", "[virtual][cudart]") {
  // What nvcc -rdc makes: a part for each file, of which one uses what the other defines. Both keep
  // a variable of one name to themselves.
  const std::string head = ".version 8.0\n.target sm_90\n.address_size 64\n";
  const std::string main = head + R"(.visible .global .align 4 .u32 total;
.global .align 4 .u32 hidden = 1000;
.extern .func (.param .b32 result) sum(.param .b32 a);
.visible .entry add(.param .u64 out, .param .u32 n)
{
  .reg .b32 count, thread, value, mine;
  .reg .b64 at, offset;
  .reg .pred beyond, first;
  ld.param.u64 at, [out];
  ld.param.u32 count, [n];
  mov.u32 thread, %tid.x;
  setp.eq.u32 first, thread, 0;
  @first st.global.u32 [total], count;
  setp.ge.u32 beyond, thread, count;
  @beyond ret;
  mul.wide.u32 offset, thread, 4;
  add.u64 at, at, offset;
  ld.global.u32 value, [at];
  {
    .param .b32 a;
    .param .b32 result;
    st.param.b32 [a], value;
    call (result), sum, (a);
    ld.param.b32 value, [result];
  }
  ld.global.u32 mine, [hidden];
  sub.u32 value, value, mine;
  st.global.u32 [at], value;
  ret;
}
)";
  const std::string part = head + R"(.global .align 4 .u32 hidden = 1003;
.weak .func (.param .b32 result) twice(.param .b32 a)
{
  ret;
}
.visible .func (.param .b32 result) sum(.param .b32 a)
{
  .reg .b32 x, y;
  ld.param.b32 x, [a];
  ld.global.u32 y, [hidden];
  add.u32 x, x, y;
  st.param.b32 [result], x;
  ret;
}
)";
  const auto empty = container("", 2, 90), a = container(main, 1, 90), b = container(part, 1, 90),
             cubin = container("machine code", 2, 90);
  const auto run = [&](const std::vector<const void*>& parts) {
    return in_child(
        [&] { return run_binary(empty, "h200", "vgpu-driver/libcudart.so.13", parts); });
  };
  CHECK(run({a.data(), b.data(), nullptr}) == kRight);
  CHECK(run({b.data(), cubin.data(), a.data(), nullptr}) == kRight);
  // What nobody defines is named; what two define, too.
  CHECK_THAT(run({a.data(), nullptr}),
             ContainsSubstring("cudaSuccess cudaSuccess cudaErrorInvalidPtx"));
  CHECK_THAT(run({a.data(), b.data(), b.data(), nullptr}),
             ContainsSubstring("cudaSuccess cudaSuccess cudaErrorInvalidPtx"));
  CHECK_THAT(run({cubin.data(), nullptr}),
             ContainsSubstring("cudaSuccess cudaSuccess cudaErrorNoKernelImageForDevice"));
}

TEST_CASE("cudart: under CUDA 12's name", "[virtual][cudart]") {
  CHECK(in_child([] {
          return run_binary(container(kPlain, 1, 90), "h200", "vgpu-driver/libcudart.so.12");
        }) == kRight);
  const std::string s = in_child([] {
    setenv("VGPU_PROFILE", "h200", 1);
    void* library = dlopen(build_file("vgpu-driver/libcudart.so.12").c_str(), RTLD_NOW);
    if (!library) return std::string(dlerror());
    // Symbols are of that version, as programs built with CUDA 12 ask for them.
    if (!dlvsym(library, "cudaMalloc", "libcudart.so.12")) return std::string("no version");
    int version = 0;
    symbol<int(int*)>(library, "cudaRuntimeGetVersion")(&version);
    std::vector<unsigned char> properties(1032 + 8, 0xEE);
    const int e =
        symbol<int(void*, int)>(library, "cudaGetDeviceProperties_v2")(properties.data(), 0);
    const auto field = [&](size_t at) {
      int v = 0;
      std::memcpy(&v, properties.data() + at, sizeof v);
      return " " + std::to_string(v);
    };
    return std::to_string(version) + " " + std::to_string(e) + field(360) + field(364) +
           field(388) + field(688) + field(1032);
  });
  CHECK(s == "12090 0 9 0 132 1 -286331154");
}

TEST_CASE("cudart: fat binaries that cannot run are named", "[virtual][cudart]") {
  auto refused = [](const std::vector<uint8_t>& binary) {
    const std::string s = in_child([&] { return run_binary(binary, "h200"); });
    INFO(s);
    CHECK_THAT(s, ContainsSubstring("cudaSuccess cudaSuccess cudaErrorNoKernelImageForDevice"));
  };
  refused(container("machine code", 2, 90));
  refused(container(std::string(kPlain).replace(25, 5, "sm_100"), 1, 100));
  // Packed text that ends early, and damaged: an error, whatever the byte.
  std::vector<uint8_t> bytes = from_hex(kPacked);
  for (size_t at = 96; at + 8 < bytes.size(); at += 61) {
    std::vector<uint8_t> bent = bytes;
    bent[at] ^= 0x55;
    INFO("byte " << at);
    CHECK_THAT(in_child([&] { return run_binary(bent, "h200"); }),
               ContainsSubstring("cudaSuccess cudaSuccess cuda"));
  }
}

TEST_CASE("cudart: what is missing says so", "[virtual][cudart]") {
  const std::string s = in_child([] {
    void* library = dlopen(build_file("vgpu-driver/libcudart.so.13").c_str(), RTLD_NOW);
    if (!library) return std::string(dlerror());
    const int e = symbol<int()>(library, "cudaMallocArray")();
    return std::to_string(e) + symbol<const char*(int)>(library, "cudaGetErrorString")(e);
  });
  CHECK(s == "801operation not supported");
}

TEST_CASE("cudart: nvcc's programs of several files", "[virtual][cudart]") {
  const std::string compiler = nvcc();
  if (compiler.empty()) {
    WARN("no nvcc here: the program is not built");
    return;
  }
  TemporaryDirectory directory;
  const std::string program = directory / "linked";
  const ChildResult built = run_child(
      {compiler, "-rdc=true", "-cudart", "shared", "-gencode", "arch=compute_90,code=compute_90",
       "tests/virtual/runtime/linked.cu", "tests/virtual/runtime/linked_part.cu", "-o", program});
  INFO(built.out << built.err);
  REQUIRE(built.status == 0);
  const std::string libraries =
      std::filesystem::absolute(build_file("vgpu-driver/libcudart.so.13")).parent_path();
  for (const char* profile : {"h200", "b200"}) {
    const ChildResult r =
        run_child({program}, {{"LD_LIBRARY_PATH", libraries}, {"VGPU_PROFILE", profile}});
    INFO(r.out << r.err);
    CHECK(r.status == 0);
    CHECK(r.out == "ok\n");
  }
}

TEST_CASE("cudart: a program of nvcc's runs as it is", "[virtual][cudart]") {
  const std::string compiler = nvcc();
  if (compiler.empty()) {
    WARN("no nvcc here: the program is not built");
    return;
  }
  TemporaryDirectory directory;
  const std::string program = directory / "program";
  // By the line of the page.
  std::filesystem::create_directory_symlink(source_file("tests"), directory / "tests");
  std::ifstream text(source_file("tools/vgpu/README.md"));
  const std::string page{std::istreambuf_iterator<char>(text), {}};
  const size_t line = page.find("    nvcc -std=c++17 -cudart shared");
  REQUIRE(line != std::string::npos);
  const std::string command = page.substr(line, page.find('\n', line) - line);
  const ChildResult built =
      run_child({"bash", "-c",
                 "cd " + (directory / "") + " && PATH=$PATH:" +
                     std::filesystem::path(compiler).parent_path().string() + command});
  INFO(built.out << built.err);
  REQUIRE(built.status == 0);
  const std::string libraries =
      std::filesystem::absolute(build_file("vgpu-driver/libcudart.so.13")).parent_path();
  for (const auto& [profile, checks] : {std::pair{"h200", "off"}, std::pair{"b200", "all"}}) {
    const ChildResult r = run_child({program}, {{"LD_LIBRARY_PATH", libraries},
                                                {"VGPU_PROFILE", profile},
                                                {"VGPU_STRICT", "0"},
                                                {"VGPU_CHECK", checks},
                                                {"VGPU_COVERAGE", directory / "ran"}});
    INFO(profile << " " << checks << "\n" << r.out << r.err);
    CHECK(r.status == 0);
    CHECK(r.out == "ok\nfreed\n"); // by a destructor of a global object
    CHECK_THAT(r.err, ContainsSubstring("cudaMallocArray is not supported"));
    CHECK(r.err.find("(error") == std::string::npos);
    std::ifstream in(directory / "ran.txt");
    const std::string ran{std::istreambuf_iterator<char>(in), {}};
    INFO(ran);
    CHECK_THAT(ran, ContainsSubstring("neighbours: ") && ContainsSubstring("scale<...>: "));
  }
  const ChildResult fault =
      run_child({program, "fault"}, {{"LD_LIBRARY_PATH", libraries}, {"VGPU_PROFILE", "h200"}});
  INFO(fault.out << fault.err);
  CHECK(fault.status == 0);
  CHECK_THAT(fault.err, ContainsSubstring("at misaligned, line"));
}
