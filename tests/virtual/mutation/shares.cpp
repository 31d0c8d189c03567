#include "tests/virtual/mutation/shares.hpp"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace wltest {

namespace {

// As many runs as a kernel costs before its first mutant.
constexpr double kRunsAhead = 4;

// "gemm_sm90" of "gemm_sm90_t32_f16".
std::string family_of(const std::string& kernel) {
  const size_t at = kernel.find("_sm");
  return kernel.substr(0, std::min(kernel.find('_', at + 1), kernel.size()));
}

using Key = uint64_t Mutant::*; // identity or site

// Which mutants may judge their key: those without a reason to survive, or all, where every kernel
// has a reason.
class Judges {
public:
  Judges(const std::vector<Share>& kernels, Key key) : kernels_(kernels), key_(key) {
    for (const Share& k : kernels) {
      excused_.emplace_back();
      for (const Mutant& m : k.mutants) {
        excused_.back().push_back(!equivalent_reason(k.kernel, m).empty());
        if (!excused_.back().back()) free_.insert(m.*key);
      }
    }
  }
  bool may(size_t k, size_t i) const {
    return !excused_[k][i] || free_.count(kernels_[k].mutants[i].*key_) == 0;
  }

private:
  const std::vector<Share>& kernels_;
  Key key_;
  std::vector<std::vector<bool>> excused_;
  std::unordered_set<uint64_t> free_;
};

// Gives every key that has no judge one; calls take(kernel, mutant) for it. Kernels that judge most
// for their work come first; that only falls while others are taken.
template <class Take>
void choose(const std::vector<Share>& kernels, const Judges& judges, Key key,
            const std::unordered_map<uint64_t, size_t>& judge, Take&& take) {
  const auto gain = [&](size_t k) {
    std::unordered_set<uint64_t> fresh;
    for (size_t i = 0; i < kernels[k].mutants.size(); ++i) {
      const uint64_t id = kernels[k].mutants[i].*key;
      if (judge.count(id) == 0 && judges.may(k, i)) fresh.insert(id);
    }
    const double count = static_cast<double>(fresh.size());
    return count / (kernels[k].work * (count + kRunsAhead));
  };
  using Candidate = std::pair<double, size_t>; // gain; kernels in their order where it is equal
  const auto worse = [](const Candidate& a, const Candidate& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(worse)> queue(worse);
  for (size_t k = 0; k < kernels.size(); ++k) queue.emplace(gain(k), k);
  while (!queue.empty() && queue.top().first > 0) {
    const size_t k = queue.top().second;
    queue.pop();
    const Candidate now{gain(k), k};
    if (!queue.empty() && worse(now, queue.top())) {
      queue.push(now);
      continue;
    }
    for (size_t i = 0; i < kernels[k].mutants.size(); ++i)
      if (judge.count(kernels[k].mutants[i].*key) == 0 && judges.may(k, i)) take(k, i);
  }
}

} // namespace

Turns share_out(std::vector<Share>& kernels, bool all, const std::vector<std::string>& whole) {
  const Judges of_places(kernels, &Mutant::identity), of_sites(kernels, &Mutant::site);
  std::unordered_map<uint64_t, size_t> judge, site_judge; // by identity, by site
  for (size_t k = 0; k < kernels.size(); ++k) {
    Share& s = kernels[k];
    s.ahead.assign(s.mutants.size(), false);
    for (size_t i = 0; i < s.mutants.size(); ++i) {
      if (!s.told[i]) continue;
      if (of_places.may(k, i)) judge.emplace(s.mutants[i].identity, k);
      if (of_sites.may(k, i)) site_judge.emplace(s.mutants[i].site, k);
    }
  }
  Turns turns;
  choose(kernels, of_sites, &Mutant::site, site_judge, [&](size_t k, size_t i) {
    const Mutant& m = kernels[k].mutants[i];
    site_judge.emplace(m.site, k);
    judge.emplace(m.identity, k);
    kernels[k].ahead[i] = true;
    if (turns.ahead.empty() || turns.ahead.back() != k) turns.ahead.push_back(k);
  });
  choose(kernels, of_places, &Mutant::identity, judge,
         [&](size_t k, size_t i) { judge.emplace(kernels[k].mutants[i].identity, k); });
  for (size_t k = 0; k < kernels.size(); ++k) {
    Share& s = kernels[k];
    const bool own = all || std::find(whole.begin(), whole.end(), s.kernel) != whole.end();
    std::unordered_set<uint64_t> met; // of places that a kernel has twice, the first is judged
    s.judge.clear(), s.here.clear();
    for (size_t i = 0; i < s.mutants.size(); ++i) {
      const uint64_t id = s.mutants[i].identity;
      s.judge.push_back(own || s.told[i] || s.ahead[i] ? k : judge.at(id));
      s.here.push_back(s.judge[i] == k &&
                       (met.insert(id).second || own || s.told[i] || s.ahead[i]));
    }
    if (std::find(s.here.begin(), s.here.end(), true) != s.here.end()) turns.all.push_back(k);
  }
  std::set<std::string> families;
  std::stable_partition(turns.all.begin(), turns.all.end(), [&](size_t k) {
    return families.insert(family_of(kernels[k].kernel)).second;
  });
  return turns;
}

SiteCounts count_sites(const std::vector<Share>& kernels,
                       const std::vector<std::vector<bool>>& judged) {
  const Judges judges(kernels, &Mutant::site);
  std::unordered_set<uint64_t> all, done;
  for (size_t k = 0; k < kernels.size(); ++k)
    for (size_t i = 0; i < kernels[k].mutants.size(); ++i) {
      all.insert(kernels[k].mutants[i].site);
      if (judged[k][i] && judges.may(k, i)) done.insert(kernels[k].mutants[i].site);
    }
  SiteCounts counts{all.size(), done.size(), {}};
  for (const Share& s : kernels) {
    std::unordered_set<uint64_t> open;
    for (const Mutant& m : s.mutants)
      if (done.count(m.site) == 0) open.insert(m.site);
    counts.open.push_back(open.size());
  }
  return counts;
}

} // namespace wltest
