#!/usr/bin/env bash
# tests/fuzz/run.sh BUILD SECONDS TARGET...: fuzzes one target after the other, from the committed
# corpus; what is new goes to BUILD/corpus, findings to BUILD/findings. Fails when there is one.
set -u
build=$1 seconds=$2
shift 2
here=$(dirname "$0")
status=0
mkdir -p "$build/findings"
# The words of the instruction table.
cat "$here"/../../tools/vgpu/isa/forms_*.def | grep -v '^//' | cut -d'"' -f2 |
  grep -oE '[a-z][a-z0-9_:]*' | sort -u | sed 's/.*/".&"/' >"$build/ptx.dict"
# An allocation that the host cannot serve is an answer, as it is without the sanitizer.
export ASAN_OPTIONS=allocator_may_return_null=1
for target in "$@"; do
  new=$build/corpus/$target
  mkdir -p "$new"
  echo "== $target, $seconds s"
  FUZZ_TARGET=$target nice -n 10 "$build/fuzz" -max_total_time="$seconds" -max_len=8192 -timeout=10 \
    -rss_limit_mb=3000 -print_final_stats=1 -verbosity=0 -dict="$build/ptx.dict" \
    -artifact_prefix="$build/findings/$target-" "$new" "$here/corpus/$target" 2>&1 |
    tee "$build/$target.log" | grep -E '^(stat::|SUMMARY|==|artifact)|runtime error|exception' |
    grep -vE 'new_units|slowest'
  [ "${PIPESTATUS[0]}" = 0 ] || status=1
done
exit $status
