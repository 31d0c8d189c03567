// The oracle's cases, by family. Sources of the kernels are the same for both sides.
#pragma once

#include "tests/support/oracle.hpp"

#include <vector>

namespace wltest::oracle {

void add_integer_cases(std::vector<Case>& cases);
void add_float_cases(std::vector<Case>& cases);
void add_convert_cases(std::vector<Case>& cases);
void add_memory_cases(std::vector<Case>& cases); // loads, stores, atomics, fences
void add_warp_cases(std::vector<Case>& cases);   // shuffles, votes, matrix loads
void add_mma_cases(std::vector<Case>& cases);    // wmma, mma.sync, mma.sp
void add_sync_cases(std::vector<Case>& cases);   // mbarrier, named barriers, clusters, setmaxnreg
void add_copy_cases(std::vector<Case>& cases);   // bulk copies, multicast, cp.async
void add_tensor_cases(std::vector<Case>& cases); // tensor copies, tile and im2col
void add_wgmma_cases(std::vector<Case>& cases);
void add_manner_cases(std::vector<Case>& cases); // beside the ISA's letter

} // namespace wltest::oracle
