#!/usr/bin/env python3
"""The experts of a mixture by wl_grouped_dual_gemm (gate and up) and wl_grouped_gemm (down) against
torch._grouped_mm on the same weights decoded to BF16, and against a loop of wl_dual_gemm or wl_gemm
over the experts that have rows, in one process.

    make shared && python3 tools/bench/compare_grouped.py [--json FILE] [--tokens 64,4096]
                       [--models qwen,deepseek,gptoss] [--routing uniform,skewed]
                       [--a-type bf16|nvfp4] [--b-type nvfp4|bf16] [--configs] [--gather]

Rows are sorted by expert already, for all of them; how many each has, ours and torch's read on the
device. The loop knows them on the host and has plans of its own for each expert. torch multiplies
by gate and up in one product and computes no gate; so does humming-kernels, where it is installed,
on the same NVFP4 weights and 16-bit rows. D is in BF16. Weight sets rotate so that every
call finds its experts in DRAM; graphs of calls take turns. Columns: microseconds, ratios to ours,
and `bytes`, the share of the time that the touched experts' weights take at the measured copy rate;
humming-kernels' calls are no graph's, and its ratio is to ours timed so; what it refuses is told, and
its columns stay empty.
`--configs` times every configuration instead. `--gather`: rows are those of as many tokens, by an
index; `dense` is the same product of rows that lie sorted, `copied` an index_select and that, and
torch selects ahead of its product as well.
"""
import argparse
import json
import math
import re
import sys
import time
import traceback

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import humming_peer  # noqa: E402
import warpline  # noqa: E402
from harness import Harness, floors  # noqa: E402

abi = warpline.abi
# hidden, intermediate, experts, experts a token takes; DeepSeek-V3's are 32 of 256 on one rank.
MODELS = {"qwen": (2048, 768, 128, 8), "deepseek": (7168, 2048, 32, 1),
          "gptoss": (2880, 2880, 128, 4)}


def route(tokens, experts, taken, routing, seed):
    """Rows of each expert."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.ones(experts)
    if routing == "skewed":  # the n-th most wanted expert 1 / n as often as the first
        weights = 1 / torch.arange(1, experts + 1, dtype=torch.float32)
        weights = weights[torch.randperm(experts, generator=generator)]
    chosen = torch.multinomial(weights.expand(tokens, experts), taken, generator=generator)
    return torch.bincount(chosen.flatten(), minlength=experts)


class Layer:
    """Operands of one product of all experts."""

    def __init__(self, rows, n, k, dual, a_type, b_type, seed, tokens=0):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.rows, self.n, self.k, self.dual, self.a_type = rows.tolist(), n, k, dual, a_type
        self.b_type = b_type
        self.experts, self.m = len(self.rows), sum(self.rows)

        def operand(count, of):
            packed = torch.randint(0, 256, (count, of, k // 2), dtype=torch.uint8, device="cuda",
                                   generator=generator)
            plain = torch.randint(0x28, 0x40, (count, of, k // 16), dtype=torch.uint8,
                                  device="cuda", generator=generator)
            return packed, plain
        self.ends = rows.cumsum(0).to(torch.int32).cuda()
        self.starts = [0] + rows.cumsum(0).tolist()
        self.b, self.sfb, self.sfb_plain = [], [], []
        for _ in range(2 if dual else 1):
            packed, plain = operand(self.experts, n)
            self.b.append(packed)
            self.sfb_plain.append(plain)
            self.sfb.append(warpline.pack_scales(plain) if b_type == "nvfp4" else None)
        if b_type != "nvfp4":  # what is multiplied, decoded exactly
            self.plain_b = [torch.cat([warpline.decode(b[g:g + 1], s[g:g + 1], torch.bfloat16)
                                       for g in range(self.experts)])
                            for b, s in zip(self.b, self.sfb_plain)]
        self.alpha = torch.full((self.experts,), 1 / math.sqrt(k), dtype=torch.float32,
                                device="cuda")
        self.sfa = self.sfa_plain = None
        if a_type == "nvfp4":
            self.a, self.sfa_plain = (t[0] for t in operand(1, self.m))
            self.sfa = self.group_scales()
        else:
            self.a = torch.randn(self.m, k, dtype=torch.bfloat16, device="cuda",
                                 generator=generator)
        self.tokens = None  # whose rows are gathered
        if tokens:
            self.tokens = self.a[:tokens].clone()
            self.index = torch.randint(0, tokens, (self.m,), dtype=torch.int32, device="cuda",
                                       generator=generator)
            self.select(self.a)
        self.d = torch.empty(self.m, n, dtype=torch.bfloat16, device="cuda")

    def select(self, a):
        torch.index_select(self.tokens, 0, self.index, out=a)

    def group_scales(self):
        """Tile start / 128 + g for each expert g."""
        tile = 128 * (-(-self.k // 64) * 4)
        scales = torch.full((-(-self.m // 128) + self.experts - 1, tile), 0x7F, dtype=torch.uint8,
                            device="cuda")
        for g, count in enumerate(self.rows):
            if count:
                start = self.starts[g]
                packed = warpline.pack_scales(self.sfa_plain[None, start:start + count])
                first = start // 128 + g
                scales[first:first + -(-count // 128)] = packed.view(-1, tile)
        return scales

    def fields(self, a, sfa, b, sfb, m, d, alpha):
        of_b = ({"b1": b[0], "b2": b[1], "sfb1": sfb[0], "sfb2": sfb[1], "alpha1": alpha,
                 "alpha2": alpha} if self.dual else {"b": b[0], "sfb": sfb[0], "alpha": alpha})
        return {"m": m, "n": self.n, "k": self.k, "l": 1, "a": a, "sfa": sfa, "d": d,
                "d_type": abi.BF16, "sf_layout": abi.SF_128X4,
                "a_type": abi.OPERANDS.index(self.a_type.upper()),
                "b_type": abi.OPERANDS.index(self.b_type.upper()), **of_b}

    def operands_b(self):
        return self.b if self.b_type == "nvfp4" else self.plain_b

    def plan(self, library, config=None, dense=False):
        groups = abi.Groups(count=self.experts, ends=self.ends.data_ptr())
        a = self.a
        if self.tokens is not None and not dense:
            a = self.tokens
            groups.rows, groups.a_rows = self.index.data_ptr(), a.shape[0]
        make = library.grouped_dual_gemm if self.dual else library.grouped_gemm
        plan = make(groups, config=config, **self.fields(
            a.data_ptr(), self.sfa.data_ptr() if self.sfa is not None else None,
            [t.data_ptr() for t in self.operands_b()],
            [t.data_ptr() if t is not None else None for t in self.sfb], self.m,
            self.d.data_ptr(), self.alpha.data_ptr()))
        return run_of(plan)

    def loop(self, library):
        """A plan for each expert that has rows."""
        make = library.dual_gemm if self.dual else library.gemm
        runs = []
        for g, count in enumerate(self.rows):
            if not count:
                continue
            start = self.starts[g]
            sfa = None
            if self.sfa is not None:
                sfa = self.sfa[start // 128 + g].data_ptr()
            runs.append(run_of(make(**self.fields(
                self.a[start].data_ptr(), sfa, [t[g].data_ptr() for t in self.operands_b()],
                [t[g].data_ptr() if t is not None else None for t in self.sfb], count,
                self.d[start].data_ptr(),
                self.alpha[g].data_ptr()))))

        def run():
            for one in runs:
                one()
        return run

    def decoded_a(self, dtype):
        if self.sfa_plain is None:
            return self.a.to(dtype)
        return warpline.decode(self.a[None], self.sfa_plain[None], dtype)[0]

    def decoded_b(self, g, dtype):
        return [warpline.decode(b[g:g + 1], s[g:g + 1], dtype)[0] * self.alpha[g].to(dtype)
                for b, s in zip(self.b, self.sfb_plain)]

    def peer(self):
        """torch's operands: gate and up of an expert one below the other."""
        b = torch.empty(self.experts, self.n * len(self.b), self.k, dtype=torch.bfloat16,
                        device="cuda")
        for g in range(self.experts):
            b[g] = torch.cat(self.decoded_b(g, torch.bfloat16))
        return self.decoded_a(torch.bfloat16).contiguous(), b

    def humming(self):
        product = humming_peer.experts(torch.cat(self.b, 1), torch.cat(self.sfb_plain, 1),
                                       self.alpha, torch.bfloat16)
        starts = torch.tensor(self.starts, dtype=torch.int64, device="cuda")

        def run():
            run.d = product(self.a, starts)
        return run

    def humming_wrong(self, run):
        """The worst error of its sums, in the units of `wrong`."""
        run()
        worst = 0.0
        for g, count in enumerate(self.rows):
            rows = slice(self.starts[g], self.starts[g] + count)
            exact = self.a[rows].double() @ torch.cat(self.decoded_b(g, torch.float64)).t()
            error = (run.d[rows].double() - exact).abs() / (2e-3 + 5e-3 * exact.abs())
            if count:
                worst = max(worst, error.nan_to_num(nan=1e9).max().item())
        return worst

    def wrong(self, run):
        """The worst error in units of what rounding to BF16 allows; above 1 is wrong."""
        self.d.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        worst = 0.0
        a = self.decoded_a(torch.float64)
        for g, count in enumerate(self.rows):
            if not count:
                continue
            rows = slice(self.starts[g], self.starts[g] + count)
            sums = [a[rows] @ b.t() for b in self.decoded_b(g, torch.float64)]
            exact = sums[0] * torch.sigmoid(sums[0]) * sums[1] if self.dual else sums[0]
            error = (self.d[rows].double() - exact).abs() / (2e-3 + 5e-3 * exact.abs())
            worst = max(worst, error.nan_to_num(nan=1e9).max().item())
        return worst


def run_of(plan):
    workspace = torch.empty(max(plan.info.workspace_bytes, 256), dtype=torch.uint8, device="cuda")
    stream = torch.cuda.current_stream

    def run():
        plan.run(stream().cuda_stream, workspace.data_ptr())
    run.plan, run.config = plan, plan.info.config.decode()
    return run


def after(layer, product, a=None):
    """The product, of tokens behind the copy that sorts them."""
    def run():
        if layer.tokens is not None:
            layer.select(layer.a if a is None else a)
        product()
    return run


def configs(dual, a_type, b_type):
    text = (abi.ROOT / "kernels" / "grouped" / "configs.def").read_text()
    name = "grouped_dual_gemm" if dual else "grouped_gemm"
    taken = {"nvfp4": r"_sm90_(?!direct_)(?!abf16_)(?!small_a)(?!b?f16_)",
             "bf16": r"_sm90_\w*abf16"}[a_type] if b_type == "nvfp4" else r"_sm90_bf16"
    return re.findall(r"\((%s%s\w*_bf16)," % (name, taken), text)


def compare(library, harness, case, options, copy):
    model, tokens, routing, dual = case
    hidden, inner, experts, taken = MODELS[model]
    n, k = (inner, hidden) if dual else (hidden, inner)
    rows = route(tokens, experts, taken, routing, 1)
    bits = 4.5 if options.b_type == "nvfp4" else 16
    bytes_each = int(n * k * bits / 8) * (2 if dual else 1)
    touched = int((rows > 0).sum()) * bytes_each
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(1, -(-3 * l2 // touched))
    sets = [Layer(rows, n, k, dual, options.a_type, options.b_type, s,
                  min(tokens, int(rows.sum())) if options.gather else 0) for s in range(count)]
    row = {"model": model, "tokens": tokens, "routing": routing,
           "product": "up" if dual else "down", "rows": int(rows.sum()),
           "touched": int((rows > 0).sum()), "most": int(rows.max())}
    repeats = max(1, 6 // count) if tokens <= 512 else 1
    if options.configs:
        runs = {name: [s.plan(library, name.encode()) for s in sets]
                for name in configs(dual, options.a_type, options.b_type)}
        row["errors"] = {name: sets[0].wrong(of[0]) for name, of in runs.items()}
        row["us"] = harness.medians({name: harness.captured(of * repeats)
                                     for name, of in runs.items()}, ahead=200_000)
        row["config"] = sets[0].plan(library).config
        row["error"] = max(row["errors"].values())
        return row
    ours = [s.plan(library) for s in sets]
    row["config"] = ours[0].config
    row["error"] = sets[0].wrong(ours[0])
    graphs = {"ours": harness.captured(ours * repeats)}
    if options.gather:
        dense = [s.plan(library, dense=True) for s in sets]
        row["dense_config"] = dense[0].config
        graphs["dense"] = harness.captured(dense * repeats)
        graphs["copied"] = harness.captured(
            [after(s, run) for s, run in zip(sets, dense)] * repeats)
    if options.loop:
        loops = [s.loop(library) for s in sets]
        row["error"] = max(row["error"], sets[0].wrong(loops[0]))
        graphs["loop"] = harness.captured(loops)
    if hasattr(torch, "_grouped_mm"):
        peers = [(s, s.peer()) for s in sets[:max(1, -(-3 * l2 // int(touched * 16 / bits)))]]
        graphs["torch"] = harness.captured(
            [after(s, lambda s=s, p=p: torch._grouped_mm(p[0], p[1].transpose(1, 2), offs=s.ends),
                   p[0]) for s, p in peers] * repeats)
    if options.humming:
        try:
            peers = [s.humming() for s in sets]
            row["humming_error"] = sets[0].humming_wrong(peers[0])
        except AssertionError as refusal:  # 0.1.19: GPT-OSS's down product
            place = traceback.extract_tb(refusal.__traceback__)[-1]
            row["humming_refuses"] = "%s:%d: %s" % (place.name, place.lineno, place.line)
            print("Humming refuses: " + row["humming_refuses"], file=sys.stderr)
        else:
            # Graphs of its calls end in an illegal memory access (0.1.19, torch 2.11).
            row.update(harness.eager_medians({"humming": peers * repeats,
                                              "eager": ours * repeats}))
    row.update(harness.medians(graphs, ahead=200_000))
    for name in ("torch", "loop", "humming"):
        if name in row:
            row[name + "_ratio"] = row[name] / row["eager" if name == "humming" else "ours"]
    row["bytes"] = touched / (copy * 1e6) / row["ours"]
    return row


COLUMNS = (("model", "model", "%-8s"), ("tokens", "T", "%5d"), ("routing", "routing", "%-8s"),
           ("product", "what", "%-4s"), ("rows", "rows", "%6d"), ("touched", "experts", "%7d"),
           ("most", "most", "%5d"), ("ours", "ours us", "%8.1f"), ("torch", "torch", "%8.1f"),
           ("torch_ratio", "ratio", "%6.2f"), ("dense", "dense", "%8.1f"),
           ("copied", "copied", "%8.1f"), ("loop", "loop", "%8.1f"),
           ("loop_ratio", "ratio", "%6.2f"), ("humming", "humming", "%8.1f"),
           ("humming_ratio", "ratio", "%6.2f"), ("bytes", "bytes", "%6.2f"))


def line(row):
    cells = (form % row[key] if key in row else "-".rjust(len(form % 0))
             for key, _, form in COLUMNS)
    return "  ".join(cells) + "  " + row["config"] + ("" if row["error"] <= 1 else "  WRONG")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", default="64,4096")
    parser.add_argument("--models", default="qwen,deepseek,gptoss")
    parser.add_argument("--routing", default="uniform,skewed")
    parser.add_argument("--a-type", choices=("bf16", "nvfp4"), default="bf16")
    parser.add_argument("--b-type", choices=("nvfp4", "bf16"), default="nvfp4",
                        help="of bf16: multiplied with A in bf16")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--no-loop", dest="loop", action="store_false")
    parser.add_argument("--configs", action="store_true", help="time every configuration instead")
    parser.add_argument("--gather", action="store_true", help="rows by an index, A in bf16")
    parser.add_argument("--json")
    options = parser.parse_args()
    library = warpline.Library()
    options.humming = (options.a_type == "bf16" and options.b_type == "nvfp4" and
                       not (options.gather or options.configs) and humming_peer.present())
    harness = Harness(options.replays)
    copy, peak = floors()
    head = {"device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "a_type": options.a_type, "b_type": options.b_type, "torch": torch.__version__,
            "copy_tb_s": copy,
            "fp16_tflops": peak}
    print("%(device)s, %(date)s, A in %(a_type)s, torch %(torch)s: copy %(copy_tb_s).2f TB/s, "
          "FP16 8192^3 %(fp16_tflops).0f TFLOP/s" % head)
    if not options.configs:
        print("  ".join(title.rjust(len(form % (0 if "s" not in form[-1:] else "")))
                        for _, title, form in COLUMNS))
    rows = []
    for model in options.models.split(","):
        for tokens in map(int, options.tokens.split(",")):
            for routing in options.routing.split(","):
                for dual in (True, False):
                    row = compare(library, harness, (model, tokens, routing, dual), options, copy)
                    rows.append(row)
                    torch.cuda.empty_cache()
                    if not options.configs:
                        print(line(row), flush=True)
                        continue
                    print("%(model)s T %(tokens)d %(routing)s %(product)s, chosen %(config)s" % row)
                    for name in sorted(row["us"], key=row["us"].get):
                        print("  %9.1f  %s%s" % (row["us"][name], name, "" if
                                                 row["errors"][name] <= 1 else "  WRONG"))
                    sys.stdout.flush()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"head": head, "rows": rows}, file, indent=1)
    return 0 if all(row["error"] <= 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
