// Control over tests/support/fake_driver.cpp, a CUDA driver without a device behind it. Memory is
// host memory, a launch only records its configuration, and every answer can be made to fail.
#pragma once

#include "runtime/src/cuda_api.hpp"

#include <cstddef>
#include <cstdint>

namespace wltest {

struct FakeDriver {
  // What the driver answers.
  int version;
  cuapi::CUresult init_result;
  int device_count;
  int compute_major, compute_minor;
  cuapi::CUresult load_result;   // of PTX
  cuapi::CUresult binary_result; // of machine code
  const char* load_log;          // goes into the JIT error log
  cuapi::CUresult function_result;
  size_t param_count;
  size_t param_offset[16], param_size[16];
  int registers, static_shared_bytes, max_threads;
  cuapi::CUresult alloc_result, copy_result, launch_result, encode_result;
  int resident_clusters; // as the driver answers; the question fails for a negative number
  bool foreign_streams;  // streams belong to another context
  bool pageable_memory;  // kernels reach plain host memory
  int memory_owner;      // ordinal of the device that memory lies on
  size_t reservation;    // bytes of addresses that memory was mapped into, 0: of its allocation
  cuapi::CUresult pointer_result;
  cuapi::CUresult begin_result, end_result, instantiate_result, graph_result, question_result;
  cuapi::CUstreamCaptureStatus capturing; // of streams whose capture this driver did not see begin

  // What it was asked.
  int loads, unloads, launches, encodes, retained, pushed, live_allocations, pointer_questions,
      cluster_questions;
  char loaded_text[256];
  bool verbose_log; // of the last load
  cuapi::CUlaunchConfig launch;
  cuapi::CUlaunchAttribute attributes[4];
  uint64_t first_param;
  int live_streams, live_graphs, live_executables, captured, graph_launches;
  cuapi::CUstreamCaptureMode thread_mode, mode_of_capture;
  cuapi::CUgraphExec launched_graph;
  int dynamic_shared_limit;
  bool nonportable;
};

} // namespace wltest

// Exported by the library; restores every field to a healthy compute capability 10.0 device.
extern "C" wltest::FakeDriver* fakeDriver();
extern "C" void fakeReset();
