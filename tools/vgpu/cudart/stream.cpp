// Streams, events, graphs that streams record.
#include "tools/vgpu/cudart/cudart.hpp"

using namespace vgpu::cudart;

CUDART_API Error cudaStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return call([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
CUDART_API Error cudaStreamCreateWithFlags(CUstream* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
CUDART_API Error cudaStreamCreate(CUstream* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
CUDART_API Error cudaStreamDestroy(CUstream stream) {
  return call([&] { return cuStreamDestroy_v2(stream); });
}
CUDART_API Error cudaStreamSynchronize(CUstream stream) {
  return call([&] { return cuStreamSynchronize(stream); });
}
CUDART_ALIAS(cudaStreamSynchronize, cudaStreamSynchronize_ptsz)
CUDART_API Error cudaStreamQuery(CUstream stream) {
  return call([&] { return cuStreamQuery(stream); });
}
CUDART_ALIAS(cudaStreamQuery, cudaStreamQuery_ptsz)
CUDART_API Error cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return call([&] { return cuStreamWaitEvent(stream, event, flags); });
}
CUDART_ALIAS(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz)
CUDART_API Error cudaStreamGetPriority(CUstream stream, int* priority) {
  return call([&] { return cuStreamGetPriority(stream, priority); });
}
CUDART_API Error cudaStreamGetFlags(CUstream stream, unsigned* flags) {
  return call([&] { return cuStreamGetFlags(stream, flags); });
}
CUDART_API Error cudaStreamGetId(CUstream stream, unsigned long long* id) {
  return call([&] { return cuStreamGetId(stream, id); });
}
CUDART_API Error cudaStreamAddCallback(CUstream stream, void (*callback)(CUstream, CUresult, void*),
                                       void* data, unsigned flags) {
  return call([&] { return cuStreamAddCallback(stream, callback, data, flags); });
}
CUDART_API Error cudaLaunchHostFunc(CUstream stream, void (*f)(void*), void* data) {
  return call([&] { return cuLaunchHostFunc(stream, f, data); });
}
CUDART_ALIAS(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz)

CUDART_API Error cudaEventCreateWithFlags(CUevent* event, unsigned flags) {
  return call([&] { return cuEventCreate(event, flags); });
}
CUDART_API Error cudaEventCreate(CUevent* event) { return cudaEventCreateWithFlags(event, 0); }
CUDART_API Error cudaEventDestroy(CUevent event) {
  return call([&] { return cuEventDestroy_v2(event); });
}
CUDART_API Error cudaEventRecord(CUevent event, CUstream stream) {
  return call([&] { return cuEventRecord(event, stream); });
}
CUDART_ALIAS(cudaEventRecord, cudaEventRecord_ptsz)
CUDART_API Error cudaEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return call([&] { return cuEventRecordWithFlags(event, stream, flags); });
}
CUDART_API Error cudaEventSynchronize(CUevent event) {
  return call([&] { return cuEventSynchronize(event); });
}
CUDART_API Error cudaEventQuery(CUevent event) {
  return call([&] { return cuEventQuery(event); });
}
CUDART_API Error cudaEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return call([&] { return cuEventElapsedTime(ms, start, end); });
}

CUDART_ALIAS(cudaEventElapsedTime, cudaEventElapsedTime_v2)

CUDART_API Error cudaStreamBeginCapture(CUstream stream, int mode) {
  return call([&] { return cuStreamBeginCapture_v2(stream, mode); });
}
CUDART_API Error cudaStreamEndCapture(CUstream stream, CUgraph* graph) {
  return call([&] { return cuStreamEndCapture(stream, graph); });
}
CUDART_API Error cudaStreamIsCapturing(CUstream stream, int* status) {
  return call([&] { return cuStreamIsCapturing(stream, status); });
}
CUDART_API Error cudaThreadExchangeStreamCaptureMode(int* mode) {
  return call([&] { return cuThreadExchangeStreamCaptureMode(mode); });
}
CUDART_API Error cudaGraphCreate(CUgraph* graph, unsigned flags) {
  return call([&] { return cuGraphCreate(graph, flags); });
}
CUDART_API Error cudaGraphDestroy(CUgraph graph) {
  return call([&] { return cuGraphDestroy(graph); });
}
CUDART_API Error cudaGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return call([&] { return cuGraphInstantiateWithFlags(exec, graph, flags); });
}
CUDART_ALIAS(cudaGraphInstantiate, cudaGraphInstantiateWithFlags)
CUDART_API Error cudaGraphLaunch(CUgraphExec exec, CUstream stream) {
  return call([&] { return cuGraphLaunch(exec, stream); });
}
CUDART_ALIAS(cudaGraphLaunch, cudaGraphLaunch_ptsz)
CUDART_API Error cudaGraphUpload(CUgraphExec exec, CUstream stream) {
  return call([&] { return cuGraphUpload(exec, stream); });
}
CUDART_API Error cudaGraphExecDestroy(CUgraphExec exec) {
  return call([&] { return cuGraphExecDestroy(exec); });
}
