"""The package humming-kernels on NVFP4 weights and 16-bit activations, where it is installed (it
compiles its kernels with nvcc or nvrtc): weights are repacked by its own functions."""
import sys

import torch

try:
    from humming.layer import HummingLayer
except Exception as error:  # not installed, or without what it needs
    HummingLayer, reason = None, error


def present():
    if HummingLayer is None:
        print("humming: not timed, %s" % reason, file=sys.stderr)
    return HummingLayer is not None


def layer(packed, plain, alpha, dtype):
    """y = x.W^T * alpha of weights [N, K/2] bytes with plain scales [N, K/16] bytes."""
    n, k = packed.shape[0], 2 * packed.shape[1]
    made = HummingLayer(shape_n=n, shape_k=k, torch_dtype=dtype,
                        weight_config={"quant_method": "modelopt", "quant_algo": "nvfp4"}).cuda()
    made.load_from_tensors({"weight": packed, "weight_scale": plain.view(torch.float8_e4m3fn),
                            "weight_scale_2": alpha.reshape(1).float()})
    made.transform()
    return made


def experts(packed, plain, alpha, dtype):
    """run(rows, starts): rows of expert e, starts[e] to starts[e + 1], times W[e]^T * alpha[e], of
    weights [E, N, K/2] bytes with plain scales [E, N, K/16] bytes; rows lie sorted by expert."""
    count, n, k = packed.shape[0], packed.shape[1], 2 * packed.shape[2]
    made = HummingLayer(shape_n=n, shape_k=k, num_experts=count, torch_dtype=dtype,
                        weight_config={"quant_method": "modelopt", "quant_algo": "nvfp4"}).cuda()
    made.load_from_tensors({"weight": packed, "weight_scale": plain.view(torch.float8_e4m3fn),
                            "weight_scale_2": alpha.float()})
    made.transform()

    def run(rows, starts):
        return made(rows, expert_layout=starts,
                    compute_config={"gemm_type": "grouped_contiguous"})
    return run
