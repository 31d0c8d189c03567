#!/usr/bin/env python3
"""A gated layer from BF16 matrices with nothing but Python: the library quantises x, b1 and b2 to
NVFP4 and multiplies, D = silu(x.b1^T / 64) * (x.b2^T / 64). The matrices hold nothing but E2M1
numbers, with a 6 in every block, so quantisation is exact.

    make shared && WARPLINE_DRIVER=virtual:b200 python3 tests/examples/program.py
"""
import math
import struct
import sys

import warpline_abi as abi

M, N, K = 20, 24, 128
LEVELS = (6, 0, 0.5, 1, 1.5, 2, 3, 4)


def element(which, row, k):
    magnitude = LEVELS[(k + row * (which + 1)) % 8]
    return magnitude if (row + k // 8 + which) % 3 else -magnitude


def quantized(library, which, rows):
    """The addresses of the values and of the scales; the quantisation is on its way."""
    # BF16 is the upper half of an FP32 number; these end in 16 zero bits.
    x = library.filled(b"".join(struct.pack("<f", element(which, i // K, i % K))[2:]
                                for i in range(rows * K)))
    values = library.empty(rows * K // 2)
    scales = library.empty(library.sf_bytes(rows, K))
    library.quantize(m=rows, k=K, l=1, x=x, x_type=abi.BF16, d=values, sfd=scales).run()
    return values, scales


def main():
    library = abi.Library()
    (a, sfa), (b1, sfb1), (b2, sfb2) = (quantized(library, which, rows)
                                        for which, rows in enumerate((M, N, N)))
    alpha, d = library.filled(struct.pack("<f", 1 / 64)), library.filled(b"\xff" * (M * N * 2))
    plan = library.dual_gemm(m=M, n=N, k=K, l=1, a=a, b1=b1, b2=b2, sfa=sfa, sfb1=sfb1, sfb2=sfb2,
                             alpha1=alpha, alpha2=alpha, d=d, d_type=abi.F16)
    plan.run(workspace=library.empty(plan.info.workspace_bytes))
    found = struct.unpack(f"<{M * N}e", library.read(d, M * N * 2))
    wrong = 0
    for i, value in enumerate(found):
        gate, up = (sum(element(0, i // N, k) * element(which, i % N, k) for k in range(K)) / 64
                    for which in (1, 2))
        right = gate / (1 + math.exp(-gate)) * up
        wrong += not abs(value - right) <= 1e-3 + 1e-3 * abs(right)
    print(f"{plan.info.config.decode()}: {wrong} of {M * N} outputs wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
