// WL_TARGET_CLONES: a function for each width of vectors, of which the program takes what the
// processor has. The bits are the same.
#pragma once

#if defined(__x86_64__)
#define WL_TARGET_CLONES                                                                           \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WL_TARGET_CLONES
#endif
