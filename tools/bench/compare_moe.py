#!/usr/bin/env python3
"""A whole layer of experts, wl_moe on NVFP4 weights, against torch on the same weights decoded to
BF16: sort by expert, gather, torch._grouped_mm, SwiGLU, torch._grouped_mm, weighted sum.

    make shared && python3 tools/bench/compare_moe.py [--json FILE] [--tokens 1,64,4096]
                       [--models qwen,deepseek,gptoss] [--routing uniform,skewed]
                       [--a-type bf16|nvfp4] [--static]

Tokens and the result are BF16; both sides get ids and weights of the experts and read nothing on the
host. Weight sets rotate so that every call finds its experts in DRAM; graphs of calls take turns. A
time is the median over the replays, without the launch of the graph by the host. Columns:
microseconds, torch's as a multiple of ours; `experts`, those that have tokens, the mean of the
sets, and `bytes`, the share of the time that their weights take at the measured copy rate;
`around`, the share of the order, the copies and the sum in the time of a run, by the profiler; host
time of a run, plain and as a graph (the call through ctypes included).
"""
import argparse
import json
import math
import sys
import time

import torch

sys.path.insert(0, __file__.rsplit("/", 1)[0])
import warpline  # noqa: E402
from harness import Harness, floors  # noqa: E402

abi = warpline.abi
# hidden, intermediate, experts, experts a token takes; DeepSeek-V3's are 32 of 256 on one rank.
MODELS = {"qwen": (2048, 768, 128, 8), "deepseek": (7168, 2048, 32, 1),
          "gptoss": (2880, 2880, 128, 4)}


class Layer:
    def __init__(self, model, tokens, routing, a_type, seed):
        self.hidden, self.inner, self.experts, self.taken = MODELS[model]
        self.tokens, self.a_type = tokens, a_type
        generator = torch.Generator(device="cuda").manual_seed(seed)

        def weights(n, k):
            packed = torch.randint(0, 256, (self.experts, n, k // 2), dtype=torch.uint8,
                                   device="cuda", generator=generator)
            plain = torch.randint(0x28, 0x40, (self.experts, n, k // 16), dtype=torch.uint8,
                                  device="cuda", generator=generator)
            return packed, plain, warpline.pack_scales(plain)
        self.w = [weights(self.inner, self.hidden), weights(self.inner, self.hidden),
                  weights(self.hidden, self.inner)]
        self.alpha = [torch.full((self.experts,), 1 / math.sqrt(8 * k), dtype=torch.float32,
                                 device="cuda") for k in (self.hidden, self.hidden, self.inner)]
        self.x = torch.randn(tokens, self.hidden, dtype=torch.bfloat16, device="cuda",
                             generator=generator)
        self.x_scale = torch.tensor([1 / 64], dtype=torch.float32, device="cuda")
        wanted = torch.ones(self.experts, device="cuda")
        if routing == "skewed":  # the n-th most wanted expert 1 / n as often as the first
            order = torch.randperm(self.experts, device="cuda", generator=generator)
            wanted = (1 / torch.arange(1, self.experts + 1, dtype=torch.float32,
                                       device="cuda"))[order]
        self.ids = torch.multinomial(wanted.expand(tokens, -1), self.taken,
                                     generator=generator).to(torch.int32)
        self.weights = torch.rand(tokens, self.taken, device="cuda", generator=generator)
        self.weights /= self.weights.sum(1, keepdim=True)
        self.y = torch.empty(tokens, self.hidden, dtype=torch.bfloat16, device="cuda")
        self.touched = len(self.ids.unique())

    def plan(self, library, flags=0):
        quantised = self.a_type == "nvfp4"
        alpha = [a * self.x_scale if quantised and i < 2 else a for i, a in enumerate(self.alpha)]
        self.kept = alpha
        plan = library.moe(
            tokens=self.tokens, hidden=self.hidden, intermediate=self.inner, experts=self.experts,
            top_k=self.taken, x=self.x.data_ptr(), x_type=abi.BF16,
            a_type=0 if quantised else abi.OPERANDS.index("BF16"), ids=self.ids.data_ptr(),
            weights=self.weights.data_ptr(), sf_layout=abi.SF_128X4,
            x_scale=self.x_scale.data_ptr() if quantised else None,
            y=self.y.data_ptr(), y_type=abi.BF16, flags=flags,
            **{name: w[0].data_ptr() for name, w in zip(("w_gate", "w_up", "w_down"), self.w)},
            **{name: w[2].data_ptr() for name, w in zip(("sf_gate", "sf_up", "sf_down"), self.w)},
            **{name: a.data_ptr()
               for name, a in zip(("alpha_gate", "alpha_up", "alpha_down"), alpha)})
        workspace = torch.empty(max(plan.info.workspace_bytes, 256), dtype=torch.uint8,
                                device="cuda")
        stream = torch.cuda.current_stream

        def run():
            plan.run(stream().cuda_stream, workspace.data_ptr())
        run.plan, run.config = plan, plan.info.config.decode()
        return run

    def decoded(self, i, e, dtype):
        packed, plain, _ = self.w[i]
        value = warpline.decode(packed[e:e + 1], plain[e:e + 1], torch.float32)[0]
        return (value * self.alpha[i][e]).to(dtype)

    def peer(self):
        gate_up = torch.empty(self.experts, 2 * self.inner, self.hidden, dtype=torch.bfloat16,
                              device="cuda")
        down = torch.empty(self.experts, self.hidden, self.inner, dtype=torch.bfloat16,
                           device="cuda")
        for e in range(self.experts):
            gate_up[e, :self.inner] = self.decoded(0, e, torch.bfloat16)
            gate_up[e, self.inner:] = self.decoded(1, e, torch.bfloat16)
            down[e] = self.decoded(2, e, torch.bfloat16)
        ones = torch.ones(self.tokens * self.taken, dtype=torch.int32, device="cuda")

        def run():
            flat = self.ids.flatten()
            order = torch.argsort(flat, stable=True)
            counts = torch.zeros(self.experts, dtype=torch.int32, device="cuda")
            ends = counts.scatter_add_(0, flat.long(), ones).cumsum(0).to(torch.int32)
            rows = self.x[order // self.taken]
            both = torch._grouped_mm(rows, gate_up.transpose(1, 2), offs=ends)
            h = torch.nn.functional.silu(both[:, :self.inner]) * both[:, self.inner:]
            products = torch._grouped_mm(h, down.transpose(1, 2), offs=ends)
            back = torch.empty_like(products)
            back[order] = products
            back = back.view(self.tokens, self.taken, self.hidden)
            return (back * self.weights[..., None].to(back.dtype)).sum(1)
        return run

    def wrong(self, run):
        """The worst error in units of what BF16 rounding of h, of the rows and of y allows; with
        NVFP4 tokens, of what their rounding does: an error of a tenth of y's size."""
        self.y.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        exact = torch.zeros(self.tokens, self.hidden, dtype=torch.float64, device="cuda")
        size = torch.zeros_like(exact)
        for e in self.ids.unique().tolist():
            token, j = (self.ids == e).nonzero(as_tuple=True)
            gate, up, down = (self.decoded(i, e, torch.float64) for i in range(3))
            x = self.x[token].double()
            sums = x @ gate.t()
            h = sums * torch.sigmoid(sums) * (x @ up.t())
            part = (h @ down.t()) * self.weights[token, j].double()[:, None]
            exact.index_add_(0, token, part)
            size.index_add_(0, token, part.abs())
        error = (self.y.double() - exact)
        if self.a_type == "nvfp4":
            return (error.norm() / exact.norm() / 0.25).nan_to_num(nan=1e9).item()
        floor = 2e-2 * exact.abs().mean()
        return (error.abs() / (floor + 1e-2 * size)).nan_to_num(nan=1e9).max().item()


def around(run, calls=10):
    """The share of the time that other kernels than the products take, and the microseconds of
    each: from the end of the kernel ahead of it to its own end, as a kernel that starts under
    another has not begun its work by then. The first run, which has none ahead, does not count."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for _ in range(calls + 1):
            run()
        torch.cuda.synchronize()
    events = sorted((event for event in prof.events() if event.device_type.name == "CUDA"),
                    key=lambda event: event.time_range.end)
    launches = len(events) // (calls + 1)
    times = {}
    for ahead, event in zip(events[launches - 1:], events[launches:]):
        us = event.time_range.end - ahead.time_range.end
        times[event.name] = times.get(event.name, 0) + us / calls
    total = sum(times.values())
    beside = sum(us for name, us in times.items()
                 if name.startswith("moe_") and not name.startswith(("moe_up_", "moe_down_")))
    return (beside / total if total else math.nan), times


def host_us(run, calls=300):
    torch.cuda.synchronize()
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(20):
            run()
        best = min(best, (time.perf_counter() - start) / 20)
        torch.cuda.synchronize()
    return best * 1e6


def compare(library, harness, case, options, copy):
    model, tokens, routing = case
    first = Layer(model, tokens, routing, options.a_type, 0)
    bytes_each = 3 * first.hidden * first.inner * 9 // 16
    touched = first.touched * bytes_each
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(1, min(-(-3 * l2 // touched), 8))
    sets = [first] + [Layer(model, tokens, routing, options.a_type, s) for s in range(1, count)]
    flags = abi.STATIC_WEIGHTS if options.static else 0
    ours = [s.plan(library, flags) for s in sets]
    mean = sum(s.touched for s in sets) / count
    row = {"model": model, "tokens": tokens, "routing": routing, "touched": mean,
           "config": ours[0].config, "launches": ours[0].plan.info.launches,
           "error": first.wrong(ours[0])}
    repeats = max(1, 8 // count) if tokens <= 512 else 1
    graphs = {"ours": harness.captured(ours * repeats)}
    if hasattr(torch, "_grouped_mm") and options.peer:
        peer = first.peer()
        graphs["torch"] = harness.captured([peer] * (count * repeats))
    row.update(harness.medians(graphs, ahead=200_000))
    if "torch" in row:
        row["ratio"] = row["torch"] / row["ours"]
    row["bytes"] = mean * bytes_each / (copy * 1e6) / row["ours"]
    row["plain_us"] = host_us(ours[0])
    row["graph_us"] = host_us(first.plan(library, 2))
    if options.profile:
        row["around"], row["kernels"] = around(ours[0])
    return row


COLUMNS = (("model", "model", "%-8s"), ("tokens", "T", "%5d"), ("routing", "routing", "%-8s"),
           ("touched", "experts", "%7.1f"), ("ours", "ours us", "%8.1f"), ("torch", "torch", "%8.1f"),
           ("ratio", "ratio", "%6.2f"), ("bytes", "bytes", "%6.2f"), ("around", "around", "%6.3f"),
           ("plain_us", "host", "%6.1f"), ("graph_us", "graph", "%6.1f"),
           ("launches", "launches", "%8d"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", default="1,64,4096")
    parser.add_argument("--models", default="qwen,deepseek,gptoss")
    parser.add_argument("--routing", default="uniform,skewed")
    parser.add_argument("--a-type", choices=("bf16", "nvfp4"), default="bf16")
    parser.add_argument("--static", action="store_true", help="weights that no kernel writes")
    parser.add_argument("--replays", type=int, default=10)
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    parser.add_argument("--no-profile", dest="profile", action="store_false")
    parser.add_argument("--json")
    options = parser.parse_args()
    library = warpline.Library()
    harness = Harness(options.replays)
    copy, peak = floors()
    head = {"device": torch.cuda.get_device_properties(0).name, "date": time.strftime("%Y-%m-%d"),
            "a_type": options.a_type, "torch": torch.__version__, "copy_tb_s": copy,
            "fp16_tflops": peak}
    print("%(device)s, %(date)s, A in %(a_type)s, torch %(torch)s: copy %(copy_tb_s).2f TB/s" % head)
    print("  ".join(title.rjust(len(form % (0 if form[-1] != "s" else "")))
                    for _, title, form in COLUMNS))
    rows = []
    for model in options.models.split(","):
        for routing in options.routing.split(","):
            for tokens in map(int, options.tokens.split(",")):
                row = compare(library, harness, (model, tokens, routing), options, copy)
                rows.append(row)
                torch.cuda.empty_cache()
                cells = (form % row[key] if key in row else "-".rjust(8)
                         for key, _, form in COLUMNS)
                print("  ".join(cells) + "  " + row["config"] +
                      ("" if row["error"] <= 1 else "  WRONG %.3g" % row["error"]), flush=True)
                for name, us in row.get("kernels", {}).items():
                    print("      %8.1f us  %s" % (us, name[:60]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"head": head, "rows": rows}, file, indent=1)
    return 0 if all(row["error"] <= 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
