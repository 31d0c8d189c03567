// warpline grouped-gemm and grouped-dual-gemm: inputs -> check -> plan -> run -> every output of
// the groups compared -> table and JSON.
#include "kernels/grouped/grouped.hpp"
#include "tests/reference/grouped.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/output_file.hpp"
#include "tools/cli/product.hpp"
#include "tools/cli/product_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace warpline::cli {
namespace {

int index_in(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin());
}

struct GroupedRequest : ProductRequest {
  int64_t groups = 8;
  std::string sizes = "uniform", act = "none", gate = "silu", bias;
  std::optional<float> gate_limit;
  bool gather = false;

  wltest::Gate gate_of() const {
    const auto kind = static_cast<wl_gate>(index_in(gates, gate));
    return {kind, gate_limit.value_or(kind == WL_GATE_CLAMPED ? 7.0f : 0.0f)};
  }
};

// Operands and what stands beside them: an entry for each group.
struct Inputs {
  wltest::Problem product; // a of one entry; b1, b2 of one for each group
  wltest::GroupTable table;
  std::vector<float> alpha[2];
  Numbers bias[2];
};

template <bool dual>
struct Form;
template <>
struct Form<false> {
  using Args = wl_grouped_gemm_args;
  static constexpr const char* command = "grouped-gemm";
  static constexpr auto plan = wl_grouped_gemm_plan;
  static constexpr auto list = wl_grouped_gemm_list_configs;
  static const auto& rules() { return grouped::linear_rules(); }
};
template <>
struct Form<true> {
  using Args = wl_grouped_dual_gemm_args;
  static constexpr const char* command = "grouped-dual-gemm";
  static constexpr auto plan = wl_grouped_dual_gemm_plan;
  static constexpr auto list = wl_grouped_dual_gemm_list_configs;
  static const auto& rules() { return grouped::dual_rules(); }
};

template <bool dual>
Options declare(GroupedRequest& r) {
  Options o(Form<dual>::command,
            dual ? "Runs D = gate(alpha1[g] A.B1[g]^T + bias1[g], alpha2[g] A.B2[g]^T + bias2[g]) "
                   "for\nthe rows of each group g, B1 and B2 [groups, N, K], and compares "
                   "every\noutput with a double-precision reference. The kernel reads the groups' "
                   "sizes on\nthe device."
                 : "Runs D = act(alpha[g] A.B[g]^T + bias[g]) for the rows of each group g, B\n"
                   "[groups, N, K], and compares every output with a double-precision\n"
                   "reference. The kernel reads the groups' sizes on the device.");
  declare_sizes(&o, &r, "rows of each group's B", {"f16", "bf16"});
  std::vector<std::string> types = {"nvfp4", "f16", "bf16"};
  if (!dual) types.insert(types.end(), {"e4m3", "e5m2"});
  o.choice("--a-type", "type of A (default nvfp4)", r.a_type, types);
  o.choice("--b-type", "type of each group's B (default nvfp4, as in a file)", r.b_type, types);
  o.integer("--groups", "groups, at most 512 (default 8)", r.groups, 1, grouped::most_groups);
  o.text("--sizes", "SIZES",
         "rows of the groups: uniform (default) or skewed, random ones that make M; or a\n"
         "list, 3,0,129, of at most M together, which says how many groups there are",
         r.sizes);
  o.flag("--gather", "rows of the product are random rows of A", r.gather);
  if (dual) {
    o.choice("--gate", "default silu", r.gate, gates);
    o.real("--gate-limit", "as of dual-gemm (default none; clamped: 7)", r.gate_limit);
  } else {
    o.choice("--act", "activation (default none)", r.act, activations);
  }
  o.choice("--bias", "random biases of this type for each group", r.bias, {"f32", "f16", "bf16"});
  declare_scales(&o, &r, "B");
  declare_counting(&o, &r);
  o.text("--input", "FILE",
         dual ? "safetensors with a (U8 or F4, [rows, K/2]) and a_scale (F8_E4M3, [rows, K/16]),\n"
                "or a of F16 or BF16, [rows, K]; b1, b2 [groups, N, K/2] with b1_scale, b2_scale;\n"
                "group_ends (I32, [groups]); optional alpha1, alpha2 (F32, [groups]), bias1,\n"
                "bias2 (F32, F16 or BF16, [groups, N])"
              : "safetensors with a (U8 or F4, [rows, K/2]) and a_scale (F8_E4M3, [rows, K/16]),\n"
                "or a of F16 or BF16, [rows, K]; b [groups, N, K/2] with b_scale; group_ends\n"
                "(I32, [groups]); optional alpha (F32, [groups]), bias (F32, F16 or BF16,\n"
                "[groups, N])",
         r.input);
  declare_run(&o, &r);
  return o;
}

// The list of --sizes; empty where it names a distribution.
std::vector<int64_t> listed(const std::string& command, const std::string& sizes) {
  std::vector<int64_t> rows;
  if (sizes == "uniform" || sizes == "skewed") return rows;
  const auto refuse = [&] {
    throw Failure(exit_usage, command + ": --sizes " + sizes +
                                  ": must be uniform, skewed or numbers with commas, as 3,0,129");
  };
  size_t at = 0;
  do {
    const size_t end = std::min(sizes.find(',', at), sizes.size());
    const std::string word = sizes.substr(at, end - at);
    if (word.empty() || word.size() > 10 ||
        word.find_first_not_of("0123456789") != std::string::npos)
      refuse();
    rows.push_back(std::atoll(word.c_str()));
    at = end + 1;
  } while (at <= sizes.size());
  return rows;
}

// Each of M rows goes to any group; skewed: to the n-th 1 / n as often as to the first.
std::vector<int64_t> drawn(const GroupedRequest& r) {
  const wltest::Random random(r.seed, 40);
  std::vector<double> upto;
  double total = 0;
  for (int64_t g = 0; g < r.groups; ++g)
    upto.push_back(total += r.sizes == "skewed" ? 1 / double(g + 1) : 1);
  std::vector<int64_t> rows(static_cast<size_t>(r.groups));
  for (int64_t i = 0; i < r.m; ++i) {
    const double place = total * random.uniform(static_cast<uint64_t>(i));
    const auto found = std::upper_bound(upto.begin(), upto.end(), place);
    ++rows[static_cast<size_t>(std::min(found, upto.end() - 1) - upto.begin())];
  }
  return rows;
}

wltest::GroupTable make_table(const std::vector<int64_t>& rows, const GroupedRequest& r) {
  wltest::GroupTable table;
  table.count = static_cast<int64_t>(rows.size());
  int64_t end = 0;
  for (const int64_t count : rows) table.ends.push_back(static_cast<int32_t>(end += count));
  if (!r.gather) return table;
  const wltest::Random random(r.seed, 41);
  table.a_rows = r.m;
  for (int64_t i = 0; i < r.m; ++i)
    table.rows.push_back(
        static_cast<int32_t>(random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(r.m))));
  return table;
}

Inputs make_inputs(const GroupedRequest& r, int products, const std::vector<int64_t>& rows) {
  Inputs in;
  const gemm::Types types{operand_of(r.a_type), operand_of(r.b_type)};
  in.product = random_product(1, r.n, r.k, r.groups, types, r.seed, products);
  in.product.a = random_product(r.m, 8, r.k, 1, types, r.seed, 1).a;
  in.product.m = r.m;
  in.product.l = 1;
  in.table = make_table(rows, r);
  const auto groups = static_cast<size_t>(r.groups);
  for (int i = 0; i < products; ++i) {
    const wltest::Random random(r.seed, static_cast<uint64_t>(42 + i));
    const float unit = i == 0 ? in.product.alpha1 : in.product.alpha2;
    for (uint64_t g = 0; g < groups; ++g)
      in.alpha[i].push_back(unit * static_cast<float>(0.5 + 1.5 * random.uniform(g)));
    if (!r.bias.empty())
      in.bias[i] = random_numbers(dtype_of(r.bias), groups * static_cast<size_t>(r.n), r.seed,
                                  static_cast<uint64_t>(44 + i));
  }
  return in;
}

Inputs read_inputs(GroupedRequest* r, bool dual) {
  const std::vector<std::string> b =
      dual ? std::vector<std::string>{"b1", "b2"} : std::vector<std::string>{"b"};
  std::vector<std::string> names = {"a", "a_scale", "group_ends"};
  for (const std::string& name : b) {
    const std::string number = name.substr(1);
    for (const std::string& one : {name, name + "_scale", "alpha" + number, "bias" + number})
      names.push_back(one);
  }
  ProductFile file(r->input, names);
  Inputs in;
  wltest::Problem& p = in.product;
  p.a = file.read_a();
  if (file.batched()) file.refuse("tensor \"a\" has a batch, must be [rows, K] of all groups");
  p.b1 = file.read_groups(b[0]);
  if (dual) p.b2 = file.read_groups(b[1]);
  p.m = p.a.rows, p.n = p.b1.rows, p.k = p.a.k, p.l = 1;
  if (dual && (p.b2.rows != p.n || p.b2.l != p.b1.l))
    file.refuse("tensors \"b1\" and \"b2\" must have the same shape");
  const auto groups = static_cast<uint64_t>(p.b1.l);
  const Tensor* ends = file.find("group_ends");
  if (ends == nullptr) file.refuse("has no tensor \"group_ends\"");
  file.require_dtype(*ends, {"I32"});
  file.require_shape(*ends, {groups}, "the end of each group of \"" + b[0] + "\"");
  const std::vector<uint8_t> bytes = file.read(*ends);
  in.table.count = p.b1.l;
  in.table.ends.resize(groups);
  std::memcpy(in.table.ends.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < b.size(); ++i) {
    const std::string number = b[i].substr(1);
    in.alpha[i] =
        values_of(file.numbers("alpha" + number, {"F32"}, {groups}, "one factor for each group"));
    in.bias[i] = file.numbers("bias" + number, {"F32", "F16", "BF16"},
                              {groups, static_cast<uint64_t>(p.n)}, "groups and rows of a B");
  }
  take_sizes(r, p, file.unused());
  r->groups = p.b1.l;
  return in;
}

template <bool dual>
typename Form<dual>::Args sizes_only(const GroupedRequest& r) {
  typename Form<dual>::Args args{};
  args.struct_size = sizeof args;
  using Gemm = decltype(args.gemm);
  args.gemm = sizes_of<Gemm>(r);
  args.gemm.b_type = operand_of(r.b_type);
  if constexpr (dual) {
    args.gemm.gate = r.gate_of().kind;
    args.gemm.gate_limit = r.gate_of().limit;
  } else {
    args.gemm.activation = static_cast<wl_activation>(index_in(activations, r.act));
  }
  args.groups.count = static_cast<int32_t>(r.groups);
  return args;
}

// The rules are asked without a context, which would look for memory behind the pointers.
template <bool dual>
void check_sizes(const wl_context& context, const GroupedRequest& r) {
  auto args = sizes_only<dual>(r);
  args.gemm.a = far_apart(1);
  args.gemm.sfa = scales_far_apart(2, args.gemm.a_type);
  args.gemm.d = far_apart(3);
  if constexpr (dual) {
    args.gemm.b1 = far_apart(4), args.gemm.sfb1 = scales_far_apart(5, args.gemm.b_type);
    args.gemm.b2 = far_apart(6), args.gemm.sfb2 = scales_far_apart(7, args.gemm.b_type);
  } else {
    args.gemm.b = far_apart(4), args.gemm.sfb = scales_far_apart(5, args.gemm.b_type);
  }
  args.groups.ends = static_cast<const int32_t*>(far_apart(8));
  require(api(Form<dual>::command, [&] {
    return Form<dual>::rules().check({args, context.limits});
  }));
}

double memory_needed(const GroupedRequest& r, const Device& device, int products) {
  const OperandBytes a = bytes_of(r, r.a_type, r.m), b = bytes_of(r, r.b_type, r.n);
  const double weights = products * double(r.groups) * (b.values + b.scales + b.drawn);
  const double outputs = double(r.m) * double(r.n);
  return 2 * (weights + a.values + a.scales + a.drawn) +
         host_bytes(device, r, weights + a.values + a.packed + 2 * outputs) +
         (r.verify ? 40 : 4) * outputs;
}

struct GroupedOutcome : ProductRun {
  std::vector<uint8_t> d; // rows of groups, no gaps
  int64_t strayed = 0;    // bytes of other rows that were written
  uint32_t status = 0;
};

template <class T>
DeviceMemory on_device(wl_context* context, const std::vector<T>& values) {
  return DeviceMemory(context, values.data(), values.size() * sizeof(T));
}

template <bool dual>
GroupedOutcome run_on_device(wl_context* context, const Device& device, const GroupedRequest& r,
                             const Inputs& in) {
  std::optional<Progress> progress("sending the inputs");
  const wltest::Problem& p = in.product;
  const bool scaled = !p.a.scales.empty();
  const DeviceMemory a(context, p.a.values),
      sfa(context, !scaled    ? std::vector<uint8_t>{}
                   : r.gather ? pack_scales(p.a)
                              : wltest::packed_group_scales(in.table, p.m, p.k, p.a.scales,
                                                            wltest::nan_padding)),
      b1(context, p.b1.values), sfb1(context, scales_of(layout_of_scales(r), p.b1)),
      b2(context, p.b2.values), sfb2(context, scales_of(layout_of_scales(r), p.b2)),
      bias1(context, in.bias[0].bytes), bias2(context, in.bias[1].bytes);
  const DeviceMemory alpha1 = on_device(context, in.alpha[0]),
                     alpha2 = on_device(context, in.alpha[1]),
                     ends = on_device(context, in.table.ends),
                     rows = on_device(context, in.table.rows);
  const DeviceMemory status(context, std::vector<uint8_t>(4, 0));
  const size_t row_bytes = static_cast<size_t>(p.n) * element_bytes(r.d_type());
  const OutputMemory out(context, std::vector<uint8_t>(static_cast<size_t>(p.m) * row_bytes, 0xFF),
                         0);
  auto args = sizes_only<dual>(r);
  args.gemm.a = a.get();
  args.gemm.sfa = sfa.get();
  args.gemm.d = out.d.get();
  args.gemm.bias_type = in.bias[0].type;
  const auto floats = [](const DeviceMemory& m) { return static_cast<const float*>(m.get()); };
  if constexpr (dual) {
    args.gemm.b1 = b1.get(), args.gemm.sfb1 = sfb1.get();
    args.gemm.b2 = b2.get(), args.gemm.sfb2 = sfb2.get();
    args.gemm.alpha1 = floats(alpha1), args.gemm.alpha2 = floats(alpha2);
    args.gemm.bias1 = bias1.get(), args.gemm.bias2 = bias2.get();
  } else {
    args.gemm.b = b1.get(), args.gemm.sfb = sfb1.get(), args.gemm.alpha = floats(alpha1);
    args.gemm.bias = bias1.get();
  }
  args.groups.ends = static_cast<const int32_t*>(ends.get());
  args.groups.rows = static_cast<const int32_t*>(rows.get());
  args.groups.a_rows = in.table.a_rows;
  args.groups.status = static_cast<uint32_t*>(status.get());
  progress.reset();
  GroupedOutcome outcome{
      ProductRunner(Form<dual>::command, context, device, r).run(args, Form<dual>::plan), {}, 0, 0};
  outcome.counted.tensors = {{"A", a.get()}, {"SFA", sfa.get()}};
  if constexpr (dual)
    for (const auto& [name, memory] :
         {std::pair{"B1", &b1}, {"B2", &b2}, {"SFB1", &sfb1}, {"SFB2", &sfb2}})
      outcome.counted.tensors.push_back({name, memory->get()});
  else
    for (const auto& [name, memory] : {std::pair{"B", &b1}, {"SFB", &sfb1}})
      outcome.counted.tensors.push_back({name, memory->get()});
  require(wl_download(context, &outcome.status, status.get(), sizeof outcome.status));
  const std::vector<uint8_t> image = out.read_d();
  int64_t next = 0;
  const auto pass_by = [&](int64_t end) {
    for (size_t i = static_cast<size_t>(next) * row_bytes; i < static_cast<size_t>(end) * row_bytes;
         ++i)
      outcome.strayed += image[i] != 0xFF;
  };
  for (const wltest::GroupRange& range : wltest::ranges_of(in.table, p.m)) {
    pass_by(range.first);
    outcome.d.insert(
        outcome.d.end(),
        image.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(range.first) * row_bytes),
        image.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(range.end) * row_bytes));
    next = range.end;
  }
  pass_by(p.m);
  return outcome;
}

// Rows of groups, which follow one another from the first one on, and none behind them.
template <class T>
std::vector<T> of_groups(std::vector<T> all, int64_t rows, int64_t n) {
  all.resize(static_cast<size_t>(rows * n));
  return all;
}

template <bool dual>
Verdict verify(const Inputs& in, const GroupedOutcome& outcome, const GroupedRequest& r) {
  Progress progress("comparing with the reference");
  const wltest::Problem& p = in.product;
  const std::vector<wltest::GroupRange> ranges = wltest::ranges_of(in.table, p.m);
  const wltest::Sums sums = wltest::accumulate_groups(
      p, in.table, 0, [&](double fraction) { progress.fraction(fraction); });
  Verdict verdict;
  wltest::Sums cut; // of FP8 on Hopper, what its tensor core makes of the same
  verdict.cuts_sums = cuts_sums(p, outcome);
  if (verdict.cuts_sums)
    cut = wltest::accumulate_groups(p, in.table, 0, {}, [](const wltest::Problem& of) {
      return wltest::accumulate_hopper_f8(of, {true});
    });
  std::vector<double> more;
  std::vector<float> replayed;
  std::function<std::vector<double>(const wltest::Sums&)> reference;
  if constexpr (dual) {
    const wltest::GroupedGated beside{r.gate_of(), in.alpha[0], in.alpha[1], values_of(in.bias[0]),
                                      values_of(in.bias[1])};
    reference = [=, &ranges](const wltest::Sums& of) {
      return wltest::grouped_gated(of, ranges, beside);
    };
    replayed = wltest::grouped_gated_replayed(sums, ranges, beside);
  } else {
    const wltest::GroupedLinear beside{static_cast<wl_activation>(index_in(activations, r.act)),
                                       in.alpha[0],
                                       {},
                                       values_of(in.bias[0]),
                                       {}};
    reference = [=, &ranges](const wltest::Sums& of) {
      return wltest::grouped_linear(of, ranges, beside);
    };
    if (verdict.cuts_sums) more = differences(reference(cut), reference(sums));
    replayed = wltest::grouped_linear_replayed(sums, ranges, beside);
  }
  const int64_t rows = ranges.back().end;
  const wltest::Sums shape{rows, p.n, 1, {}, {}};
  const auto type = r.out == "f16" ? wltest::OutputType::f16 : wltest::OutputType::bf16;
  verdict.strayed = outcome.strayed;
  const std::vector<double> wanted = of_groups(reference(sums), rows, p.n);
  judge_sums({sums, reference,
              [&] {
                return wltest::accumulate_groups(p, in.table, 0, {}, [](const wltest::Problem& of) {
                  return wltest::most_lost(of);
                });
              },
              [&](std::vector<double> allowed) {
                if (!allowed.empty()) allowed = of_groups(std::move(allowed), rows, p.n);
                return wltest::compare(shape, wanted,
                                       reinterpret_cast<const uint16_t*>(outcome.d.data()), p.n,
                                       rows * p.n, type, allowed);
              }},
             std::move(more), &verdict);
  verdict.unequal = wltest::count_unequal(
      outcome.d, wltest::rounded(of_groups(std::move(replayed), rows, p.n), r.d_type()),
      r.d_type());
  verdict.seconds = progress.seconds();
  return verdict;
}

template <bool dual>
void report_run(Report& report, const Device& device, const GroupedRequest& r, const Inputs& in,
                const GroupedOutcome& outcome) {
  report_device(report, device);
  report_problem(report, r);
  int64_t some = 0, most = 0, all = 0;
  for (const wltest::GroupRange& range : wltest::ranges_of(in.table, r.m)) {
    some += range.rows() > 0, all += range.rows();
    most = std::max(most, range.rows());
  }
  report.add("groups",
             format("%lld, %lld with rows, at most %lld of %lld%s",
                    static_cast<long long>(r.groups), static_cast<long long>(some),
                    static_cast<long long>(most), static_cast<long long>(all),
                    r.gather ? ", gathered" : ""),
             "groups", json_list({r.groups, some, most, all}));
  report_inputs(report, r);
  const std::string epilogue = dual ? r.gate : r.act;
  report.add("epilogue", epilogue + (r.bias.empty() ? "" : ", biases in " + r.bias), "act",
             json_string(epilogue));
  report.add_text("output type", "out", r.out);
  report_schedule(report, device, r);
  report_plan(report, device, outcome.plan, outcome.seconds);
  report.add_integer("status of the groups", "status", outcome.status);
}

template <bool dual>
ExitStatus run(const Arguments& arguments) {
  const std::string command = Form<dual>::command;
  GroupedRequest request;
  Options options = declare<dual>(request);
  if (!options.parse(arguments)) {
    std::fputs(options.help().c_str(), stdout);
    return exit_right;
  }
  Inputs inputs;
  std::vector<int64_t> rows;
  if (!request.input.empty()) {
    refuse_with_input(command, options,
                      {"-m", "-n", "-k", "-l", "--a-type", "--groups", "--sizes", "--gather",
                       "--bias", "--seed"});
    inputs = read_inputs(&request, dual);
  } else {
    request.verify = true;
    rows = listed(command, request.sizes);
    if (!rows.empty()) {
      if (options.given("--groups") && request.groups != static_cast<int64_t>(rows.size()))
        throw Failure(exit_usage,
                      command + format(": --groups %lld, but --sizes has %zu numbers",
                                       static_cast<long long>(request.groups), rows.size()));
      request.groups = static_cast<int64_t>(rows.size());
      const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
      if (!options.given("-m")) request.m = std::max<int64_t>(all, 1);
      if (all > request.m)
        throw Failure(exit_usage,
                      command + format(": --sizes has %lld rows, must be at most -m %lld",
                                       static_cast<long long>(all),
                                       static_cast<long long>(request.m)));
    }
  }
  if (!request.input.empty() && request.b_type != "nvfp4")
    throw Failure(exit_usage, command + ": --b-type " + request.b_type +
                                  " with --input must be nvfp4, which a file's B is");
  if (!options.given("--out")) request.out = default_out(request.a_type);
  const Device device = prepare_product(command, &request);
  const Context context(device.ordinal);
  check_sizes<dual>(*context.get(), request);
  check_memory(command, "m, n, k and groups", memory_needed(request, device, dual ? 2 : 1));
  if (request.input.empty()) {
    const Progress progress("making the inputs");
    inputs = make_inputs(request, dual ? 2 : 1, rows.empty() ? drawn(request) : rows);
  }
  if (!request.trace.empty()) create_folder_of(request.trace);
  const GroupedOutcome outcome = with_virtual_report(
      device, [&] { return run_on_device<dual>(context.get(), device, request, inputs); });

  Report report;
  report_version(report, command);
  report_run<dual>(report, device, request, inputs, outcome);
  if (request.stats)
    report_stats(report, list_configs(context.get(), sizes_only<dual>(request), Form<dual>::list),
                 outcome.plan.config, outcome.counted);
  std::optional<Verdict> verdict;
  if (request.verify && !outcome.d.empty()) verdict = verify<dual>(inputs, outcome, request);
  const End end = conclude(report, request, verdict, [&] {
    const int64_t rows_of_groups = wltest::ranges_of(inputs.table, request.m).back().end;
    write_d(request.output, command, request.d_type(),
            matrix_shape(false, 1, rows_of_groups, request.n), outcome.d.data(), outcome.d.size());
  });
  print_report(report, request, end.result);
  return end.status;
}

} // namespace

ExitStatus run_grouped_gemm(const Arguments& arguments) { return run<false>(arguments); }
ExitStatus run_grouped_dual_gemm(const Arguments& arguments) { return run<true>(arguments); }

} // namespace warpline::cli
