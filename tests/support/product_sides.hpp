// The sides of the rules that every operation on the engine of kernels/gemm has, around a legal
// call of 256 x 4096 x 7168 whose D, of 2-byte elements, lies at 0x710000000000.
#pragma once

#include "tests/support/rule_sides.hpp"

namespace wltest {

template <class Args>
void nvfp4(RuleCase<Args>& s) {
  s.args.d_type = WL_NVFP4;
  s.args.sfd = at(0x720000000000);
  s.args.d_scale = at<float>(0x730000000000);
}

template <class Args, class Change>
RuleChange<Args> and_nvfp4(Change change) {
  return [change](RuleCase<Args>& s) { nvfp4(s), change(s); };
}

// Both operands in FP16.
template <class Args>
void f16(RuleCase<Args>& s) {
  s.args.a_type = s.args.b_type = WL_OPERAND_F16;
  s.args.sfa = nullptr;
  if constexpr (requires { s.args.sfb; })
    s.args.sfb = nullptr;
  else
    s.args.sfb1 = s.args.sfb2 = nullptr;
}

template <class Args, class Change>
RuleChange<Args> and_f16(Change change) {
  return [change](RuleCase<Args>& s) { f16(s), change(s); };
}

constexpr int64_t largest_extent = int64_t{1} << 30;

#define WL_SET(statement) [](RuleCase<Args>& s) { s.args.statement; }

// `b` is what the rules call the tensors of B.
template <class Args>
std::vector<RuleSides<Args>> product_sides(const std::string& b) {
  return {
      {"m_range",
       {WL_SET(m = 1),
        [](RuleCase<Args>& s) { s.args.m = largest_extent, s.args.n = 8, s.args.k = 64; }},
       WL_SET(m = 0),
       "M = 0 must be from 1 to 2^30 rows (nearest: 1)"},
      {"n_range",
       {WL_SET(n = 8)},
       WL_SET(n = -8),
       "N = -8 must be from 8 to 2^30 columns (nearest: 8)"},
      {"n_multiple",
       {WL_SET(n = 4104)},
       WL_SET(n = 4100),
       "N = 4100 must be a multiple of 8 columns (nearest: 4096, 4104)"},
      {"k_range",
       {WL_SET(k = 64)},
       WL_SET(k = 0),
       "K = 0 must be from 64 to 2^30 elements with NVFP4 (nearest: 64)"},
      {"k_multiple",
       {WL_SET(k = 7104)},
       WL_SET(k = 7000),
       "K = 7000 must be a multiple of 64 elements with NVFP4 (nearest: 6976, 7040)"},
      {"type_k_range",
       {},
       and_f16<Args>(WL_SET(k = 0)),
       "K = 0 must be from 1 to 2^30 elements without NVFP4, to 131056 where sums are INT32 "
       "(nearest: 8)"},
      {"type_k_multiple",
       {},
       and_f16<Args>(WL_SET(k = 7172)),
       "K = 7172 must be a multiple of 4 elements of 32 bits, 8 of 16, 16 of 8, 32 of MXFP8 and "
       "128 of MXFP6 and MXFP4, without NVFP4 (nearest: 7168, 7176)"},
      {"type_k_multiple",
       {},
       and_f16<Args>(WL_SET(k = 1)),
       "K = 1 must be a multiple of 4 elements of 32 bits, 8 of 16, 16 of 8, 32 of MXFP8 and 128 "
       "of MXFP6 and MXFP4, without NVFP4 (nearest: 8)"},
      {"a_type",
       {WL_SET(a_type = WL_OPERAND_NVFP4)},
       WL_SET(a_type = static_cast<wl_operand>(12)),
       "a_type = 12 must be from WL_OPERAND_NVFP4 (0) to WL_OPERAND_MXFP4 (11) (nearest: 11)"},
      {"b_type",
       {WL_SET(b_type = WL_OPERAND_NVFP4)},
       WL_SET(b_type = static_cast<wl_operand>(-1)),
       "b_type = -1 must be from WL_OPERAND_NVFP4 (0) to WL_OPERAND_MXFP4 (11) (nearest: 0)"},
      {"types",
       {WL_SET(a_type = WL_OPERAND_NVFP4)},
       [](RuleCase<Args>& s) {
         s.args.a_type = WL_OPERAND_TF32, s.args.b_type = WL_OPERAND_NVFP4, s.args.sfa = nullptr;
       },
       "a_type, b_type = WL_OPERAND_TF32 (3), WL_OPERAND_NVFP4 (0) must be types that the device "
       "has kernels for (nearest: WL_OPERAND_NVFP4 (0), WL_OPERAND_NVFP4 (0)"},
      {"sfa_unused",
       {},
       WL_SET(a_type = WL_OPERAND_F16),
       "SFA: address 0x310000000000 is given, must be null for a type without block scales "
       "(nearest: null)"},
      {"l_range",
       {WL_SET(l = 1024)},
       WL_SET(l = 0),
       "L = 0 must be from 1 to 2^20 batch entries (nearest: 1)"},
      {"tiles",
       {[](RuleCase<Args>& s) { s.args.m = 1 << 20, s.args.n = 1 << 20, s.args.k = 64; }},
       [](RuleCase<Args>& s) {
         s.args.m = 1 << 20, s.args.n = 1 << 20, s.args.k = 64, s.args.l = 16;
       },
       "M, N, L = 1048576, 1048576, 16 must make fewer than 2^31 tiles"},
      {"sf_layout",
       {WL_SET(sf_layout = WL_SF_128x4)},
       WL_SET(sf_layout = WL_SF_PLAIN),
       "sf_layout = 1 must be WL_SF_128x4 (0), or on Hopper WL_SF_PLAIN (1) (nearest: 0)"},
      {"flags",
       {WL_SET(flags = 0), WL_SET(flags = WL_STATIC_WEIGHTS),
        WL_SET(flags = WL_STATIC_WEIGHTS | WL_GRAPH_LAUNCH | WL_FAST_ACCUMULATION)},
       WL_SET(flags = 15),
       "flags = 15 must be 0, WL_STATIC_WEIGHTS (1), WL_GRAPH_LAUNCH (2), WL_FAST_ACCUMULATION (4) "
       "or a sum of them (nearest: 7)"},
      {"nvfp4_columns",
       {and_nvfp4<Args>(WL_SET(n = 4160))},
       and_nvfp4<Args>(WL_SET(n = 4104)),
       "N = 4104 must be a multiple of 64 columns for WL_NVFP4 (nearest: 4096, 4160)"},
      {"sfd_null",
       {WL_SET(sfd = nullptr)},
       and_nvfp4<Args>(WL_SET(sfd = nullptr)),
       "SFD: address is null, must not be null for WL_NVFP4"},
      {"sfd_aligned",
       {and_nvfp4<Args>(WL_SET(sfd = at(0x10010)))},
       and_nvfp4<Args>(WL_SET(sfd = at(0x10008))),
       "SFD: address 0x10008 is 8 modulo 16, must be 16-byte aligned"},
      {"nvfp4_ldd",
       {and_nvfp4<Args>(WL_SET(ldd = 4096))},
       and_nvfp4<Args>(WL_SET(ldd = 4104)),
       "ldd = 4104 must be 0 or N for WL_NVFP4"},
      {"nvfp4_batch_stride",
       {and_nvfp4<Args>(WL_SET(batch_stride_d = 256 * 4096))},
       and_nvfp4<Args>(WL_SET(batch_stride_d = 256 * 4096 + 8)),
       "batch_stride_d = 1048584 must be 0 or M * N for WL_NVFP4"},
      {"sfd_overlaps",
       {and_nvfp4<Args>(WL_SET(sfd = at(0x710000000000 + 256 * 4096 / 2)))},
       and_nvfp4<Args>(WL_SET(sfd = at(0x710000000000))),
       "must overlap neither D nor an input"},
      {"a_entry",
       {[](RuleCase<Args>& s) { s.args.m = 1 << 20, s.args.k = (1 << 21) - 64, s.args.n = 8; }},
       [](RuleCase<Args>& s) { s.args.m = 1 << 20, s.args.k = 1 << 21; },
       "A: an entry takes 1099511627776 bytes, must have entries (M rows of K) below 2^40 bytes"},
      {"b_entry",
       {[](RuleCase<Args>& s) { s.args.n = 1 << 20, s.args.k = (1 << 21) - 64, s.args.m = 1; }},
       [](RuleCase<Args>& s) { s.args.n = 1 << 20, s.args.k = 1 << 21; },
       b + ": an entry takes 1099511627776 bytes, must have entries (N rows of K) below 2^40 "
           "bytes"},
      {"a_size",
       {[](RuleCase<Args>& s) { s.args.m = 1 << 20, s.args.k = 1 << 20, s.args.n = 8; }},
       [](RuleCase<Args>& s) { s.args.m = s.args.k = largest_extent; },
       "must be below 2^47 bytes"},
      {"b_size",
       {[](RuleCase<Args>& s) { s.args.n = 1 << 20, s.args.k = 1 << 20, s.args.m = 1; }},
       [](RuleCase<Args>& s) { s.args.n = s.args.k = largest_extent; },
       "must be below 2^47 bytes"},

      {"d_null", {}, WL_SET(d = nullptr), "D: address is null, must not be null"},

      {"d_aligned",
       {WL_SET(d = at(0x10010))},
       WL_SET(d = at(0x10002)),
       "D: address 0x10002 is 2 modulo 16, must be 16-byte aligned"},
      {"d_reachable",
       {WL_SET(d = at(host_window - (1 << 24)))},
       WL_SET(d = at(host_window)),
       "D: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"sfd_reachable",
       {WL_SET(sfd = at(host_window - 16)), WL_SET(sfd = nullptr)},
       WL_SET(sfd = at(host_window)),
       "SFD: address 0x7fff00000000 is the host's or was freed, must be memory that the device can "
       "reach (nearest: an upload to device 0, or registered memory)"},
      {"ldd_covers",
       {WL_SET(ldd = 4096), WL_SET(ldd = 0)},
       WL_SET(ldd = 4088),
       "ldd = 4088 must be 0 or at least N elements (nearest: 0, 4096)"},
      {"ldd_multiple",
       {WL_SET(ldd = 4104)},
       WL_SET(ldd = 4100),
       "ldd = 4100 must be a multiple of 8 elements (nearest: 4096, 4104)"},
      {"batch_stride_covers",
       {[](RuleCase<Args>& s) { s.args.l = 2, s.args.batch_stride_d = 256 * 4096; },
        WL_SET(batch_stride_d = 256 * 4096), WL_SET(batch_stride_d = 0)},
       [](RuleCase<Args>& s) { s.args.l = 2, s.args.batch_stride_d = 255 * 4096; },
       "batch_stride_d = 1044480 must be 0 or at least (M - 1) * ldd + N elements (nearest: 0, "
       "1048576)"},
      {"batch_stride_multiple",
       {WL_SET(batch_stride_d = 256 * 4096 + 8)},
       WL_SET(batch_stride_d = 256 * 4096 + 4),
       "batch_stride_d = 1048580 must be a multiple of 8 elements (nearest: 1048576, 1048584)"},
      {"d_size",
       {WL_SET(ldd = int64_t{1} << 30)},
       WL_SET(ldd = int64_t{1} << 47),
       "D: D takes 2^47 bytes or more, must be below 2^47 bytes"}};
}

#undef WL_SET

} // namespace wltest
