# Makes a readable .ptx out of the preprocessor's output.
#   cpp -C -undef -nostdinc -I ptx -D... kernel.ptx | awk -f ptx/expand.awk > row.ptx
# - one statement a line, indented by block
# - comments below kernels/ stay, those of other included files go, as do "///", which describe
#   macros
# - a comma ahead of a closing parenthesis goes: lists of parameters are lines of one macro each
# - constant expressions of integers in parentheses, (4 * 55296 + (0x3 << 4)), become numbers

function trim(s) { sub(/^[ \t]+/, "", s); sub(/[ \t]+$/, "", s); return s }

# Value of an integer, decimal or hexadecimal.
function number_of(text,    i, total) {
  if (text !~ /^0x/) return text + 0
  total = 0
  for (i = 3; i <= length(text); i++)
    total = 16 * total + index("0123456789abcdef", tolower(substr(text, i, 1))) - 1
  return total
}

# Value of sums of products of integers, shifted left or not, without parentheses.
function value_of(e,    at) {
  gsub(/[ \t]/, "", e)
  at = index(e, "<<")
  return at == 0 ? sum_of(e) : sum_of(substr(e, 1, at - 1)) * 2 ^ value_of(substr(e, at + 2))
}

function sum_of(e,    terms, n, i, sign, total, factors, m, j, product) {
  gsub(/-/, "+-", e)
  n = split(e, terms, "+")
  total = 0
  for (i = 1; i <= n; i++) {
    if (terms[i] == "") continue
    sign = 1
    if (substr(terms[i], 1, 1) == "-") { sign = -1; terms[i] = substr(terms[i], 2) }
    gsub(/\//, "*/", terms[i])
    m = split(terms[i], factors, "*")
    product = 1
    for (j = 1; j <= m; j++) {
      if (substr(factors[j], 1, 1) == "/") product = int(product / number_of(substr(factors[j], 2)))
      else product *= number_of(factors[j])
    }
    total += sign * product
  }
  return total
}

# Some awks cut %d off at 31 bits.
function fold(s) {
  while (match(s, /\([0-9][0-9a-fA-Fx \t+*\/<-]*\)/))
    s = substr(s, 1, RSTART - 1) sprintf("%.0f", value_of(substr(s, RSTART + 1, RLENGTH - 2))) \
      substr(s, RSTART + RLENGTH)
  return s
}

function indent(n,    s) { s = ""; while (n-- > 0) s = s "  "; return s }

# A statement waits for the next one.
function release() {
  if (held) print held_text held_comment
  held = 0
}

function emit(text) {
  # An operand never starts with a dot: a blank before one is the preprocessor's.
  if (depth > 0 && text !~ /^\./) gsub(/ +\./, ".", text)
  if (text ~ /^\)/) sub(/,$/, "", held_text)
  release()
  held = 1
  held_text = (depth > 0 ? "" : text ~ /^\.param/ ? indent(1) : lead) indent(depth) text
  held_comment = pending_comment
  pending_comment = ""
  blank = 0
}

# One statement, or a piece of one that goes on in the next line.
function statement(s) {
  s = trim(s)
  while (s != "") {
    if (substr(s, 1, 1) == "{") { emit("{"); depth++; s = trim(substr(s, 2)); continue }
    if (substr(s, 1, 1) == "}") { depth--; emit("}"); s = trim(substr(s, 2)); continue }
    if (match(s, /^[A-Za-z_$][A-Za-z0-9_$]*:/) && substr(s, RLENGTH + 1, 1) != ":") {
      depth--; emit(substr(s, 1, RLENGTH)); depth++
      s = trim(substr(s, RLENGTH + 1)); continue
    }
    emit(s)
    return
  }
}

BEGIN { blank = 1 }

/^# [0-9]+ "/ {
  file = $3
  own = index(file, "\"kernels/") == 1
  next
}

{
  line = $0
  comment = ""
  at = index(line, "//")
  if (at > 0) { comment = substr(line, at); line = substr(line, 1, at - 1) }
  if (!own) comment = ""
  if (comment ~ /^\/\/\//) next
  match(line, /^ */)
  lead = indent(int(RLENGTH / 2))
  line = trim(fold(line))
  gsub(/[ \t]+/, " ", line)
  if (line == "") {
    if (comment != "") { release(); print indent(depth) comment; blank = 0 }
    else if (own && at == 0 && !blank) { release(); print ""; blank = 1 }
    next
  }
  if (comment != "") pending_comment = "  " comment
  n = split(line, pieces, ";")
  for (p = 1; p < n; p++) statement(pieces[p] ";")
  if (trim(pieces[n]) != "") statement(pieces[n])
}

END { release() }
