#include "tools/vgpu/exec/policy.hpp"

#include "tools/vgpu/exec/cluster.hpp"
#include "tools/vgpu/exec/explore.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace vgpu::exec {

namespace {

constexpr uint32_t kWarpTier = 0, kStarvedTier = 1, kLazyTier = 2;
constexpr uint32_t kQuantum = 4096;

class Generator { // splitmix64
public:
  Generator(uint64_t seed, uint64_t cluster) : state_(seed * 0x9E3779B97F4A7C15ull + cluster) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

private:
  uint64_t state_;
};

class EagerPolicy : public Policy {
public:
  bool immediate() const override { return true; }
  When op_when(const AsyncOp&, uint64_t) override { return {kWarpTier, 0, 0}; }
  When warp_when(const Warp&, uint64_t now) override { return {kWarpTier, now, 0}; }
  uint32_t quantum(const Warp&) override { return kQuantum; }
};

// Operations complete when no warp can run, the oldest first, or the newest.
class LazyPolicy : public Policy {
public:
  explicit LazyPolicy(bool newest_first) : newest_first_(newest_first) {}
  When op_when(const AsyncOp& op, uint64_t) override {
    return {kLazyTier, newest_first_ ? ~op.id : op.id, 0};
  }
  When warp_when(const Warp&, uint64_t now) override { return {kWarpTier, now, 0}; }
  bool false_first() const override { return true; }
  uint32_t quantum(const Warp&) override { return kQuantum; }

private:
  bool newest_first_;
};

// One warp of every CTA runs only when nothing else can: it lags as far behind as the barriers let
// it.
class StarvePolicy : public Policy {
public:
  explicit StarvePolicy(uint64_t warp) : warp_(warp) {}
  When op_when(const AsyncOp&, uint64_t now) override { return {kWarpTier, now, 0}; }
  When warp_when(const Warp& warp, uint64_t now) override {
    bool starved = warp.index == warp_ % warp.cta.warps.size();
    return {starved ? kStarvedTier : kWarpTier, now, 0};
  }
  bool false_first() const override { return true; }
  uint32_t quantum(const Warp& warp) override {
    // The starved one runs on while others do nothing but spin on memory.
    const bool starved = warp.index == warp_ % warp.cta.warps.size();
    return starved && !warp.cta.cluster.polls() ? 1 : kQuantum;
  }

private:
  uint64_t warp_;
};

class RandomPolicy : public Policy {
public:
  RandomPolicy(uint64_t seed, uint64_t cluster) : random_(seed, cluster) {}
  // Delays span several orders of magnitude, so that some operations overtake whole stages.
  When op_when(const AsyncOp&, uint64_t now) override {
    uint32_t bits = random_.next() % 15;
    return {kWarpTier, now + random_.next() % (1ull << bits), 0};
  }
  When warp_when(const Warp&, uint64_t now) override {
    return {kWarpTier, now + random_.next() % 64, 0};
  }
  uint32_t quantum(const Warp&) override { return 1u << random_.next() % 9; }
  bool spurious_false() override { return random_.next() % 16 == 0; }
  uint32_t first_lanes(uint32_t mask) override {
    const uint64_t bits = random_.next();
    const uint32_t part = mask & static_cast<uint32_t>(bits);
    return bits >> 63 && part ? part : mask;
  }

private:
  Generator random_;
};

// Operations complete soon, but for some that are held until nothing else can happen, and then the
// newest of them goes: an old one stays behind for as long as the rest can do without it. Held are
// half of what a quarter of the instructions issue: few enough for the rest to get far ahead.
class HoldPolicy : public Policy {
public:
  HoldPolicy(uint64_t seed, uint64_t cluster) : seed_(seed), random_(seed, cluster) {}
  When op_when(const AsyncOp& op, uint64_t now) override {
    const bool may = Generator(seed_, op.origin.inst->pc + 1).next() % 4 == 0;
    if (!may || random_.next() % 2 != 0) return {kWarpTier, now, 0};
    return {kLazyTier, ~op.id, 0};
  }
  When warp_when(const Warp&, uint64_t now) override { return {kWarpTier, now, 0}; }
  bool false_first() const override { return true; }
  uint32_t quantum(const Warp&) override { return kQuantum; }

private:
  uint64_t seed_;
  Generator random_;
};

// The CTAs of a cluster start at different times, some of them not before the rest can do nothing
// without them.
class StaggerPolicy : public Policy {
public:
  StaggerPolicy(uint64_t seed, uint64_t cluster) : seed_(seed), random_(seed, cluster) {}
  bool staggers() const override { return true; }
  When op_when(const AsyncOp&, uint64_t now) override { return {kWarpTier, now, 0}; }
  When warp_when(const Warp& warp, uint64_t now) override {
    if (warp.cta.started) return {kWarpTier, now + random_.next() % 16, 0};
    // The same for all warps of the CTA.
    const uint64_t bits = Generator(seed_, warp.cta.cluster.index << 8 | warp.cta.rank).next();
    if (bits >> 63) return {kStarvedTier, bits % 16, 0};
    return {kWarpTier, bits % (1ull << (bits >> 8) % 15), 0};
  }
  bool false_first() const override { return true; }
  uint32_t quantum(const Warp&) override { return 1u << random_.next() % 13; }

private:
  uint64_t seed_;
  Generator random_;
};

class ExplorePolicy : public Policy {
public:
  explicit ExplorePolicy(std::vector<uint64_t> late) : late_(std::move(late)) {}
  When op_when(const AsyncOp&, uint64_t now) override {
    return {is_late() ? kLazyTier : kWarpTier, now, 0};
  }
  When warp_when(const Warp&, uint64_t now) override {
    const bool late = std::exchange(preempted_, false) || is_late();
    return {late ? kStarvedTier : kWarpTier, now, 0};
  }
  uint32_t quantum(const Warp&) override { return kQuantum; }
  bool preempts() override { return preempted_ = is_late(); }
  uint64_t points() const override { return points_; }

private:
  bool is_late() { return std::binary_search(late_.begin(), late_.end(), points_++); }
  std::vector<uint64_t> late_; // sorted
  uint64_t points_ = 0;
  bool preempted_ = false; // the warp that is enqueued next was
};

} // namespace

std::unique_ptr<Policy> make_policy(const std::string& text, uint64_t cluster_index,
                                    std::string* error) {
  if (text == "eager") return std::make_unique<EagerPolicy>();
  if (text == "lazy" || text == "reverse") return std::make_unique<LazyPolicy>(text == "reverse");
  Exploration explore;
  if (parse_exploration(text, explore)) return std::make_unique<ExplorePolicy>(explore.late);
  for (const std::string prefix : {"random:", "starve:", "hold:", "stagger:"}) {
    if (text.rfind(prefix, 0) != 0 || text.size() == prefix.size()) continue;
    char* end = nullptr;
    errno = 0;
    uint64_t number = std::strtoull(text.c_str() + prefix.size(), &end, 10);
    if (errno != 0 || *end != 0 || text[prefix.size()] == '-') break;
    if (prefix == "starve:") return std::make_unique<StarvePolicy>(number);
    if (prefix == "hold:") return std::make_unique<HoldPolicy>(number, cluster_index);
    if (prefix == "stagger:") return std::make_unique<StaggerPolicy>(number, cluster_index);
    return std::make_unique<RandomPolicy>(number, cluster_index);
  }
  if (error)
    *error = "schedule \"" + text +
             "\" is not known; the choices are eager, lazy, reverse, random:SEED, "
             "starve:WARP, hold:SEED, stagger:SEED, explore:RUNS and explore:@POINT,POINT... "
             "(decimal numbers)";
  return nullptr;
}

} // namespace vgpu::exec
