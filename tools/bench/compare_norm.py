#!/usr/bin/env python3
"""LayerNorm + linear + GELU by wl_norm_linear against PyTorch's ways, in one process.

    make shared && python3 tools/bench/compare_norm.py [--json FILE] [--shapes MxNxK,...]
                                                       [--type f16|bf16] [--no-compile] [--pause MS]

Operand sets rotate: together they exceed three times the L2, so every call finds its weights in
DRAM. Graphs of calls take turns, one replay each and every other round in reverse; a time is the
median over the replays, launches included. Columns:
  plain, folded   wl_norm_linear in its two forms, gelu_tanh, with a bias
  fused           torch.nn.functional.layer_norm, then cuBLASLt's GEMM with bias and GELU in its
                  epilogue (torch._addmm_activation)
  lt              torch's layer_norm and the fastest of the first eight algorithms that cuBLASLt's
                  heuristics offer for that product, chosen behind layer_norm
  compiled        torch.compile, max-autotune without CUDA graphs of its own, of the three functions
With M 1024 and more a second line has a pause before each replay, so that the card is within its
power when one starts.
"""
import argparse
import json
import math
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import cublaslt  # noqa: E402
import warpline  # noqa: E402
from harness import Harness, floors  # noqa: E402

abi = warpline.abi
LAYER, FOLDED, EPS = 2, 1, 1e-5
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


class Layer:
    def __init__(self, library, m, n, k, seed, kind):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.library, self.m, self.n, self.k, self.kind = library, m, n, k, kind
        self.dtype = TYPES[kind]

        def normal(*shape):
            return torch.randn(*shape, dtype=torch.float32, device="cuda",
                               generator=generator).to(self.dtype)
        self.x, self.w = normal(m, k), normal(n, k) / math.sqrt(k)
        self.gamma, self.beta, self.bias = 1 + normal(k) / 4, normal(k) / 4, normal(n)
        self.d = torch.empty(m, n, dtype=self.dtype, device="cuda")
        self.w_folded = torch.empty_like(self.w)
        self.bias_folded = torch.empty(n, dtype=torch.float32, device="cuda")

    def arguments(self):
        kind = warpline.D_TYPES[self.dtype]
        return {"m": self.m, "n": self.n, "k": self.k, "x": self.x.data_ptr(), "x_type": kind,
                "norm": LAYER, "eps": EPS, "gamma_type": kind, "gamma": self.gamma.data_ptr(),
                "beta": self.beta.data_ptr(), "w": self.w.data_ptr(),
                "w_type": abi.OPERANDS.index(self.kind.upper()), "bias": self.bias.data_ptr(),
                "bias_type": kind, "activation": abi.GELU_TANH, "d": self.d.data_ptr(),
                "d_type": kind}

    def plan(self, folded):
        fields = self.arguments()
        if folded:
            self.library.fold(self.w_folded.data_ptr(), self.bias_folded.data_ptr(),
                              torch.cuda.current_stream().cuda_stream, **fields)
            fields.update(form=FOLDED, gamma=None, beta=None, w=self.w_folded.data_ptr(),
                          bias=self.bias_folded.data_ptr(), bias_type=abi.F32)
        plan = self.library.norm_linear(**fields)
        workspace = torch.empty(max(plan.info.workspace_bytes, 256), dtype=torch.uint8,
                                device="cuda")

        def run():
            plan.run(torch.cuda.current_stream().cuda_stream, workspace.data_ptr())
        run.plan, run.config = plan, plan.info.config.decode()
        return run

    def exact(self):
        x = torch.nn.functional.layer_norm(self.x.double(), (self.k,), self.gamma.double(),
                                           self.beta.double(), EPS)
        return torch.nn.functional.gelu(x @ self.w.double().t() + self.bias.double(),
                                        approximate="tanh")


def layer_of(x, w, bias, gamma, beta):
    x = torch.nn.functional.layer_norm(x, (x.shape[1],), gamma, beta, EPS)
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, bias), approximate="tanh")


def fused(x, w, bias, gamma, beta):
    x = torch.nn.functional.layer_norm(x, (x.shape[1],), gamma, beta, EPS)
    return torch._addmm_activation(bias, x, w.t(), use_gelu=True)


class LtLayer:
    """layer_norm, then cuBLASLt's product with bias and GELU."""
    def __init__(self, lt, layer):
        self.layer = layer
        self.product = lt.product(layer.x, layer.w, torch.empty_like(layer.d), None, layer.bias)

    def normalised(self):
        x = self.layer
        return torch.nn.functional.layer_norm(x.x, (x.k,), x.gamma, x.beta, EPS)

    def result(self, algorithm):
        self.product.call(algorithm, self.normalised)()
        torch.cuda.synchronize()
        return self.product.tensors[2]


def error(layer, found):
    """Root of the mean square of the difference to double precision, over that of the result."""
    exact = layer.exact()
    return ((found.double() - exact).square().mean() / exact.square().mean()).sqrt().item()


def compare(library, harness, shape, options):
    m, n, k = shape
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(2, -(-3 * l2 // (2 * (n * k + m * k))) + 1)
    layers = [Layer(library, m, n, k, seed, options.type) for seed in range(count)]
    row = {"m": m, "n": n, "k": k, "errors": {}}
    calls = {"plain": [x.plan(False) for x in layers], "folded": [x.plan(True) for x in layers]}
    row["config"] = calls["plain"][0].config
    for name in ("plain", "folded"):
        layers[0].d.fill_(float("nan"))
        calls[name][0]()
        torch.cuda.synchronize()
        row["errors"][name] = error(layers[0], layers[0].d)
    peers = {"fused": fused}
    if options.compile:
        peers["compiled"] = torch.compile(layer_of, mode="max-autotune-no-cudagraphs",
                                          dynamic=False)
    for name, peer in peers.items():
        def call(x, peer=peer):
            return peer(x.x, x.w, x.bias, x.gamma, x.beta)
        row["errors"][name] = error(layers[0], call(layers[0]))
        calls[name] = [lambda x=x, call=call: call(x) for x in layers]
    repeats = 3 if m <= 512 else 1
    graphs = {name: harness.captured(of * repeats) for name, of in calls.items()}
    lt = [LtLayer(options.cublaslt, x) for x in layers]
    _, row["lt_place"], graphs["lt"] = cublaslt.best(
        harness, [x.product for x in lt], repeats, makers=[x.normalised for x in lt])
    algorithm = lt[0].product.algorithms()[row["lt_place"]]
    row["errors"]["lt"] = error(layers[0], lt[0].result(algorithm))
    row.update(harness.medians(graphs))
    if m >= 1024:
        row["bursts"] = harness.medians(graphs, options.pause * 1e-3)
    return row


COLUMNS = ("plain", "folded", "fused", "lt", "compiled")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", default="256x4096x1024,4096x4096x1024,4096x14336x4096")
    parser.add_argument("--type", choices=TYPES, default="bf16")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--pause", type=float, default=5, help="milliseconds ahead of a burst")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--json")
    options = parser.parse_args()
    library = warpline.Library()
    harness = Harness(options.replays)
    options.cublaslt = cublaslt.CublasLt()
    copy, peak = floors()
    head = {"device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "type": options.type, "torch": torch.__version__, "copy_tb_s": copy,
            "fp16_tflops": peak}
    print("%(device)s, %(date)s, %(type)s, torch %(torch)s: copy %(copy_tb_s).2f TB/s, FP16 8192^3 "
          "%(fp16_tflops).0f TFLOP/s" % head)
    print("    M      N      K" + "".join("%10s us  error" % name for name in COLUMNS))
    rows = []
    wrong = False
    for shape in options.shapes.split(","):
        row = compare(library, harness, tuple(map(int, shape.split("x"))), options)
        rows.append(row)
        limit = 3 * row["errors"]["fused"]
        wrong |= any(not row["errors"][name] <= limit for name in ("plain", "folded"))
        print("%5d %6d %6d" % (row["m"], row["n"], row["k"]) + "".join(
            "%13.2f %.4f" % (row[name], row["errors"][name]) if name in row else "      -      -"
            for name in COLUMNS) + "  " + row["config"], flush=True)
        if "bursts" in row:
            print("       in bursts      " + "".join(
                "%13.2f       " % row["bursts"][name] if name in row else "      -      -"
                for name in COLUMNS), flush=True)
        torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"head": head, "rows": rows}, file, indent=1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
