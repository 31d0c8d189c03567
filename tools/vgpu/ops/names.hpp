// Names of the executor, the decoder and the parser that the families of instructions use.
#pragma once

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/warp.hpp"
#include "tools/vgpu/isa/decode.hpp"

namespace vgpu::ops {

using exec::Access;
using exec::AsyncOp;
using exec::Cluster;
using exec::Cta;
using exec::FaultCode;
using exec::Handler;
using exec::Inst;
using exec::Proxy;
using exec::Range;
using exec::RegClass;
using exec::Space;
using exec::Step;
using exec::TensorMemory;
using exec::WaitInfo;
using exec::Warp;
using isa::DecodeContext;
using isa::Match;
using ptx::Operand;
using ptx::Statement;

} // namespace vgpu::ops
