// Problems of the kernels around the products of a mixture of experts.
#include "tests/problems/moe_parts.hpp"

#include "kernels/moe/parts.hpp"
#include "tests/problems/moe.hpp"
#include "tests/problems/telling.hpp"
#include "tests/reference/linear.hpp"
#include "tests/reference/moe.hpp"

#include <climits>
#include <cstring>

namespace wltest::problems {

namespace {

using namespace warpline::moe;

Bytes bytes_of(const std::vector<int32_t>& numbers) {
  Bytes bytes(4 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

struct Order {
  std::vector<int32_t> ids;
  ExpertOrder order;
};

// tokens, top_k, experts and first of the work.
Order draw_order(const Permutation& work, const std::string& kind, uint64_t seed) {
  Order made{draw_ids(kind, work.tokens * work.top_k, work.experts, work.first, seed), {}};
  made.order = order_experts(made.ids, work.top_k, work.experts, work.first);
  return made;
}

void note_sizes(const Permutation& work, Draw& draw) {
  draw.note("tokens", work.tokens);
  draw.note("top_k", work.top_k);
  draw.note("experts", work.experts);
  draw.note("first", work.first);
}

template <class Work>
void set_plan(Problem* p, const std::function<Work(const Addresses&)>& work_of) {
  p->plan = [=](wl_context* context, const Addresses& at, wl_plan** plan) {
    const warpline::ContextScope scope(*context);
    const wl_status status = scope.status();
    return status != WL_SUCCESS ? status : make_part_plan(context, work_of(at), plan);
  };
}

int32_t* numbers_at(const Addresses& addresses, const char* name) {
  return static_cast<int32_t*>(addresses.at(name));
}

// ---- permute

Problem make_permute(const Configuration& c, Draw& draw, Values wanted) {
  Problem p;
  p.config = c.name;
  Permutation work;
  const auto below = [&](const char* name, uint64_t bound) {
    return static_cast<int64_t>(draw.below(name, bound));
  };
  work.experts = draw.pick<int64_t>("experts", {128, 3, 512, 1, 33, 256, 64, 1024, 60});
  // Each third of the problems, which is what a kernel may be given, has all cases.
  switch ((draw.index() / 3 + draw.index() % 3 * 2) % 6) {
  case 0: // every warp of one CTA has a full share and some
    work.top_k = 8, work.tokens = 128 + below("tokens", 40);
    break;
  case 1: // a token or two
    work.top_k = 1 + below("top_k", 32), work.tokens = 1 + below("tokens", 2);
    break;
  case 2: // three CTAs
    work.top_k = 4, work.tokens = 513 + below("tokens", 200);
    break;
  case 3: // a warp's last slot, and the one behind it
    work.top_k = 1, work.tokens = 31 + below("tokens", 4);
    break;
  case 4: // more slots a warp than lanes; and more of other CTAs than threads ask for at once
    work.top_k = 6, work.tokens = draw.index() % 2 == 0 ? 1366 + below("tokens", 100) : 3100;
    break;
  default:
    work.top_k = 1 + below("top_k", 9), work.tokens = 1 + below("tokens", 400);
  }
  work.first = draw.pick<int64_t>("first", {0, 128, 7, INT_MAX - 2000});
  note_sizes(work, draw);
  const std::string kind = draw_kind_of_ids(draw);
  Input ids{"ids", draw_float_alignment(draw, "ids at"), {}, ""};
  Output ends{"group_ends", draw_float_alignment(draw, "group_ends"), {}, {}, 0};
  Output rows{"rows", draw_float_alignment(draw, "rows"), {}, {}, 0};
  Output positions{"positions", draw_float_alignment(draw, "positions"), {}, {}, 0};
  work.zero_bytes = draw.pick<int64_t>("zero_bytes", {0, 256, 10240});
  Output cleared{"cleared", draw_float_alignment(draw, "cleared"), {}, {}, 0};
  // One run: how many rows are written is the ids'.
  if (wanted == Values::all) {
    const Order o = draw_order(work, kind, draw.seed_for("ids"));
    ids.runs = {bytes_of(o.ids)};
    ends.runs = {bytes_of(o.order.ends)};
    positions.runs = {bytes_of(o.order.positions)};
    Bytes sorted = bytes_of(o.order.rows);
    rows.written.assign(sorted.size(), true);
    sorted.resize(positions.runs[0].size());
    rows.written.resize(sorted.size());
    rows.runs = {sorted};
    ends.written.assign(ends.runs[0].size(), true);
    cleared.runs = {Bytes(static_cast<size_t>(work.zero_bytes) + 8)};
    cleared.written.assign(cleared.runs[0].size(), true);
    positions.written.assign(sorted.size(), true);
  }
  p.inputs = {ids};
  p.outputs = {ends, rows, positions, cleared};
  draw_way(draw, &p);
  set_plan<Permutation>(&p, [work](const Addresses& at) {
    Permutation w = work;
    w.ids = numbers_at(at, "ids"), w.group_ends = numbers_at(at, "group_ends");
    w.rows = numbers_at(at, "rows"), w.positions = numbers_at(at, "positions");
    w.cleared = reinterpret_cast<uint32_t*>(numbers_at(at, "cleared"));
    return w;
  });
  return p;
}

// ---- quantise

Problem make_quantize(const Configuration& c, Draw& draw, Values wanted) {
  Problem p;
  p.config = c.name;
  Quantisation work;
  work.x_type = c.type;
  const bool own = c.profile == "h200"; // tokens stay in their order
  Permutation& order = work.order;
  const auto below = [&](const char* name, uint64_t bound) {
    return static_cast<int64_t>(draw.below(name, bound));
  };
  order.experts = order.top_k = 1;
  if (!own) {
    order.experts = draw.pick<int64_t>("experts", {8, 3, 1, 40});
    order.top_k = draw.pick<int64_t>("top_k", {4, 1, 2, 8, 32});
    order.first = draw.pick<int64_t>("first", {0, 16});
  }
  // Groups that end at a tile of 128 rows, before and behind it.
  order.tokens = draw.pick<int64_t>("tokens at", {1, 127, 128, 129, 40, 300}) +
                 (draw.index() % 3 == 2 ? below("tokens", 50) : 0);
  if (order.top_k == 32) order.tokens = 1 + order.tokens / 8;
  work.k = 64 * draw.pick<int64_t>("k", {1, 8, 9, 17, 3});
  draw.note("k", work.k);
  note_sizes(order, draw);
  const std::string kind = own ? "one expert" : draw_kind_of_ids(draw);
  work.ldx = work.k + draw.pick<int64_t>("ldx", {0, 24, 8});
  const float value =
      draw.pick("d_scale value", {1.0f, 0.3125f, 0.013f, 3.0f, 1e4f, 0x1p-126f, 0x1p+126f});
  const bool given = value != 1 || draw.below("d_scale", 2) != 0;
  if (given)
    p.inputs.push_back(
        {"d_scale", draw_float_alignment(draw, "d_scale"), {problems::bytes_of(value)}, ""});
  const OutputType type = c.type == WL_F16 ? OutputType::f16 : OutputType::bf16;
  Input x{"x", draw_alignment(draw, "x"), {}, ""};
  Input ids{"ids", draw_float_alignment(draw, "ids at"), {}, ""};
  Input ends{"group_ends", draw_float_alignment(draw, "group_ends"), {}, ""};
  Input positions{"positions", draw_float_alignment(draw, "positions"), {}, ""};
  Output d{"d", draw_alignment(draw, "d"), {}, {}, 0};
  Output sfd{"sfd", draw_alignment(draw, "sfd"), {}, {}, 0};
  if (wanted == Values::all) {
    const Order o = draw_order(order, kind, draw.seed_for("ids"));
    ids.runs = {bytes_of(o.ids)};
    ends.runs = {bytes_of(o.order.ends)};
    positions.runs = {bytes_of(o.order.positions)};
    Matrix values = make_matrix(order.tokens, work.k, 1, type, draw.seed_for("operands"));
    tell_by_ties(given ? value : 1, draw.seed_for("ties"), &values);
    // What lies between the rows has a magnitude that changes a block's scale.
    const std::vector<uint16_t> between(static_cast<size_t>((order.tokens - 1) * work.ldx + work.k),
                                        type == OutputType::f16 ? 0x7BFF : 0x7F7F);
    Bytes image(between.size() * 2);
    std::memcpy(image.data(), between.data(), image.size());
    for (int64_t row = 0; row < order.tokens; ++row)
      std::memcpy(&image[static_cast<size_t>(2 * row * work.ldx)],
                  &values.codes[static_cast<size_t>(row * work.k)],
                  static_cast<size_t>(2 * work.k));
    x.runs = {image};
    const PermutedOperand out = permuted(quantize(values, given ? value : 1), o.order);
    d.runs = {out.values}, d.written = out.values_written;
    sfd.runs = {out.scales}, sfd.written = out.scales_written;
  }
  p.inputs.push_back(x);
  if (!own) p.inputs.insert(p.inputs.end(), {ids, ends, positions});
  p.outputs = {d, sfd};
  draw_way(draw, &p);
  p.alone = own;
  if (own) p.in_a_row = draw.note("in a row", 1); // a second one does not wait for the first
  set_plan<Quantisation>(&p, [work, own](const Addresses& at) {
    Quantisation w = work;
    w.x = at.at("x"), w.d = at.at("d"), w.sfd = at.at("sfd");
    w.d_scale = static_cast<const float*>(at.at("d_scale"));
    if (own) return w;
    w.order.ids = numbers_at(at, "ids"), w.order.group_ends = numbers_at(at, "group_ends");
    w.order.positions = numbers_at(at, "positions");
    return w;
  });
  return p;
}

// ---- copy

Problem make_spread(const Configuration& c, Draw& draw, Values wanted) {
  Problem p;
  p.config = c.name;
  Spreading work;
  Permutation& order = work.order;
  order.experts = draw.pick<int64_t>("experts", {8, 3, 40});
  order.top_k = draw.pick<int64_t>("top_k", {4, 1, 2, 32});
  order.tokens = draw.pick<int64_t>("tokens", {1, 40, 130});
  work.columns = draw.pick<int64_t>("columns", {64, 512, 576, 256, 1088, 320});
  note_sizes(order, draw);
  const std::string kind = draw_kind_of_ids(draw);
  Input x{"x", draw_alignment(draw, "x"), {}, ""};
  Input positions{"positions", draw_float_alignment(draw, "positions"), {}, ""};
  Output d{"d", draw_alignment(draw, "d"), {}, {}, 0};
  if (wanted == Values::all) {
    const Order o = draw_order(order, kind, draw.seed_for("ids"));
    positions.runs = {bytes_of(o.order.positions)};
    const size_t row_bytes = 2 * static_cast<size_t>(work.columns);
    const Random random(draw.seed_for("operands"), 7);
    Bytes tokens(static_cast<size_t>(order.tokens) * row_bytes);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint8_t>(random.bits(i));
    Bytes rows(o.ids.size() * row_bytes);
    d.written.assign(rows.size(), false);
    for (size_t r = 0; r < o.order.rows.size(); ++r) {
      std::copy_n(&tokens[static_cast<size_t>(o.order.rows[r]) * row_bytes], row_bytes,
                  &rows[r * row_bytes]);
      std::fill_n(d.written.begin() + static_cast<std::ptrdiff_t>(r * row_bytes), row_bytes, true);
    }
    x.runs = {tokens};
    d.runs = {rows};
  }
  p.inputs = {x, positions};
  p.outputs = {d};
  draw_way(draw, &p);
  set_plan<Spreading>(&p, [work](const Addresses& at) {
    Spreading w = work;
    w.x = at.at("x"), w.d = at.at("d");
    w.order.positions = numbers_at(at, "positions");
    return w;
  });
  return p;
}

// ---- combine

Problem make_combine(const Configuration& c, Draw& draw, Values wanted) {
  Problem p;
  p.config = c.name;
  Combination work;
  work.rows_type = c.type;
  const auto below = [&](const char* name, uint64_t bound) {
    return static_cast<int64_t>(draw.below(name, bound));
  };
  work.y_type = static_cast<wl_dtype>(draw.pick("y_type", {0, 1, 3}));
  work.top_k = draw.pick<int64_t>("top_k", {8, 1, 4, 6, 9, 32, 3});
  work.columns = draw.pick<int64_t>("columns", {8, 256, 264, 248, 768, 520});
  work.tokens = draw.pick<int64_t>("tokens", {1, 2, 33, 100});
  // Of few rows a token two pieces of 256 columns at once, of which the second is not whole.
  if (draw.index() == 4 || draw.index() == 8) {
    work.top_k = draw.note<int64_t>("top_k", draw.index() == 4 ? 3 : 2);
    work.columns = draw.note<int64_t>("columns", draw.index() == 4 ? 504 : 776);
    work.tokens = draw.note<int64_t>("tokens", 33);
  }
  work.row_count = std::max<int64_t>(1, work.tokens * work.top_k - below("row_count", 3));
  draw.note("row_count", work.row_count);
  const size_t element = work.y_type == WL_F32 ? 4 : 2;
  work.ldy = work.columns + draw.pick<int64_t>("ldy", {0, 8, 24});
  const std::string addend = draw.pick<const char*>("addend of", {"null", "apart", "in place"});
  const bool in_place = addend == "in place", apart = addend == "apart";
  work.ld_addend = in_place ? work.ldy : work.columns + draw.pick<int64_t>("ld_addend", {16, 0, 8});
  const bool weighted = draw.pick("with weights", {1, 1, 0}) != 0;
  const auto cells = static_cast<size_t>(work.tokens * work.columns);
  const auto slots = static_cast<size_t>(work.tokens * work.top_k);
  const Sizes sizes{work.tokens, work.columns, 64, 1};
  const Layout of_y{sizes, element, work.ldy, 0}, of_addend{sizes, element, work.ld_addend, 0};

  Input rows{"rows", draw_alignment(draw, "rows"), {}, ""};
  Input positions{"positions", draw_float_alignment(draw, "positions"), {}, ""};
  Input weights{"weights", draw_float_alignment(draw, "weights"), {}, ""};
  Output y = draw_d(work.y_type, draw);
  y.name = "y";
  Input added{"addend", draw_alignment(draw, "addend"), {}, ""};
  for (int run = 0; run < 2 && wanted == Values::all; ++run) {
    const uint64_t seed = (draw.seed_for("operands") + static_cast<uint64_t>(run)) * 8;
    const Numbers values =
        draw_numbers(static_cast<size_t>(work.row_count * work.columns), c.type, 2, seed);
    const Numbers factors = draw_numbers(slots, WL_F32, 1, seed + 1);
    const Numbers others = draw_numbers(cells, work.y_type, 4, seed + 2);
    // A permutation, with slots that have no row, and rows that are not there.
    const Random random(seed, 9);
    std::vector<int32_t> places(slots);
    for (size_t i = 0; i < slots; ++i) places[i] = static_cast<int32_t>(i);
    for (size_t i = slots; i-- > 1;) std::swap(places[i], places[random.below(i, i + 1)]);
    for (size_t i = 0; i < slots; ++i) {
      const int32_t bad[] = {-1, INT_MIN, INT_MAX, static_cast<int32_t>(work.row_count)};
      if (random.below(slots + i, 5) == 0) places[i] = bad[random.below(2 * slots + i, 4)];
    }
    rows.runs.push_back(values.bytes);
    positions.runs.push_back(bytes_of(places));
    weights.runs.push_back(factors.bytes);
    const std::vector<float> out = combined(
        values.values, places, weighted ? factors.values : std::vector<float>{},
        in_place || apart ? others.values : std::vector<float>{}, work.top_k, work.columns);
    Bytes image(of_y.bytes());
    y.written.assign(image.size(), false);
    of_y.place(rounded(out, work.y_type).data(), &image, &y.written);
    y.runs.push_back(std::move(image));
    Bytes read((in_place ? of_y : of_addend).bytes(), 0xFF);
    (in_place ? of_y : of_addend).place(others.bytes.data(), &read);
    (in_place ? y.before : added.runs).push_back(std::move(read));
  }
  p.inputs = {rows, positions};
  if (weighted) p.inputs.push_back(weights);
  if (apart) p.inputs.push_back(added);
  p.outputs = {y};
  draw_way(draw, &p);
  if (in_place) p.in_a_row = 1; // a second one would add to the first one's sums
  set_plan<Combination>(&p, [work, in_place](const Addresses& at) {
    Combination w = work;
    w.rows = at.at("rows"), w.positions = numbers_at(at, "positions");
    w.weights = static_cast<const float*>(at.at("weights"));
    w.addend = in_place ? at.at("y") : at.at("addend");
    w.y = at.at("y");
    return w;
  });
  return p;
}

Operation operation(const char* name, Part part, int sms, size_t count,
                    Problem (*make)(const Configuration&, Draw&, Values)) {
  Operation op{name, "moe", "", {}, make};
  for (const Config& config : configs()) {
    if (config.part != part) continue;
    Configuration c;
    c.name = config.name;
    c.kernels = {config.name};
    c.profile = std::string(config.target) == "sm_100f" ? "b200" : "h200";
    c.sms = sms;
    c.type = config.type;
    c.problems = first_problems(count);
    op.configurations.push_back(c);
  }
  return op;
}

} // namespace

std::vector<int32_t> draw_ids(const std::string& kind, int64_t slots, int64_t experts,
                              int64_t first, uint64_t seed) {
  const Random random(seed, 5);
  std::vector<int32_t> ids(static_cast<size_t>(slots));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto any = static_cast<int64_t>(random.below(i, static_cast<uint64_t>(experts)));
    int64_t id = first + any;
    const uint64_t other = random.below(i + ids.size(), 16);
    if (kind == "one expert") id = first + experts / 2;
    if (kind == "half in one" && other % 2 == 0) id = first + experts - 1;
    if (kind == "first and last" && other != 0) id = first + (other % 2 == 0 ? 0 : experts - 1);
    if (kind == "of other devices") id = first - experts + 3 * any;
    if (kind == "none") id = first + experts + any;
    if (kind == "hostile") {
      const int64_t bad[] = {-1, INT_MIN, INT_MAX, first - 1, first + experts, first + INT_MIN};
      if (other < 6) id = bad[other];
      // The first beyond, among few slots too.
      if (i > 0 && i + 1 == ids.size()) id = bad[4];
    }
    if (id < INT_MIN || id > INT_MAX) id = INT_MIN;
    ids[i] = static_cast<int32_t>(id);
  }
  return ids;
}

std::string draw_kind_of_ids(Draw& draw) {
  return draw.pick<const char*>("ids", {"any", "hostile", "of other devices", "half in one",
                                        "one expert", "first and last", "none"});
}

Operation moe_permute() { return operation("moe_permute", Part::permute, 8, 18, make_permute); }
Operation moe_encode() { return operation("moe_encode", Part::encode, 2, 12, make_quantize); }
Operation moe_spread() { return operation("moe_spread", Part::spread, 2, 12, make_spread); }
Operation moe_combine() { return operation("moe_combine", Part::combine, 2, 14, make_combine); }

} // namespace wltest::problems
