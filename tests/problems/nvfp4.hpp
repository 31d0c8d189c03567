// NVFP4 operands, factors and alignments as every operation's problems draw them.
#pragma once

#include "tests/problems/problem.hpp"
#include "tests/reference/dual_gemm.hpp"

namespace wltest::problems {

// Values of all E2M1 codes, both zeros among them. Scales of a row or column are of one kind, so
// that FP32 sums of products stay exact in any order: three binades of codes from `base` on; or, in
// some rows, subnormal, the largest, zeros, or one NaN. Some have the sign bit, which is ignored.
enum class Rows { all, finite }; // finite: no NaN and none of the largest
Operand draw_operand(int64_t rows, int64_t k, int64_t l, uint8_t base, uint64_t seed,
                     uint64_t codes = 24, Rows of = Rows::all);

// The bytes of its scales.
Bytes scale_bytes(const Operand& operand, uint8_t padding, wl_sf_layout layout = WL_SF_128x4);
// An output's scales: their bytes, and which of them are written.
void expect_scales(const Operand& operand, Output* output);

// Where each of so many blocks' scale comes to lie, `pack`ed with the padding given.
std::vector<size_t> places_of_scales(size_t blocks,
                                     const std::function<Bytes(const Bytes&, uint8_t)>& pack);
// Of a D without groups.
MadeBlocks made_blocks(const std::vector<float>& values, const Operand& blocks, float d_scale);
// Blocks found that a GPU's own ex2 and rcp may have made become the expected ones of that run. A
// block whose scale has no place stays: its rows are not written, or another's scale lies there.
void accept_near_blocks(const MadeBlocks& made, const Output& d, const Output& sfd, size_t run,
                        uint8_t* d_found, uint8_t* sfd_found);

// An address that is 16-byte aligned, and one that is 4-byte aligned.
size_t draw_alignment(Draw& draw, const std::string& field);
size_t draw_float_alignment(Draw& draw, const std::string& field);

Bytes bytes_of(float value);

// The way in which the plan is run, its flags and its workspace. Twice in a row only where a run
// has few products of elements: the second finds the first one's workspace and flags, whatever its
// size.
void draw_way(Draw& draw, Problem* problem, int64_t products = 0);

} // namespace wltest::problems
