# Reads a configs.def: the configurations of an operation.
#   awk -f kernels/configs.awk -v list=1 kernels/<op>/configs.def   one a line: NAME SOURCE TARGETS
#   awk -f kernels/configs.awk -v flags=1 kernels/<op>/configs.def  NAME and its -D flags for cpp
# A table starts with its column names:  //: SM100_CONFIG  NAME  TILE_N ...   and its lines are
# SM100_CONFIG(name, 128, ...). The macro's prefix names the source (SM90_DECODE: sm90_decode.ptx)
# and, up to its first "_", the targets; SM100A: of the sources of SM100, for sm_100a alone;
# SM90_NATIVE_STREAM, SM90_NATIVE_SPLIT, SM90_NATIVE_MN, SM90_NATIVE_TURNED: of SM90_NATIVE's, with
# columns more; so SM90_FITTED, SM90_HELPED, SM90_SETS, SM90_STORED and SM90_STREAM_K of SM90's.
# A number becomes -DCOLUMN=number, a word -DCOLUMN_WORD=1, NAME becomes -DKERNEL=name.

BEGIN {
  targets["SM100"] = "sm_100a,sm_100f,sm_103a"
  targets["SM100A"] = "sm_100a"
  targets["SM90"] = "sm_90a"
}

/^\/\/: / {
  for (i = 3; i <= NF; i++) column[$2, i - 2] = $i
  columns[$2] = NF - 2
  next
}

match($0, /^[A-Z0-9_]+_CONFIG\(/) {
  macro = substr($0, 1, RLENGTH - 1)
  if (!(macro in columns)) next
  body = substr($0, RLENGTH + 1)
  sub(/\).*/, "", body)
  gsub(/[ \t]/, "", body)
  n = split(body, value, ",")
  if (n != columns[macro]) {
    printf "%s:%d: %s has %d values, its table %d columns\n", FILENAME, FNR, value[1], n, \
      columns[macro] > "/dev/stderr"
    failed = 1
    exit 1
  }
  arch = macro
  sub(/_CONFIG$/, "", arch)
  source = tolower(arch)
  sub(/^sm100a_/, "sm100_", source)
  sub(/^sm90_native_(stream|split|mn|turned)$/, "sm90_native", source)
  sub(/^sm90_(fitted|helped|sets|stored|stream_k)$/, "sm90", source)
  family = arch
  sub(/_.*$/, "", family)
  if (list) print value[1], source, targets[family]
  if (flags) {
    line = value[1] " -DKERNEL=" value[1]
    for (i = 2; i <= n; i++)
      line = line " -D" column[macro, i] (value[i] ~ /^[0-9]+$/ ? "=" : "_") value[i] \
        (value[i] ~ /^[0-9]+$/ ? "" : "=1")
    print line
  }
}
