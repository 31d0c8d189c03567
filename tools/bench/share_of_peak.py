#!/usr/bin/env python3
"""The tensor cores' share of what they could do at the clock that the card has meanwhile.

    make shared && python3 tools/bench/share_of_peak.py [--sizes N,...] [--kinds f16,...]
                                                        [--json FILE]

A kernel of a block for each SM reads %clock64 there, before the products and behind them: the
difference is the clocks that an SM had for them, of whatever frequency. Share = 2 N^3 FLOP for each
product by clocks, SMs and what an SM does a clock: 4096 FLOP of FP16 and BF16, 2048 of TF32, 8192
of FP8 and INT8. Launches and ends of kernels count as time; products run one behind the other.

Beside ours cuBLASLt's product, the fastest of the first eight algorithms that its heuristics offer.
`rest`: one launch of products that take 10 ms or so, after a pause; `without`: 2 s of them before
the first reading, a quarter of that before others, so that the card is where its power holds it. A
line is a median of the rounds, in which ours and cuBLASLt's take turns.
"""
import argparse
import ctypes
import json
import statistics
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import compare_types  # noqa: E402
import cublaslt  # noqa: E402
import warpline  # noqa: E402

FLOP_A_CLOCK = {"f16": 4096, "bf16": 4096, "tf32": 2048, "f8": 8192, "f8fast": 8192, "i8": 8192}
SLOTS = 256  # more than any card has SMs
PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry read_clocks(.param .u64 clocks)
{
  .reg .b64 at, now;
  .reg .b32 sm;
  .reg .pred first;
  mov.u32 sm, %tid.x;
  setp.ne.u32 first, sm, 0;
  @first ret;
  mov.u32 sm, %smid;
  ld.param.u64 at, [clocks];
  cvta.to.global.u64 at, at;
  mad.wide.u32 at, sm, 16, at;
  mov.u64 now, %clock64;
  st.global.u64 [at], now;
  mov.u64 now, %globaltimer;
  st.global.u64 [at + 8], now;
  ret;
}
\0"""


class Clocks:
    """Clocks and nanoseconds of every SM, read in stream order."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check("cuModuleLoadData", ctypes.byref(module), PTX)
        self.check("cuModuleGetFunction", ctypes.byref(self.function), module, b"read_clocks")
        # A block takes more than half of an SM's shared memory, so that each SM gets one.
        self.bytes = 120 * 1024
        self.check("cuFuncSetAttribute", self.function, 8, self.bytes)

    def check(self, name, *args):
        status = getattr(self.driver, name)(*args)
        if status != 0:
            raise RuntimeError("%s: status %d" % (name, status))

    def read(self, found):
        """Fills a tensor of [SLOTS, 2] when the stream comes to it."""
        at = ctypes.c_uint64(found.data_ptr())
        params = (ctypes.c_void_p * 1)(ctypes.addressof(at))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check("cuLaunchKernel", self.function, self.sms, 1, 1, 32, 1, 1, self.bytes, stream,
                   params, None)

    def between(self, before, behind):
        """Clocks, and clocks a second, median over the SMs that both readings saw."""
        both = (before[:, 0] > 0) & (behind[:, 0] > 0)
        if int(both.sum()) < self.sms:
            print("only %d of %d SMs were read" % (int(both.sum()), self.sms))
        clocks, nanoseconds = (behind - before)[both].double().t()
        return clocks.median().item(), (clocks / nanoseconds).median().item() * 1e9


def share(clocks, run, calls, flop, of_clock, warm_s, pause):
    """(share, clocks a second, microseconds of a product)."""
    torch.cuda.synchronize()
    time.sleep(pause)
    end = time.monotonic() + warm_s
    while time.monotonic() < end:
        run()
        torch.cuda.synchronize()
    before, behind = (torch.zeros(SLOTS, 2, dtype=torch.int64, device="cuda") for _ in range(2))
    clocks.read(before)
    run()
    clocks.read(behind)
    torch.cuda.synchronize()
    count, rate = clocks.between(before, behind)
    return flop / (count / calls * clocks.sms * of_clock), rate, count / calls / rate * 1e6


def compare(library, lt, clocks, kind, size, options):
    sets = [compare_types.Operands(kind, size, size, size, seed, ["k", "k"]) for seed in range(2)]
    ours = [s.plan(library) for s in sets]
    harness = compare_types.Harness(options.rounds)
    flop = 2 * size ** 3
    repeats = max(1, round(0.01 / (flop / 6e14) / len(sets)))
    runs = {"ours": harness.captured(ours * repeats)}
    peers = [s.cublaslt(lt) for s in sets]
    _, place, runs["cublaslt"] = cublaslt.best(harness, peers, repeats)
    rows = []
    for way, warm_s, pause in (("rest", 0, 0.2), ("without", options.warm, 0)):
        found = {name: [] for name in runs}
        for turn in range(options.rounds):
            for name in list(runs)[::-1 if turn % 2 else 1]:
                run, calls = runs[name]
                with torch.cuda.stream(harness.stream):
                    found[name].append(share(clocks, run, calls, flop, FLOP_A_CLOCK[kind],
                                             warm_s if turn == 0 else warm_s / 4, pause))
        for name, values in found.items():
            part, rate, us = (statistics.median(column) for column in zip(*values))
            config = ours[0].config if name == "ours" else "algorithm %d" % place
            rows.append({"kind": kind, "size": size, "way": way, "of": name, "share": part,
                         "clock_mhz": rate * 1e-6, "us": us, "config": config})
            print("%-6s %6d  %-8s %-9s %5.1f %%  at %4.0f MHz  %8.1f us  %s" % (
                kind, size, way, name, 100 * part, rate * 1e-6, us, config), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kinds", default="f16")
    parser.add_argument("--sizes", default="8192")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm", type=float, default=2, help="seconds ahead of `without`")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    lt = cublaslt.CublasLt()
    library = warpline.Library()
    clocks = Clocks()
    head = {"device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "torch": torch.__version__, "sms": clocks.sms}
    print("%(device)s, %(date)s, torch %(torch)s, %(sms)d SMs" % head)
    rows = []
    for kind in options.kinds.split(","):
        for size in options.sizes.split(","):
            rows += compare(library, lt, clocks, kind, int(size), options)
            torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"head": head, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
