// Which lines of a kernel's PTX ran, and which ways its branches went: over all launches that it is
// given to. Statements of functions that several entries call count for each entry.
#pragma once

#include "tools/vgpu/exec/inst.hpp"

#include <cstdint>
#include <istream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vgpu::trace {

class Coverage {
public:
  struct Cell {
    uint64_t ran = 0;     // by some lane
    uint64_t skipped = 0; // by some lane, whose guard did not hold
  };
  struct Item {          // a statement
    bool branch = false; // that has a guard
    Cell cell;
    bool reached() const { return cell.ran + cell.skipped != 0; }
    // What did not happen: "never reached", "never taken", "always taken", "its guard never held";
    // "" when nothing is left out.
    const char* missing() const;
  };
  struct Kernel {
    std::string name;
    std::vector<std::string> lines; // of its module
    // By line, from 1, and place in it.
    std::map<std::pair<int, int>, Item> items;
  };

  // Of one cluster, by pc.
  void add(const exec::Program& program, const std::vector<Cell>& cells);
  // What counts() wrote, of this process or another: adds up. "" or what is wrong.
  std::string add(std::istream& counts);

  // A kernel is its name and its text: other texts of the same name are kernels of their own.
  const std::vector<Kernel>& kernels() const { return kernels_; }
  // For each kernel how much ran, and the lines that did not.
  std::string text() const;
  // The PTX with a column of counts: "-" never run, "+" and "!" branches that went one way only.
  std::string listing(const std::string& kernel) const;
  // All of it, for add().
  std::string counts() const;
  // PREFIX.txt with the text, PREFIX.KERNEL.ptx with listings, PREFIX.counts; a prefix that ends in
  // ".counts" is the name of that file, and there are no others. "%" in it: the process's number.
  // "" or what went wrong.
  std::string write(std::string prefix) const;

private:
  Kernel& kernel(const std::string& name, const std::vector<std::string>& lines);

  mutable std::mutex mutex_;
  std::vector<Kernel> kernels_;
};

} // namespace vgpu::trace
