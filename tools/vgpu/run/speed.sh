#!/usr/bin/env bash
# tools/vgpu/run/speed.sh BUILD [THREADS]: the speed of the virtual GPU on this machine, as tables.
# GEMMs are timed by the clock on the wall: other work on the machine shows.
set -u
build=$1 threads=${2:-2}
"$build/vgpu" speed "$threads" || exit 1
m=256 n=512 k=2048
echo
echo "| dual GEMM, $m x $n x $k | checkers | GFLOP/s, $threads threads |"
echo "|---|---|---|"
for device in b200 h200; do
  for check in off all; do
    VGPU_THREADS=$threads "$build/warpline" dual-gemm -m $m -n $n -k $k --device "virtual:$device" \
      --check $check --json - 2>/dev/null |
      awk -v label="| $device | $check |" -v flops=$((4 * m * n * k)) '
        /"run_ms":/ { printf "%s %.2f |\n", label, flops / $2 / 1e6; seen = 1 }
        END { exit !seen }' || exit 1
  done
done
