// What roles and asynchronous units did and waited for, on some clock, and its two forms. Recorded
// by the virtual GPU (timeline.hpp) or by stamps in a kernel (tools/stamps).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu::trace {

// A coloured piece of a row. Colours are stages: the place of the barrier among those of its kind
// that the work waited for or completes on; -1 when there is none.
struct Span {
  uint32_t row = 0;
  uint64_t begin = 0, end = 0;
  bool wait = false;
  int stage = -1;
  std::string name; // of a barrier for waits, of an operation for operations
  uint32_t pc = 0;
  int line = 0; // of pc
};

struct Row {
  std::string name;
  uint32_t cta = 0;
};

struct Recording {
  std::vector<Row> rows;
  std::vector<Span> spans;
  uint64_t end = 0;
  bool truncated = false; // more spans than are kept
  // The clock: its unit, the unit's microseconds in Chrome's format, and a sentence on it.
  const char* unit = "ticks";
  double microseconds = 1;
  std::string clock = "Ticks of a causal clock: order, overlap and waiting, no time of a device.";
};

// Drops the rows that no span is in.
void keep_used_rows(Recording* recording);

// Chrome's trace format (also read by Perfetto), and a picture that needs nothing else.
std::string to_chrome_json(const Recording& recording, const std::string& title);
std::string to_svg(const Recording& recording, const std::string& title);
// Writes STEM.json and STEM.svg; "" or what is wrong.
std::string write_files(const Recording& recording, const std::string& title,
                        const std::string& stem);

} // namespace vgpu::trace
