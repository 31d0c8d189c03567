// A module of small kernels and the calls that launch them through the virtual GPU's driver API.
#pragma once

#include "tests/support/vgpu_driver.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace wltest::kernels {

using namespace cuapi;

// out[i] = in[i] * factor + bias, with bias a module variable; launched with one thread an element.
inline const char* const kScale = R"(.version 8.0
.target sm_90
.address_size 64

.global .u32 bias = 5;
.const .align 8 .u64 bias_address = bias;

.visible .entry scale(.param .u64 in, .param .u32 factor, .param .u64 out)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u64   %rd1, [in];
  ld.param.u64   %rd2, [out];
  ld.param.u32   %r1, [factor];
  mov.u32        %r2, %ctaid.x;
  mov.u32        %r3, %ntid.x;
  mov.u32        %r4, %tid.x;
  mad.lo.u32     %r2, %r2, %r3, %r4;
  mul.wide.u32   %rd3, %r2, 4;
  add.u64        %rd1, %rd1, %rd3;
  add.u64        %rd2, %rd2, %rd3;
  ld.const.u64   %rd4, [bias_address];
  ld.global.u32  %r5, [%rd4];
  ld.global.u32  %r4, [%rd1];
  mad.lo.u32     %r4, %r4, %r1, %r5;
  st.global.u32  [%rd2], %r4;
  ret;
}

.visible .entry shared_user(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  .extern .shared .align 16 .b8 room[];
  ld.param.u64   %rd1, [out];
  mov.u32        %r1, room;
  mov.u32        %r2, %dynamic_smem_size;
  st.shared.u32  [%r1], %r2;
  ld.shared.u32  %r3, [%r1];
  st.global.u32  [%rd1], %r3;
  ret;
}

.visible .entry cluster_user(.param .u64 out) .maxntid 128
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64   %rd1, [out];
  mov.u32        %r1, %ctaid.x;
  mov.u32        %r2, %cluster_ctarank;
  mul.wide.u32   %rd2, %r1, 4;
  add.u64        %rd1, %rd1, %rd2;
  st.global.u32  [%rd1], %r2;
  ret;
}
)";

inline std::string tiny(const std::string& version, const std::string& target,
                        const std::string& body = "ret;") {
  return ".version " + version + "\n.target " + target +
         "\n.address_size 64\n.visible .entry k()\n{\n" + body + "\n}\n";
}

inline CUfunction entry_of(const VgpuDriver& d, CUmodule module, const char* name) {
  CUfunction f = nullptr;
  if (d.cu.ModuleGetFunction(&f, module, name) != CUDA_SUCCESS)
    throw std::runtime_error(d.message());
  return f;
}

struct Launch {
  unsigned grid = 1, block = 32, shared = 0;
  CUstream stream = nullptr;
  std::vector<CUlaunchAttribute> attributes;
};

inline CUresult launch(const VgpuDriver& d, CUfunction f, Launch l, std::vector<void*> parameters) {
  CUlaunchConfig config{};
  config.gridDimX = l.grid;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = l.block;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = l.shared;
  config.hStream = l.stream;
  config.attrs = l.attributes.data();
  config.numAttrs = unsigned(l.attributes.size());
  return d.cu.LaunchKernelEx(&config, f, parameters.data(), nullptr);
}

inline CUlaunchAttribute cluster(unsigned x, unsigned y = 1, unsigned z = 1) {
  CUlaunchAttribute a{};
  a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  a.value.clusterDim.x = x;
  a.value.clusterDim.y = y;
  a.value.clusterDim.z = z;
  return a;
}

// A context with kScale loaded and 64 elements uploaded.
struct Scale {
  VgpuDriver d;
  CUmodule module = nullptr;
  CUfunction f = nullptr;
  std::vector<uint32_t> in;
  CUdeviceptr p = 0, q = 0;
  Scale() {
    d.open();
    JitResult r = jit(d, kScale);
    if (r.result != CUDA_SUCCESS) throw std::runtime_error(r.error);
    module = r.module;
    f = entry_of(d, module, "scale");
    for (uint32_t i = 0; i < 64; ++i) in.push_back(i * i + 1);
    p = d.upload(in);
    q = d.upload(std::vector<uint32_t>(64, 0xDDDDDDDD));
  }
  CUresult run(uint32_t factor, CUdeviceptr from, CUdeviceptr to, CUstream stream = nullptr) {
    Launch l;
    l.grid = 2;
    l.stream = stream;
    return launch(d, f, l, {&from, &factor, &to});
  }
  std::vector<uint32_t> expect(uint32_t factor, uint32_t bias) const {
    std::vector<uint32_t> v;
    for (uint32_t x : in) v.push_back(x * factor + bias);
    return v;
  }
};

} // namespace wltest::kernels
