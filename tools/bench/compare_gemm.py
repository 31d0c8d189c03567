#!/usr/bin/env python3
"""wl_gemm on NVFP4 weights against cuBLAS on the same weights decoded to FP16, in one process.

    make shared && python3 tools/bench/compare_gemm.py [--json FILE] [--m 1,16,...]
                                            [--shapes NxK,...] [--a-type nvfp4|f16|bf16]

With --b-type f16 or bf16 both operands are of that type and cuBLAS has the same ones.
Activations are in NVFP4, with D in FP16; or in FP16 or BF16 (--a-type), D in the same type and
cuBLAS on weights decoded to it.

Operand sets rotate: together they exceed three times the L2, so every call finds its weights in
DRAM. Graphs of calls take turns, one replay each and every other round in reverse; a time is the
median over the replays, launches included. Columns:
  ours, cublas     D = A.B^T (with a bias where the shape says "b"); torch.mm, torch.addmm
  gelu, cublaslt   D = gelu_tanh(A.B^T + bias); cuBLASLt's GEMM with that epilogue
                   (torch._addmm_activation)
  burst            ours and cublas once more with a pause before each replay, so that the card is
                   within its power when a replay starts; for M from 1024 on
`--configs` times every configuration that runs instead, for the model of the choice.
"""
import argparse
import json
import math
import re
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import humming_peer  # noqa: E402
import warpline  # noqa: E402
from harness import Harness, floors  # noqa: E402

abi = warpline.abi
SHAPES = "6144x4096,4096x4096,4096x14336,7168x2048,24576x1536,2880x2880b,28672x4096"


class Operands:
    """One set of random operands; uniform E2M1 codes, scales of 0.25 to 2."""

    def __init__(self, m, n, k, seed, a_type):
        generator = torch.Generator(device="cuda").manual_seed(seed)

        def operand(rows):
            packed = torch.randint(0, 256, (1, rows, k // 2), dtype=torch.uint8, device="cuda",
                                   generator=generator)
            plain = torch.randint(0x28, 0x40, (1, rows, k // 16), dtype=torch.uint8,
                                  device="cuda", generator=generator)
            return packed, plain, warpline.pack_scales(plain)
        self.m, self.n, self.k, self.a_type = m, n, k, a_type
        self.dtype = warpline.d_dtype(a_type)
        self.a, self.sfa_plain, self.sfa = warpline.activations(a_type, generator, operand, 1, m, k)
        self.b, self.sfb_plain, self.sfb = operand(n)
        self.alpha = torch.tensor([1 / math.sqrt(k)], dtype=torch.float32, device="cuda")
        self.bias = torch.randn(n, dtype=self.dtype, device="cuda", generator=generator)
        self.d = torch.empty(m, n, dtype=self.dtype, device="cuda")

    def decoded(self, dtype):
        a = warpline.decoded_a(self, dtype)[0]
        b = warpline.decode(self.b, self.sfb_plain, dtype)[0] * self.alpha.to(dtype)
        return a.contiguous(), b.contiguous()

    def arguments(self):
        return {"a": self.a.data_ptr(), "b": self.b.data_ptr(), "sfb": self.sfb.data_ptr(),
                "sfa": self.sfa.data_ptr() if self.sfa is not None else None,
                "alpha": self.alpha.data_ptr(), "a_type": abi.OPERANDS.index(self.a_type.upper())}

    def plan(self, library, bias, activation, config=None):
        plan = library.gemm(
            m=self.m, n=self.n, k=self.k, l=1, sf_layout=abi.SF_128X4,
            bias=self.bias.data_ptr() if bias else None, bias_type=warpline.D_TYPES[self.dtype],
            activation=activation, d=self.d.data_ptr(), d_type=warpline.D_TYPES[self.dtype],
            config=config, **self.arguments())
        workspace = torch.empty(max(plan.info.workspace_bytes, 256), dtype=torch.uint8,
                                device="cuda")
        stream = torch.cuda.current_stream

        def run():
            plan.run(stream().cuda_stream, workspace.data_ptr())
        run.plan, run.config = plan, plan.info.config.decode()
        return run


class PlainOperands(Operands):
    """Operands that tensor cores take as they are; of the order of 1, sums as well."""

    def __init__(self, m, n, k, seed, kind):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kind]

        def normal(*shape):
            return torch.randn(*shape, dtype=torch.float32, device="cuda",
                               generator=generator).to(self.dtype)
        self.m, self.n, self.k, self.kind = m, n, k, kind
        self.a, self.b, self.bias = normal(m, k), normal(n, k) / math.sqrt(k), normal(n)
        self.d = torch.empty(m, n, dtype=self.dtype, device="cuda")

    def decoded(self, dtype):
        return self.a.to(dtype), self.b.to(dtype)

    def arguments(self):
        kind = abi.OPERANDS.index(self.kind.upper())
        return {"a": self.a.data_ptr(), "b": self.b.data_ptr(), "a_type": kind, "b_type": kind}


def wrong(operands, run, bias, gelu):
    """The worst error in units of what rounding D and FP32 sums allow; above 1 is wrong."""
    operands.d.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    a, b = (t.double() for t in operands.decoded(torch.float32))
    exact = a @ b.t()
    if bias:
        exact = exact + operands.bias.double()
    if gelu:
        exact = torch.nn.functional.gelu(exact, approximate="tanh")
    bound = 2e-3 + (1e-3 if operands.dtype == torch.float16 else 5e-3) * exact.abs()
    return ((operands.d.double() - exact).abs() / bound).nan_to_num(nan=1e9).max().item()


def configs(m, a_type, b_type):
    """Configurations for this device, of A's type and D's, without those of many more tiles than
    rows need."""
    rows = (warpline.abi.ROOT / "kernels" / "linear" / "configs.def").read_text()
    major = torch.cuda.get_device_properties(0).major
    if b_type != "nvfp4":
        names = re.findall(r"^SM%d0_NATIVE_(?:STREAM_|SPLIT_|TURNED_)?CONFIG\((gemm_sm%d0_%s_\w*_%s)," % (
            major, major, b_type, b_type), rows, re.MULTILINE)
        tokens = {name: int(re.findall(r"_t(\d+)", name)[0]) for name in names}
        return [name for name in names if m <= 32 * tokens[name]]
    # A column behind the name, or behind how D is stored: A's type, or what kernels of two launches
    # multiply.
    taken = {"nvfp4": "NVFP4|F16", "f16": "F16", "bf16": "BF16"}[a_type]
    names = re.findall(r"^SM%d0(?!_NATIVE)\w*\((gemm_sm%d0_\w*_%s), *(?:LINES, *|SECTORS, *)?(?:%s)," % (
        major, major, "bf16" if a_type == "bf16" else "f16", taken), rows, re.MULTILINE)
    if a_type == "nvfp4":
        names = [name for name in names if "_af16_" not in name]
    tokens = {name: int((re.findall(r"_t(\d+)", name) or ["128"])[0]) for name in names}
    return [name for name in names if m <= 32 * tokens[name]]


def compare(library, harness, m, n, k, bias, options):
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    weights = n * k
    plain = options.b_type != "nvfp4"
    count = max(2 if plain else 4, -(-3 * l2 // (weights * 2 if plain else weights * 9 // 16)) + 1)
    sets = [PlainOperands(m, n, k, seed, options.b_type) if plain
            else Operands(m, n, k, seed, options.a_type) for seed in range(count)]
    row = {"m": m, "n": n, "k": k, "bias": bias}
    repeats = 3 if m <= 512 else 1
    if options.configs:
        # Workspaces must live as long as the graphs: a capture gives free memory back.
        runs = {}
        for name in configs(m, options.a_type, options.b_type):
            try:
                runs[name] = [s.plan(library, bias, abi.NONE, name.encode()) for s in sets]
            except RuntimeError:  # not for a problem of this size
                pass
        graphs = {name: harness.captured(of * repeats) for name, of in runs.items()}
        row["us"] = harness.medians(graphs)
        row["chosen"] = sets[0].plan(library, bias, abi.NONE).config
        return row

    ours = [s.plan(library, bias, abi.NONE) for s in sets]
    gelu = [s.plan(library, True, abi.GELU_TANH) for s in sets]
    row["config"] = ours[0].config
    row["error"] = max(wrong(sets[0], ours[0], bias, False), wrong(sets[1], gelu[1], True, True))
    peer_count = max(2, -(-3 * l2 // (weights * 2)) + 1)
    peers = []
    for s in sets[:peer_count]:
        a, b = s.decoded(s.dtype)
        peers.append((a, b, s.bias, torch.empty_like(s.d)))

    def cublas(a, b, bias_of, out):
        if bias:
            torch.addmm(bias_of, a, b.t(), out=out)
        else:
            torch.mm(a, b.t(), out=out)

    def cublaslt(a, b, bias_of, out):
        torch._addmm_activation(bias_of, a, b.t(), use_gelu=True)
    graphs = {
        "ours": harness.captured(ours * repeats),
        "cublas": harness.captured([lambda p=p: cublas(*p) for p in peers] * 3),
        "gelu": harness.captured(gelu * repeats),
        "cublaslt": harness.captured([lambda p=p: cublaslt(*p) for p in peers] * 3)}
    if options.humming and not plain and options.a_type != "nvfp4":
        layers = [humming_peer.layer(s.b[0], s.sfb_plain[0], s.alpha, s.dtype) for s in sets]

        def humming(s, made):
            return made(s.a[0])
        calls = [lambda s=s, made=made: humming(s, made) for s, made in zip(sets, layers)]
        a, b = sets[0].decoded(torch.float64)
        try:
            row["humming_error"] = (calls[0]().double() - a @ b.t()).abs().max().item()
            graphs["humming"] = harness.captured(calls * repeats)
        except AssertionError:  # no kernel of its own for this shape
            pass
    row.update(harness.medians(graphs))
    if m >= 1024:
        burst = harness.medians({"ours_burst": graphs["ours"], "cublas_burst": graphs["cublas"]},
                                options.pause * 1e-3)
        row.update(burst)
        row["ratio_burst"] = row["cublas_burst"] / row["ours_burst"]
    row["ratio"] = row["cublas"] / row["ours"]
    row["ratio_gelu"] = row["cublaslt"] / row["gelu"]
    row["epilogue"] = row["gelu"] / row["ours"]
    return row


COLUMNS = (("m", "M", "%5d"), ("n", "N", "%6d"), ("k", "K", "%6d"), ("ours", "ours us", "%8.2f"),
           ("cublas", "cublas", "%8.2f"), ("humming", "humming", "%8.2f"),
           ("ratio", "ratio", "%6.2f"), ("gelu", "gelu", "%8.2f"),
           ("cublaslt", "cublaslt", "%8.2f"), ("ratio_gelu", "ratio", "%6.2f"),
           ("epilogue", "gelu/ours", "%9.3f"), ("ours_burst", "burst", "%8.2f"),
           ("cublas_burst", "cublas b", "%8.2f"), ("ratio_burst", "ratio", "%6.2f"))


def line(row):
    cells = (form % row[key] if key in row else "-".rjust(len(form % 0))
             for key, _, form in COLUMNS)
    return "  ".join(cells) + "  " + row["config"] + ("" if row["error"] <= 1 else "  WRONG")


def means(rows):
    """Geometric means over the shapes, for each M."""
    result = []
    for m in sorted({row["m"] for row in rows}):
        of_m = [row for row in rows if row["m"] == m]
        mean = {"m": m}
        for key in ("ratio", "ratio_gelu", "epilogue", "ratio_burst"):
            values = [row[key] for row in of_m if key in row]
            if values:
                mean[key] = math.exp(sum(map(math.log, values)) / len(values))
        result.append(mean)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--m", default="1,16,64,256,1024,4096")
    parser.add_argument("--shapes", default=SHAPES, help="NxK, with a b where D has a bias")
    parser.add_argument("--a-type", choices=warpline.A_TYPES, default="nvfp4")
    parser.add_argument("--b-type", choices=warpline.A_TYPES, default="nvfp4",
                        help="f16, bf16: of both operands")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--pause", type=float, default=5, help="milliseconds ahead of a burst")
    parser.add_argument("--configs", action="store_true", help="time every configuration instead")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.humming = options.a_type != "nvfp4" and humming_peer.present()

    library = warpline.Library()
    harness = Harness(options.replays)
    copy, peak = floors()
    head = {"device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "a_type": options.a_type, "torch": torch.__version__, "copy_tb_s": copy,
            "fp16_tflops": peak}
    print("%(device)s, %(date)s, A in %(a_type)s, torch %(torch)s: copy %(copy_tb_s).2f TB/s, "
          "FP16 8192^3 %(fp16_tflops).0f TFLOP/s" % head)
    if not options.configs:
        print("  ".join(title.rjust(len(form % 0)) for _, title, form in COLUMNS))
    rows = []
    for shape in options.shapes.split(","):
        n, k = map(int, shape.rstrip("b").split("x"))
        for m in map(int, options.m.split(",")):
            row = compare(library, harness, m, n, k, shape.endswith("b"), options)
            rows.append(row)
            torch.cuda.empty_cache()
            if options.configs:
                best = min(row["us"], key=row["us"].get)
                row["us"].setdefault(row["chosen"], math.nan)  # one of too few rows to be timed
                print("%5d %6d %6d  chosen %8.2f  best %8.2f  %s  %s" % (
                    m, n, k, row["us"][row["chosen"]], row["us"][best], row["chosen"], best),
                    flush=True)
            else:
                print(line(row), flush=True)
    result = {"head": head, "rows": rows}
    if not options.configs:
        result["means"] = means(rows)
        for mean in result["means"]:
            print("geometric means, M " + ", ".join(
                "%s %s" % (key, value if key == "m" else "%.3f" % value)
                for key, value in mean.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    return 0 if options.configs or all(row["error"] <= 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
