// main() of every test binary. Its last line is "N passed, N failed, N skipped", counted in test
// cases. The counts also go to the file that WL_TEST_COUNTS names, for tests/run_suites.sh.
// The exit status is 0 only when at least one test case ran and none failed; a test case without an
// assertion fails, and so does a test specification that matches nothing.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#endif
#include "tests/support/catch.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace wltest {
namespace {

struct Counts {
  bool ran = false;
  int passed = 0, failed = 0, skipped = 0;
  bool skip_noted = false;
  std::map<std::string, int> reasons;
};

Counts& counts() {
  static Counts instance;
  return instance;
}

#if WL_CATCH_VERSION == 3
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

class CountingListener : public ListenerBase {
public:
  using ListenerBase::ListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override { counts().ran = true; }
  void testCaseStarting(const Catch::TestCaseInfo&) override { counts().skip_noted = false; }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (stats.totals.testCases.failed > 0)
      ++counts().failed;
    else if (counts().skip_noted)
      ++counts().skipped;
    else
      ++counts().passed;
  }
};

CATCH_REGISTER_LISTENER(CountingListener)

} // namespace

void note_skip(const std::string& reason) {
  counts().skip_noted = true;
  ++counts().reasons[reason];
}

} // namespace wltest

int main(int argc, char** argv) {
  Catch::Session session;
  int status = session.applyCommandLine(argc, argv);
  if (status != 0) return status;
#if WL_CATCH_VERSION == 3
  session.configData().warnings = static_cast<Catch::WarnAbout::What>(
      Catch::WarnAbout::NoAssertions | Catch::WarnAbout::UnmatchedTestSpec);
#else
  session.configData().warnings = static_cast<Catch::WarnAbout::What>(
      Catch::WarnAbout::NoAssertions | Catch::WarnAbout::NoTests);
#endif
  status = session.run();
  const wltest::Counts& counts = wltest::counts();
  if (!counts.ran) return status; // a listing
  if (counts.failed > 0 && status == 0) status = 1;
  if (counts.passed + counts.failed + counts.skipped == 0 && status == 0) status = 2;
  for (const auto& [reason, times] : counts.reasons)
    std::printf("skipped %d: %s\n", times, reason.c_str());
  if (const char* path = std::getenv("WL_TEST_COUNTS")) {
    std::FILE* file = std::fopen(path, "w");
    if (!file) {
      std::fprintf(stderr, "WL_TEST_COUNTS=%s cannot be written\n", path);
      return 1;
    }
    std::fprintf(file, "%d %d %d\n", counts.passed, counts.failed, counts.skipped);
    std::fclose(file);
  }
  std::printf("%d passed, %d failed, %d skipped\n", counts.passed, counts.failed, counts.skipped);
  return status;
}
