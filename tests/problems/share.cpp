#include "tests/problems/share.hpp"

#include "runtime/src/images.hpp"
#include "tests/problems/products.hpp"
#include "tests/support/fnv.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace wltest::problems {

namespace {

// Statements of each kernel that no kernel before it has below the same label.
std::map<std::string, size_t> own_statements() {
  std::map<std::string, size_t> own;
  std::unordered_set<uint64_t> seen;
  for (const warpline::Image& image : warpline::embedded_images()) {
    const std::string text = image.text();
    const uint64_t family = hash_without_numbers(family_of(image.name), fnv_basis);
    uint64_t label = family;
    size_t& count = own[image.name];
    std::unordered_set<uint64_t> mine;
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
      end = std::min(text.find('\n', at), text.size());
      std::string_view line(&text[at], end - at);
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      if (line.empty() || line[0] == '.' || line[0] == '/') continue;
      const uint64_t h = hash_without_numbers(line, label);
      if (line.back() == ':' && line != "wait:")
        label = hash_without_numbers(line, family);
      else if (seen.count(h) == 0)
        mine.insert(h);
    }
    count = mine.size();
    seen.insert(mine.begin(), mine.end());
  }
  return own;
}

// What most calls ask for, of which the first is of a K that brings stages round, every
// configuration has; the second is another only where there are activations.
void add_bare(std::vector<Operation>* operations) {
  for (Operation& operation : *operations) {
    if (operation.args.find("gemm") == std::string::npos) continue;
    const bool gated = operation.args.find("dual") != std::string::npos;
    for (Configuration& c : operation.configurations)
      for (size_t i = 0; i < (gated ? 1 : all_bare) && !c.kernels.empty(); ++i)
        c.problems.push_back(first_of_bare + i);
  }
}

// Every number of tokens that MMAs may have.
void add_fitted(std::vector<Operation>* operations) {
  for (Operation& operation : *operations)
    for (Configuration& c : operation.configurations) {
      for (size_t i = 0; i < c.fitted.size(); ++i) c.problems.push_back(first_of_fitted + i);
      if (c.has_whole_tiles) c.problems.push_back(of_whole_tiles);
    }
}

} // namespace

uint64_t hash_without_numbers(std::string_view line, uint64_t h) {
  bool number = false;
  for (const char c : line) {
    const bool digit =
        (c >= '0' && c <= '9') || (number && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
    if (!digit) h = fnv_step(h, static_cast<uint8_t>(c));
    if (digit && !number) h = fnv_step(h, '#');
    number = digit;
  }
  return h;
}

std::string family_of(const std::string& kernel) {
  const bool product = kernel.find("gemm") != std::string::npos;
  for (const char* part : {"sm100_swapped", "sm100_decode", "sm100", "sm90_double_buffered",
                           "sm90_small", "sm90_stream", "sm90_decode", "sm90_permute", "sm90"})
    if (product && kernel.find(part) != std::string::npos) return std::string("gemm ") + part;
  // Kernels of kernels/norm.
  if (kernel.rfind("quantize_", 0) == 0 || kernel.rfind("norm_linear_r", 0) == 0) {
    if (kernel.find("_held_") != std::string::npos || kernel.find("_units_") != std::string::npos)
      return "norm held";
    if (kernel.rfind("quantize_sm", 0) != 0) return "norm rows";
  }
  return kernel.substr(0, kernel.find("_sm"));
}

void share_problems(std::vector<Operation>* operations) {
  constexpr size_t most = 100, many = 24, some = 4; // statements
  // Of draw_sizes; the others cost next to nothing.
  constexpr size_t longer[] = {0, 1, 4, 6, 0, 1, 5, 6}, most_longer = 5, small[] = {2, 9, 16, 3};
  std::map<std::string, size_t> own = own_statements();
  for (Operation& operation : *operations) {
    std::map<std::string, size_t> turns, pairs; // by profile
    const bool product = operation.args.find("gemm") != std::string::npos;
    for (Configuration& c : operation.configurations) {
      if (c.kernels.empty()) continue;
      // CTAs that wait for each other's flags in memory keep the virtual GPU busy while they do:
      // sizes of few tiles, under all checks in one configuration.
      if (c.most_tiles < INT64_MAX) {
        c.problems = {0, 3, 4};
        if (own[c.kernels[0]] >= many) c.problems.push_back(1);
        continue;
      }
      if (product) {
        // Tiles of fewer rows of a group have loops of their own, also where there is one pair.
        const bool later_groups = c.later && operation.folder == "grouped";
        const size_t pairs_of_types = later_groups ? 4 : c.types.size() <= 4 ? c.types.size() : 1;
        for (size_t i = 0; i < all_loops; ++i)
          if (i % 4 < pairs_of_types) c.of_loops.push_back(first_of_loops + i);
        c.of_loops.push_back(of_rings);
        c.of_loops.push_back(of_rings + 1);
        // Tiles of little K behind each other, whose outputs have a text of their own.
        if (operation.args == "wl_grouped_gemm_args" && c.profile == "h200")
          c.of_loops.push_back(of_rings + 2);
        // Rows that are decoded under the product.
        if (later_groups) c.of_loops.push_back(all_sizes);
      }
      // Where splits of a layer's product have K enough for their stages to come round.
      if (operation.folder == "moe" && c.name.find("_split") != std::string::npos)
        c.of_loops.push_back(all_sizes);
      size_t statements = 0;
      for (const std::string& kernel : c.kernels)
        statements += std::exchange(own[kernel], 0); // the first one that launches it
      if (statements >= most) c.problems = first_problems(2 * c.problems.size());
      const auto add = [&](std::initializer_list<size_t> more) {
        if (product) c.problems.insert(c.problems.end(), more);
      };
      // Tiles with each activation, which has code of its own for each register.
      const size_t tile = first_of_tiles;
      if (statements >= most)
        add({tile, tile + 1, tile + 2, tile + 3, tile + 4, tile + 5});
      else if (statements >= many)
        add({9, tile, tile + 1});
      // Tiles of groups have all kinds of rows, for which each pair of types has loops of its own.
      const auto add_pairs = [&] {
        if (operation.folder != "grouped" || c.types.size() != 4) return;
        for (const size_t of_pair : {tile, tile + 1, tile + 2, tile + 4})
          if (std::find(c.problems.begin(), c.problems.end(), of_pair) == c.problems.end())
            c.problems.push_back(of_pair);
      };
      if (statements >= many) {
        add_pairs();
        continue;
      }
      size_t& turn = turns[c.profile];
      const std::vector<size_t> list = std::move(c.problems);
      c.problems.clear();
      if (!product) {
        const size_t step = statements >= some ? 2 : 3;
        for (size_t i = turn++ % step; i < list.size(); i += step) c.problems.push_back(list[i]);
        continue;
      }
      // A problem is of one pair of types.
      const size_t least = statements >= some ? 2 : 1;
      const size_t count = std::clamp(c.types.size() / 2, least, most_longer) - 1;
      // Small ones: all kinds where there are statements of its own, else two in turn. And several
      // tiles with edges.
      const size_t smalls = statements >= some ? std::size(small) : 2;
      size_t& pair = pairs[c.profile];
      for (size_t i = 0; i < smalls; ++i) c.problems.push_back(small[pair++ % std::size(small)]);
      if (smalls == 2 && pair % std::size(small) == 0) ++pair; // other pairs next time
      c.problems.push_back(tile + 1 + 2 * (turn++ % 3));
      const size_t most_problems = c.problems.size() + count;
      for (size_t i = 0; i < std::size(longer) && c.problems.size() < most_problems; ++i) {
        const size_t next = longer[turn++ % std::size(longer)];
        // Ten clusters that share tiles, of a long K or under all checks, take longest of all.
        const bool longest = c.shares_k && (next == 1 || next == 6);
        const auto end = c.problems.end();
        if ((statements < some && longest) || std::find(c.problems.begin(), end, next) != end)
          continue;
        c.problems.push_back(next);
      }
      add_pairs();
    }
  }
  add_fitted(operations);
  add_bare(operations);
}

} // namespace wltest::problems
