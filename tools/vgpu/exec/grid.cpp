// A launch: checks its shape, and runs the clusters of the grid on the host's threads.
#include "tools/vgpu/check/grid_races.hpp"
#include "tools/vgpu/check/hub.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/check/traits.hpp"
#include "tools/vgpu/exec/explore.hpp"

#include <atomic>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace vgpu::exec {

namespace {
uint64_t volume(const std::array<uint32_t, 3>& v) { return uint64_t(v[0]) * v[1] * v[2]; }
std::string text(const std::array<uint32_t, 3>& v) {
  return std::to_string(v[0]) + " x " + std::to_string(v[1]) + " x " + std::to_string(v[2]);
}
// Turns of idle polls after which a cluster lets others of its thread run.
constexpr uint64_t kSlice = 16;
// Turns of agents after which clusters that may talk to each other take turns: under the race
// checker, and where a cluster that spins on memory must not keep the others out for ever.
constexpr uint64_t kTurns = 512, kSpinTurns = 1 << 11;
// hold:SEED holds cluster i back where bit i modulo 8 of SEED is set: it gets a quarter of the
// turns, so that what does not wait for it comes first.
uint64_t turns_of(const LaunchSpec& spec, uint64_t cluster, uint64_t turns) {
  if (turns == 0 || spec.schedule.rfind("hold:", 0) != 0) return turns;
  const uint64_t seed = std::strtoull(spec.schedule.c_str() + 5, nullptr, 10);
  return (seed >> cluster % 8 & 1) != 0 ? turns / 4 : turns;
}
} // namespace

std::string check_launch(const LaunchSpec& s) {
  const Program& p = *s.program;
  const Profile& d = *s.profile;
  if (volume(s.grid) == 0 || s.grid[0] > 0x7FFFFFFF || s.grid[1] > 65535 || s.grid[2] > 65535)
    return "grid " + text(s.grid) + " must lie within 1..2147483647 x 1..65535 x 1..65535";
  if (volume(s.block) == 0 || volume(s.block) > 1024 || s.block[0] > 1024 || s.block[1] > 1024 ||
      s.block[2] > 64)
    return "block " + text(s.block) + " must have 1 to 1024 threads (z at most 64)";
  for (int i = 0; i < 3; ++i) {
    if (s.cluster[i] == 0 || s.grid[i] % s.cluster[i])
      return "grid " + text(s.grid) + " must be a multiple of the cluster " + text(s.cluster);
    if (p.reqntid[i] && p.reqntid[i] != s.block[i])
      return "block " + text(s.block) + " differs from the kernel's .reqntid";
    if (p.reqcluster[i] && p.reqcluster[i] != s.cluster[i])
      return "cluster " + text(s.cluster) + " differs from the kernel's .reqnctapercluster";
  }
  uint64_t most = uint64_t(std::max(1u, p.maxntid[0])) * std::max(1u, p.maxntid[1]) *
                  std::max(1u, p.maxntid[2]);
  if (p.maxntid[0] && volume(s.block) > most)
    return "block " + text(s.block) + " has more threads than the kernel's .maxntid of " +
           std::to_string(most);
  if (volume(s.cluster) > static_cast<uint64_t>(d.max_cluster_nonportable))
    return "cluster " + text(s.cluster) + " is larger than the device's limit of " +
           std::to_string(d.max_cluster_nonportable) + " CTAs";
  if (p.maxclusterrank && volume(s.cluster) > p.maxclusterrank)
    return "cluster " + text(s.cluster) + " is larger than the kernel's .maxclusterrank of " +
           std::to_string(p.maxclusterrank);
  uint64_t shared = uint64_t(p.dynamic_shared_offset) - kSharedBase + s.dynamic_shared;
  if (shared > static_cast<uint64_t>(d.shared_per_block))
    return "shared memory of " + std::to_string(shared) + " bytes is more than the device's " +
           std::to_string(d.shared_per_block) + " per CTA";
  // Without any of these directives the compiler may give a kernel fewer registers than the most.
  const bool bounded = p.maxntid[0] || p.reqntid[0] || p.maxnreg;
  if (bounded && uint64_t(p.entry_registers) * ((volume(s.block) + 31) / 32 * 32) > 65536)
    return "block " + text(s.block) + " needs more than 65536 registers at " +
           std::to_string(p.entry_registers) + " per thread";
  if (s.params.size() != p.param_bytes)
    return "parameters of " + std::to_string(s.params.size()) + " bytes; the kernel takes " +
           std::to_string(p.param_bytes);
  return "";
}

namespace {

// One run, under one schedule.
Stats run_once(const LaunchSpec& given) {
  LaunchSpec spec = given;
  check::GridRaces grid_races;
  if (spec.checks & check::kRaces) spec.grid_races = &grid_races;
  std::string wrong = check_launch(spec);
  if (!wrong.empty()) throw Fault(FaultCode::launch_failed, "launch", "vgpu: launch: " + wrong);
  if (spec.checks || spec.coverage || !spec.trace.empty() || spec.count)
    spec.facts = check::facts_of(*spec.program);
  uint64_t count = volume(spec.grid) / volume(spec.cluster);
  unsigned threads = spec.host_threads ? spec.host_threads : std::thread::hardware_concurrency();
  // The race checker follows flags between clusters: each access and what it means for the order of
  // others are one step, and a run is the same every time.
  const bool talk = check::talks_between_clusters(*spec.program),
             followed = talk && spec.grid_races;
  // Who gets the heap's last bytes depends on the order of the clusters.
  if (followed || spec.program->uses_heap) threads = 1;
  threads = static_cast<unsigned>(std::min<uint64_t>(std::max(1u, threads), count));

  LaunchQueue queue(count);
  std::atomic<bool> stop{false};
  std::mutex mutex;
  Stats total;
  std::exception_ptr failure;
  uint64_t failed_cluster = ~0ull;

  auto worker = [&] {
    uint64_t current = 0;
    std::unique_ptr<Cluster> c;
    std::deque<std::unique_ptr<Cluster>> waiting; // that others' work has to come before
    Stats mine;
    try {
      size_t idle = 0; // clusters in a row that only polled
      while (!stop) {
        uint64_t i = 0;
        // As many as the device has room for at least; more when all of them wait for another.
        const bool room = waiting.size() < static_cast<size_t>(spec.profile->sm_count);
        if ((room || idle >= waiting.size()) && queue.take(i)) {
          current = i;
          c = std::make_unique<Cluster>(spec, i, &queue);
        } else if (!waiting.empty()) {
          c = std::move(waiting.front());
          waiting.pop_front();
          current = c->index;
        } else {
          break;
        }
        const uint64_t turns = followed ? kTurns : talk ? kSpinTurns : 0;
        const bool over = c->run(kSlice, turns_of(spec, c->index, turns));
        idle = !over && c->polls() ? idle + 1 : 0;
        if (over) {
          mine.add(c->stats);
          c.reset();
        } else {
          waiting.push_back(std::move(c));
        }
      }
      std::lock_guard lock(mutex);
      total.add(mine);
    } catch (...) {
      if (c) mine.add(c->stats);
      for (const auto& left : waiting) mine.add(left->stats);
      std::lock_guard lock(mutex);
      total.add(mine);
      // The lowest cluster's failure is reported, so that a report does not depend on the threads.
      if (!failure || current < failed_cluster) {
        failure = std::current_exception();
        failed_cluster = current;
      }
      stop = true;
    }
  };

  // The calling thread works too, so that a host that gives no more threads (RLIMIT_NPROC, or no
  // room for a stack) makes the launch slower and nothing else.
  {
    std::vector<std::jthread> pool; // joined here
    pool.reserve(threads - 1);
    try {
      while (pool.size() + 1 < threads) pool.emplace_back(worker);
    } catch (const std::system_error&) {
    }
    worker();
  }
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (Fault& f) {
      for (const auto& [place, t] : total.told) f.told.emplace_back(place, t.full());
      throw;
    }
  }
  if (spec.uses) grid_races.add_to(*spec.uses);
  return total;
}

} // namespace

Stats run_grid(const LaunchSpec& spec) {
  Exploration e;
  if (parse_exploration(spec.schedule, e) && e.runs > 0) return explore(spec, e.runs, run_once);
  return run_once(spec);
}

} // namespace vgpu::exec
