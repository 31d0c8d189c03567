#!/usr/bin/env bash
# compute-sanitizer over small dual GEMMs, GEMMs, quantisations, products of groups and layers of
# experts on the GPU of this machine, each of which is compared with the reference too: memcheck,
# synccheck, and racecheck, which knows shared memory and ordinary barriers, over the shapes whose
# kernels use no asynchronous copies.
#
#   tools/sanitize.sh [--build DIR] [--limit SECONDS] [--tools memcheck,synccheck,racecheck]
#
# compute-sanitizer is looked for in $CUDA_HOME/bin, $CUDA_PATH/bin, PATH and /usr/local/cuda/bin.
# Without it or without a GPU that has kernels nothing is checked, and the last line says so.
set -u
cd "$(dirname "$0")/.." || exit 2
build=build limit=120 tools=memcheck,synccheck,racecheck
while [ $# -gt 0 ]; do
  case $1 in
    --build | --limit | --tools)
      [ $# -ge 2 ] || { echo "sanitize: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "sanitize: unknown argument $1" >&2; exit 2 ;;
  esac
done
warpline=$build/warpline
[ -x "$warpline" ] || { echo "sanitize: $warpline is not there: run make first" >&2; exit 2; }

sanitizer=
for candidate in "${CUDA_HOME:+$CUDA_HOME/bin/compute-sanitizer}" \
  "${CUDA_PATH:+$CUDA_PATH/bin/compute-sanitizer}" "$(command -v compute-sanitizer)" \
  /usr/local/cuda/bin/compute-sanitizer; do
  [ -n "$candidate" ] && [ -x "$candidate" ] && sanitizer=$candidate && break
done
[ -n "$sanitizer" ] || { echo "sanitize: skipped, no compute-sanitizer"; exit 0; }
tools/has_gpu.sh "$warpline" ||
  { echo "sanitize: skipped, no GPU that warpline has kernels for"; exit 0; }

log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
clean=0 dirty=0
# check TOOL COMMAND ARGUMENTS...
check() {
  local tool=$1 status verdict
  shift
  timeout --kill-after=10 "$limit" "$sanitizer" --tool "$tool" --error-exitcode 9 "$warpline" \
    "$@" --device gpu >"$log" 2>&1
  status=$?
  verdict=clean
  [ $status -eq 0 ] || verdict="status $status"
  [ $status -eq 124 ] && verdict="stopped after $limit s"
  printf '%-10s %-60s %s\n' "$tool" "$*" "$verdict"
  if [ $status -eq 0 ]; then
    clean=$((clean + 1))
  else
    dirty=$((dirty + 1))
    grep -v '^$' "$log" | head -n 40 | sed 's/^/    /'
  fi
}

# The configurations that the library chooses from one token to several tiles, edges of M and N
# included. On an H200: small_t1, small_t16 with a tail of rows, t32, t64, t128_split, t128c96,
# t256; of gemm small_t1_split4, small_t16_dense, t32_whole, t64c96_whole, t128. Groups: the
# decoder and its like for 16 bits, small_t8 and t16, t64, t128, direct; layers with an order of
# rows and without one.
wide=grouped_dual_gemm_sm90_abf16_t128_bf16 direct=grouped_gemm_sm90_direct_af16_t128_f16
shapes=("dual-gemm -m 1 -n 136 -k 320" "dual-gemm -m 130 -n 264 -k 704 --out bf16"
  "dual-gemm -m 32 -n 4096 -k 2048" "dual-gemm -m 64 -n 4096 -k 320 -l 2"
  "dual-gemm -m 100 -n 4096 -k 1024" "dual-gemm -m 300 -n 4096 -k 320 --out bf16"
  "dual-gemm -m 512 -n 4096 -k 448" "gemm -m 1 -n 136 -k 704 --bias f32 --act gelu_tanh"
  "gemm -m 13 -n 4104 -k 704 -l 2 --residual --row" "gemm -m 32 -n 24576 -k 320 --out bf16"
  "gemm -m 60 -n 24576 -k 704 --residual --in-place"
  "gemm -m 300 -n 4104 -k 320 --out f32 --act silu" "quantize -m 130 -k 1088 -l 2"
  "quantize -m 3 -k 64 --type f16"
  "grouped-gemm --sizes 1,0,9,5 -n 264 -k 320 --out bf16 --bias f32"
  "grouped-dual-gemm --sizes 17,0,40 -n 136 -k 704"
  "grouped-gemm --sizes 33,64,0,70 -n 264 -k 320 --gather --config grouped_gemm_sm90_t64_f16"
  "grouped-dual-gemm --sizes 130,1,0,129 -n 264 -k 448 --a-type bf16 --config $wide"
  "grouped-gemm --sizes 130,40 -n 264 -k 448 --a-type f16 --config $direct"
  "moe --tokens 2 --hidden 320 --intermediate 192 --experts 8 --top-k 3 --first-expert 2 --shared"
  "moe --tokens 70 --hidden 320 --intermediate 192 --experts 8 --top-k 2 --type f16"
  "moe --tokens 70 --hidden 320 --intermediate 192 --experts 8 --top-k 2 --a-type nvfp4")
# Without specialised warps: the one schedule whose shared memory racecheck can follow.
plain=("dual-gemm -m 8 -n 64 -k 256 --config dual_gemm_sm90_double_buffered_t8_f16")
for tool in ${tools//,/ }; do
  cases=("${shapes[@]}")
  [ "$tool" = racecheck ] && cases=("${plain[@]}")
  for arguments in "${cases[@]}"; do
    read -r -a words <<<"$arguments"
    check "$tool" "${words[@]}"
  done
done
echo "sanitize: $clean clean, $dirty not"
[ "$dirty" -eq 0 ]
