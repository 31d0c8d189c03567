#!/usr/bin/env python3
"""Times FP16 products by several schedules, and by several GROUP_M, in turns: `make build/bench
build/warpline`, then python3 tools/bench/schedules/run.py. Each is another PTX file in place of a
configuration's, which other_kernel.cpp hands to the driver. With ncu (--ncu PATH) also what its
counters say. --driver build/libvgpu.so --check compares every one with the reference, and times
nothing."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("BUILD", "build")
HERE = os.path.join(ROOT, "tools/bench/schedules")
SMALL, WIDE = "gemm_sm90_f16_t128_f16", "gemm_sm90_f16_t256_pair_f16"
OWN = dict(TYPE_F16=1, OUT_F16=1, CONSUMERS=2)


def schedule(loader, ping_pong, storer):
    return SMALL, f"{HERE}/schedules.ptx", dict(
        LOADER=loader, IN_TURNS=ping_pong, STORER=storer, STAGES=6 if loader else 2)


def group(rows):
    return WIDE, f"{HERE}/group.ptx", dict(
        OWN, TOKENS=256, STAGES=4, CLUSTER_ROWS=2, GROUP_M=rows)


VARIANTS = {
    "double-buffered, no roles, threads' stores": schedule(0, 0, 0),
    "loader, cooperative, threads' stores": schedule(1, 0, 0),
    "loader, cooperative, storers": schedule(1, 0, 1),
    "loader, ping-pong, threads' stores": schedule(1, 1, 0),
    "loader, ping-pong, storers": schedule(1, 1, 1),
    f"`{SMALL[10:]}` as it is": (SMALL, None, None),
    f"`{WIDE[10:]}` as it is": (WIDE, None, None),
    "GROUP_M 2": group(2),
    "GROUP_M 4": group(4),
    "GROUP_M 8": group(8),
    "GROUP_M 16": group(16),
}
# Counters of ncu: of each, names that it may have; the first that the program knows counts.
COUNTERS = {
    "SM busy": (["sm__cycles_active"], ".avg.pct_of_peak_sustained_elapsed"),
    "tensor pipe": (["sm__pipe_tensor_op_gmma_cycles_active", "sm__pipe_tensor_cycles_active",
                     "sm__inst_executed_pipe_tensor_op_gmma",
                     "sm__inst_executed_pipe_tensor_op_hmma", "sm__inst_executed_pipe_tensor"],
                    ".avg.pct_of_peak_sustained_elapsed"),
    "L2 hits": (["lts__t_sector_hit_rate"], ".pct"),
}


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def prepare(folder, driver):
    """The stand-in for the driver, and the PTX files; name -> environment."""
    if driver is None:  # a name to link with; the driver itself is on the machine with the card
        driver = f"{folder}/libcuda.so.1"
        run(["g++", "-shared", "-x", "c++", "-o", driver, "-Wl,-soname,libcuda.so.1", "/dev/null"])
    driver = os.path.abspath(driver)
    run(["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-I", ROOT, f"{HERE}/other_kernel.cpp",
         "-o", f"{folder}/other.so", "-Wl,--no-as-needed", driver])
    found = {}
    for name, (config, source, constants) in VARIANTS.items():
        found[name] = dict(os.environ)
        if source is None:
            continue
        file = f"{folder}/{len(found)}.ptx"
        defines = [f"-D{key}={value}" for key, value in constants.items()]
        includes = [part for room in ("ptx", "kernels/linear", "kernels/gemm")
                    for part in ("-I", f"{ROOT}/{room}")]
        text = run(["cpp", "-P", "-undef", "-nostdinc", *includes, f"-DKERNEL={config}", *defines,
                    source])
        with open(file, "w") as out:
            out.write(run(["awk", "-f", "ptx/expand.awk"], input=text))
        found[name].update(OTHER_KERNEL=config, OTHER_SOURCE=file,
                           WARPLINE_DRIVER=f"{folder}/other.so")
    return found


def bench(name, shape, environment, replays, folder, before=()):
    m, n, k = shape
    file = f"{folder}/time.json"
    text = run([*before, f"{BUILD}/bench", "--gemm", "--a-type", "f16", "--b-type", "f16",
                "--config", VARIANTS[name][0], "--m", str(m), "--n", str(n), "--k", str(k),
                "--replays", str(replays), "--json", file], env=environment)
    with open(file) as times:
        return json.load(times)[0]["us"], text


def counters(ncu, name, shape, environment, folder, metrics):
    before = [ncu, "--clock-control", "none", "--kernel-name", f"regex:{VARIANTS[name][0]}",
              "--launch-skip", "2", "--launch-count", "1", "--metrics", ",".join(metrics.values())]
    _, text = bench(name, shape, environment, 1, folder, before)
    found = {}
    for title, metric in metrics.items():
        line = re.search(re.escape(metric) + r"\s+\S+\s+([\d.,]+)", text)
        found[title] = line.group(1) if line else "-"
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shapes", default="4096x4096x4096,8192x8192x8192,4096x24576x1536")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--replays", type=int, default=7)
    options.add_argument("--only", default="", help="of the names, a regular expression")
    options.add_argument("--driver", help="a driver's library in place of the machine's")
    options.add_argument("--check", action="store_true")
    options.add_argument("--ncu", help="the program")
    options.add_argument("--json")
    o = options.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in o.shapes.split(",")]
    names = [name for name in VARIANTS if re.search(o.only, name)]
    with tempfile.TemporaryDirectory() as folder:
        environments = prepare(folder, o.driver)
        for name in names:
            if not o.check or VARIANTS[name][1] is None:
                continue
            text = run([f"{BUILD}/warpline", "gemm", "--a-type", "f16", "--b-type", "f16", "-m", "600",
                        "-n", "1032", "-k", "520", "--config", VARIANTS[name][0]],
                       env=environments[name])
            print(f"{name}: {text.strip().splitlines()[-1]}")
        if o.check:
            return
        times = {}
        for _ in range(o.rounds):
            for shape in shapes:
                for name in names:
                    us, _ = bench(name, shape, environments[name], o.replays, folder)
                    times.setdefault((name, shape), []).append(us)
                    print(f"{us:9.1f} us  {'x'.join(map(str, shape))}  {name}", file=sys.stderr,
                          flush=True)
        metrics = {}
        if o.ncu:
            known = set(run([o.ncu, "--query-metrics", "--chip", "gh100"]).split())
            for title, (bases, suffix) in COUNTERS.items():
                metrics.update({title: base + suffix for base in bases[::-1] if base in known})
            print(", ".join(f"{title}: `{metric}`" for title, metric in metrics.items()))
        rows = []
        print("| schedule | " + " | ".join("x".join(map(str, s)) + " us" for s in shapes)
              + "".join(f" | {title} %" for title in metrics) + " |")
        print("|---" * (1 + len(shapes) + len(metrics)) + "|")
        for name in names:
            us = [statistics.median(times[name, shape]) for shape in shapes]
            seen = counters(o.ncu, name, shapes[0], environments[name], folder, metrics) \
                if metrics else {}
            rows.append(dict(name=name, us=dict(zip(o.shapes.split(","), us)), **seen))
            print(f"| {name} | " + " | ".join(f"{t:.1f}" for t in us)
                  + "".join(f" | {seen[title]}" for title in metrics) + " |", flush=True)
        if o.json:
            with open(o.json, "w") as out:
                json.dump(rows, out, indent=1)


main()
