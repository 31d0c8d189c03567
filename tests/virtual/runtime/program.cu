// A program of the CUDA runtime, as nvcc -cudart shared builds it: prints "ok", or what is wrong.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cstring>
#include <vector>

namespace cg = cooperative_groups;

static int failures = 0;
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("line %d: %s\n", __LINE__, #condition);                                               \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

__device__ int counter = 5;
__constant__ float factors[4];

template <class T>
__global__ void scale(T* data, int n, int factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = T(data[i] * T(factors[factor]));
  if (i == 0) atomicAdd(&counter, 1);
}

// Sums over the whole grid: every block's part, a barrier of the grid, then block 0.
__global__ void total(const int* in, int n, int* parts, int* out) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  __shared__ int sum;
  if (block.thread_rank() == 0) sum = 0;
  block.sync();
  int mine = 0;
  for (int i = int(grid.thread_rank()); i < n; i += int(grid.size())) mine += in[i];
  mine = cg::reduce(tile, mine, cg::plus<int>());
  if (tile.thread_rank() == 0) atomicAdd(&sum, mine);
  block.sync();
  if (block.thread_rank() == 0) parts[blockIdx.x] = sum;
  grid.sync();
  if (grid.thread_rank() == 0) {
    int all = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) all += parts[b];
    *out = all;
  }
}

// Each CTA of a cluster reads its neighbour's shared memory.
__global__ void neighbours(int* out) {
  extern __shared__ int mine[];
  cg::cluster_group cluster = cg::this_cluster();
  mine[threadIdx.x] = int(cluster.block_rank() * 100 + threadIdx.x);
  cluster.sync();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  const int* theirs = cluster.map_shared_rank(mine, next);
  out[blockIdx.x * blockDim.x + threadIdx.x] = theirs[threadIdx.x];
  cluster.sync();
}

// Managed and pinned memory are the host's and the device's at one address.
__managed__ int shared_total = 5;
__global__ void gather(const int* managed, const int* pinned, const int* registered, int n) {
  const int i = int(threadIdx.x);
  if (i < n) atomicAdd(&shared_total, managed[i] + pinned[i] + registered[i]);
}

__global__ void misaligned(char* p) { *reinterpret_cast<int*>(p + 1) = 1; }

// Used and freed after main: by a destructor of a global object.
struct Holder {
  int* memory = nullptr;
  ~Holder() {
    int last = 0;
    scale<<<1, 32>>>(memory, 1, 1);
    const bool ran = cudaMemcpy(&last, memory, 4, cudaMemcpyDeviceToHost) == cudaSuccess;
    const bool freed = cudaFree(memory) == cudaSuccess;
    printf("%s\n", ran && last == 42 && freed ? "freed" : "not freed");
  }
} holder;

int main(int argc, char**) {
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(properties.major >= 9 && properties.warpSize == 32 && properties.multiProcessorCount > 0);
  CHECK(properties.sharedMemPerBlockOptin > 200000 && properties.cooperativeLaunch == 1);
  CHECK(strlen(properties.name) > 0);
  CHECK(cudaGetDeviceProperties(&properties, 3) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaMalloc(&holder.memory, 64) == cudaSuccess);
  const int held = 21;
  CHECK(cudaMemcpy(holder.memory, &held, 4, cudaMemcpyHostToDevice) == cudaSuccess);

  // Symbols, templates, streams, events.
  const float host_factors[4] = {1, 2, 3, 0.5f};
  CHECK(cudaMemcpyToSymbol(factors, host_factors, sizeof host_factors) == cudaSuccess);
  const int n = 1000;
  std::vector<float> a(n);
  for (int i = 0; i < n; ++i) a[i] = float(i);
  float* d = nullptr;
  cudaStream_t stream;
  cudaEvent_t start, stop;
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  CHECK(cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&stop) == cudaSuccess);
  CHECK(cudaMallocAsync(&d, n * sizeof(float), stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(d, a.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream) ==
        cudaSuccess);
  CHECK(cudaEventRecord(start, stream) == cudaSuccess);
  scale<float><<<4, 256, 0, stream>>>(d, n, 1);
  scale<<<4, 256, 0, stream>>>(d, n, 2);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaEventRecord(stop, stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(a.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost, stream) ==
        cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, start, stop) == cudaSuccess && ms >= 0);
  bool right = true;
  for (int i = 0; i < n; ++i) right = right && a[i] == 6.0f * float(i);
  CHECK(right);
  int count = 0;
  void* where = nullptr;
  size_t bytes = 0;
  CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count) == cudaSuccess && count == 7);
  CHECK(cudaGetSymbolAddress(&where, counter) == cudaSuccess && where != nullptr);
  CHECK(cudaGetSymbolSize(&bytes, factors) == cudaSuccess && bytes == 16);
  CHECK(cudaMemcpyToSymbol(factors, host_factors, 12, 8) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyToSymbol(a.data(), host_factors, 4) == cudaErrorInvalidSymbol);
  cudaGetLastError();

  // A graph of a captured stream, run three times.
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  scale<<<4, 256, 0, stream>>>(d, n, 3);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
  CHECK(cudaMemcpy(a.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(a[8] == 6.0f);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaFreeAsync(d, stream) == cudaSuccess);

  // Occupancy, and a cooperative launch of as many blocks as fit.
  int per_sm = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, total, 128, 0) == cudaSuccess);
  CHECK(per_sm >= 1);
  std::vector<int> numbers(5000);
  int expected = 0;
  for (size_t i = 0; i < numbers.size(); ++i) expected += numbers[i] = int(i % 97);
  int *in = nullptr, *parts = nullptr, *out = nullptr;
  CHECK(cudaMalloc(&in, numbers.size() * 4) == cudaSuccess);
  CHECK(cudaMalloc(&parts, 64 * 4) == cudaSuccess && cudaMalloc(&out, 4096 * 4) == cudaSuccess);
  CHECK(cudaMemcpy(in, numbers.data(), numbers.size() * 4, cudaMemcpyHostToDevice) == cudaSuccess);
  int size = int(numbers.size());
  void* arguments[] = {&in, &size, &parts, &out};
  CHECK(cudaLaunchCooperativeKernel((void*)total, dim3(8), dim3(128), arguments, 0, nullptr) ==
        cudaSuccess);
  int sum = 0;
  CHECK(cudaMemcpy(&sum, out, 4, cudaMemcpyDeviceToHost) == cudaSuccess && sum == expected);
  CHECK(cudaLaunchCooperativeKernel((void*)total, dim3(1 << 20), dim3(128), arguments, 0,
                                    nullptr) == cudaErrorCooperativeLaunchTooLarge);
  cudaGetLastError();

  // A cluster by launch attribute; dynamic shared memory beyond 48 KB by the function's.
  cudaFuncAttributes attributes{};
  CHECK(cudaFuncGetAttributes(&attributes, neighbours) == cudaSuccess);
  CHECK(attributes.maxThreadsPerBlock == 1024);
  CHECK(cudaFuncSetAttribute(neighbours, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000) ==
        cudaSuccess);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(8);
  config.blockDim = dim3(64);
  config.dynamicSmemBytes = 100000;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 4;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, neighbours, out) == cudaSuccess);
  std::vector<int> seen(8 * 64);
  CHECK(cudaMemcpy(seen.data(), out, seen.size() * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (int b = 0; b < 8; ++b) CHECK(seen[b * 64 + 3] == (b % 4 + 1) % 4 * 100 + 3);
  CHECK(cudaMemset2D(out, 64, 1, 32, 4) == cudaSuccess);
  CHECK(cudaMemcpy(seen.data(), out, 64, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(seen[0] == 0x01010101 && seen[8] != 0x01010101);

  // Memory of both: the host writes, a kernel reads, without a copy.
  CHECK(properties.managedMemory == 1);
  int *managed = nullptr, *pinned = nullptr, *mapped = nullptr;
  std::vector<int> registered(64, 3);
  CHECK(cudaMallocManaged(&managed, 64 * 4) == cudaSuccess);
  CHECK(cudaMallocHost(&pinned, 64 * 4) == cudaSuccess);
  CHECK(cudaHostGetDevicePointer(&mapped, pinned, 0) == cudaSuccess && mapped == pinned);
  CHECK(cudaHostRegister(registered.data(), 64 * 4, 0) == cudaSuccess);
  for (int i = 0; i < 64; ++i) managed[i] = i, pinned[i] = 1000;
  CHECK(cudaMemPrefetchAsync(managed, 64 * 4, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0,
                             stream) == cudaSuccess);
  shared_total += 1;
  gather<<<1, 64>>>(managed, mapped, registered.data(), 64);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(shared_total == 6 + 64 * 63 / 2 + 64 * 1003);
  cudaPointerAttributes of{};
  CHECK(cudaPointerGetAttributes(&of, managed) == cudaSuccess);
  CHECK(of.type == cudaMemoryTypeManaged && of.hostPointer == managed);
  CHECK(cudaPointerGetAttributes(&of, pinned + 1) == cudaSuccess);
  CHECK(of.type == cudaMemoryTypeHost && of.devicePointer == pinned + 1);
  CHECK(cudaFree(managed) == cudaSuccess && cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaHostUnregister(registered.data()) == cudaSuccess);

  scale<<<1, 2048>>>(d, n, 0);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  // What there is not says so.
  cudaArray_t array = nullptr;
  cudaChannelFormatDesc format{32, 0, 0, 0, cudaChannelFormatKindFloat};
  CHECK(cudaMallocArray(&array, &format, 64) == cudaErrorNotSupported);
  CHECK(strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorNotSupported") == 0);
  if (argc > 1) { // a fault stays
    misaligned<<<1, 1>>>(reinterpret_cast<char*>(out));
    CHECK(cudaDeviceSynchronize() == cudaErrorMisalignedAddress);
    CHECK(cudaMalloc(&d, 4) == cudaErrorMisalignedAddress);
  }
  printf(failures ? "%d failures\n" : "ok\n", failures);
  return failures != 0;
}
