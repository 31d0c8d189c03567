#!/bin/sh
# tools/has_gpu.sh WARPLINE: true where this machine has a GPU that the program has kernels for.
"$1" devices --json - 2>/dev/null | grep -q '"gpu:[0-9]*".*"kernels": "sm'
