// embed OUT.bin ROW.ptx...   packs expanded kernels into OUT.bin and writes to stdout the assembler
// file that puts them in the library. A row is the file's name without .ptx. The contract is
// runtime/src/images.hpp: for each row a record wl_ptx_<row>, all records in one array
// wl_ptx_index, which a record without a name ends. Records hold addresses, so they lie where a
// position-independent program may relocate them.
#include "runtime/src/packed_text.hpp"
#include "runtime/src/ptx_header.hpp"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

using namespace warpline;

namespace {

struct Row {
  std::string name, text, packed;
  PtxHeader header;
  const Row* base = nullptr; // is never packed against another row
};

int failure(const std::string& message) {
  std::fprintf(stderr, "embed: %s\n", message.c_str());
  return 1;
}

std::string stem_of(const std::string& file) {
  const size_t slash = file.rfind('/');
  const std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
  return name.substr(0, name.rfind(".ptx"));
}

// A row that shares little with the bases so far becomes one.
void pack(Row* row, std::vector<const Row*>* bases) {
  row->packed = pack_text("", row->text);
  const size_t alone = row->packed.size();
  for (const Row* base : *bases) {
    std::string packed = pack_text(base->text, row->text);
    if (packed.size() < row->packed.size()) row->packed = std::move(packed), row->base = base;
  }
  if (row->packed.size() * 2 < alone) return;
  row->packed = pack_text("", row->text);
  row->base = nullptr;
  bases->push_back(row);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) return failure("usage: embed OUT.bin ROW.ptx... > OUT.S");
  std::vector<Row> rows(static_cast<size_t>(argc - 2));
  std::vector<const Row*> bases;
  std::string blob;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string file = argv[i + 2];
    std::ifstream in(file, std::ios::binary);
    Row& row = rows[i];
    row.name = stem_of(file);
    row.text.assign(std::istreambuf_iterator<char>(in), {});
    if (!in || row.text.empty()) return failure(file + " cannot be read");
    row.header = read_ptx_header(row.text);
    if (row.header.target.empty() || row.header.major == 0)
      return failure(file + " has no .target or no .version");
    pack(&row, &bases);
    std::string again;
    if (!unpack_text(row.base ? row.base->text : "", row.packed, row.text.size(), &again) ||
        again != row.text)
      return failure(file + " does not unpack to what was packed");
  }

  std::cout << "        .section .rodata\n";
  for (const Row& row : rows) {
    std::cout << "wl_name_" << row.name << ":\n        .asciz \"" << row.name << "\"\n"
              << "wl_target_" << row.name << ":\n        .asciz \"" << row.header.target << "\"\n"
              << "wl_packed_" << row.name << ":\n        .incbin \"" << argv[1] << "\", "
              << blob.size() << ", " << row.packed.size() << "\n";
    blob += row.packed;
  }
  std::cout << "        .section .data.rel.ro, \"aw\", @progbits\n        .balign 8\n"
            << "        .global wl_ptx_index\n        .hidden wl_ptx_index\nwl_ptx_index:\n";
  for (const Row& row : rows)
    std::cout << "        .global wl_ptx_" << row.name << "\n        .hidden wl_ptx_" << row.name
              << "\nwl_ptx_" << row.name << ":\n        .quad wl_name_" << row.name
              << ", wl_target_" << row.name << ", wl_packed_" << row.name << ", "
              << row.packed.size() << ", " << row.text.size() << ", "
              << (row.base ? "wl_ptx_" + row.base->name : "0") << "\n        .long "
              << row.header.major << ", " << row.header.minor << "\n";
  std::cout << "        .quad 0, 0, 0, 0, 0, 0, 0\n"
            << "        .section .note.GNU-stack, \"\", @progbits\n";

  std::ofstream out(argv[1], std::ios::binary);
  out << blob;
  if (!out.flush()) return failure(std::string(argv[1]) + " cannot be written");
  return std::cout.flush() ? 0 : failure("standard output cannot be written");
}
