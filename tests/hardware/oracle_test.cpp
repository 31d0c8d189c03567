// The oracle: the same PTX on a Hopper GPU and on the virtual H200. One run of all cases, then one
// test case a family. The result table goes to build/oracle.txt, or the file WL_ORACLE_REPORT.
#include "tests/hardware/oracle_families.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using namespace wltest;
using oracle::Case;
using oracle::Outcome;
using oracle::Summary;

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> v;
    oracle::add_sync_cases(v);
    oracle::add_tensor_cases(v);
    oracle::add_copy_cases(v);
    oracle::add_wgmma_cases(v);
    oracle::add_warp_cases(v);
    oracle::add_mma_cases(v);
    oracle::add_memory_cases(v);
    oracle::add_convert_cases(v);
    oracle::add_integer_cases(v);
    oracle::add_float_cases(v);
    oracle::add_manner_cases(v);
    return v;
  }();
  return cases;
}

const Summary& summary() {
  static const Summary s = [] {
    std::string self = std::filesystem::read_symlink("/proc/self/exe");
    Summary r = oracle::run_both(all_cases(), {self, "oracle worker"});
    std::string text = oracle::table(all_cases(), r);
    text = (r.has_gpu ? "Device: " + r.device + "\n\n"
                      : "No Hopper GPU (" + r.why_not + "): the virtual H200 alone.\n\n") +
           text;
    const char* named = std::getenv("WL_ORACLE_REPORT");
    const std::string path = named != nullptr ? named : build_file("oracle.txt");
    std::ofstream(path) << text;
    std::printf("oracle: %s; its table is in %s\n",
                r.has_gpu ? ("ran on " + r.device).c_str() : "no Hopper GPU", path.c_str());
    std::fflush(stdout);
    return r;
  }();
  return s;
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void check_families(const std::vector<std::string>& families) {
  const Summary& s = summary();
  size_t seen = 0;
  for (size_t i = 0; i < all_cases().size(); ++i) {
    const Case& c = all_cases()[i];
    bool mine = false;
    for (const std::string& f : families) mine = mine || c.family == f;
    if (!mine) continue;
    ++seen;
    const Outcome& o = s.outcomes[i];
    INFO(c.family << ": " << c.name);
    INFO(o.difference);
    CHECK(o.error == "");
    if (!o.error.empty() || o.refused || c.compare == oracle::Compare::measured) continue;
    bool approximate = c.compare != oracle::Compare::bits;
    if (approximate)
      CHECK(o.difference.find("NaN on one side") == std::string::npos);
    else
      CHECK(o.difference == "");
  }
  CHECK(seen > 0);
}

} // namespace

#define ORACLE(title, ...)                                                                         \
  TEST_CASE("oracle: " title, "[hardware][oracle]") {                                              \
    check_families({__VA_ARGS__});                                                                 \
    if (!summary().has_gpu) WL_SKIP("no Hopper GPU: compared with the virtual one alone");         \
  }

ORACLE("mbarriers", "mbarrier")
ORACLE("manners of shipped kernels", "manners")
ORACLE("barriers, setmaxnreg", "named barriers", "setmaxnreg")
ORACLE("clusters", "clusters, distributed shared memory")
ORACLE("tensor copies, tile", "tensor copies, tile", "tensor multicast")
ORACLE("tensor stores", "tensor stores, reductions")
ORACLE("tensor copies, im2col", "tensor copies, im2col")
ORACLE("bulk copies", "bulk copies", "cp.async")
ORACLE("wgmma", "wgmma", "wgmma accumulation")
ORACLE("warp", "shuffles, votes, matches")
ORACLE("matrix loads, mma.sync", "matrix loads and stores", "mma.sync", "mma.sp", "wmma")
ORACLE("memory", "loads, stores, spaces", "atomics, reductions", "fences")
ORACLE("conversions", "conversions")
ORACLE("integers", "integer arithmetic", "bits, shifts, permutation", "carry chains",
       "comparison, selection", "video")
ORACLE("floats", "f32 arithmetic", "f64 arithmetic", "f16, bf16 arithmetic")
ORACLE("approximations", "approximations")

// What run_both() starts as a process of its own.
TEST_CASE("oracle worker", "[.worker]") {
  std::string directory = environment("WL_ORACLE_WORK");
  if (directory.empty()) WL_SKIP("started by hand");
  oracle::run_worker(all_cases(), directory, size_t(std::atoll(environment("WL_ORACLE_START"))),
                     std::max<size_t>(1, size_t(std::atoll(environment("WL_ORACLE_LANES")))));
  SUCCEED();
}

// Writes every PTX text to the folder WL_ORACLE_DUMP, for ptxas; index.txt names them.
TEST_CASE("oracle dump", "[.dump]") {
  std::string directory = environment("WL_ORACLE_DUMP");
  if (directory.empty()) WL_SKIP("WL_ORACLE_DUMP is not set");
  std::filesystem::create_directories(directory);
  std::ofstream index(directory + "/index.txt");
  for (size_t i = 0; i < all_cases().size(); ++i) {
    char file[32];
    std::snprintf(file, sizeof file, "%04zu.ptx", i);
    std::ofstream(directory + "/" + file) << oracle::ptx_text(all_cases()[i]);
    index << file << " " << all_cases()[i].family << ": " << all_cases()[i].name << "\n";
  }
  SUCCEED();
}
