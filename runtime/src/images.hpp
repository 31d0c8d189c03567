// The kernels embedded in the library. runtime/embed packs each kernel's expanded PTX
// (packed_text.hpp), and its machine code where ptxas was found at build, and writes an assembler
// file with a record for each kernel, wl_ptx_<name>; the records make up the array wl_ptx_index,
// which lets the runtime list all kernels without knowing an operation.
#pragma once

#include "runtime/src/packed_text.hpp"
#include "runtime/src/ptx_header.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline {

// Written by runtime/embed/main.cpp, field for field.
struct PackedBlob {
  const char* packed;
  uint64_t packed_bytes, bytes;
  const PackedBlob* base; // what this one is packed against, or null
  const PackCodes* codes; // of all texts, or of all machine code
};
struct EmbeddedCubin {
  const char* target; // "sm_90a": what ptxas assembled for
  PackedBlob code;
};
struct EmbeddedPtx {
  const char* name; // null ends the index
  const char* target;
  PackedBlob text;
  const EmbeddedCubin* cubins;
  uint64_t cubin_count;
  int32_t ptx_major, ptx_minor;
  int64_t params; // of the entry
};

std::string unpacked(const PackedBlob& blob);

} // namespace warpline

// kernels/<op>/<op>.cpp declares the kernels it owns with this.
#define WL_EMBEDDED_PTX(name) extern "C" const ::warpline::EmbeddedPtx wl_ptx_##name

namespace warpline {

struct Image {
  std::string name;   // kernel, e.g. "dual_gemm_sm100_n128_f16"; names messages, dumps
  std::string entry;  // .entry in the PTX
  std::string target; // first name of the .target directive, e.g. "sm_100f"
  int ptx_major = 0, ptx_minor = 0; // .version
  size_t params = 0;                // of the entry

  std::string_view plain;                // the text, of a caller's image
  const EmbeddedPtx* embedded = nullptr; // or the kernel

  // The PTX, unpacked at each call: it is needed once, when the kernel is loaded.
  std::string text() const;
  // The embedded machine code that runs on the device, or null: then the driver compiles the PTX.
  const EmbeddedCubin* cubin_for(int compute_major, int compute_minor) const;
};

// Reads .version and .target from the text, which must outlive the image.
Image make_image(std::string name, std::string entry, std::string_view text);
// For an embedded kernel, whose entry has its name: WL_IMAGE(dual_gemm_sm100_n128_f16).
Image make_image(const EmbeddedPtx& kernel);
#define WL_IMAGE(name) ::warpline::make_image(wl_ptx_##name)

// All kernels in the library.
std::vector<Image> embedded_images();

// Whether a kernel of `target` runs on a device: sm_90a exactly on 9.0; sm_100f on 10.x from its
// own minor version up; a plain sm_80 on everything from it up.
bool target_runs_on(std::string_view target, int major, int minor);

// "sm100" for "sm_100f".
std::string target_family(std::string_view target);

} // namespace warpline
