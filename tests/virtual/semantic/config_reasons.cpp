// Why mutants change nothing: what is so of a configuration.
#include "tests/virtual/semantic/semantic.hpp"

#include "kernels/dual_gemm/dual_gemm.hpp"
#include "kernels/grouped/grouped.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/moe/moe.hpp"
#include "tests/virtual/mutation/statement.hpp"

namespace wltest {

namespace {

const warpline::gemm::Config* config_of(const std::string& kernel) {
  for (const auto* table :
       {&warpline::dual_gemm::configs(), &warpline::linear::configs(),
        &warpline::grouped::linear_configs(), &warpline::grouped::dual_configs(),
        &warpline::moe::up_configs(), &warpline::moe::down_configs()})
    for (const warpline::gemm::Config& config : *table)
      if (kernel == config.name) return &config;
  return nullptr;
}

// Of what asks for the first weights to come to L2 (sm90_native_ahead.inc): it has registers of its
// own, or such as are found again before they are used. In kernels without it none of these stands
// below the labels.
bool asks_ahead(const SemanticMutant& m) {
  if (m.label == "ask_ahead") return true;
  if (m.label != "barriers_done") return false;
  for (const char* of_it :
       {"asked", " count,", "rest,", "product", "one_more", " group,", "group_rows", "reciprocal",
        "k_element", "weights", " left,", " whole,", "tile_row,", "tile_column,", "tile_entry,",
        " first,", "setp.ne.u32 is_role, warp, 0", "more, tile, tile_count"})
    if (has(m.instruction, of_it)) return true;
  return false;
}

// Of kernels whose rows say which matrix is theirs: a tile is one row. A thread has sum0 and sum2
// of one token and sum1 and sum3 of the next; the first of four threads stores the row's, and every
// other token is beyond the row's end. In 16 bits all 8 tokens of an MMA are the row, what the
// kernel quantises itself is followed by zeros.
std::string reason_of_one_row(const warpline::gemm::Config& c, const SemanticMutant& m) {
  const std::string& t = m.instruction;
  const auto names = [&](const char* a) { return has(t, a); };
  const bool of_output = m.label == "send" || starts(m.label, "form_");
  const bool alike = c.first_types().a != WL_OPERAND_NVFP4;
  if (of_output && (names(".f32 sum1, ") || names(".f32 sum3, ") || names(".f32 t, sum1, ") ||
                    names(".f32 l, sum1, ") || names("sum1, high_half") ||
                    names(".f32 u, sum3, ") || names("sum3, high_half")))
    return "of a second token, which a row does not have";
  if (of_output && (names("output, output, row_stride") || names("row_stride, row_stride, 2") ||
                    (m.change == "constant + 1" &&
                     (names("token, token, 1") || names("token, quad_lane, 2, token")))))
    return "of a second token, which a row does not have";
  if (of_output && names("output, output, entry_stride") && has(m.change, ".hi"))
    return "D has no entries: the stride is 0";
  if (of_output && c.b_tensors == 1 &&
      ((has(m.change, "setp.le") &&
        (names("some, column, end") || names("inside, column, columns"))) ||
       (m.change == "delete" && names("some, column, end"))))
    return "N is a multiple of 64: of a tile the first half's columns are all there";
  if (of_output && c.b_tensors == 1 && m.change == "constant + 1" &&
      names("limit1, rows, 0, inside"))
    return "N is a multiple of 64: of a tile the first half's columns are all there";
  if (m.label == "activations_role" && m.change == "constant + 1" && t == "add.u32 row, row, 0;")
    return "the tile's only row is the last one, beyond which none is taken";
  if ((names(" quad_row, ") && !(alike && m.change == "delete")) || names("row, row, quad_row"))
    return alike
               ? "a lane's row is at most the tile's only one; what is below it is for tokens that "
                 "nobody stores"
               : "nothing reads the register where the kernel quantises";
  if (m.label == "clear_stage" &&
      ((m.change == "predicate inverted" && starts(t, "@more bra clear_stage")) ||
       (m.change == "delete" && (starts(t, "st.shared.v4.b32 ") || starts(t, "@more bra") ||
                                 names("more, turn, 4") || names("store, store, 4096"))) ||
       (names("turn, turn, 1") && m.change != "delete")))
    return "of the other 7 tokens, whose sums nobody stores; the row's own words are all written";
  if (m.label == "values_fetched" && m.change == "constant + 1" &&
      (names("zero, 0;") || names("turn, 0;")))
    return "of the other 7 tokens, whose sums nobody stores; the row's own words are all written";
  if (!alike) return "";
  if (of_output && m.change == "address + 16" && starts(t, "ld.shared.v4.f32 {"))
    return "the next thread has the same sums";
  if (of_output && (m.change == "delete" || has(m.change, "mad.hi")) &&
      names("token, quad_lane, 2, token"))
    return "four threads store the same number";
  const auto becomes = [&](const char* a) { return has(m.replacement, a); };
  if ((m.change == "elements exchanged" &&
       (becomes("{sum1, sum0, ") || becomes("{other1, other0, ") || becomes("{result1, result0}") ||
        becomes("{result3, result2}") || becomes("{high_half, low_half}") ||
        (becomes("{acc1_") && becomes(", acc0_")))) ||
      (m.change == "operands exchanged" && of_output &&
       (names(" packed, sum1, sum0") || names(" packed, sum3, sum2"))))
    return "both tokens are the same row";
  return "";
}

// What is so in some configurations only.
std::string reason_of(const warpline::gemm::Config& c, const SemanticMutant& m) {
  using warpline::gemm::Grid;
  const std::string& t = m.instruction;
  const auto names = [&](const char* a) { return has(t, a); };
  const bool one_more = m.change == "constant + 1";
  const bool sm100 = c.blackwell();
  if (sm100 && (names("tmem_base") || names(" tmem_first, tmem_first")) &&
      warpline::gemm::sm100_tmem_columns(c.tile_n, c.acc_stages, c.scale_sets, c.b_tensors) > 256)
    return "the kernel allocates all columns of tensor memory, which begin at 0";
  if (sm100 && c.acc_stages == 1 && names("mad.lo.u32") && names(", acc, ") &&
      m.change != "without the addend")
    return "there is one accumulator, number 0";
  if (c.grid == Grid::one_tile && sm100 &&
      (names(" acc, ") || names("acc_phase") || names("acc_barrier, acc, ")))
    return "a cluster makes one tile: no accumulator comes next";
  if (c.cluster[0] == 1 && !starts(t, "@") && !(one_more && names("tile_column, tile_column, ")) &&
      (names("slice") || names("rank") || names("cluster_x") || names("cluster_y") ||
       names("cluster_row")))
    return "a CTA alone in its cluster has rank 0 and all slices";
  if (sm100 && names("has_rows, first_row, rows") && m.change == "setp.le.u32")
    return "a tile that begins behind the last row loads zeros, as many bytes as it waits for, and "
           "stores nothing";
  if (sm100 && c.swapped && c.tile_m <= 64 && names("cp.async.ca.shared") &&
      (names("[from2") || names("[from3")))
    return "a tile of 64 tokens has none of the third and fourth words of an atom's lines";
  if (sm100 && m.change == "delete" && m.label == "groups_placed" &&
      starts(t, "@!here mov.u32 tiles_here, 0"))
    return "a lane beyond the groups has 0 for its end or size: it ends where it starts";
  if (sm100 && one_more && m.label == "groups_next" && t == "mov.u32 raw, 0;")
    return "a lane beyond the groups has no tiles, and 1 is no more than M or a group's rows";
  if (sm100 && m.change == "predicate dropped" &&
      (m.label == "groups_tile" || m.label == "groups_end") && starts(t, "@first_lane st.shared."))
    return "every lane has the same numbers";
  if (sm100 && c.tile_m % 128 == 0 && m.label == "gathered_tile" && m.change == "delete" &&
      starts(t, "max.s32 row, row, 0"))
    return "a tile begins with one of the scales: no row lies ahead of its first";
  if (sm100 && m.label == "added" && one_more && t == "add.u32 column, column, 64;" &&
      c.d_type != WL_NVFP4)
    return "N is a multiple of 8: between two of them no comparison changes";
  if (sm100 && c.acc_stages == 1 && m.label == "init_acc" && m.change == "sub.u32" &&
      names("count, count, 1"))
    return "there is one accumulator, number 0";
  if (sm100 && c.cluster[0] == 2 && m.change == "operands exchanged" &&
      names("leader_rank, rank, pair_rank"))
    return "a cluster of one pair: the CTA's rank is its place in the pair";
  if (sm100 && c.tile_n % 128 == 0 && c.d_type == WL_NVFP4 && m.label == "consumer_tile" &&
      m.change == "sub.u32" && names("block, block, part"))
    return "a warp's columns begin at a multiple of 64, at the first word of a line of scales";
  if (sm100) return "";
  if (c.routed)
    if (const std::string reason = reason_of_one_row(c, m); !reason.empty()) return reason;
  const bool of_nvfp4 = c.first_types().a == WL_OPERAND_NVFP4;
  // Whose activations the loop below quantises has a loop of its own, without copies.
  if (c.family == warpline::gemm::Family::sm90_small && !(c.routed && of_nvfp4)) {
    // Copies of the loop of warps that bring activations: as many as hold words of registers.
    const int copies = c.tile_m == 1 ? 8 : of_nvfp4 ? 4 : 2;
    const int stages = warpline::gemm::sm90_small_token_stages(c.tile_m, c.decoders, c.grouped);
    const bool of_copy = starts(m.label, "activations_stage") || starts(m.label, "narrow_stage") ||
                         starts(m.label, "arrived") || m.label == "fetch";
    if (stages % copies == 0 && of_copy && (names("wraps, stage") || starts(t, "@wraps ")))
      return "the copies of the loop take stages in turn: only the last one's can be the ring's "
             "end";
    if (stages == copies && of_copy && names(", stage, "))
      return "each copy of the loop has a stage of its own, the first one number 0";
    if (stages % copies == 0 && m.change == "delete" && of_copy && names("free_phase, phase"))
      return "the phase changes behind the last copy only, and the register has it";
    if (stages == copies && of_copy && names("free_phase, phase"))
      return "the phase changes behind the last copy only";
    if (c.tile_m <= 8 && (names("tokens, 512") || names("tokens, 8, tile_row") ||
                          (names("first_token, 8, tile_row") && (one_more || has(m.change, "hi")))))
      return "a tile of 8 tokens is one piece, number 0";
    if (c.tile_m == 16 && has(m.change, "mad.hi") && names(" row, tokens, 8, tile_row") &&
        std::string(c.name).find("_wide_") != std::string::npos)
      return "a tile of 16 tokens is one piece, number 0";
    if (c.tile_m == 1 && c.split_k == 1 && (one_more || has(m.change, "mad.hi")) &&
        m.label == "activations_role" && names("address, ahead, 256, lane_k"))
      return "K is not shared: its first block is number 0";
    if (c.split_k > 2 && one_more && starts(t, "setp.ge.u32 is_role, split, "))
      return "nobody waits for the barrier that expects sums there";
    if (c.tile_m == 1 && (names(" kept1, ") || names(" kept3, ")))
      return "of a second token, which a tile of one row does not have";
    if (c.tile_m == 1 && one_more && names("token, quad_lane, 2, token"))
      return "of a second token, which a tile of one row does not have";
    if (one_more && m.label == "next_step" && names("tile_column, tile_column, 8"))
      return "of a column only its multiple of 8 counts here";
    if (c.split_k == 1 && one_more && m.label == "activations_role" &&
        starts(t, "mad.lo.u32 address, ahead, 256, "))
      return "blocks ahead of the loop have numbers below 8, which bring no multiple of 8 to K, "
             "another one";
    if (c.tile_m > 1 && one_more && starts(t, "mad.lo.u32 lane_k, quad_lane, 32, lane_k"))
      return "up to 3 more bring no multiple of 32 to K, which is one of 64";
    // The last block of K is one ahead of the loop only where the last of those that share K has no
    // more blocks than the loop has copies, and no other has more: up to 4 times 8.
    if (c.split_k <= 4 && one_more && m.label == "activations_role" &&
        (starts(t, "mad.lo.u32 address, ahead, 256, scale_k") ||
         (c.tile_m > 1 && starts(t, "mad.lo.u32 address, ahead, 256, lane_k"))))
      return "blocks ahead of the loop have numbers below 32, which bring no multiple of 32 to K, "
             "another one";
    if (names("@inside bra fetch")) return "what is loaded replaces the zeros";
    if (c.split_k == 1 && names("ahead, k_end"))
      return "K is not shared: beyond the split is beyond K";
    if (c.split_k == 1 && starts(t, "mad.wide.u32 ") && names(" k_first, ") &&
        (m.change == "delete" || one_more))
      return "K is not shared: its first block is number 0";
    if (names("ahead, k_end") && (m.change == "delete" || has(m.change, "setp.le")))
      return "no step takes what is loaded from behind the split's end, which lies within K";
    if (names("more, k_block, k_end") && has(m.change, "setp.gt"))
      return "one block more, for which no consumer waits";
    if (of_copy && starts(t, "@more bra activations_done") && m.change == "delete")
      return "the next copy of the loop ends it, one block later, for which no consumer waits";
    if (of_copy && !c.grouped && starts(t, "setp.ge.u32 more, k_block, k_end") &&
        m.change == "delete")
      return "`more` is false there: the next copy of the loop ends it, one block later, for which "
             "no consumer waits";
    if (c.tile_m > 1 && m.label == "activations_role") {
      if (starts(t, "@more bra activations_done") && m.change == "delete")
        return "a split without blocks makes one of zeros, for which no consumer waits";
      if (!of_nvfp4 && c.split_k == 1 && names("address, ahead, 256, lane_k") &&
          (one_more || has(m.change, "mad.hi")))
        return "K is not shared: its first block is number 0";
    }
  }
  if (c.family == warpline::gemm::Family::sm90_native && c.b_tensors == 1 && !c.grouped &&
      c.grid != Grid::stream_k && !c.mn_major && asks_ahead(m))
    return "only prefetches ask it";
  // What says which place is given next; of two tensors there is no residual, and it only says when
  // the last one is given.
  if (c.family == warpline::gemm::Family::sm90_native && c.b_tensors == 2) {
    const bool one_part = names("given_part, 1;"),
               cleared = starts(t, "@last mov.u32 given_part, 0");
    const bool dropped = m.change == "predicate dropped";
    const bool inverted = m.change == "predicate inverted", gone = m.change == "delete";
    if ((gone && (cleared || starts(t, "@last add.u32 given_tile, given_tile"))) ||
        ((gone || m.change == "sub.u32") && starts(t, "add.u32 given_part, given_part, 1")) ||
        (cleared && (dropped || inverted)) ||
        (c.tile_m == 16 && !c.ping_pong && names("mov.u32 given_part, 0;") && (gone || one_more)) ||
        (one_part && starts(t, "setp.eq.u32 last, ") && (one_more || has(m.change, "setp.ne"))))
      return "pieces are counted more slowly: nobody waits for a place that is given beyond the "
             "last "
             "tile";
  }
  if (c.family == warpline::gemm::Family::sm90_native && c.tile_m == 16 && !c.ping_pong &&
      (one_more || has(m.change, "mad.hi")) &&
      (names(", given_part, 16, tile_row") || names(", part, 16, tile_row")))
    return "a tile of 16 tokens is one piece, number 0";
  if (c.family == warpline::gemm::Family::sm90_native && c.cluster[0] == 1 &&
      ((m.label == "loader_tile" &&
        ((starts(t, "@more bra loader_cut") &&
          (m.change == "predicate inverted" || m.change == "delete")) ||
         starts(t, "sub.s32 left, ") || names(".s32 more, left, whole"))) ||
       ((m.label == "loader_cut" || m.label == "a_found") && m.change == "operands exchanged" &&
        starts(t, "sub.u32 left, "))))
    return "boxes of whole tiles or of the rows that are there: TMA fills the others with zeros, "
           "of which nothing is stored";
  // What there is of B's last rows is one part then, and the second load brings rows behind it.
  if (c.family == warpline::gemm::Family::sm90_native && m.label == "share_found" && one_more &&
      starts(t, "selp.b32 part_column"))
    return "of outputs beyond the matrix, which nobody stores";
  if (c.family == warpline::gemm::Family::sm90_native && m.change == "delete" &&
      (m.label == "storer_piece" || m.label == "piece_stored") &&
      starts(t, "mad.lo.u32 barrier, given_place, 8, "))
    return "the place that was read is given next: the register has its barrier's address";
  if (c.family == warpline::gemm::Family::sm90_native && c.threads == 256 &&
      starts(t, "mad.lo.u32 ") &&
      (names(", consumer_index, ") || names(" barrier, group, 2, place") ||
       (c.grouped && names(" group, 4, group_warp"))) &&
      (one_more || has(m.change, "mad.hi") ||
       (m.change == "delete" && starts(t, "mad.lo.u32 tile_column, consumer_index, 64, tile_c"))))
    return "there is one consumer, number 0";
  if (c.family == warpline::gemm::Family::sm90_native && c.split_k == 2 && one_more &&
      starts(t, "add.u32 k_count, k_blocks, 1"))
    return "K is cut elsewhere: the contract leaves the order of its sums";
  if (c.family == warpline::gemm::Family::sm90_native && c.split_k == 2 &&
      (starts(t, "sub.u32 k_blocks, k_blocks, k_first") ||
       (m.change == "delete" && starts(t, "min.u32 k_count, k_count, k_blocks"))))
    return "at most one step beyond K, which multiplies zeros, with which TMA fills it";
  if (c.family == warpline::gemm::Family::sm90_native &&
      starts(t, "setp.eq.u32 is_role, thread, 32;"))
    return "only prefetches of maps ask it";
  if (c.family == warpline::gemm::Family::sm90_native && one_more &&
      starts(t, "add.u32 column, form_column, "))
    return "a thread's columns are two from an even one on, and N is even";
  if (c.family == warpline::gemm::Family::sm90_native && c.grouped && m.change == "add.s32" &&
      m.label == "next_step" && t == "sub.s32 left, rows, tile_row;")
    return "whole boxes of the residual, of which rows behind the group's are not used";
  if (c.family == warpline::gemm::Family::sm90_native && c.grouped && m.change == "delete" &&
      starts(t, "@!gathers bra row_known"))
    return "only the warp that gathers comes here";
  const bool no_scales = c.family == warpline::gemm::Family::sm90_small &&
                         (c.a_types & warpline::gemm::bit(WL_OPERAND_NVFP4)) == 0;
  if ((c.family == warpline::gemm::Family::sm90_native ||
       c.family == warpline::gemm::Family::sm90 || no_scales) &&
      c.grouped && m.label == "has_rows" &&
      (starts(t, "shr.u32 scales, first, ") || starts(t, "add.u32 scales, scales, group") ||
       (starts(t, "st.shared.b32 [line + ") && names("], scales;") &&
        (m.change == "delete" || m.change == "address + 16"))))
    return "nobody reads the word: activations have 16 bits here, and even tiles put their size "
           "there";
  if (c.family == warpline::gemm::Family::sm90_native && c.b_tensors == 2 &&
      (m.label == "storer" || m.label == "given_first") && names("more, given_tile, tile_count"))
    return "a place that is given later costs time, and nobody waits for one that is given beyond "
           "the last tile";
  const int rows_of_ctas = c.cluster[0] / c.split_k;
  if (c.family == warpline::gemm::Family::sm90 && rows_of_ctas == 1 && names(", cluster_row") &&
      !(one_more && names("tile_column")))
    return "CTAs that share K have the same rows, number 0 of the cluster's";
  if (c.split_k == 1 && (names(" split, ") || names("mask_word, split") || names("3, mask_word") ||
                         names("release_rank, split")))
    return "K is not shared: the number of the split is 0";
  if (c.split_k == 2 && (names(" slot, ") || names("is_mine, split, ")))
    return "of two splits each gets one message, in slot 0; who ends the tokens sends none";
  if (names("is_mine, set, 0") || (starts(t, "@is_mine bra take_over")))
    return "either of two sets may take over the other's sums";
  if (rows_of_ctas == 2 && (names("share, tile_tokens, 1") || names("share, share, 2") ||
                            names("first, first, tile_tokens")))
    return "each token comes from one of the two CTAs: which one is of no account";
  if (c.columns() <= 128 && 128 % c.tile_n == 0 &&
      (names("_quarter, block, ") || names("block, block, first_block")))
    return "a tile of 64 columns lies in one block of scales, number 0 of the tile's";
  if (one_more &&
      (names("column, group, 32") || names("_quarter, 12") || names("second_quarter, tile_column")))
    return "of a column only its multiple of 32 counts here";
  return "";
}

} // namespace

std::string reason_of_config(const std::string& kernel, const SemanticMutant& m) {
  const warpline::gemm::Config* const config = config_of(kernel);
  return config == nullptr ? "" : reason_of(*config, m);
}

} // namespace wltest
