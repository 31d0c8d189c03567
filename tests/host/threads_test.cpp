// Where the system gives no thread, what would use one goes on without.
#include "tests/reference/dual_gemm.hpp"
#include "tests/support/catch.hpp"
#include "tools/cli/progress.hpp"

#include <new>
#include <pthread.h>

namespace {

// Every thread asks for more stack than there are addresses.
class NoThreads {
public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 48);
    set_ = pthread_setattr_default_np(&huge) == 0;
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  bool hold() const {
    try {
      std::thread([] {}).join();
      return false;
    } catch (const std::system_error&) {
      return set_;
    }
  }

private:
  pthread_attr_t before_;
  bool set_;
};

} // namespace

TEST_CASE("the reference is the same without threads", "[host][threads]") {
  const wltest::Problem p = wltest::make_problem(9, 72, 128, 2, wltest::InputKind::full_range, 5);
  const wltest::Sums with = wltest::accumulate(p, 3);
  const NoThreads none;
  REQUIRE(none.hold());
  const wltest::Sums without = wltest::accumulate(p, 3);
  CHECK(with.acc1 == without.acc1);
  CHECK(with.acc2 == without.acc2);
}

TEST_CASE("what a thread of the reference throws reaches the caller", "[host][threads]") {
  const wltest::Problem p = wltest::make_problem(9, 720, 128, 2, wltest::InputKind::full_range, 5);
  for (const int threads : {1, 4})
    for (const double when : {0.0, 0.5})
      CHECK_THROWS_AS(wltest::accumulate(p, threads,
                                         [&](double fraction) {
                                           if (fraction > when) throw std::bad_alloc();
                                         }),
                      std::bad_alloc);
}

TEST_CASE("progress goes on without a thread", "[host][threads]") {
  const NoThreads none;
  REQUIRE(none.hold());
  warpline::cli::Progress progress("nothing");
  progress.fraction(0.5);
  CHECK(progress.seconds() >= 0);
}
