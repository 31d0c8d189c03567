// Why mutants change nothing, and why the problems do not notice those that do.
#include "tests/virtual/semantic/semantic.hpp"

#include "tests/virtual/mutation/statement.hpp"

#include <cstdlib>

namespace wltest {

std::string no_effect(const std::string& kernel, const SemanticMutant& m) {
  const std::string& t = m.instruction;
  if (has(t, "prefetch") || has(t, "applypriority") || has(t, "discard.global"))
    return "a prefetch changes no value";
  if (starts(t, "mov.b64 hint, ") || has(t, "createpolicy") ||
      (has(t, "policy") && starts(t, "ld.param")))
    return "a cache policy changes no value";
  if (has(t, "nanosleep")) return "a pause changes no value";
  if (starts(t, "cvta.to.global") && m.change == "delete")
    return "an address of global memory is the same in the generic window";
  if ((has(kernel, "sm90_decode") || has(kernel, "sm90_permute")) &&
      (m.label == "warmer" || m.label == "next_tile" || m.label == "next_warm" ||
       m.label == "second_warm"))
    return "the warmer does nothing but prefetch";
  return "";
}

namespace {

// The mantissa of an FP32 literal in the statement is 0: a power of two.
bool times_power_of_two(const std::string& t) {
  const size_t at = t.find(", 0f");
  return at != std::string::npos &&
         (std::strtoul(t.substr(at + 4, 8).c_str(), nullptr, 16) & 0x7FFFFF) == 0;
}

} // namespace

std::string equivalent_reason(const std::string& kernel, const SemanticMutant& m) {
  const std::string& t = m.instruction;
  const auto names = [&](const char* a) { return has(t, a); };
  const bool one_more = m.change == "constant + 1", deleted = m.change == "delete";
  const bool cut = has(m.change, ".rz.");
  if (names("shfl.sync.idx.b32 warp, warp, 0"))
    return "every lane holds the number of its warp: the shuffle only tells the compiler";
  if (m.label == "operands_release" || m.label == "operands_drain")
    return "the commits that this loop waits for come before the accumulator's, for which the "
           "consumers wait before the last barrier";
  if (has(kernel, "norm_linear_rstd") &&
      (starts(t, "rcp.rn.f32 inverse") || starts(t, "mov.f32 inverse") ||
       names(" inverse, [source]") || names(" row_inverse,")))
    return "the kernel makes no codes: nothing reads their factors";
  if (names(" fresh, ") || names("@fresh "))
    return "a stage's first wait passes at once: skipping it saves time";
  if (names("k_tail")) return "steps beyond K multiply zeros, with which TMA fills them";
  if (names("ring_end") || names(" k_loop") || (deleted && starts(t, "@more bra mma_ring")))
    return "the turn of the whole ring and the single stages make the same steps";
  if (m.label == "mma_empty" &&
      (names("_desc") || names("tmem_sfb") || names("tmem_scales") || names("acc, ")))
    return "an empty tile's addresses and sets of scales reach no instruction";
  if (names("wide") || names("whole")) return "two stores of 16 bytes write what one of 32 does";
  if (one_more && has(m.replacement, "desc_low, stage_base, 4, 15"))
    return "addresses of shared memory have no bit that far up";
  if (names("or.b32 desc_base") || names("and.b32 desc_base") || names("or.b32 desc_low"))
    return "a descriptor's leading offset is not read under a 128-byte swizzle, and shared memory "
           "starts at a multiple of 1024";
  if (m.label.empty() &&
      (starts(t, "@is_role bra token_barriers") && m.change == "predicate inverted"
           ? true
           : t == "setp.eq.u32 is_role, warp, 1;" && has(m.change, "setp.ne")))
    return "two warps initialise barriers: which of them whose is of no account";
  if (m.change == "predicate inverted" && starts(t, "@!leader bra arrived") &&
      has(kernel, "sm90_small_t1"))
    return "31 lanes arrive where one is expected: 31 phases end, an odd number, as one does";
  if ((m.change == "predicate inverted" || m.change == "predicate dropped") &&
      starts(t, "@leader st.shared.") && names("[told + "))
    return "every lane has the same numbers, and the warp meets before others read them";
  if (one_more && names("leader, lane, 0") && has(kernel, "_held_"))
    return "another warp or lane does the same";
  if (one_more &&
      (names("is_role, warp, ") || names("first_lane, lane, 0") || names("releaser, lane, 0") ||
       names("more, lane, 0") || names("is_role, lane, 0") || names("is_loader, thread, 0") ||
       names("is_role, thread, 0") || names("is_role, thread, 32") ||
       names("is_mine, thread, 128") || (m.label == "groups_fetched" && names("more, warp, 0"))))
    return "another warp or lane does the same";

  // Arithmetic.
  if (one_more && (names("0fC2C80000") || names("0f42C80000")))
    return "beyond 100 the function is its limit: one place more of the bound changes nothing";
  if (one_more && names("0f00000000") &&
      (starts(t, "max.NaN.f32") || names(" largest, ") || names(" zero, ") || names("factor, ")) &&
      !has(kernel, "f32"))
    return "FP32's smallest number becomes 0 in D's type, in a scale and in a code";
  if (deleted && starts(t, "mul.rn.f32 factor") && names(", 0f3F800000;"))
    return "a product with 1";
  if (has(m.change, "mad.hi") && names(", 0, 3, ")) return "a product with 0";
  if (cut && times_power_of_two(t) && starts(t, "mul."))
    return "a product with a power of two is exact";
  if (cut && starts(t, "mul.") && names(", unscale_factor;"))
    return "2^14 or 2^7, with which a product that FP32 holds is exact";
  if (cut && (names(", other") || names(", moved;") || names(", received") || names(", part") ||
              names("block_sum") || names("_total, ") || names(" total, ") ||
              (m.label == "received" && names(", odd"))))
    return "sums over K: exact, or rounded within the contract's bound, which no order and no "
           "rounding of FP32 leaves";
  if (cut && starts(m.label, "loop_") && starts(t, "add.rn.f32 ") &&
      (names(", even") || names(", odd")))
    return "sums over K: exact, or rounded within the contract's bound, which no order and no "
           "rounding of FP32 leaves";
  // A scale has 4 binary digits, its reciprocal 24: the product's 28 are within 2^-22 of 1.
  if (cut && starts(t, "fma.rn.f32 error, decoded, ") && names("factor, 0f3F800000"))
    return "what a reciprocal is off by has 7 digits: FP32 holds it";
  if (one_more && starts(t, "mov.f32 ") && names("0f00000000") &&
      (names(" acc") || names("total") || names("_sum")))
    return "FP32's smallest number more in a sum over K, of which the contract leaves the last "
           "place";
  if (one_more && starts(t, "mov.f32 number") && names("0f00000000") &&
      m.label == "none_table_beta")
    return "FP32's smallest number, added to a value, becomes 0 in D's type and in a code";
  if (m.change == "elements exchanged" && starts(t, "mov.b32 {half0, half1}") &&
      (m.label == "added" || m.label == "each_number" || m.label == "second_pass" ||
       starts(m.label, "totalled") || starts(m.label, "squared")))
    return "two sums over K, which are added, exchange a number: the contract leaves their order";
  if (m.change == "elements exchanged" && m.label == "second_pass" &&
      starts(t, "ld.shared.v4.b32 {word"))
    return "sums over K, to which two pairs of numbers come in the other order: the contract "
           "leaves "
           "their order";
  if (m.change == "operands exchanged" && starts(t, "sub.rn.f32 value") &&
      (m.label == "second_pass" || starts(m.label, "squared")))
    return "of a difference only the square is used";
  if (starts(t, "mov.u32 codes") && (deleted || one_more))
    return "eight codes of four bits push out what was there";
  // A factor that is a NaN, or three times what it should be, brings the largest number beyond the
  // bound of the short way.
  const bool short_way = m.label == "as_before" || m.label == "know" || m.label == "encoder" ||
                         m.label == "encoded" || m.label == "activations_pass";
  if (has(kernel, "sm90") && short_way &&
      ((deleted && names("neg.f32 decoded, decoded")) ||
       (one_more && starts(t, "setp.eq.f32 is_zero, decoded")) ||
       (deleted && starts(t, "selp.f32 factor, 0f00000000, factor, is_zero")) ||
       (m.change == "or.b32" && starts(t, "and.b32 halves, halves, 0x7FFF7FFF"))))
    return "the long way gives the same codes as the short one";
  if (m.change == "elements exchanged" && t == "mov.b32 {half0, half1}, halves;")
    return "the greatest of numbers is the same in any order";
  if (m.label == "each_barrier" && has(m.change, "setp.le"))
    return "one mbarrier more is made, where none is used";
  if (one_more && starts(t, "add.u32 k_blocks"))
    return "K is a multiple of 64: rounding up adds 63 more or not";
  if (one_more && starts(t, "selp.b32 reciprocal"))
    return "2^32 / GROUP_M, less one or not: a quotient that is one too small is made right";

  if (one_more &&
      (names("slice_column, column, ") || names("limit1, column, 0") || names("beside, column, ")))
    return "N is a multiple of 8: between two of them no comparison changes";
  if (one_more && starts(t, "@more mov.u32 limit")) return "no token of this thread is below 1";
  if (one_more && names("min.f32 magnitude, magnitude, 0f40C00000"))
    return "6 and the next number have the same code";
  if (deleted && starts(t, "mov.f32 zero,"))
    return "only the lower byte of the pair is stored and decoded";
  if (m.label == "encoder" && names("mov.b32 {half0, half1}") && m.change == "elements exchanged")
    return "the greatest of numbers is the same in any order";
  if ((has(kernel, "moe_encode") || has(kernel, "moe_spread")) && deleted &&
      starts(t, "mul.lo.u32 unit_step, unit_step, part"))
    return "warps make units of others again, and write the same";
  if (has(kernel, "moe_encode") && starts(t, "mov.u32 position, 0xffffffff"))
    return "a lane without an expert has the first one's number, which no group comes before, and "
           "stores nothing";
  if ((has(kernel, "moe_encode") || has(kernel, "moe_spread")) && has(m.change, "setp.le") &&
      (names("mine, position, row_total") || names("valid, place, row_total") ||
       names("valid_beside, place, row_total")))
    return "positions are another kernel's: below the number of rows, or -1";
  if (has(kernel, "moe_combine") && deleted && starts(t, "mov.u32 position, 0xffffffff"))
    return "no row is asked for of a lane without an expert";
  if (has(kernel, "moe_combine") && m.label == "batch") {
    if (one_more && starts(t, "@!mine mov.f32 w"))
      return "a row that is not there is 0, and times any negative factor -0";
    if (has(m.change, "setp.le") && starts(t, "setp.lt.u32 more, first, experts"))
      return "one round more of rows that are not there, whose products are -0";
    if (one_more && (starts(t, "mov.f32 row") || starts(t, "mov.b32 row")))
      return "of columns that nobody stores, or of a row that is not there, whose factor is -0";
    if (has(m.change, "setp.le") && names("mine, from, experts"))
      return "a lane behind the last expert's has the position -1, which no row has";
  }
  if (has(kernel, "moe_permute") && m.label == "place_slots" && (one_more || deleted) &&
      (starts(t, "mov.u32 expert, 0") || starts(t, "mov.u32 base, 0") ||
       starts(t, "mov.u32 other, 0")))
    return "slots of no expert get the place -1, and others what replaces it";
  if (has(kernel, "moe_permute")) {
    if ((one_more || deleted) && (m.label == "count_slots" || m.label == "sorter") &&
        starts(t, "mov.u32 expert, 0"))
      return "a lane without a slot counts nothing";
    if ((one_more || deleted) && (m.label == "counted" || m.label == "add_warps") &&
        (starts(t, "mov.u32 count") || starts(t, "mov.u32 before, 0") ||
         starts(t, "mov.u32 all, 0")))
      return "threads without an expert come behind those with one, and store nothing";
    if (has(m.change, "setp.gt") && starts(t, "setp.ge.u32 done, ") && names(", slot_end"))
      return "one round more, in which no lane has a slot";
  }
  if (has(kernel, "norm_linear_rstd") && one_more && m.label.empty() && starts(t, "mov.b32 word"))
    return "what a lane beyond the row has is not added";
  if (m.label == "addend_fetched" && m.change == "predicate dropped" &&
      starts(t, "@has ld.shared.f32 "))
    return "only what has the same predicate reads it";
  // Rows that are asked for ahead: a lane has the number of its next one.
  if (has(kernel, "_units_") && deleted && m.label == "initialised" &&
      starts(t, "setp.lt.u32 more, ahead_index, all_rows"))
    return "`more` is the same there in the lane that asks for rows";
  if (has(kernel, "_units_") && m.label == "loaded_first" &&
      (((deleted || m.change == "sub.u32") && starts(t, "@past add.u32 ahead_")) ||
       (deleted && names("part, ahead_index, 3")) ||
       (m.change == "or.b32" && names("part, ahead_index, 3"))))
    return "the first row of a team is the first of four: no other four come next";
  // From K = 2112 on, the least of rows that are held, bytes_on_their_way are at most 3 slots of
  // each of the teams that a CTA holds, and it has less teams only where none has a second four
  // rows.
  const bool of_first = has(kernel, "_units_") && m.label == "loaded_first";
  const bool of_further = has(kernel, "_rms_units_") && m.label == "loaded_further";
  if (of_further && starts(t, "@past add.u32 ahead_place") && (deleted || has(m.change, "sub")))
    return "the rows of a team's slots are of its first four, or no others come next";
  if ((of_first || of_further) &&
      ((names("past, ahead_place, rows") && (deleted || m.change == "operands exchanged")) ||
       (names("part, ahead_place, rows") && m.change == "operands exchanged")))
    return "steps of one row: a place is below an entry's end or at it, and the quotient 0 or 1";
  if (has(kernel, "norm_linear_rows") && starts(t, "@wraps sub.u32 row, row, rows") &&
      (deleted || m.change == "operands exchanged" || m.change == "add.u32"))
    return "there is one entry: behind its last row a CTA has none";
  if (has(kernel, "norm_linear_rows") && names("row, part, row") && m.change == "add.u32")
    return "there is one entry: the subtrahend is 0, or the CTA has no row";
  // Ahead of the bulk copies of the first rows.
  const bool of_row = names("first_row") || names("strides") || names("input") ||
                      names(" wide, ") || names(" source, ") || names("past") ||
                      names("more, index, all_rows") || starts(t, "@!more bra first_asked");
  if (has(kernel, "_units_") && (m.label == "first_asked" || m.label == "none_gamma" ||
                                 (m.label == "each_barrier" && of_row)))
    return "only prefetches ask for it";
  if (m.label == "sum_rows" &&
      ((starts(t, "@!f32 ld.global.b16 half, [source]") && m.change == "predicate dropped") ||
       ((one_more || deleted) &&
        (starts(t, "mov.f32 more_of_it, ") || starts(t, "mov.b16 half, 0")))))
    return "FP32 takes no half, and without an addend nothing is added";
  if (one_more && names("valid, 1")) return "any number but 0 says that there is a tile";
  if (one_more && starts(t, "add.u32 group_barrier, group"))
    return "another number for the same barrier";
  if (deleted && starts(t, "@no_bias bra"))
    return "without biases the fetch finds no addresses, and -0";
  if (((m.label == "barriers_ready" && has(kernel, "small")) ||
       (m.label == "barriers_done" && has(kernel, "stream"))) &&
      (names("k_byte, k_block") || names("k_atom, k_block") || names("k_block, k_block, 1")))
    return "a prefetch's address changes no value";
  if (one_more && ((has(kernel, "sm90_permute") && starts(t, "mov.u32 piece")) ||
                   (has(kernel, "sm90_decode") && starts(t, "mov.u16 both_scales, 0"))))
    return "beyond K the weights are zeros, and what they meet is finite";
  if ((one_more || deleted) && starts(t, "mov.u") && (names(" word") || names(" bytes")) &&
      has(kernel, "sm90"))
    return "beyond K the weights are zeros, with which TMA fills them, and a NaN among the scales "
           "of "
           "the same row makes all its outputs NaN anyway";
  if (deleted && starts(m.label, "form_done") &&
      (starts(t, "ld.param.") || names("is_silu, gate_kind")))
    return "the tile's first part has loaded the register";

  if (has(kernel, "sm90_stream") && m.label == "barriers_done" && names("none, at, 0"))
    return "only prefetches ask it";
  if (names("valid_half")) return "only prefetches ask it";
  if (deleted && (starts(t, "@more bra weights_early") || starts(t, "@more bra weights_stage")))
    return "weights that are loaded behind the wait for the grid ahead are the same";
  if (m.label == "barriers_done" && one_more && starts(t, "setp.ge.u32 is_role, address, "))
    return "a wait for the grid ahead changes no value";
  if (m.label == "count_tiles" && has(m.change, "setp.gt") && names("last, group, own_end"))
    return "a group more gets the number that the next lane gives it";
  if (has(kernel, "norm_linear_rows") && names("part, lane, 2") &&
      (one_more || has(m.change, "shl")))
    return "which half of 32 bytes is read first saves time";
  if (m.label == "consumer_tile" &&
      (names(" token, lane, ") || names("row_offset") || names("row_factors") ||
       names("end, [m]") || names("some, row_factors, 0") || names("some, token, end") ||
       (names("setp.lt.and.u32 some, lane, "))))
    return "a prefetch's address changes no value";
  const bool of_activations = starts(t, "mov.u32 k") && names("_") && names(", 0;");
  if (of_activations && one_more &&
      (m.label == "fetch" || m.label == "activations_role" || m.label == "activations_stage" ||
       m.label == "row_known"))
    return "beyond K the weights are zeros, and what they meet is finite";
  if (one_more && (names(", index, 32768") || names("target, group, 32768")))
    return "half of a number below 32768, rounded down";
  if (one_more && starts(t, "add.u32 team_barrier, team"))
    return "another number for the same barrier";
  if (m.change == "without the addend" && has(kernel, "grouped_") &&
      names("residual_at, at, stride, residual_at"))
    return "rows of groups are one entry, whose residual starts at 0";
  if (has(m.change, "mad.hi") && has(kernel, "_units_") && m.label == "initialised" &&
      starts(t, "mad.lo.u32 barrier, slot, 8, "))
    return "a team's first row comes to its slot 0";
  if (m.change == "predicate dropped" && has(kernel, "_units_") && m.label == "rows_asked" &&
      names("there st.shared.f32 [own_total"))
    return "what is there is written before it is read";
  if ((one_more || deleted) && has(kernel, "_units_") && m.label == "initialised" &&
      starts(t, "bfi.b32 ahead_row, ahead_place, ahead_row, 5, 2"))
    return "the first row of a team is the first of four, and of the row 7 bits are kept";
  if (deleted && has(kernel, "_units_") && starts(t, "@past bra placed_next"))
    return "the quotient is 0 there";
  if (m.change == "or.b32" && has(kernel, "_units_") && starts(t, "and.b32 part, place, 3"))
    return "the scales of four rows are stored one by one instead of together";
  if (deleted && has(kernel, "moe_combine") && starts(t, "@more bra adder"))
    return "a wait for the grid ahead changes no value";
  if (names("tokens, tokens, 15") && one_more)
    return "an MMA of 16 tokens more, whose sums nobody stores";
  if ((starts(t, "setp.le.u32 more, address, ") && has(m.change, "setp.lt")) ||
      (starts(t, "sub.u32 address, rows, tile_row") && m.change == "add.u32"))
    return "MMAs of more tokens than needed give the same sums";
  if (deleted && (names("setp.le.u32 more, address, 64") ||
                  (names("setp.le.u32 more, address, 32") && has(kernel, "grouped_"))))
    return "`more` is false there: MMAs of more tokens than needed give the same sums";
  if (m.label == "ends_known" &&
      ((names("@is_above max.s32 base, base, moved") && has(m.change, "predicate dropped")) ||
       (deleted && names("setp.ge.u32 is_above, lane, ") && !names("lane, 1;"))))
    return "lanes without one so far below get their own number from the shuffle: the predicate "
           "may hold for them";
  // Of the correction of a quotient by 2^32 / n, less one at most: it is one too small only where
  // the rest is n, as long as the dividend times n stays below 2^32; n is at most GROUP_M here.
  if (m.change == "operands exchanged" && names("@one_more sub.u32 rest, rest, group_rows"))
    return "the rest is the divisor there: 0 is left either way";
  if ((deleted && (starts(t, "@more bra few_loop") || starts(t, "@more bra fewer_loop"))) ||
      (names("setp.le.u32 more, tile_tokens, ") && m.label == "next_step" &&
       (deleted || has(m.change, "setp.lt"))))
    return "`more` is false at first: MMAs of more tokens than needed give the same sums";
  if (m.label == "groups_ends" && names("distance, 32") && has(m.change, "setp.le"))
    return "no lane is 32 further up";
  if (names("@found max.u32 end") && has(m.change, "predicate dropped"))
    return "without a lane above, the shuffle gives a lane its own number";
  if (names("bad, wrong, 0, bad") && (deleted || (one_more && m.label == "groups_tile")))
    return "an or with 0";
  if (names("{valid, valid};")) return "a tile that is none has no rows that are read";
  if (deleted && m.label == "greatest_end" && starts(t, "min.s32 word, word, bound"))
    return "behind an end beyond M groups have no rows, wherever they begin";
  if ((deleted || one_more) && names("mov.u32 matrix")) return "a lane beyond the pairs has none";
  if (deleted && starts(t, "@!gathered bra operands_counted"))
    return "lines of rows are read only where rows are gathered";
  if (deleted && has(kernel, "sm100_swapped") && !has(kernel, "split") &&
      names("min.u32 end_row, end_row, rows"))
    return "of tokens beyond the rows no column is stored";
  if (names("first_group, group_total") && has(m.change, "setp.gt"))
    return "one round more of lanes without a group";

  if (names("column, group_warp, 16") && one_more)
    return "of a column only its multiple of 32 counts here, which 3 more than a multiple of 16 do "
           "not change";
  if (one_more && names("of_rows, of_rows, 15"))
    return "16 rows more are gathered, of which the table of the tile has the last one's number: "
           "nobody stores what becomes of them";
  if ((one_more || deleted) && starts(t, "mov.u32 previous_release, 0"))
    return "`releases` is false until a stage has its number there";
  if (names("unit_end, rows, 1023") && one_more) return "units beyond the last row are passed over";
  if (names("job_end, image_end, 31") && one_more) return "jobs beyond the image are passed over";
  if (names("shr.u32 job_end, job_end, 5") && deleted)
    return "jobs beyond the image are passed over, and 32 times as many have numbers of 32 bits as "
           "long as A has less than 2^39 elements";
  if ((has(kernel, "grouped_") && has(kernel, "sm90")) &&
      ((has(m.change, "predicate dropped") &&
        (starts(t, "@valid0 st.global.v4") || starts(t, "@valid1 st.global.v4"))) ||
       (has(m.change, "setp.le") &&
        (names(".u32 valid0, part, ") || names(".u32 valid1, part, ")))))
    return "a group has whole 8 rows of the image, so what is written behind its last row is "
           "nobody's";
  if (m.label == "groups_fetched" && names("shr.u32 each, each, 5") &&
      (deleted || has(m.change, "shl")))
    return "the first lane takes all groups";
  if (deleted && m.label == "residual_second" && starts(t, "mov.u32 tile_entry, 0"))
    return "the search goes on from an earlier tile's group";
  if (deleted && has(kernel, "_t64_") && names("ahead, ahead, 31"))
    return "a tile of up to 32 of 64 rows: both quotients are rounded down to the same";
  if (deleted && m.label == "first_decoded" && starts(t, "@more bra last_decoded"))
    return "what is waited for again has been decoded";
  if (m.label == "later_halve" && has(m.change, "setp.gt") && names("more, row, end"))
    return "of a block behind a group's rows nothing is written";
  if (deleted && m.label == "tiles_counted" && starts(t, "@!last bra status_told"))
    return "every CTA adds the same bits to the status, or none";
  if (names("last, word, 0, last") && deleted) return "every CTA adds the same bits to the status";
  if ((has(kernel, "grouped_sm90_decode") || has(kernel, "grouped_sm90_permute")) &&
      names("last, word, 0, last"))
    return "what is wrong with the table the product behind this kernel tells, too";
  if ((has(kernel, "grouped_sm90_decode") || has(kernel, "grouped_sm90_permute")) && deleted &&
      names("add.u32 part, part, 4"))
    return "a group has whole 8 rows of the image, so what is written behind its last row is "
           "nobody's";

  // The gate's last places: ex2 and rcp are approximate, and the contract bounds what becomes of
  // them.
  const bool of_gate = starts(m.label, "form_silu") || starts(m.label, "form_erf") ||
                       starts(m.label, "gelu_erf") || names("sigmoid_c") || names("gate_c") ||
                       names(" t, t, 0f3F800000") || names(" t, t, s;") || names(" t, s, s;") ||
                       names(", l, t;") || names("q, e, 0f3F800000");
  if ((cut || (one_more && names(", 0f"))) && of_gate && !names("bias"))
    return "the last place of FP32 of what approximate instructions make: it differs between "
           "chips, "
           "and the contract leaves it open";

  // Outputs that nobody stores.
  if ((one_more || deleted) && starts(t, "mov.u16 of_"))
    return "factors of columns beyond the matrix, which nobody stores";
  // Of operands as they are; other kernels' loops add to what stands there.
  if (deleted && starts(kernel, "grouped_") && m.label == "consumer" && starts(t, "mov.f32 ") &&
      names("0f00000000"))
    return "a tile's first MMA does not read the sums before it";
  if (names("sub.u32 turns, rows, tile_row") && m.change == "add.u32")
    return "more rows are gathered than a tile has: nobody stores what becomes of them";
  if (deleted && starts(t, "@awaited bra"))
    return "the barrier's phase is over: another wait for it passes at once";
  if ((one_more || deleted) && starts(t, "mov.") &&
      (names(" kept") || names(" fetched") || names(" low, 0f3F80") || names(" high, 0f3F80")))
    return "of outputs beyond the matrix, which nobody stores";
  if (names("nothing, ") || starts(t, "@nothing "))
    return m.change == "delete" || has(m.change, "setp.gt")
               ? "a warp without outputs skips what it would not store"
               : "";
  if (m.change == "predicate dropped" &&
      ((starts(t, "@has_columns ") && has(kernel, "x1_")) ||
       (starts(t, "@has_rows ") && (has(kernel, "_1x") || has(kernel, "pair_2x")))))
    return "a cluster of one in this direction has nothing beyond the matrix";

  if ((has(kernel, "grouped_sm90_decode") || has(kernel, "grouped_sm90_permute")) &&
      (names("wrong") || names("flags") || names("status_told") ||
       (m.label == "tiles_given" && !starts(t, "ld."))))
    return "what is wrong with the table the product behind this kernel tells, too";

  // Sums of ranges (stream-K).
  const bool to_flag = starts(t, "@first_lane st.") ||
                       (starts(t, "@more st.") && (names("[flag], ") || names("[own_flag], ")));
  // next_word in runtime/src/plan.cpp counts launches of a process and mixes the bits.
  if (one_more && starts(t, "mov.b64 down, 0"))
    return "any number that is no launch's word says that a flag is down: 1 is that of launch "
           "11987539140585552138";
  if (to_flag && names("global.b64") && has(m.change, "predicate"))
    return "every lane writes the same number to the flag";
  if (m.label == "give_sums" && names("setp.eq.u32 more, lane, 0"))
    return "every lane writes the same number to the flag";
  if (deleted && names("or.b32 base, base, warp"))
    return "every warp of the first CTA writes the same numbers";
  if (m.label == "spread_poll" && names("is_mine, lane, 0") && !deleted)
    return "every lane writes the same number to the flag";
  const bool of_counters =
      (m.label == "units_done" && (names(" unit, lane") || names("setp.ne.u32 more, part, 0"))) ||
      (m.label == "next_counter" && !names("more"));
  if (m.label == "units_done" && names("setp.ne.u32 more, part, 0") && deleted)
    return "of each entry a warp makes the counters 0, before the product behind counts";
  if (has(kernel, "grouped_sm90_permute") && m.label == "has_rows" &&
      (starts(t, "shr.u32 scales, first, ") || starts(t, "add.u32 scales, scales, group") ||
       (starts(t, "st.shared.b32 [line + ") && names("], scales;") &&
        (deleted || m.change == "address + 16"))))
    return "nobody reads the word: activations have 16 bits here";
  if (has(kernel, "sm90_permute") && m.label == "units_done" &&
      (starts(t, "@more bra warm") || names("more, first_unit, 0") || names("more, part, 0") ||
       starts(t, "mov.u32 part, %ctaid")))
    return "what counts decoded units is of NVFP4, which the decoder makes";
  if (has(kernel, "sm90_permute") && of_counters)
    return "what counts decoded units is of NVFP4, which the decoder makes";
  if (m.label == "scheduler_tile" && (names("left, range_end, position") || names("k_count, left")))
    return "a cluster that takes a whole tile instead of its range's part finishes it alone";
  if (m.label == "mma_peer_tile" && (names("tile_k_first") || names("tile_row")))
    return "the second CTA of a pair issues no MMA: where its tile lies reaches no instruction";
  return reason_of_config(kernel, m);
}

std::string survivor_reason(const SemanticMutant& m) {
  const std::string& t = m.instruction;
  const auto names = [&](const char* a) { return has(t, a); };
  if (names("_factor, error, ") || names(" factor, error, factor") ||
      (m.label == "as_before" && (names("error") || names("factor"))))
    return "the virtual GPU's approximate reciprocal is right to the last place: only a card shows "
           "what the next step mends";
  if (starts(t, "div.u32 k_") && names(", 512"))
    return "differs from K = 262144 on, where a problem takes minutes";
  if (has(m.change, ".rz."))
    return "the last place of FP32, at few of the outputs: no drawn one lies near enough to where "
           "it "
           "decides";
  if (m.change == "constant + 1" && names(", 0f"))
    return "the last place of FP32: no drawn output lies near enough to where it decides";
  if (names("more, first_unit, 0") || names(" known, 0") || names("more, part, 0"))
    return "needs grids that overlap, which those of the virtual GPU do not";
  if (m.label == "residual_first" && names("last, group_rows"))
    return "needs more CTAs than the problems' devices hold: the first tile of a late one";
  if (names("row_blocks") || names("shr.u32 row_block"))
    return "needs more than 128 rows or columns and a second batch entry of a tile of few";
  if (names("early") || (starts(t, "@more bra weights_stage")))
    return "needs a grid ahead that writes the weights";
  if (m.change == "operands exchanged" && starts(t, "@one_more sub.u32"))
    return "a quotient is one too small only where the rest is the divisor, as long as tiles times "
           "those of a group stay below 2^32";
  if (names("shr.u32 job_end, job_end, 5"))
    return "differs from 2^34 elements of A on, which no test has the memory for";
  if (m.change == "delete" && (names("raw, 0") || names("valid, 1")))
    return "a register of a block lies where one of another block lay, and holds what that left";
  if (names("reciprocal"))
    return "a quotient is wrong by more than the one that is made right only from three groups on";
  return "no drawn problem has the values that tell";
}

} // namespace wltest
