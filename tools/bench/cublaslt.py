"""cuBLASLt's products D = A . B^T by its C interface: each algorithm that its heuristics offer."""
import ctypes

import torch

# Of cublasLt.h and library_types.h.
DATA_TYPES = {torch.float32: 0, torch.float16: 2, torch.int8: 3, torch.int32: 10,
              torch.bfloat16: 14, torch.float8_e4m3fn: 28, torch.float8_e5m2: 29}
COMPUTE_32F, COMPUTE_32I, COMPUTE_32F_FAST_TF32 = 68, 72, 77
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, A_SCALE, B_SCALE, FAST_ACCUM = 3, 4, 7, 8, 17, 18, 25
BIAS_TYPE = 26
GELU_BIAS = 36
MAX_WORKSPACE = 1
WORKSPACE_BYTES = 32 << 20


class Heuristic(ctypes.Structure):
    _fields_ = [("algo", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t),
                ("state", ctypes.c_int), ("waves", ctypes.c_float),
                ("reserved", ctypes.c_int * 4)]


def loaded_library():
    """The one that torch has loaded: its first product does."""
    torch.mm(torch.ones(8, 8, device="cuda"), torch.ones(8, 8, device="cuda"))
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split()[-1]
            if "libcublasLt.so" in path:
                return ctypes.CDLL(path)
    raise OSError("torch has loaded no libcublasLt.so")


class CublasLt:
    def __init__(self):
        self.library = loaded_library()
        self.handle = ctypes.c_void_p()
        self.check("cublasLtCreate", ctypes.byref(self.handle))
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def check(self, name, *args):
        status = getattr(self.library, name)(*args)
        if status != 0:
            raise RuntimeError("%s: status %d" % (name, status))

    def layout(self, tensor):
        """Of a row-major matrix, read as its transpose in columns."""
        rows, columns = tensor.shape
        made = ctypes.c_void_p()
        self.check("cublasLtMatrixLayoutCreate", ctypes.byref(made), DATA_TYPES[tensor.dtype],
                   ctypes.c_uint64(columns), ctypes.c_uint64(rows),
                   ctypes.c_int64(tensor.stride(0)))
        return made

    def product(self, a, b, d, scales=None, bias=None, fast=False):
        """a [M, K], b [N, K], either by rows or by columns; d [M, N]; scales: of a and of b, one
        FP32 each; bias: with GELU."""
        def stored(tensor):
            return tensor if tensor.stride(1) == 1 else tensor.t()
        integers = a.dtype == torch.int8
        compute = (COMPUTE_32I if integers else
                   COMPUTE_32F_FAST_TF32 if a.dtype == torch.float32 else COMPUTE_32F)
        desc = ctypes.c_void_p()
        self.check("cublasLtMatmulDescCreate", ctypes.byref(desc), compute,
                   DATA_TYPES[torch.int32 if integers else torch.float32])

        def attribute(key, value):
            self.check("cublasLtMatmulDescSetAttribute", desc, key, ctypes.byref(value),
                       ctypes.c_size_t(ctypes.sizeof(value)))
        # In columns: D^T = B^T-transposed . A^T, so cuBLAS's A is b.
        attribute(TRANSA, ctypes.c_int32(b.stride(1) == 1))
        attribute(TRANSB, ctypes.c_int32(a.stride(1) != 1))
        if scales is not None:
            attribute(A_SCALE, ctypes.c_void_p(scales[1].data_ptr()))
            attribute(B_SCALE, ctypes.c_void_p(scales[0].data_ptr()))
            attribute(FAST_ACCUM, ctypes.c_int8(1 if fast else 0))
        if bias is not None:
            attribute(EPILOGUE, ctypes.c_uint32(GELU_BIAS))
            attribute(BIAS_TYPE, ctypes.c_int32(DATA_TYPES[bias.dtype]))
            attribute(BIAS_POINTER, ctypes.c_void_p(bias.data_ptr()))
        one, zero = ((ctypes.c_int32(1), ctypes.c_int32(0)) if integers else
                     (ctypes.c_float(1), ctypes.c_float(0)))
        return Product(self, desc, one, zero, (b, a, d, bias, scales),
                       [self.layout(stored(tensor)) for tensor in (b, a, d)])


class Product:
    def __init__(self, lt, desc, one, zero, tensors, layouts):
        self.lt, self.desc, self.one, self.zero = lt, desc, one, zero
        self.tensors, self.layouts = tensors, layouts

    def algorithms(self, most=8):
        """The first ones of the heuristics, best guess first."""
        preference = ctypes.c_void_p()
        self.lt.check("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        self.lt.check("cublasLtMatmulPreferenceSetAttribute", preference, MAX_WORKSPACE,
                      ctypes.byref(size), ctypes.c_size_t(ctypes.sizeof(size)))
        found = (Heuristic * most)()
        count = ctypes.c_int()
        b, a, d = self.layouts
        self.lt.check("cublasLtMatmulAlgoGetHeuristic", self.lt.handle, self.desc, b, a, d, d,
                      preference, most, found, ctypes.byref(count))
        return [found[i] for i in range(count.value) if found[i].state == 0]

    def call(self, algorithm, make_a=None):
        """make_a: gives A, of the same layout, each time."""
        b, a_given, d = self.tensors[:3]
        of_b, of_a, of_d = self.layouts

        def run():
            a = make_a() if make_a else a_given
            stream = torch.cuda.current_stream().cuda_stream
            self.lt.check(
                "cublasLtMatmul", self.lt.handle, self.desc, ctypes.byref(self.one),
                ctypes.c_void_p(b.data_ptr()), of_b, ctypes.c_void_p(a.data_ptr()), of_a,
                ctypes.byref(self.zero), ctypes.c_void_p(d.data_ptr()), of_d,
                ctypes.c_void_p(d.data_ptr()), of_d, ctypes.byref(algorithm.algo),
                ctypes.c_void_p(self.lt.workspace.data_ptr()),
                ctypes.c_size_t(WORKSPACE_BYTES), ctypes.c_void_p(stream))
        return run


def best(harness, products, repeats, most=8, makers=None):
    """(microseconds, its place among the heuristics, its graph) of the fastest algorithm for the
    products, which have the same shape and types: a few replays each decide. makers: of each
    product's A, timed with it."""
    makers = makers or [None] * len(products)
    graphs = {}
    for place, algorithm in enumerate(products[0].algorithms(most)):
        try:
            graphs[place] = harness.captured(
                [p.call(algorithm, make) for p, make in zip(products, makers)] * repeats)
        except RuntimeError:  # offered, and refused when called
            torch.cuda.synchronize()
    replays, harness.replays = harness.replays, 4
    times = harness.medians(graphs)
    harness.replays = replays
    place = min(times, key=times.get)
    return times[place], place, graphs[place]
