// cuLink*: checks PTX and keeps it for cuModuleLoadData. The result holds the texts themselves
// under a line that says for which capability they were linked; there is no machine code here.
#include "tools/vgpu/driver/fatbin.hpp"
#include "tools/vgpu/driver/module.hpp"

#include <algorithm>

namespace vgpu::driver {

namespace {

constexpr int kFatBinary = 2; // CU_JIT_INPUT_FATBINARY

// What other inputs define.
bool needs_others(const ptx::Module& m) {
  return std::any_of(m.functions.begin(), m.functions.end(),
                     [](const ptx::Function& f) { return f.is_extern && !f.has_body; }) ||
         std::any_of(m.variables.begin(), m.variables.end(),
                     [](const ptx::Variable& v) { return v.is_extern && v.space != "shared"; });
}

std::shared_ptr<Link> find_link(Call& c, CUlinkState state) {
  auto link = c.s.links.find(state);
  c.require(link != nullptr, "state is no live link", CUDA_ERROR_INVALID_HANDLE);
  return link;
}

void add(Call& c, Link& link, int type, std::string_view data) {
  c.require(type == CU_JIT_INPUT_PTX || type == kFatBinary,
            "input type " + std::to_string(type) +
                ": only PTX (1) and fat binaries with PTX (2) can be linked",
            CUDA_ERROR_NOT_SUPPORTED);
  // A PTX input may carry its final zero byte.
  if (type == CU_JIT_INPUT_PTX)
    data = data.substr(0, data.find('\0'));
  else
    data = image_text(c, *link.jit, data.data(), link.capability);
  try {
    const ptx::Module tree = parse_module(c, *link.jit, data, link.capability);
    if (link.capability == compute_capability(*c.s.profile) && !needs_others(tree))
      build_module(c, *link.jit, data, link.capability);
  } catch (...) {
    link.jit->flush();
    throw;
  }
  if (!link.text.empty()) link.text += std::string("\n") + kNextInput + "\n";
  link.text += data;
}

} // namespace

VGPU_API CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values,
                                  CUlinkState* result) {
  return entry("cuLinkCreate_v2", Need::Context, [&](Call& c) {
    c.require(result, "stateOut is null");
    auto link = std::make_shared<Link>();
    link->context = c.context->handle;
    link->jit = std::make_unique<Jit>(c, count, options, values);
    link->capability = link->jit->target() ? link->jit->target() : compute_capability(*c.s.profile);
    *result = c.s.links.add(link);
  });
}

VGPU_API CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t bytes,
                                   const char*, unsigned, CUjit_option*, void**) {
  return entry("cuLinkAddData_v2", Need::Context, [&](Call& c) {
    c.require(data && bytes > 0, "data is null or size is 0");
    add(c, *find_link(c, state), int(type), {static_cast<const char*>(data), bytes});
  });
}

VGPU_API CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path,
                                   unsigned, CUjit_option*, void**) {
  return entry("cuLinkAddFile_v2", Need::Context, [&](Call& c) {
    std::string text = read_image_file(c, path);
    add(c, *find_link(c, state), int(type), text);
  });
}

VGPU_API CUresult cuLinkComplete(CUlinkState state, void** image, size_t* bytes) {
  return entry("cuLinkComplete", Need::Context, [&](Call& c) {
    auto link = find_link(c, state);
    c.require(image, "cubinOut is null");
    c.require(!link->text.empty(), "nothing was added to the link");
    try {
      parse_module(c, *link->jit, link->text, link->capability);
      if (link->capability == compute_capability(*c.s.profile))
        build_module(c, *link->jit, link->text, link->capability);
    } catch (...) {
      link->jit->flush();
      throw;
    }
    link->image = std::string(kLinkedPrefix) + std::to_string(link->capability) + "\n" + link->text;
    link->jit->flush();
    *image = link->image.data();
    if (bytes) *bytes = link->image.size() + 1; // with the final zero, as modules are read
  });
}

VGPU_API CUresult cuLinkDestroy(CUlinkState state) {
  return entry("cuLinkDestroy", Need::Context, [&](Call& c) {
    auto link = find_link(c, state);
    c.s.links.remove(state);
  });
}

} // namespace vgpu::driver
