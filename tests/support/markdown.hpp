// What a page of the documentation asks its reader to type.
#pragma once

#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <sstream>
#include <string>
#include <vector>

namespace wltest {

struct Markdown {
  std::vector<std::string> indented; // by four blanks, outside of fences; continued lines joined
  std::vector<std::string> spans;    // between backticks, with a blank where the line ends

  explicit Markdown(const std::string& file) {
    std::istringstream text(read_text(source_file(file)));
    std::string prose;
    bool fenced = false;
    for (std::string line; std::getline(text, line);) {
      if (line.rfind("```", 0) == 0) {
        fenced = !fenced;
        continue;
      }
      if (fenced) continue;
      if (line.rfind("    ", 0) != 0) {
        prose += line + " ";
        continue;
      }
      const bool continued = !indented.empty() && indented.back().ends_with('\\');
      if (continued)
        indented.back().replace(indented.back().size() - 1, 1, line.substr(4));
      else
        indented.push_back(line.substr(4));
    }
    for (size_t at = prose.find('`'); at != std::string::npos;) {
      const size_t end = prose.find('`', at + 1);
      if (end == std::string::npos) break;
      spans.push_back(prose.substr(at + 1, end - at - 1));
      at = prose.find('`', end + 1);
    }
  }
};

inline void replace_all(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size())
    text->replace(at, from.size(), to);
}

} // namespace wltest
