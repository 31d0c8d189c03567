"""The C ABI of libwarpline.so by ctypes, with nothing but Python's own library. Addresses are
integers, of any framework's device memory; units and rules are those of warpline/warpline.h.

    make shared                                  builds the library; WARPLINE_LIBRARY names another
    python3 tests/examples/warpline_abi.py       prints constants and the layout of the structs
"""
import ctypes as c
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
F16, BF16, NVFP4, F32 = 0, 1, 2, 3  # wl_dtype
# wl_operand: 0 is NVFP4, so structs of zeros mean that
OPERANDS = ("NVFP4", "F16", "BF16", "TF32", "E4M3", "E5M2", "INT8", "MXFP8_E4M3", "MXFP8_E5M2",
            "MXFP6_E2M3", "MXFP6_E3M2", "MXFP4")
SF_128X4, SF_PLAIN = 0, 1   # wl_sf_layout
STATIC_WEIGHTS, GRAPH_LAUNCH, FAST_ACCUMULATION = 1, 2, 4  # wl_plan_flags
# wl_activation
NONE, RELU, RELU_SQUARED, SILU, GELU_TANH, GELU_ERF = range(6)
GATE_SILU, GATE_GELU_TANH, GATE_CLAMPED = 0, 1, 2  # wl_gate


class DualGemmArgs(c.Structure):  # wl_dual_gemm_args
    _fields_ = ([("struct_size", c.c_size_t)]
                + [(name, c.c_int64) for name in "mnkl"]
                + [(name, c.c_void_p) for name in ("a", "b1", "b2", "sfa", "sfb1", "sfb2")]
                + [("sf_layout", c.c_int), ("alpha1", c.c_void_p), ("alpha2", c.c_void_p),
                   ("d", c.c_void_p), ("d_type", c.c_int), ("ldd", c.c_int64),
                   ("batch_stride_d", c.c_int64), ("config", c.c_char_p), ("sfd", c.c_void_p),
                   ("d_scale", c.c_void_p), ("flags", c.c_uint32), ("bias1", c.c_void_p),
                   ("bias2", c.c_void_p), ("bias_type", c.c_int), ("gate", c.c_int),
                   ("gate_limit", c.c_float), ("a_type", c.c_int), ("b_type", c.c_int)])


class GemmArgs(c.Structure):  # wl_gemm_args
    _fields_ = ([("struct_size", c.c_size_t)]
                + [(name, c.c_int64) for name in "mnkl"]
                + [(name, c.c_void_p) for name in ("a", "b", "sfa", "sfb")]
                + [("sf_layout", c.c_int), ("alpha", c.c_void_p), ("row", c.c_void_p),
                   ("bias", c.c_void_p), ("bias_type", c.c_int), ("activation", c.c_int),
                   ("residual", c.c_void_p), ("ldr", c.c_int64), ("batch_stride_r", c.c_int64),
                   ("d", c.c_void_p), ("d_type", c.c_int), ("ldd", c.c_int64),
                   ("batch_stride_d", c.c_int64), ("config", c.c_char_p), ("sfd", c.c_void_p),
                   ("d_scale", c.c_void_p), ("flags", c.c_uint32), ("a_type", c.c_int),
                   ("b_type", c.c_int), ("col", c.c_void_p), ("a_layout", c.c_int),
                   ("b_layout", c.c_int)])


class Groups(c.Structure):  # wl_groups
    _fields_ = [("count", c.c_int32), ("ends", c.c_void_p), ("sizes", c.c_void_p),
                ("row_stride", c.c_int64), ("sf_tiles", c.c_void_p), ("sf_tile_count", c.c_int64),
                ("rows", c.c_void_p), ("a_rows", c.c_int64), ("b_stride_bytes", c.c_int64),
                ("sfb_stride_bytes", c.c_int64), ("bias_stride", c.c_int64),
                ("status", c.c_void_p)]


class GroupedGemmArgs(c.Structure):  # wl_grouped_gemm_args
    _fields_ = [("struct_size", c.c_size_t), ("gemm", GemmArgs), ("groups", Groups)]


class GroupedDualGemmArgs(c.Structure):  # wl_grouped_dual_gemm_args
    _fields_ = [("struct_size", c.c_size_t), ("gemm", DualGemmArgs), ("groups", Groups)]


class QuantizeArgs(c.Structure):  # wl_quantize_args
    _fields_ = ([("struct_size", c.c_size_t)]
                + [(name, c.c_int64) for name in "mkl"]
                + [("x", c.c_void_p), ("x_type", c.c_int), ("ldx", c.c_int64),
                   ("batch_stride_x", c.c_int64), ("d", c.c_void_p), ("sfd", c.c_void_p),
                   ("sf_layout", c.c_int), ("d_scale", c.c_void_p), ("config", c.c_char_p),
                   ("flags", c.c_uint32), ("norm", c.c_int), ("eps", c.c_float),
                   ("gamma_type", c.c_int), ("gamma", c.c_void_p), ("beta", c.c_void_p),
                   ("residual", c.c_void_p), ("ldr", c.c_int64), ("batch_stride_r", c.c_int64),
                   ("sum", c.c_void_p)])


class NormLinearArgs(c.Structure):  # wl_norm_linear_args
    _fields_ = ([("struct_size", c.c_size_t)]
                + [(name, c.c_int64) for name in "mnk"]
                + [("x", c.c_void_p), ("x_type", c.c_int), ("ldx", c.c_int64), ("norm", c.c_int),
                   ("form", c.c_int), ("eps", c.c_float), ("gamma_type", c.c_int),
                   ("gamma", c.c_void_p), ("beta", c.c_void_p), ("residual", c.c_void_p),
                   ("ldr", c.c_int64), ("sum", c.c_void_p), ("w", c.c_void_p),
                   ("w_type", c.c_int), ("sfw", c.c_void_p), ("sf_layout", c.c_int),
                   ("a_scale", c.c_void_p), ("alpha", c.c_void_p), ("bias", c.c_void_p),
                   ("bias_type", c.c_int), ("activation", c.c_int), ("d", c.c_void_p),
                   ("d_type", c.c_int), ("ldd", c.c_int64), ("config", c.c_char_p),
                   ("flags", c.c_uint32)])


class MoeArgs(c.Structure):  # wl_moe_args
    _fields_ = ([("struct_size", c.c_size_t)]
                + [(name, c.c_int64) for name in (
                    "tokens", "hidden", "intermediate", "experts", "top_k", "first_expert")]
                + [("x", c.c_void_p)]
                + [(name, c.c_int) for name in ("x_type", "a_type")]
                + [(name, c.c_void_p) for name in (
                    "ids", "weights", "w_gate", "w_up", "w_down", "sf_gate", "sf_up",
                    "sf_down")]
                + [("sf_layout", c.c_int)]
                + [(name, c.c_int64) for name in (
                    "w_stride_bytes", "sf_stride_bytes", "w_down_stride_bytes",
                    "sf_down_stride_bytes")]
                + [(name, c.c_void_p) for name in (
                    "alpha_gate", "alpha_up", "alpha_down", "bias_gate", "bias_up",
                    "bias_down")]
                + [(name, c.c_int) for name in ("bias_type", "gate")]
                + [("gate_limit", c.c_float)]
                + [(name, c.c_void_p) for name in ("x_scale", "h_scale", "shared")]
                + [("ld_shared", c.c_int64)]
                + [("y", c.c_void_p)]
                + [("y_type", c.c_int)]
                + [("ldy", c.c_int64)]
                + [("flags", c.c_uint32)]
                + [(name, c.c_char_p) for name in ("config_up", "config_down")])


class PlanInfo(c.Structure):  # wl_plan_info
    _fields_ = [("struct_size", c.c_size_t), ("config", c.c_char * 64), ("kernel", c.c_char * 96),
                ("target", c.c_char * 16), ("grid", c.c_uint * 3), ("block", c.c_uint * 3),
                ("cluster", c.c_uint * 3), ("tile_m", c.c_int), ("tile_n", c.c_int),
                ("tile_k", c.c_int), ("stages", c.c_int), ("shared_bytes", c.c_int),
                ("registers", c.c_int), ("launches", c.c_int), ("workspace_bytes", c.c_size_t),
                ("load_ms", c.c_double), ("precompiled", c.c_int)]


STRUCTS = {"wl_dual_gemm_args": DualGemmArgs, "wl_gemm_args": GemmArgs, "wl_groups": Groups,
           "wl_grouped_gemm_args": GroupedGemmArgs,
           "wl_grouped_dual_gemm_args": GroupedDualGemmArgs, "wl_quantize_args": QuantizeArgs,
            "wl_norm_linear_args": NormLinearArgs, "wl_moe_args": MoeArgs,
            "wl_plan_info": PlanInfo}


class Library:
    """One context; statuses become exceptions that carry the library's sentence."""

    def __init__(self, device=0, path=None):
        self.lib = c.CDLL(path or os.environ.get("WARPLINE_LIBRARY",
                                                 str(ROOT / "build" / "libwarpline.so")))
        self.lib.wl_last_error.restype = c.c_char_p
        self.lib.wl_sf_bytes.argtypes = [c.c_int, c.c_int64, c.c_int64]
        self.lib.wl_sf_bytes.restype = c.c_size_t
        self.lib.wl_plan_run.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p]
        self.lib.wl_plan_destroy.argtypes = [c.c_void_p]
        self.lib.wl_plan_destroy.restype = None
        self.context = c.c_void_p()
        self.check(self.lib.wl_context_create(device, c.byref(self.context)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.wl_last_error().decode())

    def sf_bytes(self, rows, k):
        """Bytes of the scales of a matrix of `rows` x `k` values, padding included."""
        return self.lib.wl_sf_bytes(SF_128X4, rows, k)

    def empty(self, size):
        """The address of `size` bytes on the device; None for 0 bytes."""
        if size == 0:
            return None
        pointer = c.c_void_p()
        self.check(self.lib.wl_malloc(self.context, c.c_size_t(size), c.byref(pointer)))
        return pointer.value

    def filled(self, data):
        pointer = self.empty(len(data))
        self.check(self.lib.wl_upload(self.context, c.c_void_p(pointer), data,
                                      c.c_size_t(len(data))))
        return pointer

    def read(self, pointer, size):
        data = c.create_string_buffer(size)
        self.check(self.lib.wl_download(self.context, data, c.c_void_p(pointer), c.c_size_t(size)))
        return data.raw

    def dual_gemm(self, **fields):
        return Plan(self, self.lib.wl_dual_gemm_plan, DualGemmArgs, fields)

    def gemm(self, **fields):
        return Plan(self, self.lib.wl_gemm_plan, GemmArgs, fields)

    def grouped_gemm(self, groups, **fields):
        """`groups`: a Groups; fields: those of GemmArgs."""
        return Plan(self, self.lib.wl_grouped_gemm_plan, GroupedGemmArgs,
                    {"gemm": GemmArgs(**fields), "groups": groups})

    def grouped_dual_gemm(self, groups, **fields):
        """`groups`: a Groups; fields: those of DualGemmArgs."""
        return Plan(self, self.lib.wl_grouped_dual_gemm_plan, GroupedDualGemmArgs,
                    {"gemm": DualGemmArgs(**fields), "groups": groups})

    def quantize(self, **fields):
        return Plan(self, self.lib.wl_quantize_plan, QuantizeArgs, fields)

    def norm_linear(self, **fields):
        return Plan(self, self.lib.wl_norm_linear_plan, NormLinearArgs, fields)

    def fold(self, w_folded, bias_folded, stream=None, **fields):
        """Of the fields of wl_norm_linear_args: w and bias of the folded form, two addresses."""
        args = NormLinearArgs(struct_size=c.sizeof(NormLinearArgs), **fields)
        self.check(self.lib.wl_norm_linear_fold(self.context, c.byref(args), c.c_void_p(w_folded),
                                                c.c_void_p(bias_folded), c.c_void_p(stream)))

    def moe(self, **fields):
        return Plan(self, self.lib.wl_moe_plan, MoeArgs, fields)


class Plan:
    """A plan holds the addresses that it was made with; what lies there is read when it runs."""

    def __init__(self, library, make, struct, fields):
        self.library, self.fields, self.struct = library, fields, struct
        args = struct(struct_size=c.sizeof(struct), **fields)
        self.handle = c.c_void_p()
        library.check(make(library.context, c.byref(args), c.byref(self.handle)))
        self.info = PlanInfo(struct_size=c.sizeof(PlanInfo))
        library.check(library.lib.wl_plan_get_info(self.handle, c.byref(self.info)))

    def run(self, stream=None, workspace=None):
        """`workspace`: the address of info.workspace_bytes bytes, None where that is 0."""
        self.library.check(self.library.lib.wl_plan_run(
            self.handle, workspace, self.info.workspace_bytes if workspace else 0, stream))

    def run_with(self, stream=None, workspace=None, **fields):
        """With other operands, or fewer rows, than the plan was made with."""
        name = next(name for name, struct in STRUCTS.items() if struct is self.struct)
        run = getattr(self.library.lib, name.removesuffix("_args") + "_run")
        args = self.struct(struct_size=c.sizeof(self.struct), **{**self.fields, **fields})
        self.library.check(run(self.handle, c.byref(args), c.c_void_p(workspace),
                               c.c_size_t(self.info.workspace_bytes if workspace else 0),
                               c.c_void_p(stream)))

    def close(self):
        """After its last run has ended."""
        self.library.lib.wl_plan_destroy(self.handle)
        self.handle = c.c_void_p()


def main():
    for name, value in (("WL_F16", F16), ("WL_BF16", BF16), ("WL_NVFP4", NVFP4),
                        ("WL_F32", F32), ("WL_SF_128x4", SF_128X4), ("WL_SF_PLAIN", SF_PLAIN),
                        ("WL_STATIC_WEIGHTS", STATIC_WEIGHTS), ("WL_GRAPH_LAUNCH", GRAPH_LAUNCH),
                        ("WL_FAST_ACCUMULATION", FAST_ACCUMULATION),
                        ("WL_ACTIVATION_NONE", NONE), ("WL_ACTIVATION_GELU_ERF", GELU_ERF),
                        ("WL_GATE_SILU", GATE_SILU), ("WL_GATE_GELU_TANH", GATE_GELU_TANH),
                        ("WL_GATE_CLAMPED", GATE_CLAMPED)):
        print(name, value)
    for name, struct in STRUCTS.items():
        print(name, c.sizeof(struct))
        for field, *_ in struct._fields_:
            place = getattr(struct, field)
            print(f"{name}.{field}", place.offset, place.size)


if __name__ == "__main__":
    main()
