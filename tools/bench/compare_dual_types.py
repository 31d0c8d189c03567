#!/usr/bin/env python3
"""wl_dual_gemm on FP16, BF16 or FP8 operands (E4M3, a scale for each tensor; f8fast: both may add
over all of K) against PyTorch: one GEMM on both weights, then one fused silu * mul kernel.

    make shared && python3 tools/bench/compare_dual_types.py [--type f16] [--m ...] [--shapes NxK,...]

Operand sets rotate: together they exceed three times the L2. Graphs of calls take turns, one replay
each and every other round in reverse; a time is the median over the replays, launches included.
"""
import argparse
import json
import sys

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import warpline  # noqa: E402
from compare_torch import silu_mul  # noqa: E402
from harness import Harness  # noqa: E402

abi = warpline.abi
F8 = (torch.float8_e4m3fn, "E4M3", abi.BF16)
TYPES = {"f16": (torch.float16, "F16", abi.F16), "bf16": (torch.bfloat16, "BF16", abi.BF16),
         "f8": F8, "f8fast": F8}


class Operands:
    def __init__(self, kind, m, n, k, seed):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        dtype, self.name, self.d_type = TYPES[kind]

        def operand(rows):
            return torch.randn(rows, k, device="cuda", generator=generator).to(dtype)
        self.kind, self.m, self.n, self.k = kind, m, n, k
        self.a, self.b = operand(m), operand(2 * n)
        self.d = torch.empty(m, n, dtype=torch.bfloat16 if kind.startswith("f8") else dtype,
                             device="cuda")
        self.d_of_peer = torch.empty_like(self.d)
        self.alpha = torch.full((1,), k ** -0.5, device="cuda")

    def plan(self, library, config=None, flags=0):
        rows = self.n * self.k * self.b.element_size()
        number = abi.OPERANDS.index(self.name)
        plan = library.dual_gemm(
            m=self.m, n=self.n, k=self.k, l=1, sf_layout=abi.SF_128X4, a=self.a.data_ptr(),
            b1=self.b.data_ptr(), b2=self.b.data_ptr() + rows, alpha1=self.alpha.data_ptr(),
            alpha2=self.alpha.data_ptr(), d=self.d.data_ptr(), d_type=self.d_type, config=config,
            a_type=number, b_type=number,
            flags=flags | (abi.FAST_ACCUMULATION if self.kind == "f8fast" else 0))

        def run():
            plan.run(torch.cuda.current_stream().cuda_stream, None)
        run.plan, run.config = plan, plan.info.config.decode()
        return run

    def peer(self):
        h = torch.empty(self.m, 2 * self.n, dtype=self.d.dtype, device="cuda")
        one = torch.ones((), device="cuda")

        def run_f8():
            torch._scaled_mm(self.a, self.b.t(), one, self.alpha[0], out_dtype=h.dtype, out=h,
                             use_fast_accum=self.kind == "f8fast")
            silu_mul(h, self.d_of_peer)

        def run():
            torch.mm(self.a, self.b.t(), out=h)
            silu_mul(h, self.d_of_peer)
        return run_f8 if self.kind.startswith("f8") else run

    def error(self, run):
        run()
        torch.cuda.synchronize()
        h = self.a.double() @ self.b.double().t() * self.alpha.double()
        exact = torch.nn.functional.silu(h[:, :self.n]) * h[:, self.n:]
        # Sums of FP8 keep 14 bits.
        more = {"f8": 2**-12 * self.k ** 0.5, "f8fast": 0.25}.get(self.kind, 1e-3)
        bound = more + (1e-3 + torch.finfo(self.d.dtype).eps) * exact.abs()
        return ((self.d.double() - exact).abs() / bound).max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--type", default="f16", choices=TYPES)
    parser.add_argument("--m", default="1,16,64,256,1024,4096")
    parser.add_argument("--shapes", default="4096x7168,14336x4096")
    parser.add_argument("--configs", default="", help="to time beside the chosen one")
    parser.add_argument("--replays", type=int, default=12)
    parser.add_argument("--json")
    options = parser.parse_args()
    library, harness = warpline.Library(), Harness(options.replays)
    rows = []
    for shape in options.shapes.split(","):
        for m in map(int, options.m.split(",")):
            n, k = map(int, shape.split("x"))
            l2 = torch.cuda.get_device_properties(0).L2_cache_size
            item = TYPES[options.type][0].itemsize
            sets = [Operands(options.type, m, n, k, seed)
                    for seed in range(max(2, -(-3 * l2 // (2 * item * n * k)) + 1))]
            ours, peers = [s.plan(library) for s in sets], [s.peer() for s in sets]
            row = {"type": options.type, "m": m, "n": n, "k": k, "config": ours[0].config,
                   "error": sets[0].error(ours[0])}
            repeats = 3 if m <= 512 else 1
            graphs = {"ours": harness.captured(ours * repeats),
                      "torch": harness.captured(peers * repeats)}
            others = {name: [s.plan(library, name.encode()) for s in sets]
                      for name in filter(None, options.configs.split(","))}
            graphs.update({name: harness.captured(of * repeats) for name, of in others.items()})
            row.update(harness.medians(graphs))
            row["ratio"] = row["torch"] / row["ours"]
            rows.append(row)
            print("%(type)s %(m)5d %(n)6d %(k)6d  ours %(ours)8.2f  torch %(torch)8.2f  "
                  "%(ratio)6.3f  %(config)s" % row
                  + "".join("  %s %.2f" % (name, row[name]) for name in others)
                  + ("" if row["error"] <= 1 else "  WRONG %.3g" % row["error"]), flush=True)
            del graphs, sets, ours, peers, others
            torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_properties(0).name, "rows": rows}, file,
                      indent=1)
    return 0 if all(row["error"] <= 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
