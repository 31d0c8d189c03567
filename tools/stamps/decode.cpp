// From records to a timeline.
#include "tools/stamps/stamps.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace warpline::stamps {

namespace {

using vgpu::trace::Recording;
using vgpu::trace::Span;

struct Record {
  uint64_t clock = 0;
  uint32_t site = 0;
  bool end = false; // of a wait
  uint32_t value = 0;
};

// Shared addresses of a cluster's CTAs differ in the bits above.
constexpr uint32_t address_mask = 0xFFFFFF;

// A barrier's kind is the site that initialises it, in the order of the text, as in the ledger; its
// stage is its place among those of the kind.
struct Barriers {
  std::vector<uint32_t> bases; // by kind: the least address
  std::vector<std::string> names;

  // The kind whose barriers lie at or below the address; bases.size() when there is none.
  size_t kind(uint32_t address) const {
    size_t best = bases.size();
    for (size_t i = 0; i < bases.size(); ++i)
      if (bases[i] <= address && (best == bases.size() || bases[i] > bases[best])) best = i;
    return best;
  }
  int stage(uint32_t address) const {
    const size_t k = kind(address);
    return k == bases.size() ? -1 : static_cast<int>((address - bases[k]) / 8);
  }
  std::string name(uint32_t address) const {
    const size_t k = kind(address);
    if (k == bases.size()) return "barrier";
    const std::string kind_name = k < names.size() ? names[k] : "barrier " + std::to_string(k);
    return kind_name + "[" + std::to_string(stage(address)) + "]";
  }
};

class Decoder {
public:
  Decoder(const Stamped& stamped, const std::vector<uint8_t>& buffer, bool is_virtual)
      : stamped_(stamped) {
    rings_.resize(size_t{stamped.ctas} * stamped.warps);
    for (size_t ring = 0; ring < rings_.size(); ++ring) read(ring, buffer);
    const std::string what =
        ", from stamps of lane 0 of each warp; a unit's work: from its issue to "
        "when a warp saw its end.";
    if (is_virtual) {
      result_.clock = "Ticks of the emulator, no time of a device" + what;
      return;
    }
    result_.unit = "ns";
    result_.microseconds = 1e-3;
    result_.clock = "Nanoseconds" + what;
  }

  Recording run() {
    find_barriers();
    set_clocks();
    for (uint32_t cta = 0; cta < stamped_.ctas; ++cta) {
      for (uint32_t warp = 0; warp < stamped_.warps; ++warp) {
        const std::string role = warp < stamped_.roles.size() ? stamped_.roles[warp] : "";
        result_.rows.push_back(
            {"warp " + std::to_string(warp) + (role.empty() ? "" : " " + role), cta});
      }
      for (const char* unit : {"loads", "stores", "tensor core", "tensor memory"})
        result_.rows.push_back({unit, cta});
    }
    for (size_t ring = 0; ring < rings_.size(); ++ring) find_ends(ring);
    for (size_t ring = 0; ring < rings_.size(); ++ring) walk(ring);
    for (const Span& s : result_.spans) result_.end = std::max(result_.end, s.end);
    keep_used_rows(&result_);
    return std::move(result_);
  }

private:
  enum Unit : uint32_t { loads, stores, tensor_core, tensor_memory, units };

  void read(size_t ring, const std::vector<uint8_t>& buffer) {
    for (uint32_t i = 0; i < stamped_.records; ++i) {
      uint32_t words[4] = {};
      const size_t at = (ring * stamped_.records + i) * 16;
      if (at + 16 > buffer.size()) return;
      std::memcpy(words, &buffer[at], 16);
      Record r;
      r.clock = words[0] | uint64_t{words[1]} << 32;
      r.site = words[2] / 2;
      r.end = words[2] % 2 != 0;
      r.value = words[3] & address_mask;
      if (r.clock == 0 || r.site >= stamped_.sites.size()) return;
      rings_[ring].push_back(r);
    }
    result_.truncated |= stamped_.records > 0;
  }

  const Site& site(const Record& r) const { return stamped_.sites[r.site]; }

  void find_barriers() {
    barriers_.names = stamped_.barriers;
    std::map<uint32_t, uint32_t> least; // by site
    for (const auto& ring : rings_)
      for (const Record& r : ring)
        if (site(r).what == What::barrier) {
          const auto found = least.emplace(r.site, r.value).first;
          found->second = std::min(found->second, r.value);
        }
    for (const auto& entry : least) barriers_.bases.push_back(entry.second);
  }

  // An SM's clock against %globaltimer, which all SMs share but which moves in coarse steps: the
  // first and the last pair of records of the CTA.
  struct Clock {
    uint64_t base = 0, time = 0;
    double rate = 1; // nanoseconds of a tick
  };

  void set_clocks() {
    clocks_.resize(stamped_.ctas);
    uint64_t origin = UINT64_MAX;
    for (uint32_t cta = 0; cta < stamped_.ctas; ++cta) {
      Clock& clock = clocks_[cta];
      uint64_t last = 0, last_time = 0;
      clock.base = UINT64_MAX;
      for (uint32_t warp = 0; warp < stamped_.warps; ++warp) {
        const auto& ring = rings_[size_t{cta} * stamped_.warps + warp];
        for (size_t i = 0; i + 1 < ring.size(); ++i) {
          if (site(ring[i]).what == What::time && ring[i + 1].clock < clock.base)
            clock.base = ring[i + 1].clock, clock.time = ring[i].clock;
          if (site(ring[i]).what == What::end && ring[i].clock > last)
            last = ring[i].clock, last_time = ring[i + 1].clock;
        }
      }
      if (last > clock.base && last_time > clock.time)
        clock.rate =
            static_cast<double>(last_time - clock.time) / static_cast<double>(last - clock.base);
      if (clock.base != UINT64_MAX) origin = std::min(origin, clock.time);
    }
    for (Clock& clock : clocks_)
      if (clock.base != UINT64_MAX) clock.time -= origin;
  }

  uint64_t time(size_t ring, uint64_t ticks) const {
    const Clock& clock = clocks_[ring / stamped_.warps];
    const double since = static_cast<double>(static_cast<int64_t>(ticks - clock.base)) * clock.rate;
    return static_cast<uint64_t>(
        std::max<int64_t>(0, static_cast<int64_t>(clock.time) + std::llround(since)));
  }

  // When each barrier was seen to complete, in each CTA.
  void find_ends(size_t ring) {
    for (const Record& r : rings_[ring])
      if (site(r).what == What::wait && r.end && site(r).name == "mbarrier") {
        seen_[r.value][ring / stamped_.warps].push_back(time(ring, r.clock));
        sorted_ = false;
      }
  }

  // The first time after `from` that a warp of the CTA, or else of another one, saw the barrier
  // complete; `from` when none did.
  uint64_t seen_after(uint32_t barrier, size_t cta, uint64_t from) {
    if (!sorted_)
      for (auto& [address, ctas] : seen_)
        for (auto& [index, times] : ctas) std::sort(times.begin(), times.end());
    sorted_ = true;
    const auto first = [&](const std::vector<uint64_t>& times) {
      const auto at = std::upper_bound(times.begin(), times.end(), from);
      return at == times.end() ? from : *at;
    };
    const auto found = seen_.find(barrier);
    if (found == seen_.end()) return from;
    const auto own = found->second.find(cta);
    if (own != found->second.end()) return first(own->second);
    uint64_t best = from;
    for (const auto& [index, times] : found->second) {
      const uint64_t at = first(times);
      if (at > from && (best == from || at < best)) best = at;
    }
    return best;
  }

  uint32_t unit_row(size_t cta, Unit unit) const {
    return static_cast<uint32_t>(cta * (stamped_.warps + units) + stamped_.warps + unit);
  }

  void add(Span span) {
    if (span.end > span.begin) result_.spans.push_back(std::move(span));
  }

  struct Group { // of what was issued up to a commit
    uint64_t begin = 0;
    Record first;
    What what = What::end;
  };

  void walk(size_t ring) {
    const size_t cta = ring / stamped_.warps;
    const auto row = static_cast<uint32_t>(cta * (stamped_.warps + units) + ring % stamped_.warps);
    uint64_t free_since = 0, begin = 0; // begin: of the wait that is open
    int stage = -1;
    Group open;                         // issued, not committed
    std::vector<Group> groups;          // committed, waited for by wait_group
    std::vector<uint64_t> tensor_loads; // issued, waited for by tcgen05.wait
    std::vector<Span> tensor;           // work that tcgen05.commit signals, in order
    for (const Record& r : rings_[ring]) {
      const Site& s = site(r);
      if (s.what == What::time) continue;
      const uint64_t now = time(ring, r.clock);
      switch (s.what) {
      case What::start:
        free_since = now;
        break;
      case What::end:
        add({row, free_since, now, false, stage, "work", 0, s.line});
        free_since = now;
        break;
      case What::wait:
        if (!r.end) {
          add({row, free_since, now, false, stage, "work", 0, s.line});
          begin = now;
          break;
        }
        free_since = now;
        if (s.name == "mbarrier") {
          stage = barriers_.stage(r.value);
          add({row, begin, now, true, -1, barriers_.name(r.value), 0, s.line});
        } else {
          add({row, begin, now, true, -1, s.name, 0, s.line});
          waited(cta, s, now, stage, &groups, &tensor_loads);
        }
        break;
      case What::load:
        add({unit_row(cta, loads), now, seen_after(r.value, cta, now), false,
             barriers_.stage(r.value), "load", 0, s.line});
        break;
      case What::mma:
      case What::store:
        if (open.what == What::end) open = {now, r, s.what};
        break;
      case What::tensor_load:
        tensor_loads.push_back(now);
        break;
      case What::commit:
        if (open.what == What::end) break;
        if (s.name == "tcgen05.commit")
          tensor.push_back({unit_row(cta, tensor_core), open.begin, seen_after(r.value, cta, now),
                            false, stage, site(open.first).name, 0, site(open.first).line});
        else
          groups.push_back(open);
        open = {};
        break;
      case What::barrier:
      case What::time:
        break;
      }
    }
    // A tensor core ends its work in order: nothing lasts longer than what was committed later.
    for (size_t i = tensor.size(); i-- > 1;)
      tensor[i - 1].end = std::min(tensor[i - 1].end, tensor[i].end);
    for (Span& span : tensor) add(std::move(span));
  }

  void waited(size_t cta, const Site& s, uint64_t now, int stage, std::vector<Group>* groups,
              std::vector<uint64_t>* tensor_loads) {
    if (s.name.rfind("tcgen05.wait", 0) == 0) {
      for (const uint64_t begin : *tensor_loads)
        add({unit_row(cta, tensor_memory), begin, now, false, stage, "tensor memory", 0, s.line});
      tensor_loads->clear();
      return;
    }
    if (s.name != "wgmma.wait_group" && s.name != "cp.async") return;
    const auto pending = static_cast<size_t>(std::max(s.pending, 0));
    while (groups->size() > pending) {
      const Group& group = groups->front();
      add({unit_row(cta, group.what == What::store ? stores : tensor_core), group.begin, now, false,
           stage, site(group.first).name, 0, site(group.first).line});
      groups->erase(groups->begin());
    }
  }

  const Stamped& stamped_;
  Recording result_;
  std::vector<std::vector<Record>> rings_;
  std::vector<Clock> clocks_;
  Barriers barriers_;
  // By barrier and CTA.
  std::map<uint32_t, std::map<size_t, std::vector<uint64_t>>> seen_;
  bool sorted_ = false;
};

} // namespace

Recording decode(const Stamped& stamped, const std::vector<uint8_t>& buffer, bool is_virtual) {
  return Decoder(stamped, buffer, is_virtual).run();
}

} // namespace warpline::stamps
