"""The dual GEMM on torch tensors, and NVFP4 data in them."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "examples"))
import warpline_abi as abi  # noqa: E402

STATIC_WEIGHTS = abi.STATIC_WEIGHTS
# What A and D may be: a type of operands and, for 16-bit ones, the tensor's; D has A's type, of
# NVFP4 FP16.
A_TYPES = {"nvfp4": None, "f16": torch.float16, "bf16": torch.bfloat16}
D_TYPES = {torch.float16: abi.F16, torch.bfloat16: abi.BF16}


def d_dtype(a_type):
    return A_TYPES[a_type] or torch.float16


class Library(abi.Library):
    def __init__(self, device=0, path=None):
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        super().__init__(device, path)

    def plan(self, problem, d, config=None, flags=0):
        return Plan(self, problem, d, config, flags)


class Plan:
    """A plan for a Problem and an output tensor [L, M, N] (FP16 or BF16; rows may be strided)."""

    def __init__(self, library, problem, d, config=None, flags=0):
        self.problem, self.d = problem, d

        def address(tensor):
            return tensor.data_ptr() if tensor is not None else None

        self.plan = library.dual_gemm(
            m=problem.m, n=problem.n, k=problem.k, l=problem.l, a=address(problem.a),
            b1=address(problem.b1), b2=address(problem.b2), sfa=address(problem.sfa),
            sfb1=address(problem.sfb1), sfb2=address(problem.sfb2), sf_layout=abi.SF_128X4,
            alpha1=address(problem.alpha1), alpha2=address(problem.alpha2), d=address(d),
            d_type=D_TYPES[d.dtype], a_type=abi.OPERANDS.index(problem.a_type.upper()),
            ldd=d.stride(1) if d.shape[1] > 1 else 0,
            batch_stride_d=d.stride(0) if d.shape[0] > 1 else 0,
            config=config.encode() if config else None, flags=flags)
        self.info = self.plan.info
        self.workspace = torch.empty(max(self.info.workspace_bytes, 256), dtype=torch.uint8,
                                     device="cuda")

    def run(self):
        self.plan.run(torch.cuda.current_stream().cuda_stream, self.workspace.data_ptr())

    def __del__(self):
        if hasattr(self, "plan"):
            self.plan.close()


E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)


def decode(packed, scales, dtype=torch.float32):
    """[L, rows, K/2] bytes and [L, rows, K/16] plain scales to values [L, rows, K]."""
    table = torch.tensor(E2M1, dtype=dtype, device=packed.device)
    values = torch.stack((table[(packed & 15).long()], table[(packed >> 4).long()]), -1).flatten(-2)
    return values * scales.view(torch.float8_e4m3fn).to(dtype).repeat_interleave(16, -1)


def pack_scales(plain):
    """[L, rows, K/16] plain scale bytes to 128x4 atoms; padding bytes are 0x7F, NaN."""
    l, rows, columns = plain.shape
    rows_up, columns_up = -(-rows // 128) * 128, -(-columns // 4) * 4
    padded = torch.full((l, rows_up, columns_up), 0x7F, dtype=torch.uint8, device=plain.device)
    padded[:, :rows, :columns] = plain
    atoms = padded.view(l, rows_up // 128, 4, 32, columns_up // 4, 4)
    return atoms.permute(0, 1, 4, 3, 2, 5).contiguous().view(l, -1)


def activations(a_type, generator, operand, l, m, k):
    """A, its plain and its packed scales, None where it has none; `operand(rows)` draws NVFP4."""
    if a_type == "nvfp4":
        return operand(m)
    return torch.randn(l, m, k, dtype=A_TYPES[a_type], device="cuda",
                       generator=generator), None, None


def decoded_a(problem, dtype):
    if problem.sfa_plain is None:
        return problem.a.to(dtype)
    return decode(problem.a, problem.sfa_plain, dtype)


class Problem:
    """Random NVFP4 operands: uniform E2M1 codes, scales of magnitude 0.25 to 2 (`scales`: a list of
    scale bytes to draw from). With an `a_type` of 16 bits A is of normal distribution in it."""

    def __init__(self, m, n, k, l=1, seed=0, alpha=None, scales=None, a_type="nvfp4"):
        self.m, self.n, self.k, self.l, self.a_type = m, n, k, l, a_type
        generator = torch.Generator(device="cuda").manual_seed(seed)

        def operand(rows):
            packed = torch.randint(0, 256, (l, rows, k // 2), dtype=torch.uint8, device="cuda",
                                   generator=generator)
            if scales is None:
                plain = torch.randint(0x28, 0x40, (l, rows, k // 16), dtype=torch.uint8,
                                      device="cuda", generator=generator)
            else:
                choice = torch.tensor(scales, dtype=torch.uint8, device="cuda")
                index = torch.randint(0, len(scales), (l, rows, k // 16), device="cuda",
                                      generator=generator)
                plain = choice[index]
            return packed, plain, pack_scales(plain)

        self.a, self.sfa_plain, self.sfa = activations(a_type, generator, operand, l, m, k)
        self.b1, self.sfb1_plain, self.sfb1 = operand(n)
        self.b2, self.sfb2_plain, self.sfb2 = operand(n)
        self.alpha1 = self.alpha2 = None
        if alpha is not None:
            self.alpha1 = torch.tensor([alpha[0]], dtype=torch.float32, device="cuda")
            self.alpha2 = torch.tensor([alpha[1]], dtype=torch.float32, device="cuda")

    def operands(self, dtype):
        return (decoded_a(self, dtype), decode(self.b1, self.sfb1_plain, dtype),
                decode(self.b2, self.sfb2_plain, dtype))

    def reference(self):
        """The result in FP64."""
        a, b1, b2 = self.operands(torch.float64)
        gate, up = a @ b1.mT, a @ b2.mT
        if self.alpha1 is not None:
            gate, up = gate * self.alpha1.double(), up * self.alpha2.double()
        return gate * torch.sigmoid(gate) * up
