// Which checkers run: "all", "off", or names separated by commas. "all" is without those that ask
// for more than the ISA: advice, proxy-reads, ledger.
#pragma once

#include <cstdint>
#include <string>

namespace vgpu::check {

enum : uint32_t {
  kRaces = 1,
  kDefinedness = 2,
  kBarriers = 4,
  kAdvice = 8,      // advice ends the launch like an error
  kProxyReads = 16, // races: a generic read before an asynchronous write needs a proxy fence too
  kLedger = 32,     // barriers: the table at the kernel's head, check/ledger.hpp
  kAll = kRaces | kDefinedness | kBarriers
};

// False and a sentence in `error` for an unknown name.
bool parse_checks(const std::string& text, uint32_t& checks, std::string* error);

} // namespace vgpu::check
