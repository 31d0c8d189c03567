// embed OUT.bin KERNEL.ptx... KERNEL.TARGET.cubin...   packs expanded kernels and their machine
// code into OUT.bin and writes to stdout the assembler file that puts them in the library. A kernel
// is the PTX file's name without .ptx. The contract is runtime/src/images.hpp: for each kernel a
// record wl_ptx_<kernel>, all records in one array wl_ptx_index, which a record without a name
// ends. Records hold addresses, so they lie where a position-independent program may relocate them.
#include "runtime/embed/pack.hpp"
#include "runtime/src/ptx_header.hpp"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace warpline;

namespace {

using Sketch = std::bitset<1 << 15>;

struct Blob {
  std::string label, bytes, packed; // label: what names it in the assembler file
  Pieces pieces;
  const char* codes;             // the label of those that `packed` is written in
  std::optional<PackBase> index; // while others are packed against it
  Sketch sketch;                 // of `bytes`
  const Blob* base = nullptr;    // what it is packed against
  int depth = 0;                 // bases to unpack before it
};

struct Cubin {
  std::string target;
  Blob blob;
};

struct Kernel {
  std::string name;
  Blob text;
  PtxHeader header;
  std::vector<Cubin> cubins;
};

constexpr const char *of_text = "codes_of_text", *of_code = "codes_of_code";

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "embed: %s\n", message.c_str());
  std::exit(1);
}

std::string read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (!in || bytes.empty()) fail(file + " cannot be read");
  return bytes;
}

// "sm90_t8.sm_90a" of "build/cubin/sm90_t8.sm_90a.cubin"; "" when the file does not end so.
std::string stem_of(const std::string& file, const std::string& ending) {
  const std::string name = file.substr(file.rfind('/') + 1);
  if (!name.ends_with(ending)) return "";
  return name.substr(0, name.size() - ending.size());
}

// Words of 8 bytes whose hash ends in zeros, wherever they stand: blobs that share text share them.
Sketch sketch_of(const std::string& bytes) {
  Sketch sketch;
  for (size_t i = 0; i + 8 <= bytes.size(); ++i) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    const uint64_t hash = word * 0x9E3779B97F4A7C15u;
    if ((hash >> 60) == 0) sketch.set(hash >> 40 & (sketch.size() - 1));
  }
  return sketch;
}

// Blobs that others may be packed against. What shares little with those before it stands alone and
// is offered to those of all that follow that are most like it; every blob is offered to its
// nearest followers, which are texts with like names and the same text for another target.
class Bases {
public:
  void pack(Blob* blob) {
    blob->sketch = sketch_of(blob->bytes);
    for (const Blob* base : latest_) try_base(blob, base);
    for (const Blob* base : like(*blob)) try_base(blob, base);
    // Packed alone no further than decides.
    const size_t decides = blob->base ? 2 * blob->pieces.cost : SIZE_MAX;
    Pieces alone = find_pieces(PackBase(""), blob->bytes, decides);
    if (alone.cost < decides) {
      blob->pieces = std::move(alone);
      blob->base = nullptr;
      blob->depth = 0;
      standing_.push_back(blob);
    }
    counts_.add(blob->pieces, blob->bytes);
    all_.push_back(blob);
    blob->index.emplace(blob->bytes);
    latest_.push_back(blob);
    if (latest_.size() > most_latest) {
      if (latest_[0]->base != nullptr) latest_[0]->index.reset(); // stands not alone
      latest_.erase(latest_.begin());
    }
  }

  // When all are packed: bits, read again for a check.
  PackCodes write() const {
    const PackCodes codes = counts_.codes();
    const Unpacker unpacker(codes);
    for (Blob* blob : all_) {
      blob->packed = write_pieces(codes, blob->pieces, blob->bytes);
      std::string again;
      if (!unpacker.unpack(blob->base ? blob->base->bytes : "", blob->packed, blob->bytes.size(),
                           &again) ||
          again != blob->bytes)
        fail(blob->label + " does not unpack to what was packed");
    }
    return codes;
  }

private:
  static constexpr size_t most_latest = 4, most_like = 1;
  static constexpr int most_depth = 6; // each costs the unpacking of another blob

  std::vector<const Blob*> like(const Blob& blob) const {
    std::vector<std::pair<size_t, const Blob*>> shares;
    for (const Blob* base : standing_)
      shares.emplace_back((base->sketch & blob.sketch).count(), base);
    std::stable_sort(shares.begin(), shares.end(),
                     [](const auto& x, const auto& y) { return x.first > y.first; });
    std::vector<const Blob*> result;
    for (size_t i = 0; i < std::min(shares.size(), most_like); ++i)
      result.push_back(shares[i].second);
    return result;
  }
  static void try_base(Blob* blob, const Blob* base) {
    if (base->depth >= most_depth) return;
    const size_t best = blob->base ? blob->pieces.cost : SIZE_MAX;
    Pieces pieces = find_pieces(*base->index, blob->bytes, best);
    if (pieces.cost >= best) return;
    blob->pieces = std::move(pieces);
    blob->base = base;
    blob->depth = base->depth + 1;
  }

  std::vector<const Blob*> standing_;
  std::vector<Blob*> latest_, all_;
  PackCounts counts_;
};

std::vector<Kernel> read_kernels(const std::vector<std::string>& files) {
  std::vector<Kernel> kernels;
  for (const std::string& file : files) {
    const std::string name = stem_of(file, ".ptx");
    if (name.empty()) continue;
    Kernel& kernel = kernels.emplace_back();
    kernel.name = name;
    kernel.text.label = "text_" + name;
    kernel.text.codes = of_text;
    kernel.text.bytes = read_file(file);
    kernel.header = read_ptx_header(kernel.text.bytes);
    if (kernel.header.target.empty() || kernel.header.major == 0)
      fail(file + " has no .target or no .version");
  }
  for (const std::string& file : files) {
    const std::string name = stem_of(file, ".cubin");
    if (name.empty()) continue;
    const std::string owner = name.substr(0, name.find('.'));
    const auto kernel = std::find_if(kernels.begin(), kernels.end(),
                                     [&](const Kernel& r) { return r.name == owner; });
    if (kernel == kernels.end() || owner == name)
      fail(file + " is no KERNEL.TARGET.cubin of a kernel");
    const std::string target = name.substr(owner.size() + 1);
    if (std::filesystem::exists(file) && std::filesystem::is_empty(file)) continue; // not assembled
    Blob& blob = kernel->cubins.emplace_back(Cubin{target, {}}).blob;
    blob.label = "code_" + owner + "_" + target;
    blob.codes = of_code;
    blob.bytes = read_file(file);
  }
  return kernels;
}

// A label that leaves no symbol in the object file: there would be a thousand.
std::string local(const std::string& name) { return ".L" + name; }

class Assembler {
public:
  explicit Assembler(std::string file) : file_(std::move(file)) {}

  void string(const std::string& label, const std::string& text) {
    std::cout << local(label) << ":\n        .asciz \"" << text << "\"\n";
  }
  void packed(const Blob& blob) {
    std::cout << local("packed_" + blob.label) << ":\n        .incbin \"" << file_ << "\", "
              << bytes_.size() << ", " << blob.packed.size() << "\n";
    bytes_ += blob.packed;
  }
  void record(const Blob& blob) {
    std::cout << local(blob.label) << ":\n        .quad " << local("packed_" + blob.label) << ", "
              << blob.packed.size() << ", " << blob.bytes.size() << ", "
              << (blob.base ? local(blob.base->label) : "0") << ", " << local(blob.codes) << "\n";
  }
  void codes(const std::string& label, const PackCodes& codes) {
    std::cout << local(label) << ":\n";
    for (const auto& lengths : codes.lengths) {
      std::cout << "        .byte ";
      for (const uint8_t& length : lengths)
        std::cout << (&length == lengths ? "" : ",") << static_cast<int>(length);
      std::cout << "\n";
    }
  }
  bool write() const {
    std::ofstream out(file_, std::ios::binary);
    out << bytes_;
    return static_cast<bool>(out.flush());
  }

private:
  std::string file_, bytes_;
};

void put(const std::vector<Kernel>& kernels, Assembler* out) {
  for (const Kernel& kernel : kernels) {
    out->string("name_" + kernel.name, kernel.name);
    out->string("target_" + kernel.name, kernel.header.target);
    out->packed(kernel.text);
    for (const Cubin& cubin : kernel.cubins) {
      out->string("target_" + cubin.blob.label, cubin.target);
      out->packed(cubin.blob);
    }
  }
  std::cout << "        .section .data.rel.ro, \"aw\", @progbits\n        .balign 8\n";
  for (const Kernel& kernel : kernels) {
    std::cout << local("cubins_" + kernel.name) << ":\n";
    for (const Cubin& cubin : kernel.cubins) {
      std::cout << "        .quad " << local("target_" + cubin.blob.label) << "\n";
      out->record(cubin.blob);
    }
  }
  std::cout << "        .global wl_ptx_index\n        .hidden wl_ptx_index\nwl_ptx_index:\n";
  for (const Kernel& kernel : kernels) {
    std::cout << "        .global wl_ptx_" << kernel.name << "\n        .hidden wl_ptx_"
              << kernel.name << "\nwl_ptx_" << kernel.name << ":\n        .quad "
              << local("name_" + kernel.name) << ", " << local("target_" + kernel.name) << "\n";
    out->record(kernel.text);
    std::cout << "        .quad " << local("cubins_" + kernel.name) << ", " << kernel.cubins.size()
              << "\n        .long " << kernel.header.major << ", " << kernel.header.minor
              << "\n        .quad " << kernel.header.params << "\n";
  }
  std::cout << "        .quad 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0\n"
            << "        .section .note.GNU-stack, \"\", @progbits\n";
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("usage: embed OUT.bin KERNEL.ptx... KERNEL.TARGET.cubin... > OUT.S");
  std::vector<Kernel> kernels = read_kernels({argv + 2, argv + argc});
  // Names that are alike follow each other.
  std::vector<Kernel*> by_name;
  for (Kernel& kernel : kernels) by_name.push_back(&kernel);
  std::sort(by_name.begin(), by_name.end(),
            [](const Kernel* x, const Kernel* y) { return x->name < y->name; });
  // Texts and machine code know nothing of each other.
  PackCodes text_codes, code_codes;
  std::thread of_texts([&] {
    Bases texts;
    for (Kernel* kernel : by_name) texts.pack(&kernel->text);
    text_codes = texts.write();
  });
  Bases codes;
  for (Kernel* kernel : by_name)
    for (Cubin& cubin : kernel->cubins) codes.pack(&cubin.blob);
  code_codes = codes.write();
  of_texts.join();
  Assembler out(argv[1]);
  std::cout << "        .section .rodata\n";
  out.codes(of_text, text_codes);
  out.codes(of_code, code_codes);
  put(kernels, &out);
  if (!out.write()) fail(std::string(argv[1]) + " cannot be written");
  if (!std::cout.flush()) fail("standard output cannot be written");
}
