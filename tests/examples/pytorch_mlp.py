#!/usr/bin/env python3
"""A gated MLP layer in NVFP4 through libwarpline.so, by ctypes, on the caller's stream and inside a
CUDA graph:

    y = (silu(x Wg^T) * (x Wu^T)) Wd^T         x [tokens, hidden], Wg and Wu [inner, hidden]

    make shared && python3 tests/examples/pytorch_mlp.py [--tokens 64] [--hidden 2048] [--inner 5632]

First the library quantises weights and activations, each with one FP32 scale that PyTorch finds,
and multiplies NVFP4 by NVFP4. Then, on Hopper, it serves the same weights from a safetensors file as
ModelOpt writes it, with activations that stay in BF16 (modelopt.py). With a file of one's own that
is all:

    python3 tests/examples/pytorch_mlp.py --weights model.safetensors --prefix model.layers.0.mlp.

Needs PyTorch with CUDA and a GPU that warpline has kernels for; exit status 3 without. Exit status
0 when codes and scales are PyTorch's bit for bit and the results agree with PyTorch on the
dequantised operands, eagerly and replayed from the graph on other inputs; the error against the
BF16 layer, which is that of the quantisation, is printed.
"""
import argparse
import os
import sys
import tempfile

import modelopt
import warpline_abi as abi

try:
    import torch
except ImportError as error:
    print(f"pytorch_mlp: needs PyTorch: {error}", file=sys.stderr)
    sys.exit(3)


class Nvfp4:
    """A matrix in NVFP4: E2M1 values, an E4M3 scale for 16 of them, an FP32 scale for all."""

    LEVELS = (0, 0.5, 1, 1.5, 2, 3, 4, 6)

    def __init__(self, library, rows, k, device):
        self.library, self.rows, self.k = library, rows, k
        self.values = torch.empty(rows, k // 2, dtype=torch.uint8, device=device)
        # The padding is NaN, to show that it does not matter.
        self.scales = torch.full((library.lib.wl_sf_bytes(abi.SF_128X4, rows, k),), 0x7F,
                                 dtype=torch.uint8, device=device)
        self.scale = torch.ones(1, dtype=torch.float32, device=device)
        self.plans = {}  # a plan holds its input's address

    def measure(self, matrix):
        """The largest block scale becomes E4M3's largest number, 448; E2M1's is 6."""
        self.scale.copy_((matrix.abs().amax().float() / (6 * 448)).clamp_min(1e-20).view(1))
        return self

    def quantise(self, matrix):
        """On the current stream, without synchronising: it can be captured."""
        assert matrix.shape == (self.rows, self.k) and matrix.is_contiguous()
        address = matrix.data_ptr()
        if address not in self.plans:
            self.plans[address] = self.library.quantize(
                m=self.rows, k=self.k, l=1, x=address, x_type=abi.BF16, d=self.values.data_ptr(),
                sfd=self.scales.data_ptr(), d_scale=self.scale.data_ptr())
        self.plans[address].run(torch.cuda.current_stream().cuda_stream)
        return self

    def plain_scales(self):
        """[rows, K/16] from WL_SF_128x4."""
        blocks, columns = -(-self.rows // 128), self.k // 16
        packed = self.scales.view(blocks, -(-columns // 4), 32, 4, 4).permute(0, 3, 2, 1, 4)
        return packed.reshape(blocks * 128, -1)[:self.rows, :columns]

    def codes(self):
        return torch.stack((self.values & 15, self.values >> 4), -1).view(self.rows, self.k)

    def dequantise(self, dtype=torch.float64):
        levels = torch.tensor(self.LEVELS + tuple(-v for v in self.LEVELS), dtype=dtype,
                              device=self.values.device)
        scales = self.plain_scales().contiguous().view(torch.float8_e4m3fn).to(dtype)
        return (levels[self.codes().long()] * scales.repeat_interleave(16, -1)
                * self.scale.to(dtype))

    def equals_torch(self, matrix):
        """Whether codes and scales are those of the arithmetic at wl_quantize_args, in PyTorch."""
        blocks = matrix.float().view(self.rows, self.k // 16, 16)
        inverse = 1 / self.scale
        sixth = inverse * torch.tensor(1 / 6, dtype=torch.float32, device=matrix.device)
        scales = (blocks.abs().amax(-1) * sixth).clamp_max(448).to(torch.float8_e4m3fn)
        block_scale = scales.float()
        factor = torch.where(block_scale == 0, block_scale, inverse * (1 / block_scale))
        x = blocks * factor.unsqueeze(-1)
        # Nearest of the eight levels, ties to the even code; a zero keeps its sign.
        code = sum(((x.abs() > t) if even else (x.abs() >= t)).to(torch.uint8) for t, even in (
            (0.25, True), (0.75, False), (1.25, True), (1.75, False), (2.5, True), (3.5, False),
            (5.0, True)))
        code = (code | torch.signbit(x).to(torch.uint8) << 3).view(self.rows, self.k)
        return (torch.equal(scales.view(torch.uint8), self.plain_scales())
                and torch.equal(code, self.codes()))

    def close(self):
        for plan in self.plans.values():
            plan.close()


class GatedMlp:
    def __init__(self, library, gate, up, down, tokens):
        device = gate.device
        inner, hidden = gate.shape
        self.down = down
        self.x = Nvfp4(library, tokens, hidden, device)
        self.gate = Nvfp4(library, inner, hidden, device).measure(gate).quantise(gate)
        self.up = Nvfp4(library, inner, hidden, device).measure(up).quantise(up)
        self.alpha = torch.ones(2, dtype=torch.float32, device=device)
        self.h = torch.empty(tokens, inner, dtype=torch.bfloat16, device=device)
        self.plan = library.dual_gemm(
            m=tokens, n=inner, k=hidden, l=1, a=self.x.values.data_ptr(),
            b1=self.gate.values.data_ptr(), b2=self.up.values.data_ptr(),
            sfa=self.x.scales.data_ptr(), sfb1=self.gate.scales.data_ptr(),
            sfb2=self.up.scales.data_ptr(), alpha1=self.alpha.data_ptr(),
            alpha2=self.alpha.data_ptr() + 4, d=self.h.data_ptr(), d_type=abi.BF16)
        self.workspace = torch.empty(self.plan.info.workspace_bytes, dtype=torch.uint8,
                                     device=device)

    def __call__(self, x):
        self.x.measure(x)
        # The FP32 scales of both operands of a product are its alpha; the kernel reads them.
        self.alpha[0:1] = self.x.scale * self.gate.scale
        self.alpha[1:2] = self.x.scale * self.up.scale
        self.x.quantise(x)
        self.plan.run(torch.cuda.current_stream().cuda_stream,
                      self.workspace.data_ptr() if self.workspace.numel() else None)
        return self.h @ self.down.T

    def reference(self):
        """The hidden activations from the dequantised operands, in double precision."""
        x = self.x.dequantise()
        gate, up = x @ self.gate.dequantise().T, x @ self.up.dequantise().T
        return torch.nn.functional.silu(gate) * up

    def close(self):
        """After its last run has ended."""
        for part in (self.plan, self.x, self.gate, self.up):
            part.close()


def within(found, reference, what):
    """BF16 rounds to 8 bits; the public bound of the kernel is 1e-3 + 1e-3 |reference| on top."""
    error = (found.double() - reference).abs()
    excess = (error / (1e-3 + (1e-3 + 2 ** -8) * reference.abs())).max().item()
    print(f"{what}: {100 * excess:.1f} % of the bound")
    return excess <= 1


def modelopt_tensors(matrix, name):
    """The three tensors of a layer from a quantised matrix."""
    def data(tensor):
        return bytes(tensor.contiguous().view(torch.uint8).flatten().cpu().numpy())

    return {f"{name}.weight": ("U8", tuple(matrix.values.shape), data(matrix.values)),
            f"{name}.weight_scale": ("F8_E4M3", (matrix.rows, matrix.k // 16),
                                     data(matrix.plain_scales())),
            f"{name}.weight_scale_2": ("F32", (), data(matrix.scale))}


def dequantised(tensors, name, device):
    def tensor(suffix, dtype):
        _, shape, data = tensors[f"{name}.{suffix}"]
        return torch.frombuffer(bytearray(data), dtype=dtype).view(shape).to(device)

    codes, scales = tensor("weight", torch.uint8), tensor("weight_scale", torch.float8_e4m3fn)
    levels = torch.tensor(modelopt.E2M1, dtype=torch.float64, device=device)
    values = levels[torch.stack((codes & 15, codes >> 4), -1).flatten(-2).long()]
    return (values * scales.double().repeat_interleave(16, -1)
            * tensor("weight_scale_2", torch.float32).double())


def serve(library, path, prefix, tokens, device):
    """BF16 activations and the weights of a file, eagerly and in a graph."""
    tensors = modelopt.read_safetensors(path)
    layer = modelopt.GatedMlp(library, tensors, prefix, tokens)
    print(f"{path}: {layer.up_plan.info.config.decode()}, {layer.down_plan.info.config.decode()}, "
          f"tokens {tokens}, hidden {layer.hidden}, inner {layer.inner}")
    gate, up, down = (dequantised(tensors, prefix + name, device) for name in modelopt.LAYERS)

    def drawn(count):
        return torch.randn(count, layer.hidden, device=device).bfloat16()

    def run(x):
        y = torch.empty_like(x)
        layer.run(x.data_ptr(), y.data_ptr(), len(x), torch.cuda.current_stream().cuda_stream)
        return y

    def agrees(x, y, what):
        x = x.double()
        reference = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
        error = ((y.double() - reference).norm() / reference.norm()).item()
        # BF16 rounds h, then y, by 2^-9 at most: half of that each, root mean square.
        print(f"{what}: relative error {error:.5f}")
        return error < 2 ** -8

    good = True
    for count in sorted({1, tokens // 2 or 1, tokens}):
        x = drawn(count)
        good = agrees(x, run(x), f"BF16 activations, {count} tokens") and good
    x = drawn(tokens)
    run(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = run(x)
    for step in range(3):
        x.copy_(drawn(tokens))
        graph.replay()
        good = agrees(x, y, f"graph replay {step}") and torch.equal(y, run(x)) and good
    torch.cuda.synchronize()
    layer.close()
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--inner", type=int, default=5632)
    parser.add_argument("--weights", help="a safetensors file with the layer's weights")
    parser.add_argument("--prefix", default="", help="of gate_proj, up_proj and down_proj there")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("pytorch_mlp: PyTorch sees no CUDA device", file=sys.stderr)
        return 3
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    library = abi.Library()
    if args.weights:
        good = serve(library, args.weights, args.prefix, args.tokens, device)
        print("PASS" if good else "FAIL")
        return 0 if good else 1

    def weights(rows, columns):
        return (torch.randn(rows, columns, device=device) / columns ** 0.5).bfloat16()

    gate, up = weights(args.inner, args.hidden), weights(args.inner, args.hidden)
    down = weights(args.hidden, args.inner)
    x = torch.randn(args.tokens, args.hidden, device=device).bfloat16()

    layer = GatedMlp(library, gate, up, down, args.tokens)
    print(f"{torch.cuda.get_device_name(0)}, {layer.plan.info.config.decode()}, "
          f"tokens {args.tokens}, hidden {args.hidden}, inner {args.inner}")

    y = layer(x)
    good = True
    for what, quantised, matrix in (("x", layer.x, x), ("gate", layer.gate, gate),
                                    ("up", layer.up, up)):
        same = quantised.equals_torch(matrix)
        print(f"{what} quantised: {'every code and scale PyTorch has' if same else 'DIFFERENT'}")
        good = good and same
    good = within(layer.h, layer.reference(),
                  "dual GEMM against PyTorch on dequantised operands") and good
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
        good = layer.x.equals_torch(inputs) and good
        replayed = layer.h.clone()
        again = layer(inputs)
        good = torch.equal(replayed, layer.h) and torch.allclose(outputs, again) and good
    torch.cuda.synchronize()
    if torch.cuda.get_device_capability(0)[0] == 9:
        wd = Nvfp4(library, *down.shape, device).measure(down).quantise(down)
        torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            modelopt.write_safetensors(path, {
                **modelopt_tensors(layer.gate, "mlp.gate_proj"),
                **modelopt_tensors(layer.up, "mlp.up_proj"),
                **modelopt_tensors(wd, "mlp.down_proj")})
            good = serve(library, path, "mlp.", args.tokens, device) and good
        wd.close()
    layer.close()
    print("PASS" if good else "FAIL")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
