/* A program of the CUDA driver API as anybody writes one: it knows nothing of the virtual GPU.
   cc driver_program.c -lcuda; LD_LIBRARY_PATH decides which driver it gets. */
#include <stdio.h>
#include <string.h>
#ifdef WITH_CUDA_H
#include <cuda.h>
#else
typedef int CUdevice, CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
CUresult cuInit(unsigned);
CUresult cuDeviceGet(CUdevice*, int);
CUresult cuDeviceGetName(char*, int, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuModuleLoadData(CUmodule*, const void*);
CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*);
CUresult cuMemAlloc_v2(CUdeviceptr*, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t);
CUresult cuMemcpyDtoH_v2(void*, CUdeviceptr, size_t);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream, void**, void**);
CUresult cuCtxSynchronize(void);
CUresult cuGetErrorName(CUresult, const char**);
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#endif

static const char* const ptx =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n)\n{\n"
    "  .reg .pred p;\n  .reg .b32 i, j, x, y, n_;\n  .reg .b64 at, pa, pb;\n"
    "  mov.u32 i, %ctaid.x;\n  mov.u32 j, %ntid.x;\n  mov.u32 x, %tid.x;\n"
    "  mad.lo.u32 i, i, j, x;\n  ld.param.u32 n_, [n];\n  setp.ge.u32 p, i, n_;\n  @p ret;\n"
    "  mul.wide.u32 at, i, 4;\n  ld.param.u64 pa, [a];\n  ld.param.u64 pb, [b];\n"
    "  add.u64 pa, pa, at;\n  add.u64 pb, pb, at;\n"
    "  ld.global.u32 x, [pa];\n  ld.global.u32 y, [pb];\n  add.u32 x, x, y;\n"
    "  st.global.u32 [pa], x;\n  ret;\n}\n";

#define TRY(call)                                                 \
  do {                                                            \
    CUresult r_ = (call);                                         \
    if (r_) {                                                     \
      const char* name_ = "?";                                    \
      cuGetErrorName(r_, &name_);                                 \
      fprintf(stderr, "%s: %s\n", #call, name_);                  \
      return 1;                                                   \
    }                                                             \
  } while (0)

int main(void) {
  enum { N = 1000 };
  static unsigned a[N], b[N];
  unsigned n = N, i;
  char name[64];
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction add;
  CUdeviceptr pa, pb;
  void* parameters[] = {&pa, &pb, &n};
  for (i = 0; i < N; ++i) a[i] = i, b[i] = 3 * i;
  TRY(cuInit(0));
  TRY(cuDeviceGet(&device, 0));
  TRY(cuDeviceGetName(name, sizeof name, device));
  TRY(cuDevicePrimaryCtxRetain(&context, device));
  TRY(cuCtxSetCurrent(context));
  TRY(cuModuleLoadData(&module, ptx));
  TRY(cuModuleGetFunction(&add, module, "add"));
  TRY(cuMemAlloc(&pa, sizeof a));
  TRY(cuMemAlloc(&pb, sizeof b));
  TRY(cuMemcpyHtoD(pa, a, sizeof a));
  TRY(cuMemcpyHtoD(pb, b, sizeof b));
  TRY(cuLaunchKernel(add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, 0, parameters, 0));
  TRY(cuCtxSynchronize());
  TRY(cuMemcpyDtoH(a, pa, sizeof a));
  TRY(cuMemFree(pa));
  TRY(cuMemFree(pb));
  for (i = 0; i < N; ++i)
    if (a[i] != 4 * i) return fprintf(stderr, "element %u is %u\n", i, a[i]), 1;
  printf("%u sums on %s\n", n, name);
  return 0;
}
