#!/usr/bin/env python3
"""The products of a model's layer one behind the other, beside each of them behind itself: what a
kernel costs behind another one.

    make shared && python3 tools/bench/in_a_row.py [--a-type nvfp4|f16|bf16|f8|f8fast]
                       [--b-type nvfp4|same] [--m 1,8,16,32,64] [--models 8b,7b] [--static]
                       [--quantise] [--peer] [--json FILE] [--library FILE[,FILE]]

QKV, the output's projection, the dual GEMM and the down projection run in that order, again and
again, in one graph; each of the four in a graph of its own as well, and the graphs take turns. Two
sets of weights rotate, more than L2 holds. With --quantise, of NVFP4 activations, wl_quantize
stands ahead of each product, with RMSNorm ahead of QKV and of the dual GEMM. With several libraries
theirs take turns too, and with --peer PyTorch's products of the same operands, NVFP4 ones decoded
to 16 bits once, and a fused silu * mul. Microseconds of one layer, medians; `alone` is the sum of
the parts behind themselves. Outputs are not judged here.
"""
import argparse
import json
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import compare_dual_types  # noqa: E402
import compare_gemm  # noqa: E402
import compare_types  # noqa: E402
import warpline  # noqa: E402
from compare_torch import silu_mul  # noqa: E402
from harness import Harness  # noqa: E402

abi = warpline.abi
# Columns of QKV, the hidden size, gated features.
MODELS = {"8b": (6144, 4096, 14336), "7b": (4608, 3584, 18944)}
SETS = 2


class Weights:
    """Operands of the four products, and what a quantiser ahead of each reads."""

    def __init__(self, model, m, options, seed):
        qkv, hidden, inner = MODELS[model]
        shapes = ((qkv, hidden), (hidden, hidden), (inner, hidden), (hidden, inner))
        kind = options.a_type
        if options.b_type == "same":
            self.products = [compare_types.Operands(kind, m, n, k, seed + i, ("k", "k"))
                             for i, (n, k) in enumerate(shapes)]
            self.products[2] = compare_dual_types.Operands(kind, m, inner, hidden, seed)
            return
        self.products = [compare_gemm.Operands(m, n, k, seed + 10 * i, kind)
                         for i, (n, k) in enumerate(shapes)]
        self.products[2] = warpline.Problem(m, inner, hidden, seed=seed, a_type=kind)
        dtype = warpline.d_dtype(kind)
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
        if options.b_type == "same":
            calls.append(o.plan(library, flags=flags))
        elif isinstance(o, warpline.Problem):
            calls.append(dual(library.plan(o, weights.gated, None, flags)))
        else:
            calls.append(call(library.gemm(
                m=o.m, n=o.n, k=o.k, l=1, sf_layout=abi.SF_128X4, activation=abi.NONE,
                d=o.d.data_ptr(), d_type=warpline.D_TYPES[o.dtype], flags=flags, **o.arguments())))
    return calls


def peer(o):
    """PyTorch's product of the same operands."""
    if hasattr(o, "peer"):
        run = o.peer()
    elif isinstance(o, warpline.Problem):
        a, b1, b2 = (t[0] for t in o.operands(warpline.d_dtype(o.a_type)))
        a, b = a.contiguous(), torch.cat((b1, b2)).t()
        h = torch.empty(o.m, 2 * o.n, dtype=a.dtype, device="cuda")
        out = torch.empty(o.m, o.n, dtype=a.dtype, device="cuda")

        def run():
            torch.mm(a, b, out=h)
            silu_mul(h, out)
    else:
        a, b = o.decoded(o.dtype)
        out = torch.empty_like(o.d)

        def run():
            torch.mm(a, b.t(), out=out)
    run.config = "torch"
    return run


def compare(libraries, harness, model, m, options):
    sets = [Weights(model, m, options, seed) for seed in range(SETS)]
    graphs, kept = {}, {}
    for name, library in [*libraries.items()] + [("peer", None)] * options.peer:
        layers = [layer(library, weights, options) if library is not None
                  else [peer(o) for o in weights.products] for weights in sets]
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
    parser.add_argument("--a-type", choices=("nvfp4", "f16", "bf16", "f8", "f8fast"),
                        default="nvfp4")
    parser.add_argument("--b-type", choices=("nvfp4", "same"), default="nvfp4")
    parser.add_argument("--m", default="1,8,16,32,64")
    parser.add_argument("--models", default="8b,7b")
    parser.add_argument("--static", action="store_true", help="weights that no kernel writes")
    parser.add_argument("--quantise", action="store_true", help="a quantiser ahead of each product")
    parser.add_argument("--peer", action="store_true", help="PyTorch's products in the same turns")
    parser.add_argument("--library", help="libwarpline.so, several with commas")
    parser.add_argument("--replays", type=int, default=11)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.quantise and options.a_type != "nvfp4":
        parser.error("--quantise is of NVFP4 activations")
    if options.b_type == "same" and options.a_type == "nvfp4":
        options.b_type = "nvfp4"
    if options.b_type == "nvfp4" and options.a_type.startswith("f8"):
        parser.error("NVFP4 weights take activations in NVFP4, F16 or BF16: --b-type same")
    paths = options.library.split(",") if options.library else [None]
    libraries = {path or "library": warpline.Library(path=path) for path in paths}
    harness = Harness(options.replays)
    head = {"device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "a_type": options.a_type, "b_type": options.b_type, "torch": torch.__version__}
    print("%(device)s, %(date)s, A in %(a_type)s, B in %(b_type)s, torch %(torch)s" % head)
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
