#!/usr/bin/env python3
"""warpline's NVFP4 dual GEMM against what its users run today, in one process on the same data.

    make shared && python3 tools/bench/compare_torch.py [--json FILE] [--svg FILE] [--m 1,16,64,...]
                                                        [--a-type nvfp4|f16|bf16]

Activations are in NVFP4, with D in FP16, or in FP16 or BF16 (--a-type), D in the same type.
Peers:
  (a) one FP16 (or BF16) GEMM on pre-decoded, concatenated weights, then one fused silu*mul kernel
  (b) two eager GEMMs, silu, product
  (c) a Triton kernel that decodes the NVFP4 weights in place
  (h) with --a-type f16 or bf16 and humming-kernels installed: its GEMM on both weights as one,
      which then share alpha1, and the silu*mul kernel
Ours, (a) and (c) run in CUDA graphs. A graph holds one call for each set of operands; the sets
together exceed three times the L2, so every call finds its weights in DRAM. Time is a graph's
time over its calls, the median of the replays; launches are inside it. The graphs of a problem
take turns, one replay each and every other round in reverse, so that the card's clock and
temperature of the minute are the same for all. Each replay comes as soon as the one ahead has
ended; large problems then run at the pace that the card's power allows, of whatever was
measured before them. Columns "burst": ours and (a) once more with a pause before each replay
(--pause), so that the card is within its power when a replay starts. Columns "1": graphs of one
call, launched one by one between events, the graph's launch included. Column "static": the
weights are declared static (WL_STATIC_WEIGHTS), so a call may load them while the one ahead of
it ends. The flush is shown by the same measurement on one set alone (column "warm"). (b) and
(c) are measured behind the others.
"""
import argparse
import json
import sys
import time

import torch
import triton
import triton.language as tl

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import humming_peer  # noqa: E402
import plot  # noqa: E402
import warpline  # noqa: E402
from harness import Harness, floors  # noqa: E402


@triton.jit
def silu_mul_kernel(h, out, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    gate = tl.load(h + row * 2 * n + column, mask=inside).to(tl.float32)
    up = tl.load(h + row * 2 * n + n + column, mask=inside).to(tl.float32)
    tl.store(out + row * n + column, gate * tl.sigmoid(gate) * up, mask=inside)


def silu_mul(h, out):
    m, n = out.shape
    silu_mul_kernel[(m, triton.cdiv(n, 1024))](h, out, n, BLOCK=1024, num_warps=4)


@triton.jit
def e2m1(codes):
    """Values * 2^-14 of 4-bit codes: the magnitude bits as the top of an FP16."""
    bits = ((codes & 8).to(tl.uint16) << 12) | ((codes & 7).to(tl.uint16) << 9)
    return bits.to(tl.float16, bitcast=True)


@triton.jit
def decoding_kernel(a, b1, b2, s1, s2, out, m, n, k, alpha1, alpha2, BM: tl.constexpr,
                    BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    packed = tl.arange(0, BK // 2)
    gate = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    row_in = (rows < m)[:, None]
    for start in range(0, k, BK):
        even = tl.load(a + rows[:, None] * k + start + 2 * packed[None, :], mask=row_in, other=0.0)
        odd = tl.load(a + rows[:, None] * k + start + 2 * packed[None, :] + 1, mask=row_in,
                      other=0.0)
        at = columns[None, :] * (k // 2) + start // 2 + packed[:, None]
        scale_at = columns[None, :] * (k // 16) + start // 16 + packed[:, None] // 8
        c1 = tl.load(b1 + at)
        c2 = tl.load(b2 + at)
        f1 = (tl.load(s1 + scale_at).to(tl.float8e4nv, bitcast=True).to(tl.float16) * 128.0)
        f2 = (tl.load(s2 + scale_at).to(tl.float8e4nv, bitcast=True).to(tl.float16) * 128.0)
        f1 = f1.to(tl.float16)
        f2 = f2.to(tl.float16)
        gate = tl.dot(even, e2m1(c1) * f1, gate)
        gate = tl.dot(odd, e2m1(c1 >> 4) * f1, gate)
        up = tl.dot(even, e2m1(c2) * f2, up)
        up = tl.dot(odd, e2m1(c2 >> 4) * f2, up)
    gate = gate * (alpha1 * 128.0)
    up = up * (alpha2 * 128.0)
    d = gate * tl.sigmoid(gate) * up
    tl.store(out + rows[:, None] * n + columns[None, :], d.to(tl.float16), mask=row_in)


def compare(library, harness, m, n, k, options):
    weights = 2 * n * k
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    alpha = (0.02, 0.03)
    row = {"m": m, "n": n, "k": k}

    sets = max(4, -(-3 * l2 // (weights * 9 // 16)) + 1)
    problems = [warpline.Problem(m, n, k, seed=i, alpha=alpha, a_type=options.a_type)
                for i in range(sets)]
    d_dtype = warpline.d_dtype(options.a_type)
    outputs = [torch.empty(1, m, n, dtype=d_dtype, device="cuda") for _ in problems]
    plans = [library.plan(p, d, options.config) for p, d in zip(problems, outputs)]
    row["config"] = plans[0].info.config.decode()
    repeats = 3 if m <= 512 else 1
    static = [library.plan(p, d, options.config, warpline.STATIC_WEIGHTS)
              for p, d in zip(problems, outputs)]
    graphs = {"ours": harness.captured([plan.run for plan in plans] * repeats)}
    singles = {"ours_single": harness.in_turn([plan.run for plan in plans])}

    peer_sets = max(2, -(-3 * l2 // (weights * 2)) + 1)
    peers = {}
    for name, dtype in (("a_fp16", torch.float16), ("a_bf16", torch.bfloat16)):
        operands = peers[name] = []
        for p in problems[:peer_sets]:
            a, b1, b2 = p.operands(dtype)
            b1, b2 = b1[0] * p.alpha1.to(dtype), b2[0] * p.alpha2.to(dtype)
            operands.append((a[0].contiguous(), torch.cat((b1, b2)).contiguous(),
                             torch.empty(m, 2 * n, dtype=dtype, device="cuda"),
                             torch.empty(m, n, dtype=dtype, device="cuda")))

        def peer_a(a, w, h, out):
            torch.mm(a, w.t(), out=h)
            silu_mul(h, out)
        calls = [lambda o=o: peer_a(*o) for o in operands]
        graphs[name] = harness.captured(calls * 3)
        if dtype == d_dtype:
            singles["a_single"] = harness.in_turn(calls)
    graphs["ours_static"] = harness.captured([plan.run for plan in static] * repeats)
    graphs["ours_warm"] = harness.captured([plans[0].run] * (sets * repeats))
    if options.double_buffered:
        try:
            tokens = next((t for t in (8, 16, 32, 64) if m <= t), 128 if m <= 256 else 256)
            name = "dual_gemm_sm90_double_buffered_t%d_f16" % tokens
            buffered = [library.plan(p, d, name) for p, d in zip(problems, outputs)]
            graphs["double_buffered"] = harness.captured([plan.run for plan in buffered] * repeats)
        except RuntimeError as error:
            print(error, file=sys.stderr)
    if options.humming:
        layers = [humming_peer.layer(torch.cat((p.b1[0], p.b2[0])),
                                     torch.cat((p.sfb1_plain[0], p.sfb2_plain[0])), p.alpha1,
                                     d_dtype) for p in problems]

        def peer_h(p, made, out):
            silu_mul(made(p.a[0]), out)
        outs = [torch.empty(m, n, dtype=d_dtype, device="cuda") for _ in problems]
        calls = [lambda o=o: peer_h(*o) for o in zip(problems, layers, outs)]
        calls[0]()
        a, b1, b2 = (t[0] for t in problems[0].operands(torch.float64))
        gate, up = a @ b1.t() * alpha[0], a @ b2.t() * alpha[0]
        exact = gate * torch.sigmoid(gate) * up
        row["humming_error"] = (outs[0].double() - exact).abs().max().item()
        graphs["humming"] = harness.captured(calls * repeats)
    row.update(harness.medians(graphs))
    same = "a_fp16" if d_dtype == torch.float16 else "a_bf16"  # (a) in the type of ours
    row.update(harness.medians({"ours_burst": graphs["ours"], "a_burst": graphs[same]},
                               options.pause * 1e-3))
    row.update(harness.medians(singles))
    plans[0].run()
    torch.cuda.synchronize()
    reference = problems[0].reference()
    error = (outputs[0].double() - reference).abs()
    row["worst"] = ((error - 1e-3) / reference.abs().clamp_min(1e-30)).max().item()
    relative = 1e-3 if d_dtype == torch.float16 else 5e-3
    row["right"] = bool((error <= 1e-3 + relative * reference.abs()).all())

    operands = peers[same]

    def peer_b(a, w, h, out):
        return torch.nn.functional.silu(a @ w[:n].t()) * (a @ w[n:].t())

    def eager():
        for _ in range(3):
            for o in operands:
                peer_b(*o)
    row.update(harness.medians({"b_eager": (eager, 3 * len(operands))}))
    # (c) takes the activations in FP16, and plain scales.
    if options.triton and d_dtype == torch.float16:
        bm = max(16, min(128, triton.next_power_of_2(m)))
        bn = 64 if m > 64 else 32
        grid = (n // bn, triton.cdiv(m, bm))
        data = [(operands[0][0], p.b1[0], p.b2[0], p.sfb1_plain[0], p.sfb2_plain[0],
                 operands[0][3]) for p in problems]

        def peer_c(a, b1, b2, s1, s2, out):
            decoding_kernel[grid](a, b1, b2, s1, s2, out, m, n, k, alpha[0], alpha[1], BM=bm,
                                  BN=bn, BK=128, num_warps=8 if m > 64 else 4, num_stages=3)
        try:
            row.update(harness.medians(
                {"c_triton": harness.captured([lambda o=o: peer_c(*o) for o in data])}))
        except Exception as error:  # a shape that Triton cannot compile is not measured
            print("triton:", str(error)[:200], file=sys.stderr)
    # Graphs hold memory until they are gone.
    del graphs, singles, peers, operands
    torch.cuda.empty_cache()
    row["ratio"] = row[same] / row["ours"]
    row["ratio_static"] = row[same] / row["ours_static"]
    row["ratio_burst"] = row["a_burst"] / row["ours_burst"]
    row["ratio_single"] = row["a_single"] / row["ours_single"]
    return row


COLUMNS = (("m", "M", "%5d"), ("ours", "ours us", "%8.2f"), ("ours_static", "static us", "%9.2f"),
           ("ours_warm", "warm us", "%8.2f"),
           ("double_buffered", "dbl.buf", "%8.2f"), ("a_fp16", "a FP16", "%8.2f"),
           ("a_bf16", "a BF16", "%8.2f"), ("humming", "humming", "%8.2f"),
           ("b_eager", "b eager", "%8.2f"),
           ("c_triton", "c triton", "%8.2f"), ("ratio", "a/ours", "%6.2f"),
           ("ratio_static", "a/static", "%8.2f"),
           ("ours_burst", "burst", "%8.2f"), ("a_burst", "a burst", "%8.2f"),
           ("ratio_burst", "a/ours", "%6.2f"), ("ours_single", "ours 1", "%7.2f"),
           ("a_single", "a 1", "%7.2f"), ("ratio_single", "a/ours", "%6.2f"),
           ("bytes_floor", "bytes", "%7.2f"), ("flops_floor", "FLOPs", "%7.2f"))


def table(rows):
    lines = []
    for row in rows:
        if not lines or (row["n"], row["k"]) != shape:
            shape = (row["n"], row["k"])
            lines.append("N %d, K %d; microseconds, cold L2" % shape)
            lines.append("  ".join(title.rjust(len(form % 0)) for _, title, form in COLUMNS) +
                         "  row")
        lines.append("  ".join(form % row[key] if key in row else "-".rjust(len(form % 0))
                               for key, _, form in COLUMNS) +
                     "  " + row["config"] + ("" if row["right"] else "  WRONG"))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--m", default="1,16,64,256,512,4096")
    parser.add_argument("--shapes", default="256x3072x4096,512x3072x7168", help="more MxNxK")
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--k", type=int, default=7168)
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--pause", type=float, default=5,
                        help="milliseconds before each replay of a burst")
    parser.add_argument("--a-type", choices=warpline.A_TYPES, default="nvfp4")
    parser.add_argument("--config", help="force a configuration")
    parser.add_argument("--no-triton", dest="triton", action="store_false")
    parser.add_argument("--double-buffered", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--svg")
    options = parser.parse_args()
    options.humming = options.a_type != "nvfp4" and humming_peer.present()

    library = warpline.Library()
    harness = Harness(options.replays)
    copy, peak = floors()
    one = torch.zeros(1, device="cuda")
    launch = harness.medians({"launch": harness.captured([lambda: one.add_(1)] * 100)})["launch"]
    device = torch.cuda.get_device_properties(0)
    head = {"device": device.name, "date": time.strftime("%Y-%m-%d"), "a_type": options.a_type,
            "torch": torch.__version__,
            "copy_tb_s": copy, "fp16_tflops": peak, "launch_us": launch, "l2": device.L2_cache_size}
    print("%(device)s, %(date)s, A in %(a_type)s, torch %(torch)s: copy %(copy_tb_s).2f TB/s, "
          "FP16 8192^3 %(fp16_tflops).0f TFLOP/s, a dependent launch in a graph %(launch_us).2f us"
          % head)
    shapes = [(int(m), options.n, options.k) for m in options.m.split(",") if m]
    shapes += [tuple(map(int, s.split("x"))) for s in options.shapes.split(",") if s]
    rows = []
    for m, n, k in shapes:
        row = compare(library, harness, m, n, k, options)
        a_bytes = 9 / 16 if options.a_type == "nvfp4" else 2
        row["bytes_floor"] = (2 * n * k * 9 / 16 + m * k * a_bytes + 2 * m * n) / copy * 1e-6
        row["flops_floor"] = 4 * m * n * k / peak * 1e-6
        rows.append(row)
        print(table([row]), flush=True)
    print(table(rows))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"head": head, "rows": rows}, file, indent=1)
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(plot.plot(rows, head))
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
