// Stream capture and graphs through the virtual GPU's driver API.
#include "tests/support/catch.hpp"
#include "tests/support/vgpu_kernels.hpp"

using namespace cuapi;
using namespace wltest;
using namespace wltest::kernels;

TEST_CASE("driver: captured work runs when its graph is launched", "[virtual]") {
  Scale s;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  REQUIRE(s.d.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  REQUIRE(s.d.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(s.d.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
        CUDA_ERROR_ILLEGAL_STATE);
  CHECK(s.d.cu.StreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  REQUIRE(s.run(2, s.p, s.q, stream) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.MemcpyDtoDAsync(s.p, s.q, 256, stream) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.StreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CHECK(s.d.download<uint32_t>(s.p, 64) == s.in);
  REQUIRE(s.d.cu.GraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
  CHECK(s.d.cu.GraphDestroy(graph) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.ModuleUnload(s.module) == CUDA_SUCCESS); // the graph keeps the code
  std::vector<uint32_t> expected = s.in;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(s.d.cu.GraphLaunch(executable, stream) == CUDA_SUCCESS);
    for (uint32_t& x : expected) x = x * 2 + 5;
  }
  REQUIRE(s.d.cu.StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(s.d.download<uint32_t>(s.p, 64) == expected);
  CHECK(s.d.cu.GraphExecDestroy(executable) == CUDA_SUCCESS);
  CHECK(s.d.cu.GraphLaunch(executable, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(s.d.cu.StreamEndCapture(stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(s.d.cu.StreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_CASE("driver: what a capture forbids ends it", "[virtual]") {
  Scale s;
  CUstream stream = nullptr, blocking = nullptr;
  CUgraph graph = nullptr;
  CUdeviceptr p = 0;
  REQUIRE(s.d.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.StreamCreate(&blocking, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
  auto captured = [&](CUstream st, CUstreamCaptureMode mode, CUresult expected, CUresult end,
                      auto&& call) {
    REQUIRE(s.d.cu.StreamBeginCapture(st, mode) == CUDA_SUCCESS);
    CHECK(call() == expected);
    CHECK(s.d.cu.StreamEndCapture(st, &graph) == end);
  };
  const auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const CUresult invalid = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  captured(stream, global, unsupported, invalid, [&] { return s.d.cu.MemAlloc(&p, 4); });
  captured(stream, global, unsupported, invalid, [&] { return s.d.cu.MemFree(s.q); });
  captured(stream, global, unsupported, invalid, [&] { return s.d.cu.StreamSynchronize(stream); });
  captured(stream, global, unsupported, invalid,
           [&] { return s.d.cu.MemcpyDtoH(s.in.data(), s.p, 4); });
  captured(stream, CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUDA_SUCCESS,
           [&] { return s.d.cu.MemAlloc(&p, 4); });
  captured(stream, global, CUDA_SUCCESS, CUDA_SUCCESS, [&] { return s.run(1, s.p, s.q); });
  captured(blocking, global, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, invalid,
           [&] { return s.run(1, s.p, s.q); });
  captured(blocking, global, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_SUCCESS, [&] {
    CUstreamCaptureStatus status{};
    return s.d.cu.StreamIsCapturing(nullptr, &status);
  });
  captured(stream, global, invalid, invalid, [&] {
    s.d.cu.MemAlloc(&p, 4);
    return s.run(1, s.p, s.q, stream);
  });
  CHECK(s.d.cu.CtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("driver: a capture follows events into other streams", "[virtual]") {
  Scale s;
  CUstream a = nullptr, b = nullptr;
  CUevent fork = nullptr, join = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  for (CUstream* st : {&a, &b}) REQUIRE(s.d.cu.StreamCreate(st, 1) == CUDA_SUCCESS);
  for (CUevent* e : {&fork, &join}) REQUIRE(s.d.cu.EventCreate(e, 2) == CUDA_SUCCESS);
  const auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
  for (bool joined : {true, false}) {
    INFO("joined " << joined);
    REQUIRE(s.d.cu.StreamBeginCapture(a, global) == CUDA_SUCCESS);
    REQUIRE(s.d.cu.EventRecord(fork, a) == CUDA_SUCCESS);
    REQUIRE(s.d.cu.StreamWaitEvent(b, fork, 0) == CUDA_SUCCESS);
    REQUIRE(s.run(3, s.p, s.q, b) == CUDA_SUCCESS);
    CHECK(s.d.cu.EventSynchronize(fork) == CUresult(907));
    REQUIRE(s.d.cu.EventRecord(join, b) == CUDA_SUCCESS);
    CHECK(s.d.cu.StreamEndCapture(b, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (joined) REQUIRE(s.d.cu.StreamWaitEvent(a, join, 0) == CUDA_SUCCESS);
    CHECK(s.d.cu.StreamEndCapture(a, &graph) == (joined ? CUDA_SUCCESS : CUresult(904)));
    if (!joined) continue;
    REQUIRE(s.d.cu.GraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
    REQUIRE(s.d.cu.GraphLaunch(executable, a) == CUDA_SUCCESS);
    CHECK(s.d.download<uint32_t>(s.q, 64) == s.expect(3, 5));
  }
  // Waiting for work outside, and for a capture that has ended.
  CUevent outside = nullptr;
  REQUIRE(s.d.cu.EventCreate(&outside, 0) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.EventRecord(outside, a) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.StreamBeginCapture(a, global) == CUDA_SUCCESS);
  CHECK(s.d.cu.StreamWaitEvent(a, outside, 0) == CUresult(905));
  CHECK(s.d.cu.StreamEndCapture(a, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(s.d.cu.StreamWaitEvent(a, join, 0) == CUresult(907));
}

TEST_CASE("driver: host functions run in stream order", "[virtual]") {
  Scale s;
  using HostFunction = void(void*);
  auto host = s.d.symbol<CUresult(CUstream, HostFunction*, void*)>("cuLaunchHostFunc");
  int calls = 0;
  HostFunction* count = [](void* p) { ++*static_cast<int*>(p); };
  CHECK(host(nullptr, count, &calls) == CUDA_SUCCESS);
  CHECK(calls == 1);
  CHECK(host(nullptr, nullptr, &calls) == CUDA_ERROR_INVALID_VALUE);
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  REQUIRE(s.d.cu.StreamCreate(&stream, 1) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(host(stream, count, &calls) == CUDA_SUCCESS);
  CHECK(calls == 1);
  REQUIRE(s.d.cu.StreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(s.d.cu.GraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
  CHECK(s.d.cu.GraphLaunch(executable, stream) == CUDA_SUCCESS);
  CHECK(s.d.cu.GraphLaunch(executable, stream) == CUDA_SUCCESS);
  CHECK(calls == 3);
}
