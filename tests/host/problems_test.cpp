// The problems that tests/problems draws, against the argument structs of the public header: what
// an argument allows is varied, and a field that nobody varies is found by its name.
#include "tests/problems/problem.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"

#include <cctype>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace wltest;
using problems::Varied;

namespace {

struct Field {
  std::string type, name;
};

// The header without comments.
std::string header() {
  std::ostringstream text;
  text << std::ifstream(source_file("runtime/include/warpline/warpline.h")).rdbuf();
  return std::regex_replace(text.str(), std::regex("/\\*[^*]*\\*+([^/*][^*]*\\*+)*/"), " ");
}

// What stands between the braces of a typedef.
std::string body_of(const std::string& text, const std::string& kind, const std::string& name) {
  const std::string head = "typedef " + kind + " " + name + " {";
  const size_t at = text.find(head);
  if (at == std::string::npos) return "";
  const size_t first = at + head.size();
  return text.substr(first, text.find('}', first) - first);
}

std::vector<Field> fields_of(const std::string& text, const std::string& name) {
  std::vector<Field> fields;
  std::istringstream in(body_of(text, "struct", name));
  const std::regex declaration("\\s*([A-Za-z_][A-Za-z_0-9 ]*[ *]+)([a-z_0-9]+)\\s*");
  for (std::string one; std::getline(in, one, ';');) {
    std::smatch found;
    if (!std::regex_match(one, found, declaration)) continue;
    const std::string type = found[1].str().substr(0, found[1].str().find(' '));
    const std::vector<Field> within = fields_of(text, type); // of a struct in the struct
    if (within.empty())
      fields.push_back({found[1], found[2]});
    else
      std::copy_if(within.begin(), within.end(), std::back_inserter(fields),
                   [](const Field& field) { return field.name != "struct_size"; });
  }
  return fields;
}

size_t enumerators_of(const std::string& text, const std::string& type) {
  const std::string body = body_of(text, "enum", type);
  return static_cast<size_t>(std::count(body.begin(), body.end(), '='));
}

bool is(const std::string& type, const char* part) { return type.find(part) != std::string::npos; }

// Values of an address modulo 512: some that are aligned to `bytes` and to no more.
bool has_least_alignment(const std::set<std::string>& values, size_t bytes) {
  for (const std::string& value : values)
    if (std::isdigit(static_cast<unsigned char>(value[0])) != 0 &&
        std::stoul(value) % (2 * bytes) == bytes)
      return true;
  return false;
}

// "" or why the values of a field do not vary what it allows.
std::string not_varied(const std::string& text, const Field& field, const Varied& varied) {
  const auto found = varied.find(field.name);
  if (found == varied.end()) return "no problem says what it is";
  const std::set<std::string>& values = found->second;
  if (field.name == "struct_size") return values.size() == 1 ? "" : "it has one legal value";
  if (is(field.type, "char")) return values.count("null") && values.size() > 1 ? "" : "null or set";
  if ((is(field.type, "float") || is(field.type, "int32_t")) && is(field.type, "*"))
    return (values.count("null") || field.name == "ids") && has_least_alignment(values, 4)
               ? ""
               : "null, aligned to 4 bytes";
  if (is(field.type, "*"))
    return has_least_alignment(values, 16) && !has_least_alignment(values, 8)
               ? ""
               : "aligned to 16 bytes";
  const size_t named = enumerators_of(text, field.type.substr(0, field.type.find(' ')));
  return values.size() >= std::min<size_t>(2, named != 0 ? named : 2) ? "" : "it never changes";
}

// Types of operands: all that the tables take.
std::string not_all_types(const problems::Operation& operation, const Field& field,
                          const Varied& varied) {
  std::set<std::string> expected;
  for (const problems::Configuration& c : operation.configurations)
    for (const warpline::gemm::Types& types : c.types)
      expected.insert(std::to_string(field.name == "a_type" ? types.a : types.b));
  const auto found = varied.find(field.name);
  return found != varied.end() && found->second == expected ? "" : "not each type of the tables";
}

// What the lists of all configurations vary.
Varied varied_by(const problems::Operation& operation) {
  Varied varied;
  for (const problems::Configuration& c : operation.configurations)
    for (const size_t i : c.problems)
      problems::make_problem(operation, c, 1, i, &varied, problems::Values::none);
  return varied;
}

} // namespace

TEST_CASE("problems vary every field of every operation's arguments", "[host][problems]") {
  const std::string text = header();
  for (const problems::Operation& operation : problems::operations()) {
    if (operation.args.empty()) continue;
    INFO(operation.args);
    const Varied varied = varied_by(operation);
    const std::vector<Field> fields = fields_of(text, operation.args);
    REQUIRE(fields.size() > 5);
    const bool grouped = operation.folder == "grouped";
    const bool one_layout = operation.folder == "quantize";
    for (const Field& field : fields) {
      // Groups have no batch and no factors of columns, and their K is contiguous.
      static const std::set<std::string> unused = {"l", "col", "a_layout", "b_layout"};
      if (grouped && unused.count(field.name) != 0) continue;
      if (one_layout && field.name == "sf_layout") continue;
      INFO(field.type << field.name << ": see tests/problems/" << operation.name << ".cpp");
      CHECK((is(field.type, "wl_operand") ? not_all_types(operation, field, varied)
                                          : not_varied(text, field, varied)) == "");
    }
  }
}

TEST_CASE("every operation of the public header has problems", "[host][problems]") {
  const std::string text = header();
  std::set<std::string> covered, structs;
  for (const problems::Operation& operation : problems::operations())
    if (!operation.args.empty()) covered.insert(operation.args);
  const std::regex name("typedef struct (wl_[a-z0-9_]+_args) ");
  for (std::sregex_iterator i(text.begin(), text.end(), name), end; i != end; ++i)
    structs.insert((*i)[1]);
  CHECK(structs.size() >= 2);
  CHECK(covered == structs);
}

TEST_CASE("a field that no problem varies is found", "[host][problems]") {
  const std::string text = "typedef struct wl_a_args { size_t struct_size; const float* bias; "
                           "wl_kind kind; int64_t ldb; const void* x; } wl_a_args;"
                           "typedef enum wl_kind { A = 0, B = 1 } wl_kind;";
  const std::vector<Field> fields = fields_of(text, "wl_a_args");
  REQUIRE(fields.size() == 5);
  CHECK(fields[1].name == "bias");
  CHECK(enumerators_of(text, "wl_kind") == 2);
  const Varied good = {{"struct_size", {"40"}},
                       {"bias", {"null", "4"}},
                       {"kind", {"0", "1"}},
                       {"ldb", {"0", "8"}},
                       {"x", {"0", "16"}}};
  for (const Field& field : fields) {
    INFO(field.name);
    CHECK(not_varied(text, field, good) == "");
    Varied without = good;
    without.erase(field.name);
    CHECK(not_varied(text, field, without) != "");
    if (field.name == "struct_size") continue;
    Varied single = good;
    single[field.name] = {"0"};
    CHECK(not_varied(text, field, single) != "");
  }
}

TEST_CASE("a drawn problem is a function of seed, configuration and number", "[host][problems]") {
  const problems::Operation& operation = problems::operations()[0];
  const problems::Configuration& c = operation.configurations[0];
  const auto text = [&](uint64_t seed, size_t index) {
    return problems::make_problem(operation, c, seed, index, nullptr, problems::Values::none).text;
  };
  CHECK(text(1, 3) == text(1, 3));
  CHECK(text(1, 3) != text(2, 3));
  CHECK(text(1, 3) != text(1, 9));
  problems::Draw draw(1, "any", 0);
  std::set<int> seen;
  for (size_t i = 0; i < 5; ++i)
    seen.insert(problems::Draw(1, "any", i).pick("x", {1, 2, 3, 4, 5}));
  CHECK(seen.size() == 5); // as many problems as values see all of them
}

TEST_CASE("problems: what is the virtual GPU's alone is refused on a GPU", "[host][problems]") {
  for (const char* option : {"--source", "--schedule", "--check", "--coverage", "--toward"}) {
    const ChildResult child =
        run_child({build_file("tests/problems"), "--gpu", option, "lazy"}, {}, 60);
    INFO(option << ": " << child.out << child.err);
    CHECK(child.status == 2);
    CHECK(child.out.empty());
    CHECK_THAT(child.err, ContainsSubstring("--gpu goes with none of"));
  }
}
