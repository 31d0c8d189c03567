#!/bin/sh
# embed.sh ROW.ptx...   writes the assembler file that embeds expanded kernels in the library.
# A row is the file's name without .ptx. The contract is runtime/src/images.hpp: the text between
# wl_ptx_<row> and wl_ptx_<row>_end, a zero byte after it (cuModuleLoadData reads up to it), and the
# index wl_ptx_index of {name, begin, end} that a null name ends. The index holds addresses, so it
# lies where a position-independent program may relocate it.
set -eu

echo '        .section .rodata'
for file in "$@"; do
  row=$(basename "$file" .ptx)
  cat <<ROW
        .global wl_ptx_$row, wl_ptx_${row}_end
        .hidden wl_ptx_$row, wl_ptx_${row}_end
        .balign 16
wl_ptx_$row:
        .incbin "$file"
wl_ptx_${row}_end:
        .byte 0
wl_name_$row:
        .asciz "$row"
ROW
done

echo '        .section .data.rel.ro, "aw", @progbits'
echo '        .global wl_ptx_index'
echo '        .hidden wl_ptx_index'
echo '        .balign 8'
echo 'wl_ptx_index:'
for file in "$@"; do
  row=$(basename "$file" .ptx)
  echo "        .quad wl_name_$row, wl_ptx_$row, wl_ptx_${row}_end"
done
echo '        .quad 0, 0, 0'
echo '        .section .note.GNU-stack, "", @progbits'
