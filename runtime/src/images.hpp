// The kernels embedded in the library. runtime/embed.sh writes an assembler file with, for each
// row,
//   wl_ptx_<row> ... wl_ptx_<row>_end   the PTX text, followed by a zero byte
// and the index wl_ptx_index, which lets the runtime list all rows without knowing an operation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// kernels/<op>/<op>.cpp declares the rows it owns with this.
#define WL_EMBEDDED_PTX(row)                                                                       \
  extern "C" const char wl_ptx_##row[];                                                            \
  extern "C" const char wl_ptx_##row##_end[]

namespace warpline {

struct Image {
  std::string name;  // row, e.g. "dual_gemm_sm100_n128_f16"; also names messages and dumps
  std::string entry; // .entry in the PTX
  const char* data = nullptr;
  size_t size = 0;                  // without the zero byte
  std::string target;               // first name of the .target directive, e.g. "sm_100f"
  int ptx_major = 0, ptx_minor = 0; // .version
};

// Reads .version and .target from the text, so there is one source for both.
Image make_image(std::string name, std::string entry, const char* begin, const char* end);
// For an embedded row, whose entry has the row's name:
// image_of(WL_IMAGE(dual_gemm_sm100_n128_f16)).
#define WL_IMAGE(row) ::warpline::make_image(#row, #row, wl_ptx_##row, wl_ptx_##row##_end)

// All rows in the library (row name = entry name).
std::vector<Image> embedded_images();

// Whether a kernel of `target` runs on a device: sm_90a exactly on 9.0; sm_100f on 10.x from its
// own minor version up; a plain sm_80 on everything from it up.
bool target_runs_on(std::string_view target, int major, int minor);

// "sm100" for "sm_100f".
std::string target_family(std::string_view target);

} // namespace warpline
