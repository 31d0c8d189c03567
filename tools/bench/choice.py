#!/usr/bin/env python3
"""What the library chooses for products of NVFP4 weights, beside its own fastest configuration.

    make shared build/warpline && python3 tools/bench/choice.py [--seconds 60] [--seed 1]
                [--operations gemm,dual] [--types nvfp4,w4a16-f16,w4a16-bf16] [--m 1,2,3,...]
                [--shapes NxK,...] [--within 1.25] [--library OLD,NEW] [--json FILE]

Draws products of shapes of models' layers until the time is over. Of each it times, in graphs that
take turns, the configuration that is chosen and all that the model thinks at most `within` times
as slow; operand sets rotate, so that L2 is cold. `loss` is the chosen one's time by the fastest's,
less one: what a better model would give. With two libraries it times what each chooses, and the
change is the second one's time by the first's, which stand in this order below. A table for each
range of rows, then the worst.
"""
import argparse
import collections
import json
import math
import random
import subprocess
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import survey  # noqa: E402
import warpline  # noqa: E402
from harness import Harness  # noqa: E402

ROWS = "1,2,3,4,6,8,11,16,18,22,26,32,38,46,54,64,76,90,100,128,150,180,200,256,300,400,512,700,1000"


def thought(kind, dual, m, n, k, within):
    """Names of the configurations to time, the chosen one first."""
    a_type = survey.ACTIVATIONS[kind]
    command = ["build/warpline", "configs", "--operation", "dual-gemm" if dual else "gemm",
               "-m", str(m), "-n", str(n), "-k", str(k), "--a-type", a_type, "--b-type", "nvfp4",
               "--out", "bf16" if a_type == "bf16" else "f16", "--device", "gpu", "--json", "-"]
    rows = [row for row in json.loads(subprocess.run(
        command, capture_output=True, check=True, text=True).stdout) if row["runs"]]
    least = rows[0]["total_clocks"]
    return [row["name"] for i, row in enumerate(rows)
            if i == 0 or row["total_clocks"] <= within * least][:9]


def timed(harness, candidates, kind, dual, m, n, k):
    """Microseconds of {name: (library, configuration or None)}, and what each took."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    weights = int(0.5625 * n * k * (2 if dual else 1))
    sets = [survey.operands(kind, dual, m, n, k, seed)
            for seed in range(min(max(2, -(-2 * l2 // weights) + 1), 48))]
    results = [torch.empty(1, m, n, dtype=warpline.d_dtype(o.a_type), device="cuda")
               if isinstance(o, warpline.Problem) else None for o in sets]
    graphs, configs, kept = {}, {}, []
    for name, (library, config) in candidates.items():
        calls = [survey.call(library, o, d, config) for o, d in zip(sets, results)]
        configs[name] = calls[0].config
        graphs[name] = harness.captured(calls * (2 if m <= 256 else 1))
        kept.append(calls)
    return harness.medians(graphs), configs


def rows_of(m):
    return next(name for most, name in ((16, "1-16"), (64, "17-64"), (256, "65-256"),
                                        (math.inf, "257-")) if m <= most)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", default="gemm,dual")
    parser.add_argument("--types", default="nvfp4,w4a16-f16,w4a16-bf16")
    parser.add_argument("--m", default=ROWS)
    parser.add_argument("--shapes", help="NxK,... instead of those of layers")
    parser.add_argument("--within", type=float, default=1.25)
    parser.add_argument("--library", help="libwarpline.so, or two with a comma")
    parser.add_argument("--replays", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    paths = options.library.split(",") if options.library else [None]
    libraries = {path or "library": warpline.Library(path=path) for path in paths}
    random.seed(options.seed)
    harness = Harness(options.replays)
    print("%s, %s, torch %s, seed %d" % (torch.cuda.get_device_properties(0).name,
                                         time.strftime("%Y-%m-%d"), torch.__version__,
                                         options.seed), flush=True)
    rows, start = [], time.time()
    while time.time() - start < options.seconds:
        operation = random.choice(options.operations.split(","))
        kind, m = random.choice(options.types.split(",")), int(random.choice(options.m.split(",")))
        n, k = map(int, random.choice((options.shapes or survey.SHAPES[operation]).split(",")
                                      ).split("x"))
        dual = operation == "dual"
        if len(libraries) == 2:
            candidates = {name: (library, None) for name, library in libraries.items()}
        else:
            library = next(iter(libraries.values()))
            candidates = {name: (library, name)
                          for name in thought(kind, dual, m, n, k, options.within)}
        us, configs = timed(harness, candidates, kind, dual, m, n, k)
        first, *others = us
        share = us[others[0]] / us[first] if len(libraries) == 2 else us[first] / min(us.values())
        rows.append({"operation": operation, "type": kind, "m": m, "n": n, "k": k, "us": us,
                     "configs": configs, "share": share})
        if len(rows) % 100 == 0:
            print("%d products, %.0f s" % (len(rows), time.time() - start), flush=True)
    tables = collections.defaultdict(list)
    for row in rows:
        tables[row["operation"], row["type"], rows_of(row["m"])].append(row["share"])
    print("%-5s %-11s %-7s %8s %8s %8s %8s" % (
        "", "", "M", "products", "change" if len(libraries) == 2 else "loss", "least", "most"))
    for key in sorted(tables):
        of = tables[key]
        print("%-5s %-11s %-7s %8d %+7.2f%% %+7.1f%% %+7.1f%%" % (
            *key, len(of), 100 * (math.exp(sum(map(math.log, of)) / len(of)) - 1),
            100 * (min(of) - 1), 100 * (max(of) - 1)))
    for row in sorted(rows, key=lambda row: -row["share"])[:20]:
        first = next(iter(row["us"]))
        best = (list(row["us"])[1] if len(libraries) == 2 else min(row["us"], key=row["us"].get))
        print("%+6.1f%% %s %s %d, %d, %d: %.2f %s, %.2f %s" % (
            100 * (row["share"] - 1), row["operation"], row["type"], row["m"], row["n"], row["k"],
            row["us"][first], row["configs"][first], row["us"][best], row["configs"][best]))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_properties(0).name,
                       "date": time.strftime("%Y-%m-%d"), "seed": options.seed, "rows": rows},
                      file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
