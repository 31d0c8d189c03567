#!/usr/bin/env bash
# Assembles every expanded kernel for its targets and fails on a spill, on ptxas C7504 or C7508
# (setmaxnreg without effect), and on other register counts than the kernel's role table allows.
#
#   tools/check_ptx.sh [--allow-missing] [--ptxas FILE] [kernel.ptx ...]    default: build/ptx/*.ptx
#
# ptxas is looked for in $CUDA_HOME/bin, $CUDA_PATH/bin, PATH and /usr/local/cuda/bin. Without one
# the check cannot be made: exit 2, or 0 with --allow-missing.
set -u
cd "$(dirname "$0")/.." || exit 2

allow_missing=0
ptxas=
files=()
while [ $# -gt 0 ]; do
  case $1 in
    --allow-missing) allow_missing=1 ;;
    --ptxas)
      [ $# -ge 2 ] || { echo "check_ptx: --ptxas needs a file" >&2; exit 2; }
      ptxas=$2
      shift
      ;;
    -h | --help)
      sed -n '2,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "check_ptx: unknown option $1 (options: --allow-missing, --ptxas FILE)" >&2
      exit 2
      ;;
    *) files+=("$1") ;;
  esac
  shift
done

[ -n "$ptxas" ] || ptxas=$(tools/find_ptxas.sh)
if [ -z "$ptxas" ] || [ ! -x "$ptxas" ]; then
  echo "check_ptx: ptxas not found in CUDA_HOME, CUDA_PATH, PATH or /usr/local/cuda/bin" >&2
  if [ "$allow_missing" = 1 ]; then
    echo "skipped: no ptxas"
    exit 0
  fi
  echo "check_ptx: install a CUDA toolkit (package cuda-nvcc), or give --allow-missing" >&2
  exit 2
fi

if [ ${#files[@]} -eq 0 ]; then
  shopt -s nullglob
  files=(build/ptx/*.ptx)
fi
if [ ${#files[@]} -eq 0 ]; then
  echo "check_ptx: no kernels in build/ptx; run make first" >&2
  exit 2
fi

# The assembler targets that a .target directive stands for.
targets_of() {
  case $1 in
    sm_100f) echo sm_100a sm_100f sm_103a ;;
    *) echo "$1" ;;
  esac
}

work=$(mktemp -d) || exit 2
# shellcheck disable=SC2046  # one word for each job
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

row_format='%-34s %-8s %9s %5s %6s %7s  %s\n'

# check FILE PREFIX: prints what is found; "ASSEMBLED FAILED" goes to PREFIX.counts at the end.
check() {
  local file=$1 log=$2.log cubin=$2.cubin assembled=0 failed=0
  local kernel directive cap target registers spills bytes result warning
  kernel=$(basename "$file" .ptx)
  if [ ! -r "$file" ]; then
    echo "$file: cannot be read"
    echo 0 1 >"$2.counts"
    return
  fi
  directive=$(sed -n 's/^\.target[[:space:]]*\([a-z0-9_]*\).*/\1/p' "$file" | head -n 1)
  cap=$(sed -n 's/.*Launched with \([0-9]*\) registers a thread.*/\1/p' "$file" | head -n 1)
  if [ -z "$directive" ] || [ -z "$cap" ]; then
    echo "$file: no .target directive, or no 'Launched with N registers a thread' in its head"
    echo 0 1 >"$2.counts"
    return
  fi
  for target in $(targets_of "$directive"); do
    assembled=$((assembled + 1))
    if ! "$ptxas" -arch="$target" -v "$file" -o "$cubin" >"$log" 2>&1; then
      # shellcheck disable=SC2059
      printf "$row_format" "$kernel" "$target" - "$cap" - - "FAIL: does not assemble"
      grep -v '^ptxas info' "$log" | head -n 20 | sed 's/^/    /'
      failed=$((failed + 1))
      continue
    fi
    registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$log" | sort -n | tail -n 1)
    spills=$(sed -n 's/.*, \([0-9]*\) bytes spill stores, \([0-9]*\) bytes spill loads.*/\1 \2/p' \
      "$log" | awk '{ sum += $1 + $2 } END { print sum + 0 }')
    bytes=$(wc -c <"$cubin")
    result=ok
    if [ -z "$registers" ]; then result="FAIL: ptxas -v reports no register count"; fi
    if [ "${registers:-0}" -gt "$cap" ]; then result="FAIL: registers above the role table"; fi
    # setmaxnreg shares out what the CTA was launched with: with fewer, an .inc waits for ever.
    if grep -q setmaxnreg "$file" && [ "${registers:-0}" -lt "$cap" ]; then
      result="FAIL: fewer registers than setmaxnreg shares out"
    fi
    if [ "$spills" -ne 0 ]; then result="FAIL: spills"; fi
    warning=$(grep -E -m 1 'C7504|C7508' "$log")
    if [ -n "$warning" ]; then result="FAIL: $warning"; fi
    # shellcheck disable=SC2059
    printf "$row_format" "$kernel" "$target" "${registers:--}" "$cap" "$spills" "$bytes" "$result"
    [ "$result" = ok ] || failed=$((failed + 1))
  done
  rm -f "$log" "$cubin"
  echo "$assembled $failed" >"$2.counts"
}

"$ptxas" --version | sed -n 's/^Cuda compilation tools, /ptxas /p'
# shellcheck disable=SC2059
printf "$row_format" kernel target registers cap spills bytes result

# As many at once as there are cores; what they print comes in the order of the files.
assembled=0
failed=0
shown=0
show_ended() {
  local a f
  while [ "$shown" -lt ${#files[@]} ] && [ -e "$work/$shown.ended" ]; do
    cat "$work/$shown.out"
    a='' f=''
    [ -e "$work/$shown.counts" ] && read -r a f <"$work/$shown.counts"
    if [ -z "$f" ]; then
      echo "${files[shown]}: the check did not come to its end"
      a=0 f=1
    fi
    assembled=$((assembled + a)) failed=$((failed + f))
    rm -f "$work/$shown".*
    shown=$((shown + 1))
  done
}
at_once=$(nproc 2>/dev/null || echo 1)
for i in "${!files[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
  (
    trap ': >"$work/$i.ended"' EXIT
    check "${files[i]}" "$work/$i" >"$work/$i.out"
  ) &
  show_ended
done
wait
for i in "${!files[@]}"; do : >"$work/$i.ended"; done # killed or not
show_ended

echo "$assembled assembled, $failed failed"
[ "$failed" -eq 0 ] && [ "$assembled" -gt 0 ]
