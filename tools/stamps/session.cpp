#include "tools/stamps/session.hpp"

#include "runtime/src/context.hpp"

namespace warpline::stamps {

Session::Session(wl_context* context) : context_(context) {
  context->rewrite = [this](const std::string& kernel, const std::string& ptx) {
    return (stamped_[kernel] = stamp(ptx)).text;
  };
}

Session::~Session() { context_->rewrite = nullptr; }

// use(kernel, address of its buffer) for each; "" or the first thing that is wrong.
template <class Use>
std::string Session::each_buffer(const Use& use) {
  const cuapi::Functions& cu = context_->driver->cu;
  if (!cu.ModuleGetGlobal || !cu.MemsetD8)
    return "the driver lacks cuModuleGetGlobal or cuMemsetD8";
  const ContextScope scope(*context_);
  if (scope.status() != WL_SUCCESS) return wl_last_error();
  for (const auto& [name, stamped] : stamped_) {
    const auto kernel = context_->kernels.find(name);
    if (kernel == context_->kernels.end()) continue;
    cuapi::CUdeviceptr address = 0;
    size_t bytes = 0;
    const cuapi::CUresult found =
        cu.ModuleGetGlobal(&address, &bytes, kernel->second->module, buffer_name);
    if (found != cuapi::CUDA_SUCCESS || bytes != stamped.buffer_bytes())
      return "kernel " + name +
             " has no buffer of stamps: " + cu_error_name(*context_->driver, found);
    const std::string wrong = use(name, address);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

void Session::clear() {
  each_buffer([&](const std::string& name, cuapi::CUdeviceptr address) -> std::string {
    context_->driver->cu.MemsetD8(address, 0, stamped_.at(name).buffer_bytes());
    return "";
  });
}

std::string Session::write(const std::string& prefix) {
  return each_buffer([&](const std::string& name, cuapi::CUdeviceptr address) -> std::string {
    const Stamped& stamped = stamped_.at(name);
    std::vector<uint8_t> buffer(stamped.buffer_bytes());
    if (wl_download(context_, buffer.data(), reinterpret_cast<void*>(address), buffer.size()) !=
        WL_SUCCESS)
      return wl_last_error();
    const vgpu::trace::Recording recording = decode(stamped, buffer, context_->driver->is_virtual);
    if (recording.spans.empty()) return "kernel " + name + " left no stamps";
    return write_files(recording, name + " on " + context_->limits.name + ", cluster 0",
                       prefix + "." + name);
  });
}

} // namespace warpline::stamps
