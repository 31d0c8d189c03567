#!/usr/bin/env python3
"""A gated MLP with NVFP4 weights as NVIDIA's ModelOpt writes them, and activations in FP16 or BF16,
with nothing but Python's own library:

    y = (silu(x Wg^T) * (x Wu^T)) Wd^T         x [tokens, hidden], Wg and Wu [inner, hidden]

A linear layer NAME is three tensors of a safetensors file: NAME.weight, U8 [N, K/2], two E2M1 values
a byte, the even one in the low half; NAME.weight_scale, F8_E4M3 [N, K/16]; NAME.weight_scale_2, one
F32. A weight is their product. The kernels read the codes as they are; the scales, 1/9 of the bytes,
are put into atoms of 128 x 4 when they are loaded.

    make shared && WARPLINE_DRIVER=virtual:h200 python3 tests/examples/modelopt.py

writes a small file, serves it and compares with double precision; `pytorch_mlp.py` serves a file of
any size. Exit status 0 when every output is right.
"""
import ctypes as c
import json
import math
import mmap
import os
import random
import struct
import sys
import tempfile

import warpline_abi as abi

LAYERS = ("gate_proj", "up_proj", "down_proj")


def write_safetensors(path, tensors):
    """`tensors`: name to (dtype, shape, bytes)."""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def read_safetensors(path):
    """Name to (dtype, shape, a view of the mapped file)."""
    with open(path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    start = 8 + struct.unpack("<Q", view[:8])[0]
    header = json.loads(bytes(view[8:start]))
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], tuple(entry["shape"]),
                   view[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]])
            for name, entry in header.items()}


class Linear:
    """The weights of one layer on the device."""

    def __init__(self, library, tensors, name):
        def tensor(suffix, dtype):
            if f"{name}.{suffix}" not in tensors:
                raise ValueError(f"the file has no tensor {name}.{suffix}")
            found, shape, data = tensors[f"{name}.{suffix}"]
            if found != dtype:
                raise ValueError(f"{name}.{suffix} is {found}, not {dtype}")
            return shape, bytes(data)

        (self.n, half), codes = tensor("weight", "U8")
        self.k = 2 * half
        shape, plain = tensor("weight_scale", "F8_E4M3")
        if shape != (self.n, self.k // 16):
            raise ValueError(f"{name}.weight_scale is {list(shape)}, not "
                             f"{[self.n, self.k // 16]}")
        packed = c.create_string_buffer(library.sf_bytes(self.n, self.k))
        library.check(library.lib.wl_sf_pack(abi.SF_128X4, c.c_int64(self.n), c.c_int64(self.k),
                                             plain, packed, c.c_uint8(0)))
        self.codes, self.scales = library.filled(codes), library.filled(packed.raw)
        self.alpha = library.filled(tensor("weight_scale_2", "F32")[1])


class GatedMlp:
    """Plans for at most `tokens` tokens; a run may have fewer, and x and y lie where it says."""

    def __init__(self, library, tensors, prefix, tokens, bf16=True):
        gate, up, down = (Linear(library, tensors, prefix + name) for name in LAYERS)
        self.hidden, self.inner = gate.k, gate.n
        if (up.n, up.k, down.n, down.k) != (gate.n, gate.k, gate.k, gate.n):
            raise ValueError(f"{prefix}: the shapes of the layers are not those of a gated MLP")
        types = {"a_type": abi.OPERANDS.index("BF16" if bf16 else "F16"),
                 "d_type": abi.BF16 if bf16 else abi.F16, "flags": abi.STATIC_WEIGHTS}
        self.h = library.empty(2 * tokens * self.inner)
        # A plan wants addresses; a run brings x and y.
        spare = library.empty(2 * tokens * self.hidden)
        self.up_plan = library.dual_gemm(
            m=tokens, n=self.inner, k=self.hidden, l=1, a=spare, b1=gate.codes,
            b2=up.codes, sfb1=gate.scales, sfb2=up.scales, alpha1=gate.alpha, alpha2=up.alpha,
            d=self.h, **types)
        self.down_plan = library.gemm(
            m=tokens, n=self.hidden, k=self.inner, l=1, a=self.h, b=down.codes, sfb=down.scales,
            alpha=down.alpha, d=spare, **types)
        self.workspaces = [library.empty(plan.info.workspace_bytes)
                           for plan in (self.up_plan, self.down_plan)]

    def run(self, x, y, tokens, stream=None):
        """Addresses of x and y, [tokens, hidden]; nothing waits, so a stream may be captured."""
        self.up_plan.run_with(stream, self.workspaces[0], a=x, m=tokens)
        self.down_plan.run_with(stream, self.workspaces[1], d=y, m=tokens)

    def close(self):
        """After its last run has ended."""
        self.up_plan.close()
        self.down_plan.close()


E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)


def random_layer(draw, n, k):
    """The three tensors of a layer, without NaN, its weights about 1 / sqrt(k) in size."""
    return {"weight": ("U8", (n, k // 2), draw.randbytes(n * k // 2)),
            "weight_scale": ("F8_E4M3", (n, k // 16),
                             bytes(draw.randrange(0x28, 0x40) for _ in range(n * k // 16))),
            "weight_scale_2": ("F32", (), struct.pack("<f", 0.4 / math.sqrt(k)))}


def decoded(tensors, name):
    """The weights as numbers, row by row."""
    codes, scales, factor = (bytes(tensors[f"{name}.{suffix}"][2])
                             for suffix in ("weight", "weight_scale", "weight_scale_2"))
    n, half = tensors[f"{name}.weight"][1]
    factor = struct.unpack("<f", factor)[0]

    def weight(row, k):
        scale = scales[row * (half // 8) + k // 16]  # a normal, positive E4M3 number
        value = (1 + (scale & 7) / 8) * 2.0 ** ((scale >> 3) - 7)
        return E2M1[codes[row * half + k // 2] >> 4 * (k % 2) & 15] * value * factor

    return [[weight(row, k) for k in range(2 * half)] for row in range(n)]


def wrong(found, reference):
    """BF16 rounds to 8 bits, on top of the kernels' bound of 1e-3 + 1e-3 |reference|."""
    return sum(not abs(f - r) <= 1e-3 + (1e-3 + 2 ** -8) * abs(r)
               for f, r in zip(found, reference, strict=True))


def product(x, weights):
    return [[math.fsum(a * b for a, b in zip(row, w)) for w in weights] for row in x]


def bf16(numbers):
    """BF16 is the upper half of an FP32 number; these are cut, not rounded."""
    return b"".join(struct.pack("<f", number)[2:] for number in numbers)


def of_bf16(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def main():
    hidden, inner, most, tokens, seed = 192, 320, 12, 5, int.from_bytes(os.urandom(4))
    draw = random.Random(seed)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        shapes = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden),
                  "down_proj": (hidden, inner)}
        write_safetensors(path, {f"mlp.{name}.{suffix}": tensor
                                 for name, shape in shapes.items()
                                 for suffix, tensor in random_layer(draw, *shape).items()})
        tensors = read_safetensors(path)
        library = abi.Library()
        layer = GatedMlp(library, tensors, "mlp.", most)
        gate, up, down = (decoded(tensors, "mlp." + name) for name in LAYERS)
        bad = 0
        for count in (most, tokens):
            data = bf16(draw.gauss(0, 1) for _ in range(count * hidden))
            x, y = library.filled(data), library.empty(len(data))
            layer.run(x, y, count)
            found = of_bf16(library.read(y, len(data)))
            h = of_bf16(library.read(layer.h, 2 * count * inner))
            values = of_bf16(data)
            rows = [values[i:i + hidden] for i in range(0, len(values), hidden)]
            silu = [[g / (1 + math.exp(-g)) * u for g, u in zip(*pair)]
                    for pair in zip(product(rows, gate), product(rows, up))]
            bad += wrong(h, sum(silu, []))
            # Of the h that the device has, so that its rounding is not counted twice.
            rows = [h[i:i + inner] for i in range(0, len(h), inner)]
            bad += wrong(found, sum(product(rows, down), []))
            print(f"{count} tokens: {bad} outputs wrong")
        layer.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
