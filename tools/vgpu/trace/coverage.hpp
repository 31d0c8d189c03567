// Which lines of a kernel's PTX ran, and which ways its branches went: over all launches that it is
// given to. Statements of functions that several entries call count for each entry.
#pragma once

#include "tools/vgpu/exec/inst.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace vgpu::trace {

class Coverage {
public:
  struct Cell {
    uint64_t ran = 0;     // by some lane
    uint64_t skipped = 0; // by some lane, whose guard did not hold
  };
  // Of one cluster, by pc.
  void add(const exec::Program& program, const std::vector<Cell>& cells);

  // For each kernel how much ran, and the lines that did not.
  std::string text() const;
  // The PTX with a column of counts: "-" never run, "+" and "!" branches that went one way only.
  std::string listing(const std::string& kernel) const;
  // PREFIX.txt with the text, PREFIX.KERNEL.ptx with listings; "" or what went wrong.
  std::string write(const std::string& prefix) const;

private:
  struct Item {
    int line = 0;
    bool branch = false; // that has a guard
    Cell cell;
  };
  struct Kernel {
    std::vector<std::string> lines;
    std::map<const void*, Item> items; // by statement
  };
  std::string describe(const std::string& name, const Kernel& kernel) const;

  mutable std::mutex mutex_;
  std::map<std::string, Kernel> kernels_;
};

} // namespace vgpu::trace
