#!/usr/bin/env bash
# One file that says how warpline does on this machine, to send back: what is here, whether the
# kernels are right on the public shapes and at their edges, what the hardware tests say, how fast
# each row is and what the host's side costs, and PyTorch beside it where that is there. Every step
# has a watchdog; a step that fails or hangs is recorded and the next one runs.
#
#   tools/report.sh [--device gpu|virtual:b200] [--build DIR] [--out FILE] [--limit SECONDS]
#
# Without a GPU that has kernels it is rehearsed on the virtual B200, and the file says so.
set -u
cd "$(dirname "$0")/.." || exit 2
device='' build=build out='' limit=600
while [ $# -gt 0 ]; do
  case $1 in
    --device | --build | --out | --limit)
      [ $# -ge 2 ] || { echo "report: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "report: unknown argument $1" >&2; exit 2 ;;
  esac
done
warpline=$build/warpline
[ -x "$warpline" ] || { echo "report: $warpline is not there: run make first" >&2; exit 2; }
out=${out:-$build/report-$(date -u +%Y%m%d-%H%M%S).txt}
if [ -z "$device" ]; then
  device=virtual:b200
  tools/has_gpu.sh "$warpline" && device=gpu
fi
passed=0 failed=0
: >"$out" || exit 2

say() { printf '%s\n' "$*" | tee -a "$out"; }
# step NAME COMMAND...: its output goes to the file, its verdict also to the terminal.
step() {
  local name=$1 status start
  shift
  printf '\n==== %s\n$ %s\n' "$name" "$*" >>"$out"
  start=$(date +%s)
  timeout --kill-after=10 "$limit" "$@" >>"$out" 2>&1
  status=$?
  if [ $status -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  local verdict="status $status"
  [ $status -eq 0 ] && verdict=ok
  [ $status -eq 124 ] && verdict="stopped after $limit s"
  say "$(printf '%-44s %s, %s s' "$name" "$verdict" "$(($(date +%s) - start))")"
}

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
say "warpline report, $(date -u +%Y-%m-%dT%H:%M:%SZ), commit $commit, device $device"
case $device in
  virtual*) say "REHEARSAL on the virtual GPU: nothing here ran on hardware" ;;
esac

step "doctor" "$warpline" doctor
if command -v nvidia-smi >/dev/null; then
  step "nvidia-smi" nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,ECC
fi
# A rehearsal passes over the oracle's cases: there is no hardware to compare with.
tests=()
case $device in virtual*) tests=("~[oracle]") ;; esac
[ -x "$build/tests/hardware" ] && step "hardware tests" "$build/tests/hardware" "${tests[@]}"

# The public benchmark's shapes, then edges, every output compared. A rehearsal takes a small one.
shapes=("256 4096 7168" "512 4096 7168" "256 3072 4096" "512 3072 7168")
case $device in virtual*) shapes=("256 512 1024") ;; esac
for shape in "${shapes[@]}"; do
  read -r m n k <<<"$shape"
  step "right: $m x $n x $k" "$warpline" dual-gemm -m "$m" -n "$n" -k "$k" --device "$device"
done
for shape in "1 8 64 1" "127 136 192 3" "129 384 448 2" "300 120 320 1"; do
  read -r m n k l <<<"$shape"
  step "right: $m x $n x $k, batch $l, bf16" "$warpline" dual-gemm -m "$m" -n "$n" -k "$k" -l "$l" \
    --out bf16 --device "$device"
done
for shape in "1 136 704" "16 4096 1024" "130 264 320" "300 4104 320"; do
  read -r m n k <<<"$shape"
  step "right: gemm $m x $n x $k" "$warpline" gemm -m "$m" -n "$n" \
    -k "$k" --bias f16 --act gelu_tanh --residual --device "$device"
done
for type in f16 bf16; do
  step "right: quantise 257 x 7168 $type" "$warpline" quantize -m 257 -k 7168 --type $type \
    --device "$device"
done

# Times. On the virtual GPU they mean nothing: one small problem, so that the steps are rehearsed.
usual=() wide=(--m 256 --n 3072 --k 4096) deep=(--m 512 --n 3072 --k 7168) quantiser=()
row_shape=(--m "256,512") host_16=(--m 16) host_256=(--m 256) driver=()
rows=$("$warpline" configs -m 256 -n 4096 -k 7168 --device "$device" 2>/dev/null |
  awk '/^dual_gemm/ { print $1 }')
case $device in
  virtual*)
    export WARPLINE_DRIVER=$device
    quantiser=(--replays 1 --warm --m 16 --k 128)
    usual=("${quantiser[@]}" --n 64)
    wide=("${usual[@]}") deep=("${usual[@]}") row_shape=("${usual[@]}")
    host_16=(--m 16 --n 64 --k 128 --starts 1 --calls 2 --batches 2 --row 3)
    host_256=("${host_16[@]}")
    driver=(--calls 2 --batches 2 --loads 1)
    rows=${rows%%$'\n'*}
    ;;
esac
bench=$build/bench
if [ -x "$bench" ] && [ -x "$build/host-cost" ] && [ -x "$build/driver-cost" ]; then
  step "speed" "$bench" "${usual[@]}"
  step "speed: 256 x 3072 x 4096" "$bench" "${wide[@]}"
  step "speed: 512 x 3072 x 7168" "$bench" "${deep[@]}"
  step "speed of the quantiser" "$bench" --quantize "${quantiser[@]}"
  step "the host's side: M 16" "$build/host-cost" "${host_16[@]}"
  step "the host's side: M 256" "$build/host-cost" "${host_256[@]}"
  step "the driver's part of it" "$build/driver-cost" "${driver[@]}"
  # A process each: one that fails takes no other along.
  for row in $rows; do
    step "$row" "$bench" --config "$row" "${row_shape[@]}"
  done
else
  say "speed: skipped, $bench, host-cost or driver-cost is not built"
fi
case $device in
  gpu*)
    if [ -e tools/bench/compare_torch.py ] && python3 -c 'import torch, triton' 2>/dev/null; then
      step "speed against PyTorch" python3 tools/bench/compare_torch.py
      step "gated MLP in PyTorch" python3 tests/examples/pytorch_mlp.py
    else
      say "speed against PyTorch: skipped, python3 has no torch and triton"
    fi
    ;;
esac
say "$passed steps ok, $failed failed; send back $out"
[ "$failed" -eq 0 ]
