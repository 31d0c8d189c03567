#!/usr/bin/env bash
# Line coverage of a build made with COVERAGE=1 after its tests have run, for each folder.
#   tests/coverage.sh BUILD [--files]      --files: a line for each file too
set -eu
build=$1
files=${2:-}
command -v gcov >/dev/null || { echo "coverage: gcov is not installed (package gcc)" >&2; exit 2; }
# gcov names a source, then says how much of it ran; headers appear once for each object, the best
# figure counts.
find "$build/obj" -name '*.gcda' -print0 |
  while IFS= read -r -d '' data; do gcov -n -r -s "$PWD" "$data" 2>/dev/null || true; done |
  awk -v files="$files" '
    /^File / { file = substr($2, 2, length($2) - 2); next }
    /^Lines executed:/ && file != "" && file !~ /^\// {
      split($2, part, /[:%]/)
      share = part[2]; lines = $4
      if (!(file in total) || share * lines > ran[file] * 100) {
        total[file] = lines; ran[file] = share * lines / 100
      }
      file = ""
    }
    END {
      for (f in total) {
        folder = f; sub(/\/[^\/]*$/, "", folder)
        if (folder ~ /^tests/) continue
        all[folder] += total[f]; reached[folder] += ran[f]
        sum += total[f]; sum_ran += ran[f]
        if (files != "") printf "  %-48s %6.1f %% of %d\n", f, 100 * ran[f] / total[f], total[f] | "sort"
      }
      close("sort")
      for (f in all) printf "%-50s %6.1f %% of %d lines\n", f, 100 * reached[f] / all[f], all[f] | "sort"
      close("sort")
      if (sum == 0) { print "coverage: no data; run the tests of this build first"; exit 1 }
      printf "%-50s %6.1f %% of %d lines\n", "all", 100 * sum_ran / sum, sum
    }'
