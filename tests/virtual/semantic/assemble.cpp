#include "tests/virtual/semantic/assemble.hpp"

#include "tests/support/child.hpp"

#include <unistd.h>

#include <fstream>
#include <sstream>

namespace wltest {

namespace {

const std::string& ptxas() {
  static const std::string path = [] {
    std::string said = run_child({"tools/find_ptxas.sh"}).out;
    return said.substr(0, said.find('\n'));
  }();
  return path;
}

std::string target_of(const std::string& ptx) {
  const std::string directive = ".target ";
  const size_t at = ptx.find(directive);
  if (at == std::string::npos) return "";
  return ptx.substr(at + directive.size(),
                    ptx.find_first_of(", \n", at + directive.size()) - at - directive.size());
}

} // namespace

std::string machine_code(const std::string& ptx) {
  if (ptxas().empty()) return "";
  const std::string stem = "/tmp/warpline_semantic_" + std::to_string(getpid());
  const std::string text = stem + ".code.ptx", code = stem + ".cubin";
  std::ofstream(text) << ptx;
  const ChildResult made = run_child({ptxas(), "-arch=" + target_of(ptx), text, "-o", code});
  std::ostringstream bytes;
  if (made.status == 0) bytes << std::ifstream(code, std::ios::binary).rdbuf();
  unlink(text.c_str());
  unlink(code.c_str());
  return bytes.str();
}

} // namespace wltest
