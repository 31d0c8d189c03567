"""Time on a GPU through PyTorch: graphs that take turns, and what the card reaches at best."""
import statistics
import time

import torch


class Harness:
    """Medians of what takes turns: one run of each, again and again, in one order and the other."""

    def __init__(self, replays):
        self.replays = replays
        self.stream = torch.cuda.Stream()

    def captured(self, calls):
        """A graph of the calls in order, as (run, calls in it)."""
        with torch.cuda.stream(self.stream):
            for call in calls[:2]:
                call()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                for call in calls:
                    call()
        return graph.replay, len(calls)

    def in_turn(self, calls):
        """Graphs of one call each, of which every run takes the next: what a caller sees who
        launches once; it holds the launch of the graph."""
        runs = [self.captured([call])[0] for call in calls]
        turn = [0]

        def run():
            turn[0] += 1
            runs[turn[0] % len(runs)]()
        return run, 1

    def eager_medians(self, things, ahead=4_000_000):
        """Microseconds of one call of each of {name: calls}, without graphs: the calls stand behind
        a kernel that sleeps for `ahead` clocks while the host queues them."""
        times = {name: [] for name in things}
        with torch.cuda.stream(self.stream):
            for calls in things.values():
                for call in calls:
                    call()
            torch.cuda.synchronize()
            for i in range(self.replays):
                for name in list(things)[::-1 if i % 2 else 1]:
                    start = torch.cuda.Event(enable_timing=True)
                    end = torch.cuda.Event(enable_timing=True)
                    torch.cuda._sleep(ahead)
                    start.record(self.stream)
                    for call in things[name]:
                        call()
                    end.record(self.stream)
                    end.synchronize()
                    times[name].append(start.elapsed_time(end) * 1e3 / len(things[name]))
        return {name: statistics.median(values) for name, values in times.items()}

    def medians(self, things, pause=0, ahead=0):
        """Microseconds of one call of each of {name: (run, calls in it)}; `pause` in seconds. With
        `ahead` the card sleeps for so many clocks while the host queues a run, whose launch is not
        in the time then: of few short calls it takes as long as they do."""
        times = {name: [] for name in things}
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                for run, _ in things.values():
                    run()
            torch.cuda.synchronize()
            for i in range(self.replays):
                for name in list(things)[::-1 if i % 2 else 1]:
                    run, calls = things[name]
                    start = torch.cuda.Event(enable_timing=True)
                    end = torch.cuda.Event(enable_timing=True)
                    time.sleep(pause)
                    if ahead:
                        torch.cuda._sleep(ahead)
                    start.record(self.stream)
                    run()
                    end.record(self.stream)
                    end.synchronize()
                    times[name].append(start.elapsed_time(end) * 1e3 / calls)
        return {name: statistics.median(values) for name, values in times.items()}


def floors():
    """Copy bandwidth in TB/s (read + written) and FP16 matrix peak in TFLOP/s, both measured."""
    source = torch.randint(0, 256, (2_000_000_000,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    a = torch.randn(8192, 8192, dtype=torch.float16, device="cuda")
    b = torch.randn(8192, 8192, dtype=torch.float16, device="cuda")

    def best(run):
        times = []
        for _ in range(8):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3)
        return min(times)
    copy = 2 * source.numel() / best(lambda: target.copy_(source)) * 1e-12
    peak = 2 * 8192 ** 3 / best(lambda: torch.mm(a, b)) * 1e-12
    return copy, peak
