#include "tests/virtual/mutation/places.hpp"
#include "tests/virtual/mutation/mutants.hpp"
#include "tests/virtual/mutation/statement.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace wltest {

namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Numbers become #, and an offset of an address goes.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool begins =
        std::isdigit(static_cast<unsigned char>(text[i])) != 0 && (i == 0 || !in_word(text[i - 1]));
    if (!begins) {
      out += text[i++];
      continue;
    }
    while (i < text.size() && in_word(text[i])) ++i;
    out += '#';
  }
  for (size_t at; (at = out.find(" + #]")) != std::string::npos;) out.erase(at, 4);
  return out;
}

// Types of elements, and how many of them an access takes.
std::string without_types(const std::string& opcode) {
  static const std::set<std::string> types = {
      "f16", "bf16", "f32", "b8",  "b16",  "b32",  "b64",  "u8",   "u16",   "u32",
      "u64", "s8",   "s32", "s64", "e4m3", "e5m2", "tf32", "v2",   "v4",    "v8",
      "x1",  "x2",   "x4",  "x8",  "x16",  "x32",  "x64",  "x128", "f16x2", "bf16x2"};
  std::string out;
  for (size_t at = 0, end; at <= opcode.size(); at = end + 1) {
    end = std::min(opcode.find('.', at), opcode.size());
    const std::string part = opcode.substr(at, end - at);
    if (types.count(part) == 0 && part.find("kind::") == std::string::npos &&
        !(part.size() > 3 && part[0] == 'm' && std::isdigit(static_cast<unsigned char>(part[1]))))
      out += (out.empty() ? "" : ".") + part;
  }
  return out;
}

// The memory that a statement touches and how, "" for none.
std::string access_of(const Statement& s) {
  const std::string& op = s.opcode;
  const std::string guard = s.guard.empty() ? "" : "guarded ";
  const auto space = [&] {
    for (const char* name : {"shared::cluster", "shared", "global", "local", "param"})
      if (has(op, name)) return std::string(name);
    return std::string("generic");
  };
  if (has(op, "prefetch") || starts(op, "ld.param")) return "";
  if (starts(op, "ld.")) return guard + "read " + space();
  if (starts(op, "st.")) return guard + "write " + space();
  if (starts(op, "ldmatrix")) return guard + "read shared";
  if (starts(op, "stmatrix")) return guard + "write shared";
  if (starts(op, "red.") || starts(op, "atom.") || starts(op, "multimem") || starts(op, "cp.") ||
      starts(op, "st.async") || starts(op, "tcgen05.") || starts(op, "wgmma.mma"))
    return guard + without_types(op);
  return "";
}

// "form_done" of "form_done3", "loop" of "loop_e5m2_e4m3": a macro's places.
std::string without_turns(const std::string& label) {
  std::string out;
  for (size_t at = 0, end; at <= label.size(); at = end + 1) {
    end = std::min(label.find('_', at), label.size());
    std::string part = label.substr(at, end - at);
    if (part == "e4m3" || part == "e5m2") continue;
    std::erase_if(part, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
    if (!part.empty()) out += (out.empty() ? "" : "_") + part;
  }
  return out;
}

struct Event {
  std::string text, label; // of a synchronising statement; text "" = accesses
  std::set<std::string> accesses;
  std::vector<std::string> barriers;
  size_t line = 0;
};

// Registers and variables that hold addresses of the statement.
std::vector<std::string> bases(const std::string& rest) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = rest.find('[', at)) != std::string::npos; ++at) {
    size_t end = at + 1;
    while (end < rest.size() && in_word(rest[end])) ++end;
    out.push_back(rest.substr(at + 1, end - at - 1));
  }
  return out;
}

} // namespace

uint64_t hash_of(const std::string& text, uint64_t hash) { return fnv("\n", fnv(text, hash)); }

Places places_of(const std::vector<std::string>& lines) {
  std::vector<Event> events;
  std::string label, target;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string t = trim(lines[i]);
    if (starts(t, ".target")) target = t;
    if (t.size() > 1 && t.back() == ':' && t.find(' ') == std::string::npos && t != "wait:")
      label = t.substr(0, t.size() - 1);
    Statement s;
    if (!parse(lines[i], s)) continue;
    if (synchronises(s)) {
      Event e;
      e.text = s.guard + without_types(s.opcode) + " " + without_numbers(s.rest);
      e.label = label, e.line = i, e.barriers = bases(s.rest);
      events.push_back(std::move(e));
    } else if (const std::string access = access_of(s); !access.empty()) {
      if (events.empty() || !events.back().text.empty()) events.emplace_back();
      events.back().accesses.insert(access);
    }
  }
  // What stands up to `count` synchronising statements away.
  const auto surroundings = [&](size_t at, long step, int count) {
    std::string text, last;
    for (long k = static_cast<long>(at) + step; k >= 0 && k < static_cast<long>(events.size());
         k += step) {
      const Event& e = events[static_cast<size_t>(k)];
      for (const std::string& access : e.accesses) text += access + "\n";
      if (e.text.empty() || e.text == last) continue;
      text += e.text + "\n";
      last = e.text;
      if (--count == 0) break;
    }
    return text;
  };
  const auto place = [&](size_t at, int count) {
    const Event& e = events[at];
    return e.label + "\n" + e.text + "\n" + surroundings(at, -1, count) + "|" +
           surroundings(at, 1, count);
  };
  std::map<std::string, std::set<std::string>> users; // of what is named between brackets
  for (size_t at = 0; at < events.size(); ++at)
    if (!events[at].barriers.empty()) {
      const std::string near = place(at, 1);
      for (const std::string& barrier : events[at].barriers) users[barrier].insert(near);
    }
  Places out{std::vector<uint64_t>(lines.size(), 0), std::vector<uint64_t>(lines.size(), 0)};
  for (size_t at = 0; at < events.size(); ++at) {
    if (events[at].text.empty()) continue;
    uint64_t hash = hash_of(place(at, 2), hash_of(target));
    std::set<std::string> all;
    for (const std::string& barrier : events[at].barriers)
      all.insert(users[barrier].begin(), users[barrier].end());
    for (const std::string& user : all) hash = hash_of(user, hash);
    const Event& e = events[at];
    out.place[e.line] = hash;
    out.site[e.line] = hash_of(e.text, hash_of(without_turns(e.label), hash_of(target)));
  }
  return out;
}

} // namespace wltest
