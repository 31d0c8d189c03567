// The operands of one small dual GEMM in device memory, for tests of plans.
#pragma once

#include "tests/support/catch.hpp"
#include "warpline/warpline.h"

#include <cstdint>
#include <vector>

namespace wltest {

struct PlanProblem {
  explicit PlanProblem(wl_context* c) : context(c) {
    args.struct_size = sizeof args;
    args.m = m, args.n = n, args.k = k, args.l = 1;
    args.a = bytes(m * k / 2, 1), args.b1 = bytes(n * k / 2, 2), args.b2 = bytes(n * k / 2, 3);
    args.sfa = scales(m), args.sfb1 = scales(n), args.sfb2 = scales(n);
    args.d = bytes(m * n * 2, 4);
    args.d_type = WL_F16;
  }
  ~PlanProblem() {
    for (void* p : memory) wl_free(context, p);
  }
  void* upload(const std::vector<uint8_t>& host) {
    void* device = nullptr;
    REQUIRE(wl_malloc(context, host.size(), &device) == WL_SUCCESS);
    REQUIRE(wl_upload(context, device, host.data(), host.size()) == WL_SUCCESS);
    memory.push_back(device);
    return device;
  }
  void* bytes(int64_t count, uint32_t seed) {
    std::vector<uint8_t> host(static_cast<size_t>(count));
    for (uint8_t& byte : host)
      byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
    return upload(host);
  }
  void* scales(int64_t rows) {
    return upload(std::vector<uint8_t>(wl_sf_bytes(WL_SF_128x4, rows, k), 0x28)); // 1/4
  }
  std::vector<uint8_t> result() const {
    std::vector<uint8_t> host(m * n * 2);
    CHECK(wl_download(context, host.data(), args.d, host.size()) == WL_SUCCESS);
    return host;
  }

  static constexpr int64_t m = 130, n = 128, k = 256;

  wl_context* context;
  wl_dual_gemm_args args{};
  std::vector<void*> memory;
};

} // namespace wltest
