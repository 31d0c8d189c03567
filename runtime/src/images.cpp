#include "runtime/src/images.hpp"

extern "C" const warpline::EmbeddedPtx wl_ptx_index[];

namespace warpline {

namespace {

// A base is of the same sort, with the same codes.
std::string unpacked_with(const Unpacker& unpacker, const PackedBlob& blob) {
  const std::string base = blob.base ? unpacked_with(unpacker, *blob.base) : "";
  std::string result;
  unpacker.unpack(base, {blob.packed, blob.packed_bytes}, blob.bytes, &result);
  return result;
}

} // namespace

std::string unpacked(const PackedBlob& blob) { return unpacked_with(Unpacker(*blob.codes), blob); }

std::string Image::text() const { return embedded ? unpacked(embedded->text) : std::string(plain); }

const EmbeddedCubin* Image::cubin_for(int compute_major, int compute_minor) const {
  for (uint64_t i = 0; embedded && i < embedded->cubin_count; ++i)
    if (target_runs_on(embedded->cubins[i].target, compute_major, compute_minor))
      return &embedded->cubins[i];
  return nullptr;
}

Image make_image(std::string name, std::string entry, std::string_view text) {
  PtxHeader header = read_ptx_header(text);
  Image image;
  image.name = std::move(name);
  image.entry = std::move(entry);
  image.target = std::move(header.target);
  image.ptx_major = header.major;
  image.ptx_minor = header.minor;
  image.params = static_cast<size_t>(header.params);
  image.plain = text;
  return image;
}

Image make_image(const EmbeddedPtx& kernel) {
  Image image;
  image.name = image.entry = kernel.name;
  image.target = kernel.target;
  image.ptx_major = kernel.ptx_major;
  image.ptx_minor = kernel.ptx_minor;
  image.params = static_cast<size_t>(kernel.params);
  image.embedded = &kernel;
  return image;
}

std::vector<Image> embedded_images() {
  std::vector<Image> result;
  for (const EmbeddedPtx* kernel = wl_ptx_index; kernel->name; ++kernel)
    result.push_back(make_image(*kernel));
  return result;
}

bool target_runs_on(std::string_view target, int major, int minor) {
  if (target.substr(0, 3) != "sm_") return false;
  size_t position = 3;
  const int number = number_at(target, &position);
  const std::string_view suffix = target.substr(position);
  const int target_major = number / 10, target_minor = number % 10;
  if (suffix == "a") return major == target_major && minor == target_minor;
  if (suffix == "f") return major == target_major && minor >= target_minor;
  return suffix.empty() && number > 0 && 10 * major + minor >= number;
}

std::string target_family(std::string_view target) {
  std::string result;
  for (const char c : target)
    if (c != '_') result += c;
  if (!result.empty() && (result.back() == 'a' || result.back() == 'f')) result.pop_back();
  return result;
}

} // namespace warpline
