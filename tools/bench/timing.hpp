// Time on the host and on the device.
#pragma once

#include "runtime/src/cuda_api.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace bench {

template <class Body>
double microseconds_of(const Body& body) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> values);

// Microseconds a call, of each of `count` batches of `calls`; `wait` lets the device end its work
// before each and after the last. Three batches ahead of them do not count.
template <class Wait, class Call>
std::vector<double> batches(int64_t count, int64_t calls, const Wait& wait, const Call& call) {
  std::vector<double> times;
  for (int64_t batch = -3; batch < count; ++batch) {
    wait();
    const double time = microseconds_of([&] {
      for (int64_t i = 0; i < calls; ++i) call();
    });
    if (batch >= 0) times.push_back(time / static_cast<double>(calls));
  }
  wait();
  return times;
}

// Two events around work in a stream. The context is current.
class Interval {
public:
  Interval(const cuapi::Functions& cu, cuapi::CUstream stream);
  ~Interval();
  Interval(const Interval&) = delete;
  Interval& operator=(const Interval&) = delete;

  void start();
  double stop(); // waits; microseconds since start()

private:
  const cuapi::Functions& cu_;
  cuapi::CUstream stream_;
  cuapi::CUevent start_ = nullptr, end_ = nullptr;
};

} // namespace bench
