// A sequence of driver calls that bytes choose. Device addresses, handles, sizes and dimensions are
// any; host pointers are null or point to room enough, as no driver can check them.
#pragma once

#include "tests/fuzz/targets.hpp"

#include "tools/vgpu/driver/api_types.hpp"

#include <array>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace wlfuzz {

using namespace vgpu::driver;

constexpr size_t kRoom = 256 << 10; // host bytes behind every host pointer

extern const char* const kImages[7];

struct Session {
  Reader c;
  const Find& find;
  std::vector<void*> handles;
  std::vector<CUdeviceptr> pointers;
  std::vector<uint8_t> room = std::vector<uint8_t>(kRoom), other = room;
  std::string text;
  std::array<void*, 300> parameters{};
  std::array<CUlaunchAttribute, 8> attributes{};

  Session(const uint8_t* data, size_t size, const Find& f) : c(data, size), find(f) {}

  template <class... A>
  CUresult call(const char* name, A... arguments) {
    void* p = find(name);
    if (!p) throw std::logic_error(std::string("no export ") + name);
    return reinterpret_cast<CUresult (*)(A...)>(p)(arguments...);
  }

  template <class H>
  H handle() {
    const size_t i = c.below(24);
    if (i == 0) return nullptr;
    if (i <= 2) return reinterpret_cast<H>(uintptr_t(i));
    if (i == 3) return reinterpret_cast<H>(room.data());
    if (i == 4 || handles.empty()) return reinterpret_cast<H>(uintptr_t(c.word()) << 40 | c.word());
    return static_cast<H>(handles[c.below(handles.size())]);
  }
  template <class H>
  void keep(CUresult result, H handle) {
    if (result == CUDA_SUCCESS && handle) handles.push_back(reinterpret_cast<void*>(handle));
  }
  CUdeviceptr pointer(bool garbage = true) {
    const size_t i = c.below(16);
    if (i == 0 || pointers.empty()) return 0;
    CUdeviceptr p = pointers[c.below(pointers.size())];
    if (i < 4) p += c.word();
    if (i == 4 && garbage) p = CUdeviceptr(c.word()) << 48 | c.word();
    return p;
  }
  size_t bytes() {
    const size_t list[] = {
        0, 1, 4, 64, 4096, 4097, 65536, SIZE_MAX, SIZE_MAX - 4094, size_t(1) << 45};
    return c.below(2) ? c.word() : list[c.below(10)];
  }
  // Of a copy to or from the host: what does not fit there is more than any device has.
  size_t host_size() {
    const size_t n = bytes();
    return n > kRoom && n < size_t(1) << 44 ? kRoom : n;
  }
  void* host() { return c.below(8) ? room.data() : nullptr; }
  unsigned integer() {
    const unsigned list[] = {0,   1,    2,    3,     4,     8,          32,         64,
                             100, 1024, 1025, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    return c.below(2) ? c.byte() : list[c.below(16)];
  }
  const char* name() {
    const char* list[] = {nullptr, "scale", "cluster_user", "none", "bias", "", "k", "no"};
    return list[c.below(8)];
  }
  const char* image() {
    const size_t i = c.below(10);
    if (i < 7) return kImages[i];
    if (i == 7) return nullptr;
    text = c.text(c.byte());
    return text.c_str();
  }
  // Valid launches are small: a large one is no fault, only slow.
  std::array<unsigned, 3> grid() {
    std::array<unsigned, 3> g{};
    for (unsigned& v : g) v = integer();
    if (uint64_t(g[0]) * g[1] > 16 || uint64_t(g[0]) * g[1] * g[2] > 16)
      if (g[0] <= 0x7FFFFFFF && g[1] <= 65535 && g[2] <= 65535) return {g[0] % 9, 1, 1};
    return g;
  }
  void** values(size_t n) {
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i] = i < n ? static_cast<void*>(room.data()) : nullptr;
    if (!pointers.empty()) std::memcpy(room.data(), pointers.data(), sizeof(CUdeviceptr));
    return c.below(8) ? parameters.data() : nullptr;
  }

  void module_call();
  void memory_call();
  void stream_call();
  void launch_call();
  void context_call();
  void tensor_call();
  void link_call();
  CUDA_MEMCPY2D area();
};

} // namespace wlfuzz
