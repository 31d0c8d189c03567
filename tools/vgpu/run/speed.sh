#!/usr/bin/env bash
# tools/vgpu/run/speed.sh BUILD [THREADS]: the speed of the virtual GPU on this machine, as tables.
# By processor time, which other work on the machine changes little: that of the whole command, with
# inputs from a file and no comparison, best of three.
set -u
build=$1 threads=${2:-2}
"$build/vgpu" speed "$threads" || exit 1

input=$(mktemp) || exit 1
trap 'rm -f "$input"' EXIT
header="" at=0
tensor() { # NAME TYPE ROWS COLUMNS
  local from=$at
  at=$((at + $3 * $4))
  header+="${header:+,}\"$1\":{\"dtype\":\"$2\",\"shape\":[$3,$4],"
  header+="\"data_offsets\":[$from,$at]}"
}
fill() { head -c "$2" /dev/zero | tr '\0' "$1"; } # BYTE COUNT

# A safetensors file: operands of ones (e2m1 code 2), scales of one (e4m3 code 0x38).
write_input() { # M N K
  local m=$1 n=$2 k=$3 codes length
  header="" at=0
  tensor a U8 "$m" $((k / 2))
  tensor b1 U8 "$n" $((k / 2))
  tensor b2 U8 "$n" $((k / 2))
  codes=$at
  tensor a_scale F8_E4M3 "$m" $((k / 16))
  tensor b1_scale F8_E4M3 "$n" $((k / 16))
  tensor b2_scale F8_E4M3 "$n" $((k / 16))
  header="{$header}"
  length=$(printf '%04x' ${#header})
  {
    printf "\\x${length:2}\\x${length:0:2}\\0\\0\\0\\0\\0\\0%s" "$header"
    fill '\042' "$codes"
    fill '\070' $((at - codes))
  } >"$input"
}

export VGPU_THREADS=$threads
gemm() { # M N K "DEVICE..." "CHECKS..."
  local device check
  write_input "$1" "$2" "$3"
  echo
  echo "| dual GEMM, $1 x $2 x $3 | checkers | GFLOP/s, $threads threads |"
  echo "|---|---|---|"
  for device in $4; do
    for check in $5; do
      for _ in 1 2 3; do
        TIMEFORMAT='%U %S'
        { time "$build/warpline" dual-gemm --device "virtual:$device" --check "$check" \
          --input "$input" >/dev/null 2>&1 || echo failed; } 2>&1
      done | awk -v label="| $device | $check |" -v flops=$((4 * $1 * $2 * $3)) \
        -v threads="$threads" '
        /failed/ { failed = 1 }
        { s = ($1 + $2) / threads; if (!best || s < best) best = s }
        END { if (failed || !best) exit 1; printf "%s %.1f |\n", label, flops / best / 1e9 }' ||
        exit 1
    done
  done
}
gemm 256 1024 4096 "b200 h200" "off all"
gemm 256 4096 7168 b200 "off races all"
