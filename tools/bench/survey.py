#!/usr/bin/env python3
"""Products of models' layers that nothing was tuned for, beside PyTorch's products of the same
operands, NVFP4 ones decoded to 16 bits once (and, of the dual GEMM, a fused silu * mul).

    make shared && python3 tools/bench/survey.py [--types nvfp4,w4a16-f16,w4a16-bf16,f16,f8fast]
                       [--operations gemm,dual] [--m 64,256,1024,4096] [--shapes NxK,...]
                       [--library FILE[,FILE]] [--config NAME] [--json FILE]

Types: activations and weights in NVFP4; activations of 16 bits with NVFP4 weights; or both as they
are. Operand sets rotate, three times the L2 together. Graphs of calls take turns, those of several
libraries too, one replay each and every other round in reverse, without a pause; a time is the
median. With two libraries `ratio` is the first one's time by the second's. A configuration is
forced on products of NVFP4 weights. Of wl_gemm one result is compared with the exact product. The
last lines are geometric means over the shapes.
"""
import argparse
import json
import math
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import compare_dual_types  # noqa: E402
import compare_gemm  # noqa: E402
import compare_types  # noqa: E402
import in_a_row  # noqa: E402
import warpline  # noqa: E402
from harness import Harness  # noqa: E402

SHAPES = {
    "gemm": "6144x4096,4096x4096,4096x14336,4608x3584,3584x3584,3584x18944,2880x2880,5120x2880,"
            "1280x8192,8192x1024,8192x3584,10240x8192,8192x8192,7168x5120,5120x5120,5120x27648,"
            "2048x2048,2048x5632,1536x7168,7168x2048,24576x1536,2560x9728",
    "dual": "14336x4096,18944x3584,3584x8192,27648x5120,6912x5120,5632x2048,9728x2560,2048x7168,"
            "4096x7168,768x2048"}
ACTIVATIONS = {"nvfp4": "nvfp4", "w4a16-f16": "f16", "w4a16-bf16": "bf16"}


def operands(kind, dual, m, n, k, seed):
    if kind in ACTIVATIONS:
        if dual:
            return warpline.Problem(m, n, k, seed=seed, a_type=ACTIVATIONS[kind])
        return compare_gemm.Operands(m, n, k, seed, ACTIVATIONS[kind])
    if dual:
        return compare_dual_types.Operands(kind, m, n, k, seed)
    return compare_types.Operands(kind, m, n, k, seed, ("k", "k"))


def call(library, o, d, config):
    """`d`: what a dual GEMM of NVFP4 weights writes; `config`: one for such weights, or None."""
    if isinstance(o, warpline.Problem):
        return in_a_row.dual(library.plan(o, d, config, 0))
    if isinstance(o, compare_gemm.Operands):
        return o.plan(library, False, warpline.abi.NONE, config.encode() if config else None)
    return o.plan(library)


def compare(libraries, harness, kind, dual, m, n, k, config):
    item = 0.5625 if kind in ACTIVATIONS else 1 if kind.startswith("f8") else 2
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = min(max(2, -(-3 * l2 // int(item * n * k * (2 if dual else 1))) + 1), 12)
    sets = [operands(kind, dual, m, n, k, seed) for seed in range(count)]
    results = [torch.empty(1, m, n, dtype=warpline.d_dtype(o.a_type), device="cuda")
               if isinstance(o, warpline.Problem) else None for o in sets]
    repeats = 3 if m <= 512 else 1
    graphs, runs = {}, {}
    for name, library in libraries.items():
        runs[name] = [call(library, o, d, config) for o, d in zip(sets, results)]
        graphs[name] = harness.captured(runs[name] * repeats)
    peers = [in_a_row.peer(o) for o in sets[:3]]
    graphs["torch"] = harness.captured([peers[i % len(peers)] for i in range(count)] * repeats)
    us = harness.medians(graphs)
    first = next(iter(libraries))
    error = 0
    if isinstance(sets[0], compare_gemm.Operands):
        error = compare_gemm.wrong(sets[0], runs[first][0], False, False)
    return {"type": kind, "operation": "dual" if dual else "gemm", "m": m, "n": n, "k": k, "us": us,
            "configs": {name: of[0].config for name, of in runs.items()}, "error": error}


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="nvfp4,w4a16-f16")
    parser.add_argument("--operations", default="gemm,dual")
    parser.add_argument("--m", default="64,256,1024,4096")
    parser.add_argument("--shapes", help="NxK,... instead of those of layers")
    parser.add_argument("--library", help="libwarpline.so, several with commas")
    parser.add_argument("--config", help="of NVFP4 weights, instead of the library's choice")
    parser.add_argument("--replays", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    paths = options.library.split(",") if options.library else [None]
    libraries = {path or "library": warpline.Library(path=path) for path in paths}
    names = list(libraries)
    harness = Harness(options.replays)
    print("%s, %s, torch %s" % (torch.cuda.get_device_properties(0).name,
                                time.strftime("%Y-%m-%d"), torch.__version__))
    rows = []
    for kind in options.types.split(","):
        for operation in options.operations.split(","):
            for shape in (options.shapes or SHAPES[operation]).split(","):
                n, k = map(int, shape.split("x"))
                for m in map(int, options.m.split(",")):
                    row = compare(libraries, harness, kind, operation == "dual", m, n, k,
                                  options.config)
                    rows.append(row)
                    us = row["us"]
                    print("%-10s %s %5d %6d %6d  %s  torch %.2f  %.3f%s  %s%s" % (
                        kind, operation, m, n, k, " ".join("%.2f" % us[name] for name in names),
                        us["torch"], us["torch"] / us[names[0]],
                        "  ratio %.3f" % (us[names[0]] / us[names[1]]) if len(names) > 1 else "",
                        row["configs"][names[0]], "  WRONG %.3g" % row["error"]
                        if row["error"] > 1 else ""), flush=True)
                    torch.cuda.empty_cache()
    for key in dict.fromkeys((row["type"], row["operation"], row["m"]) for row in rows):
        of = [row["us"] for row in rows if (row["type"], row["operation"], row["m"]) == key]
        line = "%-10s %s M %5d, %d shapes: torch by ours %.3f, worst %.3f" % (
            *key, len(of), mean([us["torch"] / us[names[0]] for us in of]),
            min(us["torch"] / us[names[0]] for us in of))
        if len(names) > 1:
            ratios = [us[names[0]] / us[names[1]] for us in of]
            line += "; ratio %.3f, %.3f to %.3f" % (mean(ratios), min(ratios), max(ratios))
        print(line)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_properties(0).name,
                       "date": time.strftime("%Y-%m-%d"), "rows": rows}, file, indent=1)
    return 0 if all(row["error"] <= 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
