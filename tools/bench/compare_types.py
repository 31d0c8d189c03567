#!/usr/bin/env python3
"""wl_gemm on operands of 8, 16 and 32 bits against PyTorch's products of the same types.

    make shared && python3 tools/bench/compare_types.py --kinds f8,f8fast,... [--m ...] [--shapes NxK,...]

Kinds, and the peer of each:
  f8, f8fast         E4M3, one scale for each operand, D in BF16; torch._scaled_mm with
                     use_fast_accum False and True
  f8row, f8rowfast   the same with a scale for each row of A and of B
  i8                 INT8, D in FP32; torch._int_mm, whose D is INT32
  tf32               FP32 operands, D in FP32; torch.mm with allow_tf32
  f16, bf16          D in the same type; torch.mm
All but the f8row kinds also against cuBLASLt, the fastest of the first eight algorithms that its
heuristics offer (`lt`, and which it was); --gelu adds bias and GELU to ours and to cuBLASLt's
epilogue, for f16 and bf16.

Operand sets rotate: together they exceed three times the L2. Graphs of calls take turns, one replay
each and every other round in reverse; a time is the median over the replays, launches included.
`burst` has a pause before each replay, so that the card is within its power when one starts.
`--configs` times every configuration that runs instead, for the model of the choice. `--beside`
times another build of the library in the same turns: `before` by `ours` is what a change gains.
"""
import argparse
import json
import math
import re
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import cublaslt  # noqa: E402
import warpline  # noqa: E402
from harness import Harness, floors  # noqa: E402

abi = warpline.abi
SHAPES = "6144x4096,4096x4096,4096x14336,7168x2048,24576x1536,2880x2880"
# Of a kind: operands in warpline, in torch, D, what configurations are called.
KINDS = {
    "f8": ("E4M3", torch.float8_e4m3fn, torch.bfloat16, "f8"),
    "f8fast": ("E4M3", torch.float8_e4m3fn, torch.bfloat16, "f8fast"),
    "f8row": ("E4M3", torch.float8_e4m3fn, torch.bfloat16, "f8"),
    "f8rowfast": ("E4M3", torch.float8_e4m3fn, torch.bfloat16, "f8fast"),
    "i8": ("INT8", torch.int8, torch.float32, "i8"),
    "tf32": ("TF32", torch.float32, torch.float32, "tf32"),
    "f16": ("F16", torch.float16, torch.float16, "f16"),
    "bf16": ("BF16", torch.bfloat16, torch.bfloat16, "bf16"),
}
D_TYPES = {torch.float16: abi.F16, torch.bfloat16: abi.BF16, torch.float32: abi.F32}


class Operands:
    def __init__(self, kind, m, n, k, seed, layouts):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.kind, self.m, self.n, self.k, self.layouts = kind, m, n, k, layouts
        self.name, dtype, out, _ = KINDS[kind]

        def operand(rows, layout):
            if layout == "mn":
                return operand(rows, "k").t().contiguous().t()
            if dtype == torch.int8:
                return torch.randint(-128, 128, (rows, k), dtype=torch.int8, device="cuda",
                                     generator=generator)
            return torch.randn(rows, k, device="cuda", generator=generator).to(dtype)

        def scales(rows):
            return torch.rand(rows, device="cuda", generator=generator) + 0.5
        self.a, self.b = operand(m, layouts[0]), operand(n, layouts[1])
        self.d = torch.empty(m, n, dtype=out, device="cuda")
        self.bias = torch.randn(n, device="cuda", generator=generator).to(out)
        self.rows = self.columns = self.alpha = None
        if "row" in kind:
            self.rows, self.columns = scales(m).view(m, 1), scales(n).view(1, n)
        elif kind.startswith("f8"):
            self.scale_a, self.scale_b = scales(1)[0], scales(1)[0]
            self.alpha = (self.scale_a * self.scale_b).view(1)

    def plan(self, library, config=None, gelu=False, flags=0):
        def address(tensor):
            return tensor.data_ptr() if tensor is not None else None
        plan = library.gemm(
            m=self.m, n=self.n, k=self.k, l=1, sf_layout=abi.SF_128X4, a=self.a.data_ptr(),
            b=self.b.data_ptr(), alpha=address(self.alpha), row=address(self.rows),
            col=address(self.columns), d=self.d.data_ptr(), d_type=D_TYPES[self.d.dtype],
            config=config, bias=address(self.bias) if gelu else None,
            bias_type=D_TYPES[self.d.dtype], activation=abi.GELU_TANH if gelu else 0,
            a_type=abi.OPERANDS.index(self.name),
            b_type=abi.OPERANDS.index(self.name),
            a_layout=int(self.layouts[0] == "mn"), b_layout=int(self.layouts[1] == "mn"),
            flags=flags | (abi.FAST_ACCUMULATION if "fast" in self.kind else 0))
        workspace = torch.empty(max(plan.info.workspace_bytes, 256), dtype=torch.uint8,
                                device="cuda")
        stream = torch.cuda.current_stream

        def run():
            plan.run(stream().cuda_stream, workspace.data_ptr())
        run.plan, run.config = plan, plan.info.config.decode()
        return run

    def peer(self):
        a, b, fast = self.a, self.b.t(), "fast" in self.kind
        if self.kind == "i8":
            out = torch.empty(self.m, self.n, dtype=torch.int32, device="cuda")
            return lambda: torch._int_mm(a, b, out=out)
        if self.kind.startswith("f8"):
            scale_a, scale_b = ((self.rows, self.columns) if self.rows is not None
                                else (self.scale_a, self.scale_b))
            return lambda: torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16,
                                            use_fast_accum=fast)
        out = torch.empty_like(self.d)
        return lambda: torch.mm(a, b, out=out)

    def cublaslt(self, lt, gelu=False):
        out = torch.int32 if self.kind == "i8" else self.d.dtype
        d = torch.empty(self.m, self.n, dtype=out, device="cuda")
        scales = (self.scale_a, self.scale_b) if self.kind.startswith("f8") else None
        return lt.product(self.a, self.b, d, scales, self.bias if gelu else None,
                          "fast" in self.kind)

    def wrong(self, run):
        """The worst error in units of what rounding D and the sums allow; above 1 is wrong."""
        self.d.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        a, b = self.a.double(), self.b.double().t()
        exact, size = a @ b, (a.abs() @ b.abs())
        for scale in (self.rows, self.columns, self.alpha):
            if scale is not None:
                exact, size = exact * scale.double(), size * scale.double()
        if self.kind == "i8":
            return (self.d.double() - exact.float().double()).abs().max().item()
        # A sum of FP8 keeps 14 bits, so each step of 32 of K may cut off 33 times the last of them
        # of the largest sum so far, which is taken to be four times the square root of the sum of
        # all squares; of 128 of K, or of all of it. TF32 has 10 bits of a mantissa.
        if self.kind.startswith("f8"):
            steps = self.k / 32 if "f8fast" in run.config else 4
            squares = (a * a) @ (b * b)
            for scale in (self.rows, self.columns, self.alpha):
                if scale is not None:
                    squares = squares * scale.double() ** 2
            part = 1 if "f8fast" in run.config else min(1, 128 / self.k)
            cuts = steps * 2**-13 * 4 * (squares * part).sqrt()
            size, sums = cuts * (1 / part), 1
        else:
            sums = {"tf": 2**-10}.get(self.kind[:2], 2**-20)
        digits = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-23}
        bound = sums * size + 2 * digits[self.d.dtype] * exact.abs() + 1e-6
        return ((self.d.double() - exact).abs() / bound).nan_to_num(nan=1e9).max().item()


def names_of(kind, m):
    rows = (abi.ROOT / "kernels" / "linear" / "configs.def").read_text()
    prefix = KINDS[kind][3]
    out = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}[KINDS[kind][2]]
    names = re.findall(r"^SM90_NATIVE_(?:STREAM_|SPLIT_|TURNED_)?CONFIG\((gemm_sm90_%s_\w*_%s)," % (
        prefix + ("(?:fast)?" if prefix == "f8" else ""), out), rows, re.MULTILINE)
    tokens = {name: int(re.findall(r"_t(\d+)", name)[0]) for name in names}
    return [name for name in names if m <= 32 * tokens[name] and tokens[name] < 8 * max(m, 16)]


def compare(library, harness, kind, m, n, k, options):
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    bytes_of = KINDS[kind][1].itemsize * n * k
    count = max(2, -(-3 * l2 // bytes_of) + 1)
    sets = [Operands(kind, m, n, k, seed, options.layouts) for seed in range(count)]
    repeats = 3 if m <= 512 else 1
    row = {"kind": kind, "m": m, "n": n, "k": k}
    if options.configs:
        runs = {name: [s.plan(library, name.encode()) for s in sets] for name in names_of(kind, m)}
        graphs = {name: harness.captured(of * repeats) for name, of in runs.items()}
        row["us"] = harness.medians(graphs)
        row["chosen"] = sets[0].plan(library).config
        return row
    ours = [s.plan(library) for s in sets]
    row["config"] = ours[0].config
    row["error"] = sets[0].wrong(ours[0])
    graphs = {"ours": harness.captured(ours * repeats)}
    if options.beside:
        before = [s.plan(options.beside) for s in sets]
        row["config_before"] = before[0].config
        graphs["before"] = harness.captured(before * repeats)
    try:
        torch_calls = [s.peer() for s in sets]
        graphs["torch"] = harness.captured(torch_calls * repeats)
    except RuntimeError as error:  # torch._int_mm wants more than 16 rows
        row["refused"] = str(error).split("\n")[0]
    if options.cublaslt and "row" not in kind:
        try:  # graphs keep no memory alive: these lists do
            peers = [s.cublaslt(options.cublaslt) for s in sets]
            _, row["lt_place"], graphs["lt"] = cublaslt.best(harness, peers, repeats)
            if options.gelu and kind in ("f16", "bf16"):
                gelu = [s.plan(library, None, True) for s in sets]
                gelu_peers = [s.cublaslt(options.cublaslt, True) for s in sets]
                graphs["gelu"] = harness.captured(gelu * repeats)
                _, row["ltgelu_place"], graphs["ltgelu"] = cublaslt.best(
                    harness, gelu_peers, repeats)
        except (RuntimeError, ValueError) as error:
            row["lt_refused"] = str(error).split("\n")[0]
            print(row["lt_refused"])
    row.update(harness.medians(graphs))
    if m >= 1024:
        burst = harness.medians({name + "_burst": graph for name, graph in graphs.items()},
                                options.pause * 1e-3)
        row.update(burst)
    for end in ("", "_burst"):
        if "torch" + end in row:
            row["ratio" + end] = row["torch" + end] / row["ours" + end]
        for ours_of, peer in (("ours", "lt"), ("gelu", "ltgelu"), ("ours", "before")):
            if peer + end in row:
                row["ratio_" + peer + end] = row[peer + end] / row[ours_of + end]
    return row


COLUMNS = (("m", "M", "%5d"), ("n", "N", "%6d"), ("k", "K", "%6d"), ("ours", "ours us", "%8.2f"),
           ("torch", "torch", "%8.2f"), ("ratio", "ratio", "%6.3f"),
           ("ours_burst", "burst", "%8.2f"), ("torch_burst", "torch b", "%8.2f"),
           ("ratio_burst", "ratio", "%6.3f"), ("lt", "lt", "%8.2f"), ("lt_place", "of 8", "%2d"),
           ("ratio_lt", "ratio", "%6.3f"), ("ratio_lt_burst", "burst", "%6.3f"),
           ("gelu", "gelu", "%8.2f"), ("ltgelu", "lt gelu", "%8.2f"),
           ("ratio_ltgelu", "ratio", "%6.3f"), ("before", "before", "%8.2f"),
           ("ratio_before", "ratio", "%6.3f"))


def line(row):
    cells = (form % row[key] if key in row else "-".rjust(len(form % 0))
             for key, _, form in COLUMNS)
    return "%-9s  " % row["kind"] + "  ".join(cells) + "  " + row["config"] + (
        "" if row["error"] <= 1 else "  WRONG %.3g" % row["error"])


def means(rows):
    """Geometric means over the shapes, for each kind and M."""
    result = []
    for kind, m in sorted({(row["kind"], row["m"]) for row in rows}):
        mean = {"kind": kind, "m": m}
        for key in ("ratio", "ratio_burst", "ratio_lt", "ratio_lt_burst", "ratio_ltgelu",
                    "ratio_ltgelu_burst", "ratio_before"):
            values = [r[key] for r in rows if (r["kind"], r["m"]) == (kind, m) and key in r]
            if values:
                mean[key] = math.exp(sum(map(math.log, values)) / len(values))
                mean["worst " + key] = min(values)
        result.append(mean)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--m", default="16,64,256,4096")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--squares", default="", help="sizes of M, N and K, beside the shapes")
    parser.add_argument("--replays", type=int, default=12)
    parser.add_argument("--pause", type=float, default=5, help="milliseconds ahead of a burst")
    parser.add_argument("--configs", action="store_true", help="time every configuration instead")
    parser.add_argument("--beside", help="another libwarpline.so")
    parser.add_argument("--no-cublaslt", action="store_true")
    parser.add_argument("--gelu", action="store_true", help="bias and GELU against cuBLASLt's")
    parser.add_argument("--layouts", default="k,k", type=lambda text: text.split(","),
                        help="of A and of B: k or mn, which is for f16 and bf16")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True

    options.cublaslt = None if options.no_cublaslt else cublaslt.CublasLt()
    library = warpline.Library()
    if options.beside:
        options.beside = warpline.Library(path=options.beside)
    harness = Harness(options.replays)
    copy, peak = floors()
    head = {"layouts": options.layouts,
            "device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "torch": torch.__version__, "copy_tb_s": copy, "fp16_tflops": peak}
    print("%(device)s, %(date)s, torch %(torch)s: copy %(copy_tb_s).2f TB/s, "
          "FP16 8192^3 %(fp16_tflops).0f TFLOP/s" % head)
    problems = [(int(size),) * 3 for size in options.squares.split(",") if size]
    for shape in filter(None, options.shapes.split(",")):
        problems += [(int(m), *map(int, shape.split("x"))) for m in options.m.split(",")]
    rows = []
    for kind in options.kinds.split(","):
        for m, n, k in problems:
            row = compare(library, harness, kind, m, n, k, options)
            rows.append(row)
            torch.cuda.empty_cache()
            if options.configs:
                best = min(row["us"], key=row["us"].get)
                print("%-9s %5d %6d %6d  chosen %8.2f  best %8.2f  %s  %s" % (
                    kind, m, n, k, row["us"].get(row["chosen"], math.nan), row["us"][best],
                    row["chosen"], best), flush=True)
            else:
                print(line(row), flush=True)
    result = {"head": head, "rows": rows}
    if not options.configs:
        result["means"] = means(rows)
        for mean in result["means"]:
            print("geometric means, " + ", ".join("%s %s" % (
                key, value if isinstance(value, (str, int)) else "%.3f" % value)
                for key, value in mean.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    return 0 if options.configs or all(row["error"] <= 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
