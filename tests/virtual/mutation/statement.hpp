// Statements of an expanded PTX file, one a line.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace wltest {

struct Statement {
  std::string indent, guard, opcode, rest; // rest: operands without the semicolon
};

inline std::string trim(const std::string& s) {
  size_t b = s.find_first_not_of(" \t"), e = s.find_last_not_of(" \t");
  return b == std::string::npos ? "" : s.substr(b, e - b + 1);
}

// False for comments, labels, directives and braces.
inline bool parse(const std::string& line, Statement& s) {
  size_t b = line.find_first_not_of(" \t");
  if (b == std::string::npos || line.compare(b, 2, "//") == 0) return false;
  size_t end = line.rfind(';');
  if (end == std::string::npos || line[b] == '.' || line[b] == '{') return false;
  s.indent = line.substr(0, b);
  std::string body = line.substr(b, end - b);
  if (body[0] == '@') {
    size_t g = body.find(' ');
    if (g == std::string::npos) return false;
    s.guard = body.substr(0, g + 1);
    body = trim(body.substr(g));
  }
  size_t o = body.find_first_of(" \t");
  s.opcode = body.substr(0, o);
  s.rest = o == std::string::npos ? "" : trim(body.substr(o));
  return true;
}

// Top-level operands: commas inside brackets and braces do not part.
inline std::vector<std::string> operands(const std::string& rest) {
  std::vector<std::string> out;
  std::string one;
  int depth = 0;
  for (char c : rest) {
    depth += c == '[' || c == '{' || c == '(';
    depth -= c == ']' || c == '}' || c == ')';
    if (c == ',' && depth == 0) {
      out.push_back(trim(one));
      one.clear();
    } else {
      one += c;
    }
  }
  if (!trim(one).empty()) out.push_back(trim(one));
  return out;
}

inline std::string joined(const std::vector<std::string>& parts) {
  std::string s;
  for (size_t i = 0; i < parts.size(); ++i) s += (i ? ", " : "") + parts[i];
  return s;
}

inline bool starts(std::string_view s, std::string_view prefix) { return s.starts_with(prefix); }
inline bool has(const std::string& s, const char* part) {
  return s.find(part) != std::string::npos;
}

inline bool is_number(const std::string& s) { return !s.empty() && std::isdigit(s[0]) != 0; }
inline uint64_t number(const std::string& s) { return std::strtoull(s.c_str(), nullptr, 0); }

inline std::string hex(uint64_t v) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%08llx", static_cast<unsigned long long>(v));
  return text;
}

inline std::string without(std::string s, const std::string& part, const std::string& by = "") {
  size_t at = s.find(part);
  return at == std::string::npos ? s : s.replace(at, part.size(), by);
}

} // namespace wltest
