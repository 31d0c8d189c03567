#include "runtime/src/ptx_header.hpp"

#include <cctype>

namespace warpline {

namespace {

// The text after the first line-leading `directive` of the PTX up to the end of its line or a ','.
std::string directive_value(std::string_view text, std::string_view directive) {
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find('\n', start);
    if (end == std::string_view::npos) end = text.size();
    std::string_view line = text.substr(start, end - start);
    start = end + 1;
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line.substr(first, directive.size()) != directive)
      continue;
    line.remove_prefix(first + directive.size());
    const size_t value = line.find_first_not_of(" \t");
    if (value == 0 || value == std::string_view::npos) continue;
    line.remove_prefix(value);
    return std::string(line.substr(0, line.find_first_of(" \t,;/\r")));
  }
  return "";
}

// The .param directives between the first .entry and its body.
int count_params(std::string_view text) {
  size_t at = text.find("\n.visible .entry ");
  if (at == std::string_view::npos) at = text.find("\n.entry ");
  if (at == std::string_view::npos) return 0;
  const std::string_view list = text.substr(at, text.find('{', at) - at);
  int count = 0;
  for (size_t from = 0; (from = list.find(".param", from)) != std::string_view::npos; ++count)
    from += 6;
  return count;
}

} // namespace

int number_at(std::string_view text, size_t* position) {
  int value = 0;
  while (*position < text.size() && std::isdigit(static_cast<unsigned char>(text[*position])) &&
         value < 100000)
    value = 10 * value + (text[(*position)++] - '0');
  return value;
}

PtxHeader read_ptx_header(std::string_view text) {
  // The directives head the file (PTX ISA 11.1): a kernel's head comment fits well within this.
  const std::string_view head = text.substr(0, size_t{1} << 16);
  PtxHeader header;
  header.target = directive_value(head, ".target");
  const std::string version = directive_value(head, ".version");
  size_t position = 0;
  header.major = number_at(version, &position);
  if (position < version.size() && version[position] == '.') ++position;
  header.minor = number_at(version, &position);
  header.params = count_params(text);
  return header;
}

} // namespace warpline
