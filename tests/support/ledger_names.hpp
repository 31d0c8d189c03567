// Values of what the BARRIER LEDGER tables of the dual GEMM's rows name.
#pragma once

#include "kernels/dual_gemm/dual_gemm.hpp"
#include "tools/vgpu/check/ledger.hpp"

#include <string>

namespace wltest {

vgpu::check::LedgerNames ledger_names(const warpline::dual_gemm::Row& row);

// As the option that --check ledger takes them: "STAGES=5,G=2".
std::string names_text(const vgpu::check::LedgerNames& names);

} // namespace wltest
