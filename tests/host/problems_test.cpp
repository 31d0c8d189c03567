// The problems that tests/problems draws, against the argument structs of the public header: what
// an argument allows is varied, and a field that nobody varies is found by its name.
#include "tests/problems/nvfp4.hpp"
#include "tests/reference/quantize.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

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
  const size_t at = text.find("typedef " + kind + " " + name + " ");
  if (at == std::string::npos) return "";
  const size_t first = text.find('{', at) + 1; // an enumeration's type may stand between
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
                           "typedef enum wl_kind WL_INT { A = 0, B = 1 } wl_kind;";
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

namespace {

// Blocks of a problem's run that another device may have made, against its expected ones.
class OtherBlocks {
public:
  OtherBlocks(const problems::Problem& problem, size_t run)
      : made_(problem.blocks[run]), d_(output(problem, "d", run)),
        sfd_(output(problem, "sfd", run)) {}

  // What is expected of values that are no multiples of a step of E2M1, unlike some problems'.
  void move_off_ties() {
    for (float& value : made_.values) value *= 1.003f;
    each([this](size_t b, uint8_t* codes, uint8_t* scale) { quantise(b, 0, codes, scale); },
         &d_.runs[0], &sfd_.runs[0]);
  }
  // Codes and scale of block b, each value larger or smaller by that share of itself.
  void quantise(size_t b, float share, uint8_t* codes, uint8_t* scale) const {
    float values[16];
    for (size_t i = 0; i < 16; ++i)
      values[i] = made_.values[16 * b + i] *
                  (1 + share * (random_.below(16 * b + i, 2) == 0 ? 1.0f : -1.0f));
    quantize_block(values, Inverse(made_.d_scale), codes, scale);
  }
  // How many blocks `change` makes others, and how many of them are taken for expected ones.
  struct Counts {
    size_t other = 0, taken = 0;
    void operator+=(const Counts& more) { other += more.other, taken += more.taken; }
  };
  template <class Change>
  Counts count(const Change& change) const {
    problems::Bytes d = d_.runs[0], sfd = sfd_.runs[0];
    each(change, &d, &sfd);
    const std::vector<bool> other = differ(d, sfd);
    problems::accept_near_blocks(made_, d_, sfd_, 0, d.data(), sfd.data());
    const std::vector<bool> still = differ(d, sfd);
    Counts counts;
    for (size_t b = 0; b < other.size(); ++b) counts += {other[b], other[b] && !still[b]};
    return counts;
  }
  Counts moved_by(float share) const {
    return count(
        [&](size_t b, uint8_t* codes, uint8_t* scale) { quantise(b, share, codes, scale); });
  }

private:
  static problems::Output output(const problems::Problem& problem, const char* name, size_t run) {
    for (const problems::Output& o : problem.outputs)
      if (o.name == name) {
        problems::Output one = o;
        one.runs = {o.runs[run]};
        if (!o.written_by.empty()) one.written = o.written_by[run];
        return one;
      }
    throw std::runtime_error(std::string("no output ") + name);
  }
  template <class Change>
  void each(const Change& change, problems::Bytes* d, problems::Bytes* sfd) const {
    for (size_t b = 0; b < made_.scales.size(); ++b) {
      const size_t at = made_.scales[b];
      if (at == problems::no_scale) continue;
      REQUIRE((sfd_.written[at] && d_.written[8 * b]));
      change(b, &(*d)[8 * b], &(*sfd)[at]);
    }
  }
  std::vector<bool> differ(const problems::Bytes& d, const problems::Bytes& sfd) const {
    std::vector<bool> other(made_.scales.size());
    for (size_t b = 0; b < other.size(); ++b) {
      const size_t at = made_.scales[b];
      other[b] =
          at != problems::no_scale && (sfd[at] != sfd_.runs[0][at] ||
                                       !std::equal(&d[8 * b], &d[8 * b] + 8, &d_.runs[0][8 * b]));
    }
    return other;
  }
  problems::MadeBlocks made_;
  problems::Output d_, sfd_;
  const Random random_{5, 91};
};

} // namespace

// ex2 and rcp of another device move what a block is made of by some last places: then other codes
// are right. What moves by more is wrong, and so is a sign or a scale alone.
TEST_CASE("blocks that another device's exponentials may make are taken, others are not",
          "[host][problems]") {
  OtherBlocks::Counts within, beyond, alone;
  std::map<std::string, int> seen; // problems of an operation
  for (const problems::Operation& operation : problems::operations())
    for (const problems::Configuration& c : operation.configurations)
      for (const size_t index : c.problems) {
        if (c.type != WL_NVFP4 || seen[operation.name] == 6) break;
        if (!problems::make_problem(operation, c, 1, index, nullptr, problems::Values::none)
                 .exponentials)
          continue;
        const problems::Problem p = problems::make_problem(operation, c, 1, index);
        if (p.blocks.empty()) break; // a layer's
        ++seen[operation.name];
        INFO(c.name << ": " << p.text);
        for (size_t run = 0; run < p.blocks.size(); ++run) {
          OtherBlocks blocks(p, run);
          CHECK(blocks.moved_by(0).other == 0); // what the expected bytes are made of
          within += blocks.moved_by(problems::exponentials_change / 2);
          blocks.move_off_ties();
          within += blocks.moved_by(problems::exponentials_change / 2);
          beyond += blocks.moved_by(0.05f);
          alone += blocks.count([](size_t, uint8_t* codes, uint8_t*) { codes[3] ^= 0x80; });
          alone += blocks.count([](size_t, uint8_t*, uint8_t* scale) { *scale ^= 2; });
        }
      }
  for (const char* operation : {"gemm", "dual_gemm", "grouped_gemm", "grouped_dual_gemm"})
    CHECK(seen[operation] == 6);
  CHECK(within.other > 10);
  CHECK(within.taken == within.other);
  CHECK(beyond.other > 1000);
  CHECK(beyond.taken * 1000 <= beyond.other);
  CHECK(alone.other > 1000);
  CHECK(alone.taken == 0);
}
