#!/usr/bin/env bash
# compute-sanitizer over small dual GEMMs, GEMMs, quantisations, products of groups and layers of
# experts on the GPU of this machine, each of which is compared with the reference too: memcheck,
# over drawn problems of every configuration as well, synccheck, and racecheck, which knows shared
# memory and ordinary barriers, over the kernels that use no asynchronous copies.
#
#   tools/sanitize.sh [--build DIR] [--limit SECONDS] [--tools memcheck,synccheck,racecheck]
#                     [--only REGEX] [--jobs N]
#
# --limit is a run's, of every configuration's problems five times that; --only takes the runs whose
# words the expression is found in; N runs (4) are made at a time, of configurations' problems one.
# compute-sanitizer is looked for in $CUDA_HOME/bin, $CUDA_PATH/bin, PATH and /usr/local/cuda/bin.
# Without it or without a GPU that has kernels nothing is checked, and the last line says so.
set -u
cd "$(dirname "$0")/.." || exit 2
build=build limit=120 tools=memcheck,synccheck,racecheck jobs=4 only=''
while [ $# -gt 0 ]; do
  case $1 in
    --build | --limit | --tools | --only | --jobs)
      [ $# -ge 2 ] || { echo "sanitize: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "sanitize: unknown argument $1" >&2; exit 2 ;;
  esac
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || { echo "sanitize: --jobs $jobs is no positive number" >&2; exit 2; }
warpline=$build/warpline
problems=$build/tests/problems
for program in "$warpline" "$problems"; do
  [ -x "$program" ] || { echo "sanitize: $program is not there: run make first" >&2; exit 2; }
done

sanitizer=
for candidate in "${CUDA_HOME:+$CUDA_HOME/bin/compute-sanitizer}" \
  "${CUDA_PATH:+$CUDA_PATH/bin/compute-sanitizer}" "$(command -v compute-sanitizer)" \
  /usr/local/cuda/bin/compute-sanitizer; do
  [ -n "$candidate" ] && [ -x "$candidate" ] && sanitizer=$candidate && break
done
[ -n "$sanitizer" ] || { echo "sanitize: skipped, no compute-sanitizer"; exit 0; }
tools/has_gpu.sh "$warpline" ||
  { echo "sanitize: skipped, no GPU that warpline has kernels for"; exit 0; }

logs=$(mktemp -d) || exit 2
trap 'rm -rf "$logs"' EXIT
clean=0 dirty=0 started=0 told=0 running=()
# run NUMBER TOOL KERNELS PROGRAM ARGUMENTS...; KERNELS: a part of the names of those that are
# checked
run() {
  local log=$logs/$1 tool=$2 status verdict=clean
  local kernels=(${3:+--kernel-name "kns=$3"}) program=$4
  shift 4
  timeout --kill-after=10 "$limit" "$sanitizer" --tool "$tool" --error-exitcode 9 \
    --target-processes all "${kernels[@]}" "$program" "$@" >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] || verdict="status $status"
  [ $status -eq 124 ] && verdict="stopped after $limit s"
  printf '%-10s %-60s %s\n' "$tool" "$*" "$verdict" >"$log.told"
  [ $status -eq 0 ] && return
  grep -v '^$' "$log" | head -n 40 | sed 's/^/    /' >>"$log.told"
  return 1
}
# Awaits the oldest runs until no more than so many are left.
await() {
  while [ ${#running[@]} -gt "$1" ]; do
    if wait "${running[0]}"; then clean=$((clean + 1)); else dirty=$((dirty + 1)); fi
    running=("${running[@]:1}")
    told=$((told + 1))
    cat "$logs/$told.told"
  done
}
# check OTHERS TOOL KERNELS PROGRAM ARGUMENTS..., beside no more than so many others
check() {
  local others=$1
  shift
  [[ ${*:4} =~ $only ]] || return
  await "$others"
  started=$((started + 1))
  run "$started" "$@" &
  running+=($!)
}

# The configurations that the library chooses from one token to several tiles, edges of M and N
# included. On an H200: small_t1, small_t16 with a tail of rows, t32, t64, t128_split, t128c96,
# t256; of gemm small_t1_split4, small_t16_dense, t32_whole, t64c96_whole, t48c32_split, t96c96,
# t128; stream, native ones with tiles of their own, shared K and factors of columns. Groups: the
# decoder and its like for 16 bits, small_t8 and t16, t64, t128, native t128 and t16c64, of FP8 too
# and of rows that are gathered; layers with an order of rows and without one, of 16 bits and of
# NVFP4, the latter two where K is shared or a cluster adds up a token's rows. Not those of one
# expert a token: of the sum's st.async in a cluster of one CTA, which an H200 runs, memcheck says
# "Cluster needs to have at least 2 blocks".
wide=grouped_dual_gemm_sm90_abf16_t144_bf16 ranges=gemm_sm90_t256_stream_k_bf16
direct_ranges=gemm_sm90_direct_af16_t256_stream_k_f16
dual_ranges=dual_gemm_sm90_direct_abf16_t256_stream_k_bf16
stream=gemm_sm90_stream_af16_t16_f16 dual_stream=dual_gemm_sm90_stream_abf16_t16_bf16
native_stream=gemm_sm90_tf32_t64c64_stream_f32 native_split=gemm_sm90_bf16_t128_split_bf16
groups=grouped_gemm_sm90_bf16_t128_bf16 planes=grouped_gemm_sm90_abf16_t288_bf16
gated_planes=grouped_dual_gemm_sm90_t288_f16 t48=gemm_sm90_t48c32_split_f16
fitted=gemm_sm90_direct_af16_t256_fitted_f16
shapes=("dual-gemm -m 1 -n 136 -k 320" "dual-gemm -m 130 -n 264 -k 704 --out bf16"
  "dual-gemm -m 32 -n 4096 -k 2048" "dual-gemm -m 64 -n 4096 -k 320 -l 2"
  "dual-gemm -m 100 -n 4096 -k 1024" "dual-gemm -m 300 -n 4096 -k 320 --out bf16"
  "dual-gemm -m 512 -n 4096 -k 448" "gemm -m 1 -n 136 -k 704 --bias f32 --act gelu_tanh"
  "gemm -m 13 -n 4104 -k 704 -l 2 --residual --row" "gemm -m 32 -n 24576 -k 320 --out bf16"
  "gemm -m 60 -n 24576 -k 704 --residual --in-place"
  "gemm -m 45 -n 264 -k 704 --residual --config $t48"
  "gemm -m 90 -n 24576 -k 320 --a-type bf16 --b-type nvfp4"
  "gemm -m 2100 -n 2040 -k 2048 --out bf16 --residual --config $ranges"
  "gemm -m 500 -n 2040 -k 2048 --a-type f16 --b-type nvfp4 --config $direct_ranges"
  "gemm -m 1300 -n 3080 -k 448 --residual --config gemm_sm90_t256_f16"
  "gemm -m 420 -n 264 -k 448 --a-type f16 --b-type nvfp4 --config $fitted"
  "dual-gemm -m 500 -n 1016 -k 2048 --a-type bf16 --out bf16 --config $dual_ranges"
  "gemm -m 300 -n 4104 -k 320 --out f32 --act silu" "quantize -m 130 -k 1088 -l 2"
  "quantize -m 3 -k 64 --type f16"
  "gemm -m 12 -n 264 -k 704 --a-type f16 --b-type nvfp4 --config $stream"
  "dual-gemm -m 12 -n 136 -k 704 --a-type bf16 --out bf16 --config $dual_stream"
  "gemm -m 130 -n 264 -k 320 --a-type f16 --bias f32 --residual"
  "gemm -m 70 -n 264 -k 704 --a-type bf16 --config $native_split"
  "gemm -m 40 -n 264 -k 704 --a-type tf32 --out f32 --config $native_stream"
  "gemm -m 33 -n 264 -k 320 --a-type e4m3 --b-type e5m2 --col"
  "gemm -m 300 -n 136 -k 320 --a-type int8"
  "dual-gemm -m 130 -n 136 -k 320 --a-type f16 --b-type f16"
  "grouped-gemm --sizes 1,0,9,5 -n 264 -k 320 --out bf16 --bias f32"
  "grouped-dual-gemm --sizes 17,0,40 -n 136 -k 704"
  "grouped-gemm --sizes 33,64,0,70 -n 264 -k 320 --gather --config grouped_gemm_sm90_t64_f16"
  "grouped-dual-gemm --sizes 130,1,0,129 -n 264 -k 448 --a-type bf16 --config $wide"
  "grouped-gemm --sizes 550,1,0,200 -n 264 -k 832 --a-type bf16 --config $planes"
  "grouped-dual-gemm --sizes 289,70,0,140 -n 136 -k 832 --config $gated_planes"
  "grouped-gemm --sizes 130,0,33 -n 264 -k 328 --a-type bf16 --b-type bf16 --config $groups"
  "grouped-dual-gemm --sizes 7,0,3,9 -n 136 -k 328 --a-type f16 --b-type f16"
  "grouped-gemm --sizes 33,0,17 -n 264 -k 328 --a-type bf16 --b-type bf16 --gather"
  "grouped-gemm --sizes 130,0,33 -n 264 -k 320 --a-type e4m3 --b-type e4m3"
  "grouped-gemm --sizes 7,0,3,9 -n 136 -k 320 --a-type e4m3 --b-type e4m3 --gather"
  "moe --tokens 1 --hidden 1024 --intermediate 1024 --experts 4 --top-k 2 --shared"
  "moe --tokens 1 --hidden 2880 --intermediate 320 --experts 8 --top-k 4 --shared"
  "moe --tokens 1 --hidden 1024 --intermediate 1024 --experts 4 --top-k 2 --a-type nvfp4"
  "moe --tokens 4 --hidden 2048 --intermediate 768 --experts 64 --top-k 8 --shared"
  "moe --tokens 2 --hidden 2048 --intermediate 768 --experts 64 --top-k 8 --a-type nvfp4"
  "moe --tokens 3 --hidden 2048 --intermediate 768 --experts 64 --top-k 8"
  "moe --tokens 3 --hidden 2048 --intermediate 768 --experts 64 --top-k 8 --a-type nvfp4"
  "moe --tokens 70 --hidden 320 --intermediate 192 --experts 8 --top-k 2 --type f16"
  "moe --tokens 70 --hidden 320 --intermediate 192 --experts 8 --top-k 2 --a-type nvfp4"
  "moe --tokens 300 --hidden 1024 --intermediate 1024 --experts 2 --top-k 2"
  "moe --tokens 600 --hidden 1024 --intermediate 1024 --experts 2 --top-k 2 --a-type nvfp4")
# What racecheck can follow, behind the part of the kernels' names: the schedule without
# specialised warps, the order of experts, what makes activations ready for a product.
layer="moe --hidden 320 --intermediate 192 --experts 8 --top-k 2"
plain=("double_buffered dual-gemm -m 8 -n 64 -k 256 --config dual_gemm_sm90_double_buffered_t8_f16"
  "moe_permute $layer --tokens 70"
  "moe_encode $layer --tokens 70 --a-type nvfp4" "moe_combine $layer --tokens 70 --shared"
  "grouped_sm90 grouped-gemm --sizes 33,64,0,70 -n 136 -k 320 --config grouped_gemm_sm90_t64_f16")
for tool in ${tools//,/ }; do
  cases=("${shapes[@]/#/- }")
  [ "$tool" = racecheck ] && cases=("${plain[@]}")
  for arguments in "${cases[@]}"; do
    read -r -a words <<<"$arguments"
    check $((jobs - 1)) "$tool" "${words[0]#-}" "$warpline" "${words[@]:1}" --device gpu
  done
  [ "$tool" = memcheck ] || continue
  for operation in linear dual_gemm grouped norm_linear quantize moe; do
    limit=$((5 * limit)) check 0 "$tool" "" "$problems" --gpu --operation "$operation" \
      --problems 2 --jobs "$(nproc)"
    await 0
  done
done
await 0
echo "sanitize: $clean clean, $dirty not"
[ "$dirty" -eq 0 ]
