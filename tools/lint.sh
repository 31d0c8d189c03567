#!/usr/bin/env bash
# Formatting and lint of the whole tree: clang-format, cppcheck, shellcheck, line lengths, file
# lengths. A tool that is missing is named and makes the run fail, unless --allow-missing is given.
set -u
cd "$(git rev-parse --show-toplevel)" || exit 1
allow_missing=0
[ "${1:-}" = --allow-missing ] && allow_missing=1
failed=0
missing() {
  echo "lint: $1 is not installed"
  [ $allow_missing = 1 ] || failed=1
}
mapfile -t cxx < <(git ls-files '*.cpp' '*.hpp' '*.h')
mapfile -t shell < <(git ls-files '*.sh' .ci/run tools/sass/fetch-disassembler)
# A row of a table is one line, and PTX texts inside tests are as they are.
mapfile -t long < <(git ls-files '*.cpp' '*.hpp' '*.h' '*.ptx' '*.inc' '*.sh' '*.awk' |
  grep -v '^tests/')

if command -v clang-format >/dev/null; then
  clang-format --dry-run -Werror "${cxx[@]}" 2>/tmp/wl-format.$$ || {
    grep -E 'error|warning' /tmp/wl-format.$$ | head -20
    echo "lint: formatting differs; make format mends it"
    failed=1
  }
  rm -f /tmp/wl-format.$$
else
  missing clang-format
fi
if command -v cppcheck >/dev/null; then
  cppcheck --quiet --std=c++20 --language=c++ --enable=warning,portability --inline-suppr \
    --suppress=missingInclude --suppress=missingIncludeSystem --suppress=unknownMacro \
    --suppress=uninitMemberVar --suppress=uninitDerivedMemberVar --error-exitcode=1 -j2 \
    -I. -Iruntime/include \
    runtime/src kernels tools/cli || failed=1
else
  missing cppcheck
fi
if command -v shellcheck >/dev/null; then
  shellcheck "${shell[@]}" || failed=1
else
  missing shellcheck
fi
# An opcode cannot be broken.
if awk 'length($0) > 100 && !/^ *[a-z0-9_.:]+ *\\?$/ {
          printf "%s:%d: %d columns\n", FILENAME, FNR, length($0)
          bad = 1
        }
        END { exit bad }' "${long[@]}"; then :; else
  echo "lint: lines are at most 100 columns"
  failed=1
fi
[ $failed = 0 ] && echo "lint: clean (${#cxx[@]} C++ files, ${#shell[@]} scripts)"
exit $failed
