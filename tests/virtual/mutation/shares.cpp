#include "tests/virtual/mutation/shares.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace wltest {

namespace {

// As many runs as a kernel costs before its first mutant.
constexpr double kRunsAhead = 8;

// "gemm_sm90" of "gemm_sm90_t32_f16".
std::string family_of(const std::string& kernel) {
  const size_t at = kernel.find("_sm");
  return kernel.substr(0, std::min(kernel.find('_', at + 1), kernel.size()));
}

} // namespace

std::vector<size_t> share_out(std::vector<Share>& kernels, bool all,
                              const std::vector<std::string>& whole) {
  std::unordered_map<uint64_t, size_t> judge; // by identity
  std::unordered_set<uint64_t> free;          // without a reason to survive, in some kernel
  std::vector<std::vector<bool>> excused(kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k)
    for (const Mutant& m : kernels[k].mutants) {
      excused[k].push_back(!equivalent_reason(kernels[k].kernel, m).empty());
      if (!excused[k].back()) free.insert(m.identity);
    }
  const auto may = [&](size_t k, size_t i) {
    return !excused[k][i] || free.count(kernels[k].mutants[i].identity) == 0;
  };
  for (size_t k = 0; k < kernels.size(); ++k)
    for (size_t i = 0; i < kernels[k].mutants.size(); ++i)
      if (kernels[k].told[i] && may(k, i)) judge.emplace(kernels[k].mutants[i].identity, k);
  std::vector<bool> taken(kernels.size(), false);
  for (;;) {
    size_t best = kernels.size();
    double most = 0;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (taken[k]) continue;
      std::set<uint64_t> fresh;
      for (size_t i = 0; i < kernels[k].mutants.size(); ++i)
        if (may(k, i) && judge.count(kernels[k].mutants[i].identity) == 0)
          fresh.insert(kernels[k].mutants[i].identity);
      const double count = static_cast<double>(fresh.size());
      const double gain = count / (kernels[k].work * (count + kRunsAhead));
      if (gain > most) most = gain, best = k;
    }
    if (best == kernels.size()) break;
    taken[best] = true;
    for (size_t i = 0; i < kernels[best].mutants.size(); ++i)
      if (may(best, i)) judge.emplace(kernels[best].mutants[i].identity, best);
  }
  std::vector<size_t> order;
  for (size_t k = 0; k < kernels.size(); ++k) {
    Share& s = kernels[k];
    const bool own = all || std::find(whole.begin(), whole.end(), s.kernel) != whole.end();
    std::unordered_set<uint64_t> met; // of places that a kernel has twice, the first is judged
    s.judge.clear(), s.here.clear();
    for (size_t i = 0; i < s.mutants.size(); ++i) {
      const uint64_t id = s.mutants[i].identity;
      s.judge.push_back(own || s.told[i] ? k : judge.at(id));
      s.here.push_back(s.judge[i] == k && (met.insert(id).second || own || s.told[i]));
    }
    if (std::find(s.here.begin(), s.here.end(), true) != s.here.end()) order.push_back(k);
  }
  std::set<std::string> families;
  std::stable_partition(order.begin(), order.end(), [&](size_t k) {
    return families.insert(family_of(kernels[k].kernel)).second;
  });
  return order;
}

} // namespace wltest
