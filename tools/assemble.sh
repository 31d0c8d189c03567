#!/bin/sh
# Machine code of a kernel: tools/assemble.sh PTXAS TARGET PTX CUBIN
# It is an extra: a ptxas that does not know the target or the version of the PTX leaves CUBIN
# empty, and the driver compiles the PTX. One that knows both and refuses the kernel is right: what
# it says is printed, and the status is 1. What it warns of, as of registers that it spills, is
# printed, too.
set -u
ptxas=$1 target=$2 ptx=$3 cubin=$4

if "$ptxas" -arch="$target" "$ptx" -o "$cubin" --warn-on-spills 2>"$cubin.log"; then
  cat "$cubin.log" >&2
  rm -f "$cubin.log"
  exit 0
fi
rm -f "$cubin"
grep -E '^\.(version|target|address_size) ' "$ptx" >"$cubin.head"
if "$ptxas" -arch="$target" "$cubin.head" -o "$cubin.head.cubin" 2>/dev/null; then
  rm -f "$cubin.head" "$cubin.head.cubin"
  cat "$cubin.log" >&2
  exit 1
fi
rm -f "$cubin.head" "$cubin.head.cubin"
echo "  no machine code of $(basename "$ptx" .ptx) for $target, see $cubin.log"
: >"$cubin"
