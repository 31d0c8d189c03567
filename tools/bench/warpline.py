"""The C ABI of libwarpline.so by ctypes, and NVFP4 data in torch tensors.

make shared builds the library; WARPLINE_LIBRARY names another one.
"""
import ctypes as c
import os
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Args(c.Structure):
    _fields_ = [("struct_size", c.c_size_t)] + \
        [(name, c.c_int64) for name in ("m", "n", "k", "l")] + \
        [(name, c.c_void_p) for name in ("a", "b1", "b2", "sfa", "sfb1", "sfb2")] + \
        [("sf_layout", c.c_int), ("alpha1", c.c_void_p), ("alpha2", c.c_void_p),
         ("d", c.c_void_p), ("d_type", c.c_int), ("ldd", c.c_int64),
         ("batch_stride_d", c.c_int64), ("config", c.c_char_p), ("sfd", c.c_void_p),
         ("d_scale", c.c_void_p), ("flags", c.c_uint32)]

STATIC_WEIGHTS = 1


class Info(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("config", c.c_char * 64), ("kernel", c.c_char * 96),
                ("target", c.c_char * 16), ("grid", c.c_uint * 3), ("block", c.c_uint * 3),
                ("cluster", c.c_uint * 3), ("tile_m", c.c_int), ("tile_n", c.c_int),
                ("tile_k", c.c_int), ("stages", c.c_int), ("shared_bytes", c.c_int),
                ("registers", c.c_int), ("launches", c.c_int), ("workspace_bytes", c.c_size_t),
                ("load_ms", c.c_double), ("precompiled", c.c_int)]


class Library:
    def __init__(self, device=0):
        path = os.environ.get("WARPLINE_LIBRARY", str(ROOT / "build" / "libwarpline.so"))
        self.lib = c.CDLL(path)
        self.lib.wl_last_error.restype = c.c_char_p
        self.lib.wl_plan_run.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p]
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.context = c.c_void_p()
        self.ok(self.lib.wl_context_create(device, c.byref(self.context)))

    def ok(self, status):
        if status != 0:
            raise RuntimeError(self.lib.wl_last_error().decode())

    def plan(self, problem, d, config=None, flags=0):
        return Plan(self, problem, d, config, flags)


class Plan:
    """A plan for a Problem and an output tensor [L, M, N] (FP16 or BF16; rows may be strided)."""

    def __init__(self, library, problem, d, config=None, flags=0):
        self.library, self.problem, self.d = library, problem, d
        args = Args(struct_size=c.sizeof(Args), m=problem.m, n=problem.n, k=problem.k, l=problem.l,
                    a=problem.a.data_ptr(), b1=problem.b1.data_ptr(), b2=problem.b2.data_ptr(),
                    sfa=problem.sfa.data_ptr(), sfb1=problem.sfb1.data_ptr(),
                    sfb2=problem.sfb2.data_ptr(), sf_layout=0,
                    alpha1=problem.alpha1.data_ptr() if problem.alpha1 is not None else None,
                    alpha2=problem.alpha2.data_ptr() if problem.alpha2 is not None else None,
                    d=d.data_ptr(), d_type=0 if d.dtype == torch.float16 else 1,
                    ldd=d.stride(1) if d.shape[1] > 1 else 0,
                    batch_stride_d=d.stride(0) if d.shape[0] > 1 else 0,
                    config=config.encode() if config else None, flags=flags)
        self.handle = c.c_void_p()
        library.ok(library.lib.wl_dual_gemm_plan(library.context, c.byref(args),
                                                 c.byref(self.handle)))
        self.info = Info(struct_size=c.sizeof(Info))
        library.ok(library.lib.wl_plan_get_info(self.handle, c.byref(self.info)))
        self.workspace = torch.empty(max(self.info.workspace_bytes, 256), dtype=torch.uint8,
                                     device="cuda")

    def run(self):
        stream = torch.cuda.current_stream().cuda_stream
        self.library.ok(self.library.lib.wl_plan_run(
            self.handle, self.workspace.data_ptr(), self.workspace.numel(), stream))

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.lib.wl_plan_destroy(self.handle)


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


class Problem:
    """Random NVFP4 operands: uniform E2M1 codes, scales of magnitude 0.25 to 2 (`scales`: a list of
    scale bytes to draw from)."""

    def __init__(self, m, n, k, l=1, seed=0, alpha=None, scales=None):
        self.m, self.n, self.k, self.l = m, n, k, l
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

        self.a, self.sfa_plain, self.sfa = operand(m)
        self.b1, self.sfb1_plain, self.sfb1 = operand(n)
        self.b2, self.sfb2_plain, self.sfb2 = operand(n)
        self.alpha1 = self.alpha2 = None
        if alpha is not None:
            self.alpha1 = torch.tensor([alpha[0]], dtype=torch.float32, device="cuda")
            self.alpha2 = torch.tensor([alpha[1]], dtype=torch.float32, device="cuda")

    def operands(self, dtype):
        return (decode(self.a, self.sfa_plain, dtype), decode(self.b1, self.sfb1_plain, dtype),
                decode(self.b2, self.sfb2_plain, dtype))

    def reference(self):
        """The result in FP64."""
        a, b1, b2 = self.operands(torch.float64)
        gate, up = a @ b1.mT, a @ b2.mT
        if self.alpha1 is not None:
            gate, up = gate * self.alpha1.double(), up * self.alpha2.double()
        return gate * torch.sigmoid(gate) * up
