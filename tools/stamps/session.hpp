// Stamps in a context: kernels that are loaded while a session is open are stamped ones.
#pragma once

#include "tools/stamps/stamps.hpp"
#include "warpline/warpline.h"

#include <map>

namespace warpline::stamps {

class Session {
public:
  // Before any plan of the context is made.
  explicit Session(wl_context* context);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Empties the buffers. The stream's work with the kernels must have ended, here and below.
  void clear();
  // PREFIX.KERNEL.json and .svg for each stamped kernel that ran since; "" or what is wrong.
  std::string write(const std::string& prefix);

private:
  template <class Use>
  std::string each_buffer(const Use& use);

  wl_context* context_;
  std::map<std::string, Stamped> stamped_; // by kernel
};

} // namespace warpline::stamps
