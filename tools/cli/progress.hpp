// A line on stderr while something takes long. On a terminal the line is rewritten five times a
// second and removed at the end; elsewhere a line appears after two seconds and then every ten, so
// that logs of short runs stay empty. Where no thread can be made the line comes with fraction().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

namespace warpline::cli {

class Progress {
public:
  explicit Progress(std::string what)
      : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0),
        next_(terminal_ ? 0.2 : 2.0) {
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::exception&) { // no thread, or no memory for one
    }
  }
  ~Progress() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
    if (terminal_) std::fputs("\r\033[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // 0..1; never called = unknown, then only the time is shown
  void fraction(double value) {
    fraction_ = value;
    if (!thread_.joinable() && seconds() >= next_) print();
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::string what_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<double> fraction_{-1};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  double next_;        // second of the next line
  std::thread thread_; // last: it uses the members above

  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto when = start_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                     std::chrono::duration<double>(next_));
      if (wake_.wait_until(lock, when, [this] { return done_; })) return;
      print();
    }
  }

  void print() {
    next_ = seconds() + (terminal_ ? 0.2 : 10.0);
    const double done = fraction_;
    std::fprintf(stderr, "%s%s ", terminal_ ? "\r\033[K" : "", what_.c_str());
    if (done >= 0) std::fprintf(stderr, "%3.0f %%, ", 100 * done);
    std::fprintf(stderr, "%.1f s%s", seconds(), terminal_ ? "" : "\n");
    std::fflush(stderr);
  }
};

} // namespace warpline::cli
