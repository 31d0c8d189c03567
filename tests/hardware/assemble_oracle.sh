#!/usr/bin/env bash
# Assembles the PTX of every oracle case with ptxas, so that no error waits for a GPU.
#   tests/hardware/assemble_oracle.sh [build/tests/hardware]
# Ends with the number of texts; exit status 1 when one does not assemble.
set -u
binary=${1:-build/tests/hardware}
ptxas=${PTXAS:-$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)}
if [ ! -x "$ptxas" ]; then
  echo "no ptxas: nothing was assembled" >&2
  exit 2
fi
dump=$(mktemp -d) || exit 2
trap 'rm -rf "$dump"' EXIT
WL_ORACLE_DUMP="$dump" "$binary" "oracle dump" >/dev/null || exit 2
# shellcheck disable=SC2016  # the inner shell expands it
find "$dump" -name '*.ptx' -print0 |
  PTXAS="$ptxas" xargs -0 -P "$(nproc)" -I{} sh -c \
    '"$PTXAS" -arch=sm_90a -O1 {} -o {}.cubin >{}.log 2>&1 || mv {}.log {}.failed'
failed=0
for log in "$dump"/*.failed; do
  [ -e "$log" ] || continue
  failed=$((failed + 1))
  grep "$(basename "$log" .failed)" "$dump/index.txt"
  sed -n 1,3p "$log"
done
echo "$(find "$dump" -name '*.ptx' | wc -l) texts, $failed not assembled"
[ "$failed" -eq 0 ]
