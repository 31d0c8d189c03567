#include "tests/virtual/mutation/mutants.hpp"
#include "tests/virtual/mutation/places.hpp"
#include "tests/virtual/mutation/statement.hpp"

#include <sstream>

namespace wltest {

namespace {

struct Change {
  std::string what, line;
};

// All changes of one statement.
std::vector<Change> changes(const Statement& s) {
  std::vector<Change> out;
  std::vector<std::string> ops = operands(s.rest);
  auto with = [&](const std::string& opcode, const std::vector<std::string>& o) {
    return s.indent + s.guard + opcode + (o.empty() ? "" : " " + joined(o)) + ";";
  };
  auto bend = [&](size_t i, const std::string& value, const std::string& what) {
    auto o = ops;
    o[i] = value;
    out.push_back({what, with(s.opcode, o)});
  };
  auto remove = [&] { out.push_back({"delete", s.indent + "// deleted"}); };
  const std::string& op = s.opcode;
  if (starts(op, "mbarrier.try_wait") || starts(op, "mbarrier.test_wait")) {
    out.push_back({"delete (passes at once)", s.indent + "setp.eq.u32 " + ops[0] + ", 0, 0;"});
    if (has(op, "parity") && !is_number(ops[2])) {
      auto o = ops;
      o[2] = "bent_operand";
      out.push_back({"other parity", s.indent + "{ .reg .b32 bent_operand; xor.b32 bent_operand, " +
                                         ops[2] + ", 1; " + op + " " + joined(o) + "; }"});
    }
    if (has(op, ".acquire"))
      out.push_back({"relaxed", with(without(op, ".acquire", ".relaxed"), ops)});
  } else if (starts(op, "mbarrier.init")) {
    remove();
    if (is_number(ops[1])) {
      bend(1, std::to_string(number(ops[1]) + 1), "count + 1");
      if (number(ops[1]) > 1) bend(1, std::to_string(number(ops[1]) - 1), "count - 1");
    }
  } else if (starts(op, "mbarrier.arrive") || starts(op, "mbarrier.expect_tx")) {
    remove();
    if (has(op, "expect_tx")) {
      if (is_number(ops.back())) {
        uint64_t bytes = number(ops.back());
        bend(ops.size() - 1, std::to_string(bytes + 16), "expected bytes + 16");
        if (bytes >= 16) bend(ops.size() - 1, std::to_string(bytes - 16), "expected bytes - 16");
      } else {
        for (const char* by : {"16", "-16"}) {
          auto o = ops;
          o.back() = "bent_operand";
          out.push_back({std::string("expected bytes ") + (by[0] == '-' ? "- 16" : "+ 16"),
                         s.indent + "{ .reg .b32 bent_operand; add.s32 bent_operand, " +
                             ops.back() + ", " + by + "; " + s.guard + op + " " + joined(o) +
                             "; }"});
        }
      }
    }
    if (has(op, "arrive")) out.push_back({"twice", with(op, ops) + " " + trim(with(op, ops))});
    if (has(op, ".release."))
      out.push_back({"relaxed", with(without(op, ".release", ".relaxed"), ops)});
  } else if (starts(op, "fence.") || starts(op, "tcgen05.fence") || starts(op, "membar")) {
    remove();
  } else if (starts(op, "tcgen05.commit")) {
    remove();
    if (has(op, "multicast")) {
      auto o = ops;
      o.pop_back();
      std::string plain = without(op, ".multicast::cluster");
      out.push_back({"own CTA only", with(plain, o)});
    }
  } else if (starts(op, "tcgen05.wait") || starts(op, "tcgen05.relinquish") ||
             starts(op, "wgmma.fence") || starts(op, "wgmma.commit_group") ||
             starts(op, "cp.async.bulk.commit_group") || starts(op, "cp.async.commit_group") ||
             starts(op, "griddepcontrol")) {
    remove();
  } else if (starts(op, "wgmma.wait_group") || starts(op, "cp.async.bulk.wait_group") ||
             starts(op, "cp.async.wait_group")) {
    remove();
    bend(0, std::to_string(number(ops[0]) + 1), "one group more may be pending");
  } else if (starts(op, "bar.") || starts(op, "barrier.")) {
    remove();
    if (op == "barrier.cluster.arrive.aligned")
      out.push_back({"relaxed", with("barrier.cluster.arrive.relaxed.aligned", ops)});
    if (ops.size() == 2 && is_number(ops[1])) {
      bend(1, std::to_string(number(ops[1]) + 32), "32 threads more");
      if (number(ops[1]) > 32) bend(1, std::to_string(number(ops[1]) - 32), "32 threads less");
    }
  } else if ((starts(op, "ld.") || starts(op, "st.") || starts(op, "red.") ||
              starts(op, "atom.")) &&
             (has(op, ".acquire") || has(op, ".release") || has(op, ".acq_rel"))) {
    // A flag in memory.
    if (!starts(op, "ld.") && !starts(op, "atom.")) remove();
    std::string relaxed = without(op, ".acquire", ".relaxed");
    relaxed = without(relaxed, ".release", ".relaxed");
    out.push_back({"relaxed", with(without(relaxed, ".acq_rel", ".relaxed"), ops)});
    if (has(op, ".gpu")) out.push_back({"scope .cta", with(without(op, ".gpu", ".cta"), ops)});
  } else if (starts(op, "tcgen05.alloc") || starts(op, "tcgen05.dealloc")) {
    remove();
    if (is_number(ops[1]) && number(ops[1]) > 32)
      bend(1, std::to_string(number(ops[1]) / 2), "half of the columns");
  } else if (starts(op, "setmaxnreg")) {
    remove();
    uint64_t n = number(ops[0]);
    if (has(op, ".inc") && n < 256) bend(0, std::to_string(n + 8), "8 registers more");
    if (has(op, ".dec") && n < 248) bend(0, std::to_string(n + 8), "8 registers more");
  } else if (starts(op, "cp.async.bulk") && has(op, "multicast::cluster")) {
    // The mask comes after the mbarrier.
    for (size_t i = 2; i < ops.size(); ++i) {
      if (ops[i][0] == '[' || is_number(ops[i])) continue;
      auto o = ops;
      o[i] = "bent_mask";
      for (const char* how : {"shl.b16 bent_mask, ", "xor.b16 bent_mask, "}) {
        out.push_back({std::string("multicast mask ") + (how[0] == 's' ? "<< 1" : "^ 1"),
                       s.indent + "{ .reg .b16 bent_mask; " + how + ops[i] + ", 1; " + s.guard +
                           op + " " + joined(o) + "; }"});
      }
      break;
    }
  } else if (starts(op, "mov.u32") && ops.size() == 2 && is_number(ops[1])) {
    uint64_t v = number(ops[1]);
    if (has(ops[0], "operand_high")) {
      bend(1, hex(v + 1), "descriptor: stride + 16 bytes");
      bend(1, hex(v ^ 0x80000000u), "descriptor: other swizzle");
    } else if (has(ops[0], "scale_high")) {
      bend(1, hex(v + 1), "descriptor: stride + 16 bytes");
      bend(1, hex(v ^ 0x40000000u), "descriptor: other swizzle");
    } else if (has(ops[0], "idesc")) {
      bend(1, hex(v + (1u << 17)), "instruction descriptor: N + 8");
      bend(1, hex(v ^ (1u << 23)), "instruction descriptor: scale type");
      bend(1, hex(v ^ (1u << 13)), "instruction descriptor: A negated");
    }
  }
  return out;
}

} // namespace

bool synchronises(const Statement& s) { return !changes(s).empty(); }

std::vector<Mutant> make_mutants(const std::string& ptx) {
  std::vector<std::string> lines;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const Places places = places_of(lines);
  std::vector<Mutant> out;
  std::string label;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string t = trim(lines[i]);
    if (t.size() > 1 && t.back() == ':' && t.find(' ') == std::string::npos && t != "wait:")
      label = t.substr(0, t.size() - 1);
    Statement s;
    if (places.place[i] == 0 || !parse(lines[i], s)) continue;
    for (const Change& c : changes(s)) {
      Mutant m;
      m.line = static_cast<int>(i) + 1;
      m.change = c.what;
      m.instruction = t;
      m.label = label;
      auto near = [&](long step) {
        std::string text;
        int found = 0;
        for (long k = static_cast<long>(i) + step; found < 2 && k >= 0 && k < long(lines.size());
             k += step) {
          Statement other;
          if (!parse(lines[static_cast<size_t>(k)], other)) continue;
          text += other.opcode + " ";
          ++found;
        }
        return text;
      };
      m.before = near(-1);
      m.after = near(1);
      m.line_text = c.line;
      m.identity = hash_of(c.what, places.place[i]);
      m.site = hash_of(c.what, places.site[i]);
      out.push_back(std::move(m));
    }
  }
  return out;
}

std::string mutated(const std::string& ptx, const Mutant& mutant) {
  size_t first = 0;
  for (int line = 1; line < mutant.line; ++line) first = ptx.find('\n', first) + 1;
  return ptx.substr(0, first) + mutant.line_text + ptx.substr(ptx.find('\n', first));
}

std::string equivalent_reason(const std::string& kernel, const Mutant& m) {
  const std::string& op = m.instruction;
  if (has(op, "tcgen05.relinquish_alloc_permit"))
    return "gives other CTAs of the SM the right to allocate; this kernel runs one CTA an SM and "
           "allocates once";
  if (has(op, "setmaxnreg.inc") && m.change == "delete")
    return "the virtual registers have no physical count: ptxas, not a run, tells that the warps "
           "need more than they hold";
  // Of three CTAs an SM the consumer's 120 fit, too: 256 * 80 = 128 * 40 + 128 * 120.
  if ((has(op, "setmaxnreg.dec") || (has(kernel, "x3_") && has(op, "setmaxnreg.inc"))) &&
      m.change == "8 registers more")
    return "the pool has room for 8 registers more; nothing waits for them";
  // WEIGHTS_FIRST of sm90_kinds.inc.
  if (starts(op, "mbarrier.try_wait") && m.label == "weights_stage" && has(op, "[shared_base"))
    return "only lets the first activations come ahead of more weights, which have free stages";
  bool warp_sync = starts(op, "bar.warp.sync");
  if (warp_sync && (has(m.after, "bar.sync") || has(m.after, "bar.arrive") ||
                    has(m.after, "barrier.cluster.") || m.label == "producers_join"))
    return "a barrier of the same lanes follows, with the memory order of this one";
  if (warp_sync && starts(m.after, "ret "))
    return "the warp ends behind it: there is nothing to order";
  if (warp_sync && starts(m.after, "shfl.sync"))
    return "a shuffle of all lanes follows, which waits for them, and no other warp reads or "
           "writes "
           "between the two what these lanes have";
  const bool held = has(kernel, "_held_") || has(kernel, "_units_");
  if (warp_sync && m.label == "cleared" && held)
    return "of the totals that it clears a lane reads only its own before the team's barriers: "
           "convergence costs no order";
  if (warp_sync && m.label == "coded" && held)
    return "the lanes meet in the next row before anything that wants them together, and what they "
           "have written nobody reads: convergence costs no order";
  if (warp_sync && m.label == "barriers_done" && has(kernel, "grouped"))
    return "the table of groups follows, with a barrier of the CTA behind it";
  if (warp_sync && m.label == "barriers_done" && starts(kernel, "moe_"))
    return "who has initialised barriers alone signals them ahead of the CTA's barrier, and a vote "
           "of all lanes comes first: convergence costs no order";
  if (has(kernel, "grouped_") && has(kernel, "sm90") && !has(kernel, "_small_") &&
      starts(op, "griddepcontrol.wait") && (m.label == "activations_role" || m.label == "consumer"))
    return "every thread has waited ahead of the table of groups";
  if (has(kernel, "moe_combine_sm90") && starts(op, "griddepcontrol.wait") && m.label.empty())
    return "positions and weights are there when the down product's CTAs let it start; rows have a "
           "wait of their own";
  // Its factors and biases are read behind the main loop.
  if (has(kernel, "direct_a") && has(kernel, "_t256_split") && m.label == "consumer" &&
      starts(op, "griddepcontrol.wait"))
    return "who asked for the first activations has waited, and the main loop waits for those";
  if (starts(op, "fence.proxy.async.global") && m.label == "status_told" && has(kernel, "grouped_"))
    return "of weights and their scales, which no grid of the call writes";
  if (warp_sync && m.label == "release" && has(kernel, "norm_linear_rstd"))
    return "the reduction over the row, for which a lane has read its part, lies between those "
           "reads and this";
  if (warp_sync && m.label == "asked_ahead")
    return "of one warp a lane asked for stages to come to L2, which orders nothing, and "
           "elect.sync "
           "of all lanes comes next: convergence costs no order";
  if (warp_sync && m.label == "operands_there")
    return "a parameter says whether the wait is passed by: the lanes are together";
  if (warp_sync && m.label == "initialised" && has(kernel, "_units_"))
    return "what the first lane has initialised it alone uses ahead of the CTA's barrier: "
           "convergence costs no order";
  if (warp_sync && m.label == "folded_row")
    return "a warp has a row of its own and keeps nothing in shared memory: convergence costs no "
           "order";
  if (warp_sync && (starts(m.label, "form_done") || starts(m.label, "added")) &&
      starts(m.after, "cvt.rn"))
    return "the residual's ldmatrix and the stmatrix behind it are collective: no lane writes "
           "before all have read";
  if (warp_sync && starts(m.label, "form_done") && has(kernel, "_f32") &&
      (starts(m.after, "xor.b32") || starts(m.after, "st.shared.v2.f32")))
    return "a lane reads the residual in FP32 where it writes its own sums: convergence costs no "
           "order";
  // With swapped operands a branch stands between the two; alone, a CTA's warp reads nothing of its
  // block after that.
  const bool behind_loads =
      has(kernel, "swapped") &&
      (m.label == "accumulated" ||
       (m.label == "loaded" && !has(kernel, "split") && !has(m.before, "st.shared")));
  const bool behind_slice = m.label == "drain_slice" && has(m.before, "fence::before");
  if (warp_sync && (has(m.before, "tcgen05.wait::ld") || behind_loads || behind_slice))
    return "tcgen05.wait::ld is collective: the loads of all lanes are done when one lane passes "
           "it";
  if (warp_sync && has(m.before, "wgmma.wait_group"))
    return "wgmma.wait_group is collective, and the lanes' own reads of the stage came before the "
           "bar.warp.sync that released the stage before it";
  if ((warp_sync || has(op, "fence::before") || m.change == "relaxed") && m.label == "release_only")
    return "on this path no lane has touched the accumulator: there is nothing to order";
  if (has(op, "tcgen05.fence") && m.label == "allocation_done")
    return "tcgen05.alloc is synchronous: the barrier alone orders it (9.7.16.7)";
  if (has(kernel, "pair") && m.label == "allocation_done" && starts(op, "barrier.cluster.wait"))
    return "the cluster has met once before the allocation, with its mbarriers initialised; a pair "
           "allocates together, and what other CTAs hold is touched through those mbarriers only";
  if (m.label == "mma_tile" && has(op, "fence::after"))
    return "the fence of the tile's first stage comes behind this wait too, before any copy or MMA";
  if (has(op, "fence::before") && m.label == "teardown")
    return "the fence, or the commit, after each warp's last tcgen05 operation covers it";
  if (m.label == "operands_release" && starts(op, "mbarrier.try_wait"))
    return "the commits it waits for come before the accumulator's in the tensor core's order, and "
           "the consumers wait for that one before the last barrier";
  if (has(kernel, "_n64_clc") && !has(kernel, "pair") &&
      (m.label == "scheduler_tile" || m.label == "refused"))
    return "a cluster of one CTA: the thread that asks is the one that has read the answer before";
  if (has(kernel, "double_buffered") && has(op, "fence.mbarrier_init"))
    return "the fence.proxy.async of the same thread that follows covers the initialisation too";
  if (has(kernel, "2x2_n64") && m.change == "multicast mask ^ 1" &&
      starts(op, "cp.async.bulk.tensor.4d"))
    return "two column tiles of 64 share a scale atom: the peer column's slices hold the same "
           "bytes";
  if (has(kernel, "split2") && m.label == "consumer_tile" && has(op, "fence::after"))
    return "the first load comes after the fence behind the second product's wait";
  if (warp_sync && has(kernel, "sm100") && has(kernel, "split2") &&
      (m.label == "fetched" || m.label == "biases_there"))
    return "the warp meets again when the sums of the other half of K have come, ahead of reading "
           "what it has brought here";
  if ((has(kernel, "_once") || has(kernel, "split2") || has(kernel, "swapped_split")) &&
      !starts(op, "mbarrier.init") &&
      (m.label == "init_acc" || m.label == "init_tile" || m.label == "scheduler_tile" ||
       m.label == "consumer_tile" || m.label == "release_only" || m.label == "gated" ||
       (m.label == "accumulated" && has(kernel, "split")) || m.label == "send_slice" ||
       m.label == "biases_there" || m.label == "factors_there" || has(m.label, "_tile")))
    return "one tile a cluster: nobody waits a second time on the tile ring or the accumulator";
  // A cluster of these kernels makes one tile: the splits meet, and it ends. Those of operands as
  // they are (sm90_native.ptx) and of groups go on to others.
  const bool native = has(kernel, "sm90_f") || has(kernel, "sm90_bf16_") ||
                      has(kernel, "sm90_tf32_") || has(kernel, "sm90_i8_");
  const bool one_tile =
      has(kernel, "sm90") && !has(kernel, "double_buffered") && !has(kernel, "grouped_") &&
      (has(kernel, "split") ||
       (!native && (has(kernel, "_t8_") || has(kernel, "_t16_") || has(kernel, "_t32_") ||
                    has(kernel, "_t48_") || has(kernel, "_t64_") || has(kernel, "c32_"))));
  if (one_tile && starts(op, "bar.sync group_barrier") && has(m.before, "st.global"))
    return "one tile a cluster: nothing is written to the output area after its last rows are read";
  if (one_tile && starts(op, "@releases mbarrier.arrive"))
    return "one tile a cluster: nobody waits for a stage after its last K block";
  if ((m.label == "producers_join" || m.label == "weights_done" || m.label == "activations_done" ||
       m.label == "loads_done" || (one_tile && m.label == "cluster_ready")) &&
      starts(op, "barrier.cluster.wait"))
    return "producers touch nothing afterwards; the consumers keep the CTA until the cluster has "
           "met";
  // STARTS_EARLY of sm90_kinds.inc.
  const bool early = one_tile && !native && !has(kernel, "direct") && !has(kernel, "_t128") &&
                     !has(kernel, "_t256");
  if (early && m.label == "activations_role" && starts(op, "barrier.cluster.wait"))
    return "the producers' warps have met, and it touches its own CTA alone; it is there for its "
           "warp's other lanes, with which it waits on a GPU";
  if ((has(kernel, "sm90_small") || has(kernel, "sm90_stream") || starts(kernel, "moe_")) &&
      starts(op, "griddepcontrol.wait") && (m.label == "send" || m.label == "cluster_met"))
    return "the activations' warps of the CTA, or of the one whose sums it awaits, have waited for "
           "the grids ahead before these warps got their first tokens";
  if (starts(kernel, "moe_permute") && m.label == "place_slots" && starts(op, "bar.warp.sync"))
    return "the next addition to a count stands behind shfl.sync, which brings all lanes what the "
           "one before it found";
  const bool of_loop = starts(m.label, "loop_e");
  const bool first_block = of_loop && !has(m.label, "_turn") && !has(m.label, "_odd") &&
                           !has(m.label, "_even") && !has(m.label, "_end");
  if (first_block && (warp_sync || starts(op, "@releases mbarrier.arrive")))
    return "ahead of a tile's first block there is no stage to release";
  if (of_loop && warp_sync &&
      (has(m.label, "_end") || (has(m.label, "_turn") && has(kernel, "dual_gemm"))))
    return "wgmma.wait_group is collective, and nothing else reads the stage that is released";
  if (m.label == "storer_done" && starts(op, "cp.async.bulk.wait_group"))
    return "the storer's own waits have let every piece be read; a grid has ended when what its "
           "bulk "
           "stores carry is written, and griddepcontrol.wait of the next one waits for that";
  if (starts(kernel, "dual_gemm") && starts(m.label, "residual_"))
    return "the dual GEMM has no residual: this is never run";
  if ((has(kernel, "sm90_small") || has(kernel, "sm90_stream")) && has(kernel, "_whole") &&
      starts(op, "barrier.cluster.wait"))
    return "a cluster of one CTA, whose barriers its own bar.sync has made ready";
  if (has(kernel, "sm90_small") && warp_sync && starts(m.label, "arrived"))
    return "every lane waits for the next stage's mbarrier itself, and convergence costs no order";
  if (has(kernel, "sm90_stream") && warp_sync &&
      (m.label == "consumer" || (m.label == "main_loop" && has(m.before, "mbarrier.try_wait"))))
    return "of a stage that the other set multiplies this one reads nothing before it releases it";
  if (m.change == "own CTA only" && has(kernel, "swapped_split") && has(op, "release_mask"))
    return "the mask is that of this CTA: those that share K have operands of their own";
  if (has(kernel, "c32_") && starts(op, "wgmma.commit_group") &&
      (m.label == "main_loop" || m.label == "turn" || m.label == "tokens_there") &&
      !starts(m.after, "mov.pred") && !starts(m.after, "wgmma.wait_group"))
    return "the commit_group of the stage's last MMAs and wait_group 0 cover its first ones too";
  if (warp_sync && has(kernel, "_t256_") && m.label == "added7_1" && starts(m.after, "add.u32"))
    return "the warp meets in each K block of the next tile, whose first piece is written behind "
           "those";
  if (warp_sync && has(kernel, "_t256_split_") && m.label == "added3_1" &&
      starts(m.after, "add.u32"))
    return "the outputs of the last tokens of the CTA's only tile: nobody writes there again";
  if (has(kernel, "double_buffered")) {
    if (starts(op, "bar.sync group_barrier"))
      return "the bar.sync of the next tile's first K block comes between these reads and the next "
             "writes";
    if (warp_sync && m.label == "next_loaded")
      return "every lane waits for the stage's mbarrier itself, and convergence costs no order";
    if (starts(op, "wgmma.commit_group"))
      return "the second half's commit_group and wait_group 0 cover the first half's MMAs too";
  }
  if (m.label == "release_only" && starts(op, "mbarrier.try_wait") &&
      has(m.before, "mbarrier.try_wait") && !has(kernel, "pair") && !has(kernel, "x"))
    return "a tile of one CTA has rows and columns: a warp that drains them waits for this commit "
           "before the accumulator can be used again, and the first commit of that use comes later";
  if (m.label == "mma_empty" && has(op, "fence::after"))
    return "an empty tile copies and multiplies nothing; the next tile's stages have fences of "
           "their own behind their waits";
  if (m.label == "mma_empty" && has(op, "[lag_barrier], lag_phase"))
    return "an empty tile copies no scales. The next tile's first copy waits for a commit that "
           "this "
           "thread issued later or at the same place, which covers every MMA that this one covers; "
           "and the stage ring keeps each barrier less than two phases behind, so that wait's "
           "parity "
           "tells";
  if (has(op, "griddepcontrol.launch_dependents"))
    return "only lets the next grid start earlier; without it that grid starts when this one ends";
  return "";
}

} // namespace wltest
