#include "tools/bench/timing.hpp"

#include "tools/bench/problem.hpp"

#include <algorithm>

namespace bench {

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

Interval::Interval(const cuapi::Functions& cu, cuapi::CUstream stream) : cu_(cu), stream_(stream) {
  if (!cu.EventCreate || !cu.EventRecord || !cu.EventSynchronize || !cu.EventElapsedTime ||
      !cu.EventDestroy)
    die("the driver lacks events");
  require(cu.EventCreate(&start_, 0), "cuEventCreate");
  require(cu.EventCreate(&end_, 0), "cuEventCreate");
}

Interval::~Interval() {
  cu_.EventDestroy(start_);
  cu_.EventDestroy(end_);
}

void Interval::start() { require(cu_.EventRecord(start_, stream_), "cuEventRecord"); }

double Interval::stop() {
  float milliseconds = 0;
  require(cu_.EventRecord(end_, stream_), "cuEventRecord");
  require(cu_.EventSynchronize(end_), "cuEventSynchronize");
  require(cu_.EventElapsedTime(&milliseconds, start_, end_), "cuEventElapsedTime");
  return milliseconds * 1e3;
}

} // namespace bench
