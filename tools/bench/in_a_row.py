#!/usr/bin/env python3
"""The products of a model's layer one behind the other, beside each of them behind itself: what a
kernel costs behind another one.

    make shared && python3 tools/bench/in_a_row.py [--a-type nvfp4|f16|bf16] [--m 1,8,16,32,64]
                       [--models 8b,7b] [--static] [--quantise] [--json FILE]
                       [--library FILE[,FILE]]

QKV, the output's projection, the dual GEMM and the down projection run in that order, again and
again, in one graph; each of the four in a graph of its own as well, and the graphs take turns. Two
sets of weights rotate, more than L2 holds. With --quantise, of NVFP4 activations, wl_quantize
stands ahead of each product, with RMSNorm ahead of QKV and of the dual GEMM. With several libraries
theirs take turns too. Microseconds of one layer, medians; `alone` is the sum of the parts behind
themselves. Outputs are not judged here.
"""
import argparse
import json
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import compare_gemm  # noqa: E402
import warpline  # noqa: E402
from harness import Harness  # noqa: E402

abi = warpline.abi
# Columns of QKV, the hidden size, gated features.
MODELS = {"8b": (6144, 4096, 14336), "7b": (4608, 3584, 18944)}
SETS = 2


class Weights:
    """Operands of the four products, and what a quantiser ahead of each reads."""

    def __init__(self, model, m, a_type, seed):
        qkv, hidden, inner = MODELS[model]
        self.products = [compare_gemm.Operands(m, qkv, hidden, seed, a_type),
                         compare_gemm.Operands(m, hidden, hidden, seed + 10, a_type),
                         warpline.Problem(m, inner, hidden, seed=seed, a_type=a_type),
                         compare_gemm.Operands(m, hidden, inner, seed + 20, a_type)]
        dtype = warpline.d_dtype(a_type)
        self.x = [torch.randn(m, o.k, dtype=dtype, device="cuda") for o in self.products]
        self.gamma = torch.ones(hidden, dtype=dtype, device="cuda")
        self.gated = torch.empty(1, m, inner, dtype=dtype, device="cuda")


def call(plan):
    workspace = torch.empty(max(plan.info.workspace_bytes, 256), dtype=torch.uint8, device="cuda")

    def run():
        plan.run(torch.cuda.current_stream().cuda_stream, workspace.data_ptr())
    run.plan, run.config = plan, plan.info.config.decode()
    return run


def dual(plan):
    def run():
        plan.run()
    run.plan, run.config = plan, plan.info.config.decode()
    return run


def layer(library, weights, options):
    """The calls of a layer in order."""
    calls = []
    flags = abi.STATIC_WEIGHTS if options.static else 0
    for i, o in enumerate(weights.products):
        if options.quantise:
            norm = {"norm": 1, "eps": 1e-5, "gamma_type": abi.F16,
                    "gamma": weights.gamma.data_ptr()} if i in (0, 2) else {}
            calls.append(call(library.quantize(
                m=o.m, k=o.k, l=1, x=weights.x[i].data_ptr(), x_type=abi.F16, d=o.a.data_ptr(),
                sfd=o.sfa.data_ptr(), sf_layout=abi.SF_128X4, **norm)))
        if isinstance(o, warpline.Problem):
            calls.append(dual(library.plan(o, weights.gated, None, flags)))
        else:
            calls.append(call(library.gemm(
                m=o.m, n=o.n, k=o.k, l=1, sf_layout=abi.SF_128X4, activation=abi.NONE,
                d=o.d.data_ptr(), d_type=warpline.D_TYPES[o.dtype], flags=flags, **o.arguments())))
    return calls


def compare(libraries, harness, model, m, options):
    sets = [Weights(model, m, options.a_type, seed) for seed in range(SETS)]
    graphs, kept = {}, {}
    for name, library in libraries.items():
        layers = [layer(library, weights, options) for weights in sets]
        kept[name] = layers
        whole = [run for _ in range(4) for of in layers for run in of]
        replay, _ = harness.captured(whole)
        graphs[name, "row"] = replay, 4 * SETS
        for i in range(len(layers[0])):
            graphs[name, i] = harness.captured([layers[j % SETS][i] for j in range(16)])
    times = harness.medians(graphs)
    result = []
    for name, layers in kept.items():
        parts = [times[name, i] for i in range(len(layers[0]))]
        result.append({"model": model, "m": m, "library": name, "row": times[name, "row"],
                       "alone": sum(parts), "parts": parts,
                       "configs": [run.config for run in layers[0]]})
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a-type", choices=("nvfp4", "f16", "bf16"), default="nvfp4")
    parser.add_argument("--m", default="1,8,16,32,64")
    parser.add_argument("--models", default="8b,7b")
    parser.add_argument("--static", action="store_true", help="weights that no kernel writes")
    parser.add_argument("--quantise", action="store_true", help="a quantiser ahead of each product")
    parser.add_argument("--library", help="libwarpline.so, several with commas")
    parser.add_argument("--replays", type=int, default=11)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.quantise and options.a_type != "nvfp4":
        parser.error("--quantise is of NVFP4 activations")
    paths = options.library.split(",") if options.library else [None]
    libraries = {path or "library": warpline.Library(path=path) for path in paths}
    harness = Harness(options.replays)
    head = {"device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "a_type": options.a_type, "torch": torch.__version__}
    print("%(device)s, %(date)s, A in %(a_type)s, torch %(torch)s" % head)
    print("model     M     row   alone  parts, configurations, library")
    rows = []
    for model in options.models.split(","):
        for m in map(int, options.m.split(",")):
            for row in compare(libraries, harness, model, m, options):
                rows.append(row)
                print("%5s %5d  %6.1f  %6.1f  %s  %s  %s" % (
                    model, m, row["row"], row["alone"], " ".join("%.1f" % p for p in row["parts"]),
                    " ".join(row["configs"]), row["library"]), flush=True)
            torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"head": head, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
