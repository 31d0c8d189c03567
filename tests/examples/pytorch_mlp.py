#!/usr/bin/env python3
"""A gated MLP layer whose two up-projections run in NVFP4 through libwarpline.so, by ctypes, on the
caller's stream and inside a CUDA graph:

    y = (silu(x Wg^T) * (x Wu^T)) Wd^T         x [tokens, hidden], Wg and Wu [inner, hidden]

    make shared && python3 tests/examples/pytorch_mlp.py [--tokens 64] [--hidden 2048] [--inner 5632]

Needs PyTorch with CUDA and a GPU that warpline has kernels for. Exit status 0 when the result agrees
with PyTorch on the dequantised operands, eagerly and replayed from the graph on other inputs; the
error against the BF16 layer, which is that of the quantisation, is printed.
"""
import argparse
import ctypes as c
import os
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = os.environ.get("WARPLINE_LIBRARY", str(ROOT / "build" / "libwarpline.so"))


class DualGemmArgs(c.Structure):  # wl_dual_gemm_args
    _fields_ = ([("struct_size", c.c_size_t)]
                + [(name, c.c_int64) for name in "mnkl"]
                + [(name, c.c_void_p) for name in ("a", "b1", "b2", "sfa", "sfb1", "sfb2")]
                + [("sf_layout", c.c_int), ("alpha1", c.c_void_p), ("alpha2", c.c_void_p),
                   ("d", c.c_void_p), ("d_type", c.c_int), ("ldd", c.c_int64),
                   ("batch_stride_d", c.c_int64), ("config", c.c_char_p), ("sfd", c.c_void_p),
                   ("d_scale", c.c_void_p), ("flags", c.c_uint32)])


class PlanInfo(c.Structure):  # wl_plan_info
    _fields_ = [("struct_size", c.c_size_t), ("config", c.c_char * 64), ("kernel", c.c_char * 96),
                ("target", c.c_char * 16), ("grid", c.c_uint * 3), ("block", c.c_uint * 3),
                ("cluster", c.c_uint * 3), ("tile_m", c.c_int), ("tile_n", c.c_int),
                ("tile_k", c.c_int), ("stages", c.c_int), ("shared_bytes", c.c_int),
                ("registers", c.c_int), ("launches", c.c_int), ("workspace_bytes", c.c_size_t),
                ("load_ms", c.c_double), ("precompiled", c.c_int)]


class Warpline:
    """One context; statuses become exceptions that carry the library's sentence."""

    def __init__(self, device):
        self.lib = c.CDLL(LIBRARY)
        self.lib.wl_last_error.restype = c.c_char_p
        self.lib.wl_plan_run.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p]
        self.lib.wl_plan_destroy.argtypes = [c.c_void_p]
        self.context = c.c_void_p()
        self.check(self.lib.wl_context_create(device, c.byref(self.context)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.wl_last_error().decode())


class Nvfp4:
    """A matrix in NVFP4: E2M1 values, an E4M3 scale for 16 of them, an FP32 scale for all."""

    LEVELS = (0, 0.5, 1, 1.5, 2, 3, 4, 6)

    def __init__(self, rows, k, device):
        self.rows, self.k = rows, k
        self.values = torch.empty(rows, k // 2, dtype=torch.uint8, device=device)
        self.scales = torch.empty(-(-rows // 128) * 128 * (-(-k // 64) * 4), dtype=torch.uint8,
                                  device=device)
        self.scale = torch.ones(1, dtype=torch.float32, device=device)
        self.plain_scales = torch.empty(rows, k // 16, dtype=torch.float8_e4m3fn, device=device)

    def quantise(self, matrix):
        """In place, without synchronising: it can be captured."""
        blocks = matrix.float().view(self.rows, self.k // 16, 16)
        amax = blocks.abs().amax(-1)
        # The largest block scale becomes E4M3's largest number, 448; E2M1's is 6.
        self.scale.copy_((amax.max() / (6 * 448)).clamp_min(1e-20).view(1))
        e4m3 = (amax / (6 * self.scale)).to(torch.float8_e4m3fn)
        step = (e4m3.float() * self.scale).clamp_min(1e-30).unsqueeze(-1)
        x = (blocks / step).abs()
        # Nearest of the eight levels, ties to the even code.
        code = sum(((x > t) if even else (x >= t)).to(torch.uint8) for t, even in (
            (0.25, True), (0.75, False), (1.25, True), (1.75, False), (2.5, True), (3.5, False),
            (5.0, True)))
        code = (code | (blocks < 0).to(torch.uint8) << 3).view(self.rows, self.k)
        self.values.copy_(code[:, 0::2] | code[:, 1::2] << 4)
        self.plain_scales.copy_(e4m3)
        self.scales.copy_(pack_scales(e4m3.view(torch.uint8)))
        return self

    def dequantise(self, dtype=torch.float64):
        levels = torch.tensor(self.LEVELS + tuple(-v for v in self.LEVELS), dtype=dtype,
                              device=self.values.device)
        codes = torch.stack((self.values & 15, self.values >> 4), -1).view(self.rows, self.k).long()
        scales = self.plain_scales.to(dtype).repeat_interleave(16, -1)
        return levels[codes] * scales * self.scale.to(dtype)


def pack_scales(plain):
    """[rows, K/16] to WL_SF_128x4; the padding is NaN, to show that it does not matter."""
    rows, columns = plain.shape
    blocks, atoms = -(-rows // 128), -(-columns // 4)
    padded = torch.full((blocks * 128, atoms * 4), 0x7F, dtype=torch.uint8, device=plain.device)
    padded[:rows, :columns] = plain
    return padded.view(blocks, 4, 32, atoms, 4).permute(0, 3, 2, 1, 4).reshape(-1)


class GatedMlp:
    def __init__(self, warpline, gate, up, down, tokens):
        device = gate.device
        inner, hidden = gate.shape
        self.warpline, self.down = warpline, down
        self.x = Nvfp4(tokens, hidden, device)
        self.gate = Nvfp4(inner, hidden, device).quantise(gate)
        self.up = Nvfp4(inner, hidden, device).quantise(up)
        self.alpha = torch.ones(2, dtype=torch.float32, device=device)
        self.h = torch.empty(tokens, inner, dtype=torch.bfloat16, device=device)
        args = DualGemmArgs(
            struct_size=c.sizeof(DualGemmArgs), m=tokens, n=inner, k=hidden, l=1,
            a=self.x.values.data_ptr(), b1=self.gate.values.data_ptr(),
            b2=self.up.values.data_ptr(), sfa=self.x.scales.data_ptr(),
            sfb1=self.gate.scales.data_ptr(), sfb2=self.up.scales.data_ptr(),
            alpha1=self.alpha.data_ptr(), alpha2=self.alpha.data_ptr() + 4,
            d=self.h.data_ptr(), d_type=1)
        self.plan = c.c_void_p()
        lib = warpline.lib
        warpline.check(lib.wl_dual_gemm_plan(warpline.context, c.byref(args), c.byref(self.plan)))
        self.info = PlanInfo(struct_size=c.sizeof(PlanInfo))
        warpline.check(lib.wl_plan_get_info(self.plan, c.byref(self.info)))
        self.workspace = torch.empty(self.info.workspace_bytes, dtype=torch.uint8, device=device)

    def __call__(self, x):
        self.x.quantise(x)
        # The FP32 scales of both operands of a product are its alpha; the kernel reads them.
        self.alpha[0:1] = self.x.scale * self.gate.scale
        self.alpha[1:2] = self.x.scale * self.up.scale
        stream = torch.cuda.current_stream().cuda_stream
        workspace = self.workspace.data_ptr() if self.workspace.numel() else None
        self.warpline.check(self.warpline.lib.wl_plan_run(
            self.plan, workspace, self.workspace.numel(), stream))
        return self.h @ self.down.T

    def reference(self):
        """The hidden activations from the dequantised operands, in double precision."""
        x = self.x.dequantise()
        gate, up = x @ self.gate.dequantise().T, x @ self.up.dequantise().T
        return torch.nn.functional.silu(gate) * up

    def close(self):
        self.warpline.lib.wl_plan_destroy(self.plan)


def within(found, reference, what):
    """BF16 rounds to 8 bits; the public bound of the kernel is 1e-3 + 1e-3 |reference| on top."""
    error = (found.double() - reference).abs()
    excess = (error / (1e-3 + (1e-3 + 2 ** -8) * reference.abs())).max().item()
    print(f"{what}: {100 * excess:.1f} % of the bound")
    return excess <= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--inner", type=int, default=5632)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("pytorch_mlp: PyTorch sees no CUDA device", file=sys.stderr)
        return 3
    device = torch.device("cuda", 0)
    torch.manual_seed(0)

    def weights(rows, columns):
        return (torch.randn(rows, columns, device=device) / columns ** 0.5).bfloat16()

    gate, up = weights(args.inner, args.hidden), weights(args.inner, args.hidden)
    down = weights(args.hidden, args.inner)
    x = torch.randn(args.tokens, args.hidden, device=device).bfloat16()

    layer = GatedMlp(Warpline(0), gate, up, down, args.tokens)
    print(f"{torch.cuda.get_device_name(0)}, row {layer.info.config.decode()}, "
          f"tokens {args.tokens}, hidden {args.hidden}, inner {args.inner}")

    y = layer(x)
    good = within(layer.h, layer.reference(), "dual GEMM against PyTorch on dequantised operands")
    exact = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
    relative = ((y - exact).float().norm() / exact.float().norm()).item()
    print(f"whole layer against the BF16 layer: relative error {relative:.3f} (of quantisation)")
    good = good and relative < 0.3

    # The layer in a graph: capture once, replay on other inputs.
    inputs = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layer(inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = layer(inputs)
    for step in range(3):
        inputs.copy_(torch.randn(args.tokens, args.hidden, device=device).bfloat16())
        graph.replay()
        torch.cuda.synchronize()
        good = within(layer.h, layer.reference(), f"graph replay {step}") and good
        replayed = layer.h.clone()
        again = layer(inputs)
        good = torch.equal(replayed, layer.h) and torch.allclose(outputs, again) and good
    layer.close()
    print("PASS" if good else "FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
