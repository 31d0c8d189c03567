// Values of what the BARRIER LEDGER tables of the engine's configurations name.
#pragma once

#include "kernels/gemm/config.hpp"
#include "tools/vgpu/check/ledger.hpp"

#include <string>

namespace wltest {

vgpu::check::LedgerNames ledger_names(const warpline::gemm::Config& config);

// As the option that --check ledger takes them: "STAGES=5,G=2".
std::string names_text(const vgpu::check::LedgerNames& names);

} // namespace wltest
