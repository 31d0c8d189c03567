// The BARRIER LEDGER table at a kernel's head, checked against what ran: the mbarriers of a CTA in
// the order of their addresses are those of the table. Rules: RULES.md.
//
// A cell is a number, a name that has a value, or a sum of products of them; bytes may be several,
// "A or B". Warps: "0 1 4-11" are
// those and no others, each of them; "4-" is any from 4 on, "(2)" one that may do without;
// "2 (commit)" arrives by operations that it issued. first: the parity of a warp's first wait, 0
// where that waits for a phase and 1 where it passes; "0 1": either.
//
// Bytes are those of whole tiles. EDGES, among the names with a value other than 0, says that tiles
// of this launch reach beyond the matrices: a phase may then have fewer, and a warp nothing to do.
#pragma once

#include "tools/vgpu/check/observer.hpp"

#include <map>
#include <set>

namespace vgpu::check {

// Cells by row: barrier, n, count, bytes, arrives, waits, first.
using LedgerTable = std::vector<std::vector<std::string>>;

// Values of names: "STAGES=5,G=2,set=4-11"; "KERNEL.STAGES=4" counts for one kernel.
// False and a sentence for other texts.
using LedgerNames = std::map<std::string, std::string>;
bool parse_names(const std::string& text, LedgerNames& names, std::string* error);

// The value of a sum of products of numbers, names and brackets; throws a sentence (std::string).
uint64_t formula_value(const std::string& text, const LedgerNames& names);

class Ledger : public Observer {
public:
  Ledger(LedgerTable table, LedgerNames names, Sink& sink);

  void mbarrier_init(const Who&, uint32_t cta, uint32_t offset, uint32_t count) override;
  void mbarrier_arrive(const Who&, uint32_t cta, uint32_t offset, uint32_t, bool) override;
  void mbarrier_bytes(const Who&, uint32_t cta, uint32_t offset, int64_t bytes) override;
  void mbarrier_phase(uint32_t cta, uint32_t offset) override;
  void mbarrier_wait(const Who&, uint32_t cta, uint32_t offset, uint64_t phase, bool) override;
  void end() override;

private:
  using Warps = std::map<uint32_t, Who>; // number in the CTA -> one that did it
  struct Seen {                          // of one mbarrier
    Who init;
    uint32_t count = 0;
    int64_t paid = 0;                  // in this phase
    std::map<int64_t, uint64_t> bytes; // of the phases that have completed -> how many
    Warps arrived, committed, waited;
    std::map<std::pair<uint32_t, uint32_t>, int64_t> first; // CTA, warp -> phase
  };
  struct Named { // a cell of warps
    std::set<uint32_t> each, maybe;
    uint32_t from = UINT32_MAX; // any from here on
    bool commit = false;
    bool holds(uint32_t warp) const {
      return each.count(warp) || maybe.count(warp) || warp >= from;
    }
  };
  struct Line {
    std::string name;
    uint64_t n = 0, count = 0;
    std::set<int64_t> bytes;
    std::string first;
    Named arrives, waits;
  };

  Line read(const std::vector<std::string>& cells) const; // throws std::string: what is wrong
  uint64_t number(const std::string& cell) const { return formula_value(cell, names_); }
  Named warps(const std::string& cell) const;
  bool may_have(const Line& line, int64_t bytes) const;
  void compare(const Line& line, uint64_t index, const Seen& seen, const std::string& where) const;
  void compare_warps(const Named& named, const Warps& seen, const std::string& who, const Who& at,
                     bool all) const;
  [[noreturn]] void wrong(const Who& at, const std::string& text) const;

  LedgerTable table_;
  LedgerNames names_;
  Sink& sink_;
  bool edges_;
  std::map<std::pair<uint32_t, uint32_t>, Seen> seen_; // by CTA and offset
};

} // namespace vgpu::check
