#!/usr/bin/env python3
"""Draws a results file: microseconds against M, and how many times as long the peers take.

    python3 tools/bench/plot.py tools/bench/results/h200_peers.json tools/bench/results/h200.svg

The file holds {"head": {"device", "date"}, "rows": [{"m", "n", "k", "ours", PEER ...}]}, in the
head perhaps a "note", which is drawn under the title. Drawn are the problems of the first one's n
and k. Standard library only.
"""
import json
import math
import sys

# Key in the file, name in the picture, colour; the order is that of the legend.
SERIES = (("ours", "warpline", "#c0392b"),
          ("humming", "Humming", "#2980b9"),
          ("marlin", "Marlin", "#8e44ad"),
          ("cublas", "cuBLAS FP16", "#2c3e50"),
          ("a_fp16", "PyTorch, graph", "#2c3e50"),
          ("b_eager", "PyTorch, eager", "#7f8c8d"),
          ("c_triton", "Triton", "#d35400"),
          ("bytes_floor", "floor: bytes", "#27ae60"),
          ("flops_floor", "floor: FLOPs", "#e67e22"))
LEFT, TOP, WIDTH, HEIGHT, GAP, NAMES = 54, 84, 330, 260, 66, 150


def text(x, y, words, more=""):
    return '<text x="%.1f" y="%.1f"%s>%s</text>' % (x, y, more and " " + more, words)


def ticks(low, high):
    """1, 2 and 5 times powers of ten from low to high."""
    return [factor * 10 ** exponent
            for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for factor in (1, 2, 5) if low <= factor * 10 ** exponent <= high]


def panel(rows, lines, left, title, marks, place):
    """One diagram: `lines` are (key, name, colour, values); `place` maps a value to 0 .. 1."""
    first, last = math.log2(rows[0]["m"]), math.log2(rows[-1]["m"])

    def x(m):
        return left + (math.log2(m) - first) / max(last - first, 1) * WIDTH

    def y(value):
        return TOP + (1 - place(value)) * HEIGHT
    out = [text(left, TOP - 14, title, 'font-weight="bold"')]
    for mark in marks:
        strong = mark == 1 and len(marks) < 9
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/>' % (
            left, left + WIDTH, y(mark), y(mark), "#888" if strong else "#e4e4e4"))
        out.append(text(left - 6, y(mark) + 4, "%g" % mark, 'text-anchor="end"'))
    free = -math.inf  # where the next number does not run into the one before
    for row in rows:
        if x(row["m"]) >= free:
            out.append(text(x(row["m"]), TOP + HEIGHT + 18, row["m"], 'text-anchor="middle"'))
            free = x(row["m"]) + 5 + 7 * len(str(row["m"]))
    for key, _, colour, values in lines:
        dash = ' stroke-dasharray="5 4"' if "floor" in key else ""
        points = [(x(row["m"]), y(value)) for row, value in zip(rows, values) if value is not None]
        out.append('<polyline fill="none" stroke="%s" stroke-width="%s"%s points="%s"/>' % (
            colour, "3" if key == "ours" else "2", dash,
            " ".join("%.1f,%.1f" % point for point in points)))
        if not dash:
            out += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (*point, colour)
                    for point in points]
    return out


def plot(rows, head):
    rows = sorted((row for row in rows if (row["n"], row["k"]) == (rows[0]["n"], rows[0]["k"])),
                  key=lambda row: row["m"])
    lines = [(key, name, colour, [row.get(key) for row in rows]) for key, name, colour in SERIES
             if any(key in row for row in rows)]
    width = LEFT + 2 * WIDTH + GAP + NAMES
    height = TOP + HEIGHT + 44
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" '
           'font-size="12">' % (width, height), '<rect width="100%" height="100%" fill="white"/>',
           text(LEFT, 22, "Gated MLP in NVFP4, N %d, K %d, on an %s, %s" % (
               rows[0]["n"], rows[0]["k"], head["device"], head["date"]), 'font-size="15"')]
    if "note" in head:
        out.append(text(LEFT, 42, head["note"], 'fill="#555"'))

    times = [value for line in lines for value in line[3] if value is not None]
    low, high = min(times) * 0.85, max(times) * 1.15
    out += panel(rows, lines, LEFT, "microseconds, cold L2", ticks(low, high),
                 lambda t: (math.log10(max(t, low)) - math.log10(low)) /
                 (math.log10(high) - math.log10(low)))

    own = lines[0][3]
    ratios = [(key, name, colour, [None if value is None else value / base
                                   for value, base in zip(values, own)])
              for key, name, colour, values in lines if "floor" not in key]
    # A peer that takes more than six times as long would flatten the others.
    ratios = [line for line in ratios if max(v for v in line[3] if v is not None) <= 6]
    top = max(v for line in ratios for v in line[3] if v is not None) * 1.05
    step = 0.5 if top <= 4 else 1
    left = LEFT + WIDTH + GAP
    out += panel(rows, ratios, left, "times as long as warpline",
                 [step * i for i in range(int(top / step) + 1)], lambda v: v / top)

    middle = TOP + HEIGHT + 38
    for start in (LEFT, left):
        out.append(text(start + WIDTH / 2, middle, "M (tokens)", 'text-anchor="middle"'))
    for i, (_, name, colour, _) in enumerate(lines):
        at = TOP + 10 + 22 * i
        out.append('<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="3"/>' % (
            left + WIDTH + 16, left + WIDTH + 34, at - 4, at - 4, colour))
        out.append(text(left + WIDTH + 40, at, name, 'fill="%s"' % colour))
    return "\n".join(out + ["</svg>\n"])


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot.py RESULTS.json PICTURE.svg")
    with open(sys.argv[1]) as file:
        results = json.load(file)
    with open(sys.argv[2], "w") as file:
        file.write(plot(results["rows"], results["head"]))


if __name__ == "__main__":
    main()
