#include "runtime/src/images.hpp"

#include <algorithm>
#include <cctype>

// One record of the index that runtime/embed.sh writes; a null name ends it.
struct EmbeddedPtx {
  const char* name;
  const char* begin;
  const char* end;
};
extern "C" const EmbeddedPtx wl_ptx_index[];

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

int number_at(std::string_view text, size_t* position) {
  int value = 0;
  while (*position < text.size() && std::isdigit(static_cast<unsigned char>(text[*position])) &&
         value < 100000)
    value = 10 * value + (text[(*position)++] - '0');
  return value;
}

} // namespace

Image make_image(std::string name, std::string entry, const char* begin, const char* end) {
  Image image;
  image.name = std::move(name);
  image.entry = std::move(entry);
  image.data = begin;
  image.size = static_cast<size_t>(end - begin);
  // The directives head the file (PTX ISA 11.1): a kernel's head comment fits well within this.
  const std::string_view head(begin, std::min<size_t>(image.size, size_t{1} << 16));
  image.target = directive_value(head, ".target");
  const std::string version = directive_value(head, ".version");
  size_t position = 0;
  image.ptx_major = number_at(version, &position);
  if (position < version.size() && version[position] == '.') ++position;
  image.ptx_minor = number_at(version, &position);
  return image;
}

std::vector<Image> embedded_images() {
  std::vector<Image> result;
  for (const EmbeddedPtx* row = wl_ptx_index; row->name; ++row)
    result.push_back(make_image(row->name, row->name, row->begin, row->end));
  return result;
}

bool target_runs_on(std::string_view target, int major, int minor) {
  if (target.substr(0, 3) != "sm_") return false;
  size_t position = 3;
  const int number = number_at(target, &position);
  const std::string_view suffix = target.substr(position);
  const int target_major = number / 10, target_minor = number % 10;
  if (suffix == "a") return major == target_major && minor == target_minor;
  if (suffix == "f") return major == target_major && minor >= target_minor;
  return suffix.empty() && number > 0 && 10 * major + minor >= number;
}

std::string target_family(std::string_view target) {
  std::string result;
  for (const char c : target)
    if (c != '_') result += c;
  if (!result.empty() && (result.back() == 'a' || result.back() == 'f')) result.pop_back();
  return result;
}

} // namespace warpline
