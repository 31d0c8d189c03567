#!/usr/bin/env python3
"""A layer of experts with NVFP4 weights in PyTorch: router logits to top-k ids and weights, then
wl_moe in one plan, captured in a CUDA graph and replayed with other tokens.

    make shared && python3 tests/examples/pytorch_moe.py
"""
import math
import sys

import torch

import warpline_abi as abi

TOKENS, HIDDEN, INTERMEDIATE, EXPERTS, TOP_K = 48, 512, 256, 16, 4
E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)


def pack_scales(plain):
    """[experts, rows, k/16] scale bytes to atoms of 128 rows and 4 columns; padding is NaN."""
    count, rows, columns = plain.shape
    padded = torch.full((count, -(-rows // 128) * 128, columns), 0x7F, dtype=torch.uint8,
                        device=plain.device)
    padded[:, :rows] = plain
    atoms = padded.view(count, -1, 4, 32, columns // 4, 4)
    return atoms.permute(0, 1, 4, 3, 2, 5).contiguous()


class Experts(torch.nn.Module):
    """Weights of all experts: codes, scales in plain layout and packed, a factor for each expert."""

    def __init__(self, rows, k):
        super().__init__()
        self.codes = torch.randint(0, 256, (EXPERTS, rows, k // 2), dtype=torch.uint8,
                                   device="cuda")
        self.plain = torch.randint(0x28, 0x40, (EXPERTS, rows, k // 16), dtype=torch.uint8,
                                   device="cuda")
        self.packed = pack_scales(self.plain)
        self.alpha = torch.full((EXPERTS,), 1 / math.sqrt(4 * k), device="cuda")

    def decoded(self, expert):
        table = torch.tensor(E2M1, dtype=torch.float64, device="cuda")
        codes = self.codes[expert]
        values = torch.stack((table[(codes & 15).long()], table[(codes >> 4).long()]), -1)
        scales = self.plain[expert].view(torch.float8_e4m3fn).double().repeat_interleave(16, -1)
        return values.flatten(-2) * scales * self.alpha[expert].double()


class MoE(torch.nn.Module):
    """The plan is made for addresses: tokens, ids and weights are copied to where it finds them."""

    def __init__(self, library):
        super().__init__()
        self.gate, self.up = Experts(INTERMEDIATE, HIDDEN), Experts(INTERMEDIATE, HIDDEN)
        self.down = Experts(HIDDEN, INTERMEDIATE)
        self.x = torch.empty(TOKENS, HIDDEN, dtype=torch.bfloat16, device="cuda")
        self.ids = torch.empty(TOKENS, TOP_K, dtype=torch.int32, device="cuda")
        self.weights = torch.empty(TOKENS, TOP_K, device="cuda")
        self.y = torch.empty_like(self.x)
        self.plan = library.moe(
            tokens=TOKENS, hidden=HIDDEN, intermediate=INTERMEDIATE, experts=EXPERTS, top_k=TOP_K,
            x=self.x.data_ptr(), x_type=abi.BF16, a_type=abi.OPERANDS.index("BF16"),
            ids=self.ids.data_ptr(), weights=self.weights.data_ptr(), sf_layout=abi.SF_128X4,
            w_gate=self.gate.codes.data_ptr(), w_up=self.up.codes.data_ptr(),
            w_down=self.down.codes.data_ptr(), sf_gate=self.gate.packed.data_ptr(),
            sf_up=self.up.packed.data_ptr(), sf_down=self.down.packed.data_ptr(),
            alpha_gate=self.gate.alpha.data_ptr(), alpha_up=self.up.alpha.data_ptr(),
            alpha_down=self.down.alpha.data_ptr(), y=self.y.data_ptr(), y_type=abi.BF16)
        self.workspace = torch.empty(self.plan.info.workspace_bytes, dtype=torch.uint8,
                                     device="cuda")

    def forward(self, x, logits):
        weights, ids = torch.topk(torch.softmax(logits.float(), -1), TOP_K)
        self.x.copy_(x)
        self.ids.copy_(ids)
        self.weights.copy_(weights / weights.sum(-1, keepdim=True))
        self.plan.run(torch.cuda.current_stream().cuda_stream, self.workspace.data_ptr())
        return self.y

    def reference(self):
        y = torch.zeros(TOKENS, HIDDEN, dtype=torch.float64, device="cuda")
        for expert in range(EXPERTS):
            token, j = (self.ids == expert).nonzero(as_tuple=True)
            x = self.x[token].double()
            gate, up = x @ self.gate.decoded(expert).t(), x @ self.up.decoded(expert).t()
            h = gate * torch.sigmoid(gate) * up
            part = h @ self.down.decoded(expert).t()
            y.index_add_(0, token, part * self.weights[token, j, None].double())
        return y


def main():
    torch.manual_seed(1)
    torch.zeros(1, device="cuda")
    layer = MoE(abi.Library(0))
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, device="cuda")
    logits = torch.randn(TOKENS, EXPERTS, device="cuda")
    layer(x, logits)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(x, logits)
    wrong = 0
    for _ in range(3):
        x.normal_()
        logits.normal_()
        graph.replay()
        expected = layer.reference()
        error = (layer.y.double() - expected).abs()
        wrong += int((error > 2e-2 * expected.abs().mean() + 2e-2 * expected.abs()).sum())
    print(f"{layer.plan.info.launches} launches, {wrong} of {3 * layer.y.numel()} outputs wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
