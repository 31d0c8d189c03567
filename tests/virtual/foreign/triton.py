# The Triton programs whose PTX lies here; no GPU is needed to compile them:
#   pip install triton==3.9.0 && TRITON_DISABLE_LINE_INFO=1 python triton.py
import os
import sys

sys.path.pop(0)  # this file is called as the package
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = os.path.dirname(os.path.abspath(__file__))


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CTAS: tl.constexpr):
    """C = A.B^T by persistent, warp-specialised CTAs with tensor maps that the device makes."""
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    rows = tl.cdiv(M, BM)
    for t in tl.range(tl.program_id(0), rows * tl.cdiv(N, BN), CTAS, warp_specialize=True):
        i = t % rows * BM
        j = t // rows * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            sums = tl.dot(da.load([i, k * BK]), db.load([j, k * BK]).T, sums)
        dc.store([i, j], sums.to(tl.float16))


@triton.jit
def scaled(a, sa, b, sb, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A.B^T of NVFP4."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    byte = tl.arange(0, BK // 2)
    scale = tl.arange(0, BK // 16)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K // BK):
        va = tl.load(a + i[:, None] * (K // 2) + k * (BK // 2) + byte[None, :])
        vb = tl.load(b + j[None, :] * (K // 2) + k * (BK // 2) + byte[:, None])
        vsa = tl.load(sa + i[:, None] * (K // 16) + k * (BK // 16) + scale[None, :])
        vsb = tl.load(sb + j[:, None] * (K // 16) + k * (BK // 16) + scale[None, :])
        sums = tl.dot_scaled(va, vsa, "e2m1", vb, vsb, "e2m1", sums)
    tl.store(c + i[:, None] * N + j[None, :], sums)


@triton.jit
def rows(x, index, out, M, N, BN: tl.constexpr, R: tl.constexpr):
    """Rows of x that the index names, four by four."""
    dx = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, BN])
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    tl.store(out + r[:, None] * N + c[None, :], dx.gather(tl.load(index + r), tl.program_id(1) * BN))


@triton.jit
def histogram(x, out, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    counts = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


def make(name, kernel, architecture, types, constants, **options):
    names = kernel.arg_names
    signature = {n: types.get(n, "constexpr") for n in names}
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if types.get(n, "").startswith("*") or n in "MNK"
    }
    source = ASTSource(kernel, signature, {(names.index(n),): v for n, v in constants.items()}, aligned)
    ptx = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options).asm["ptx"]
    with open(os.path.join(HERE, name + ".ptx"), "w") as file:
        file.write(ptx)


if __name__ == "__main__":
    halves = dict(a="*fp16", b="*fp16", c="*fp16", M="i32", N="i32", K="i32")
    for architecture in (90, 100):
        make(f"triton_{architecture}", product, architecture, halves, dict(BM=128, BN=128, BK=64, CTAS=2), num_stages=3)
    make(
        "triton_nvfp4",
        scaled,
        100,
        dict(a="*u8", sa="*fp8e4nv", b="*u8", sb="*fp8e4nv", c="*fp32", N="i32", K="i32"),
        dict(BM=128, BN=128, BK=128),
        num_stages=2,
    )
    make(
        "triton_rows",
        rows,
        100,
        dict(x="*fp16", index="*i32", out="*fp16", M="i32", N="i32"),
        dict(BN=64, R=32),
    )
    make("triton_histogram", histogram, 90, dict(x="*i32", out="*i32", n="i32"), dict(B=1024, BINS=64))
