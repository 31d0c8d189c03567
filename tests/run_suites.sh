#!/usr/bin/env bash
# Runs test binaries at the same time, as each leaves cores idle for long, and adds their counts up.
#   tests/run_suites.sh [-]BINARY[:TESTS]... [-- ARGUMENTS FOR EACH BINARY]
# TESTS, as Catch2 takes them, are a part of the binary's: parts of one run beside each other. One
# with a "-" ahead gets the cores that others leave idle: the part that keeps every core busy to its
# end, so that no other runs alone behind it.
# What each printed comes in the order of the names, when it has ended. The last line is
# "N passed, N failed, N skipped". A binary that crashes, is missing or leaves no counts is one
# failure more. The exit status is 0 only when something ran and nothing failed.
set -u

binaries=()
while [ $# -gt 0 ] && [ "$1" != "--" ]; do
  binaries+=("$1")
  shift
done
[ $# -gt 0 ] && shift
if [ ${#binaries[@]} -eq 0 ]; then
  echo "usage: tests/run_suites.sh BINARY[:TESTS]... [-- ARGUMENTS]" >&2
  exit 2
fi

folder=$(mktemp -d) || exit 2
# shellcheck disable=SC2046  # one word for each job
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0 status=0
# A virtual device's memory comes and goes with each launch: kept by the process, the system need
# not clear its pages each time.
export MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824

processes=()
for i in "${!binaries[@]}"; do
  part=() first=()
  [ "${binaries[i]}" = "${binaries[i]#-}" ] || first=(nice)
  binaries[i]=${binaries[i]#-}
  [ "${binaries[i]}" = "${binaries[i]%%:*}" ] || part=("${binaries[i]#*:}")
  WL_TEST_COUNTS="$folder/$i.counts" "${first[@]}" "${binaries[i]%%:*}" "${part[@]}" "$@" \
    >"$folder/$i.out" 2>&1 &
  processes[i]=$!
done
for i in "${!binaries[@]}"; do
  binary=${binaries[i]}
  echo "== $binary"
  wait "${processes[i]}"
  code=$?
  cat "$folder/$i.out"
  p='' f='' s=''
  [ -e "$folder/$i.counts" ] && read -r p f s <"$folder/$i.counts"
  if [ -z "$s" ]; then
    echo "$binary ended with status $code and left no counts: counted as one failure" >&2
    p=0 f=1 s=0
  elif [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then
    echo "$binary reported no failure but ended with status $code: counted as one failure" >&2
    f=1
  fi
  [ "$code" -ne 0 ] && status=1
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done

[ "$failed" -ne 0 ] && status=1
[ $((passed + failed + skipped)) -eq 0 ] && status=1
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
