/* warpline: NVFP4 kernels written by hand in PTX, behind a C ABI on the CUDA driver API.
 *
 * The way of a call:  check -> plan -> run.
 *   check  compares the arguments with the constraint table; reports every violated rule at once.
 *   plan   chooses a configuration for the device, loads its kernel, builds the tensor maps and
 *          sizes the workspace.
 *   run    enqueues the launches on a stream. It allocates no device memory (but see
 *          WL_GRAPH_LAUNCH), loads nothing and synchronises nothing, so it can be captured in a
 *          CUDA graph. The context, or a plan of it, must live as long as the graph.
 *
 * Several threads may call any function at once, with one context or plan too; a plan that two
 * threads run at once needs a workspace for each. What is destroyed must not be in use.
 *
 * Nearly every function returns a wl_status. When it is not WL_SUCCESS, wl_last_error() holds the
 * sentence: entry, argument, value, rule and nearest legal value. Nothing is launched or written in
 * that case, but *plan, *context, *stream and *device_pointer, which become null.
 *
 * Pointers named "device" are CUDA device addresses of the context's device. Sizes and leading
 * dimensions count elements unless a name ends in _bytes. Operands overlap where the bytes from the
 * first to the last of one, gaps between rows and entries included, meet those of another. The
 * library runs in the device's primary context, the one the CUDA runtime API uses, so its pointers
 * and streams mix with the caller's. */
#ifndef WARPLINE_WARPLINE_H
#define WARPLINE_WARPLINE_H

#include <stddef.h>
#include <stdint.h>

#define WL_VERSION_MAJOR 0
#define WL_VERSION_MINOR 1
#define WL_VERSION_PATCH 0
#define WL_VERSION (WL_VERSION_MAJOR * 10000 + WL_VERSION_MINOR * 100 + WL_VERSION_PATCH)

#if defined(__GNUC__)
#define WL_API __attribute__((visibility("default")))
#else
#define WL_API
#endif

/* Enumerations are ints, in C++ by name: a value of a caller's that none of them is may be read, so
 * that a check can name it. */
#ifdef __cplusplus
#define WL_INT : int
#else
#define WL_INT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---------------------------------------------------------------------------------- */

typedef enum wl_status WL_INT {
  WL_SUCCESS = 0,
  WL_ERROR_INVALID_ARGUMENT = 1,    /* a rule of the constraint table is violated */
  WL_ERROR_MISALIGNED = 2,          /* as above, and every violated rule is one of alignment */
  WL_ERROR_NOT_SUPPORTED = 3,       /* the library holds no kernel for this device or request */
  WL_ERROR_INSUFFICIENT_DRIVER = 4, /* no driver, or one too old for the kernel's PTX version */
  WL_ERROR_WORKSPACE_TOO_SMALL = 5,
  WL_ERROR_OUT_OF_MEMORY = 6,
  WL_ERROR_JIT = 7,          /* the driver refused the PTX; the message carries its log */
  WL_ERROR_LAUNCH = 8,       /* the driver refused or failed a launch or a copy */
  WL_ERROR_WRONG_DEVICE = 9, /* a plan or stream of another device or context, or memory, as every
                                violated rule says, that the device cannot reach */
  WL_ERROR_ABI = 10,         /* struct_size or library version do not match this header */
  WL_ERROR_INTERNAL = 11
} wl_status;

/* The enumerator's name, e.g. "WL_ERROR_MISALIGNED". Never null. */
WL_API const char* wl_status_string(wl_status status);

/* The calling thread's last error message, "" when there was none. Valid until the thread's next
 * failing call. */
WL_API const char* wl_last_error(void);

/* WL_VERSION of the library that is linked; compare with the header's. */
WL_API int wl_version(void);

/* ---- context: one per device ----------------------------------------------------------------- */

typedef struct wl_context wl_context;

/* A CUstream (or cudaStream_t). Null is the legacy default stream. */
typedef void* wl_stream;

/* Opens the driver (libcuda.so.1, or what WARPLINE_DRIVER names: a path, or "virtual[:PROFILE]" for
 * the virtual GPU), and retains the primary context of `device` (an ordinal). Thread-safe. */
WL_API wl_status wl_context_create(int device, wl_context** context);
/* Memory and streams of the context must be released before. Plans may outlive it: what they need
 * of the context is released with the last of them. Null is ignored. */
WL_API void wl_context_destroy(wl_context* context);

/* *count: devices that the driver sees, 0 on failure. */
WL_API wl_status wl_device_count(int* count);

typedef struct wl_device_info {
  size_t struct_size; /* in: sizeof(wl_device_info) */
  char name[128];
  int compute_major, compute_minor;
  int sm_count;
  int driver_version;         /* as cuDriverGetVersion, e.g. 13000 */
  int shared_bytes_per_block; /* largest opt-in */
  int max_cluster;            /* largest portable cluster size, in CTAs */
  int l2_bytes;
  uint64_t memory_bytes;
  int is_virtual; /* 1 when the driver is the virtual GPU */
  /* Families of the library's kernels that this device can run, separated by blanks: "sm100". */
  char kernels[64];
} wl_device_info;

/* Of `device`, an ordinal; makes no context. */
WL_API wl_status wl_device_get_info(int device, wl_device_info* info);

/* Memory and streams, for callers that use no other CUDA API. All of it may be mixed with cuMem*,
 * cudaMalloc and framework allocators. wl_malloc takes at least 1 byte; what it gives is 256-byte
 * aligned. wl_free and wl_stream_destroy ignore null. wl_upload and wl_download are synchronous,
 * and ordered with the default stream and with streams of wl_stream_create; 0 bytes are nothing to
 * do. */
WL_API wl_status wl_malloc(wl_context* context, size_t bytes, void** device_pointer);
WL_API wl_status wl_free(wl_context* context, void* device_pointer);
WL_API wl_status wl_upload(wl_context* context, void* device_destination, const void* host_source,
                           size_t bytes);
WL_API wl_status wl_download(wl_context* context, void* host_destination, const void* device_source,
                             size_t bytes);
WL_API wl_status wl_stream_create(wl_context* context, wl_stream* stream);
WL_API wl_status wl_stream_destroy(wl_context* context, wl_stream stream);
WL_API wl_status wl_stream_synchronize(wl_context* context, wl_stream stream);

/* ---- element types and scale factors --------------------------------------------------------- */

typedef enum wl_dtype WL_INT {
  WL_F16 = 0,
  WL_BF16 = 1,
  /* E2M1 with one E4M3 scale per 16 values and an FP32 scale: an operand of a GEMM. */
  WL_NVFP4 = 2,
  WL_F32 = 3
} wl_dtype;

/* What A or B of a product holds. 0 is NVFP4, so arguments that were set to zero mean
 * that. Which pairs of A and B a device multiplies, its check says. */
typedef enum wl_operand WL_INT {
  WL_OPERAND_NVFP4 = 0, /* as WL_NVFP4: two E2M1 values a byte, one E4M3 scale per 16 of K */
  WL_OPERAND_F16 = 1,   /* without scales, as are the next five */
  WL_OPERAND_BF16 = 2,
  WL_OPERAND_TF32 = 3, /* FP32 in memory, of which tensor cores read 10 bits of the mantissa */
  WL_OPERAND_E4M3 = 4, /* FP8 */
  WL_OPERAND_E5M2 = 5,
  WL_OPERAND_INT8 = 6,
  /* With one UE8M0 scale, a power of two, per 32 of K, as all that follow. MXFP6 and MXFP4 values
   * lie without gaps, the first in the lowest bits: four MXFP6 in three bytes. */
  WL_OPERAND_MXFP8_E4M3 = 7,
  WL_OPERAND_MXFP8_E5M2 = 8,
  WL_OPERAND_MXFP6_E2M3 = 9,
  WL_OPERAND_MXFP6_E3M2 = 10,
  WL_OPERAND_MXFP4 = 11
} wl_operand;

/* Which extent of an operand is contiguous in memory. K never has gaps, nor has the other one. */
typedef enum wl_layout WL_INT {
  WL_K_MAJOR = 0, /* K: rows of A or B one behind the other */
  /* M or N: A^T or B^T by rows, "N" of A and "T" of B in column-major BLAS. Of FP16 and of BF16
   * operands on Hopper. */
  WL_MN_MAJOR = 1
} wl_layout;

/* Layout of the block scales of an NVFP4 operand of `rows` rows and `k` elements: one unsigned E4M3
 * byte for each 16 consecutive elements of a row; s = k / 16 is the scale's column. An MX operand
 * has a UE8M0 byte for each 32: its scales lie as those of an NVFP4 operand with half its k,
 * rounded up to 16, which is the k to give to the three functions below. */
typedef enum wl_sf_layout WL_INT {
  /* The 128x4 atom: PTX ISA "scale vector" order of tcgen05, the cuBLAS 1-D block-scaling layout,
   * PyTorch's swizzle 32_4_4, CUTLASS's SfAtom, FlashInfer's layout_128x4. An atom holds 128 rows x
   * 4 columns in 512 bytes; atoms run along K first:
   *   offset(r, s) = ((r / 128) * ceil(k / 64) + s / 4) * 512
   *                + (r % 32) * 16 + (r % 128) / 32 * 4 + s % 4
   * Rows are padded to 128 and columns to 4; the padding exists in memory and may hold any byte. */
  WL_SF_128x4 = 0,
  /* Row-major [rows, k / 16] bytes without padding, as checkpoints have them, on Hopper, of NVFP4:
   * of A and the weights of wl_gemm and wl_dual_gemm, of wl_norm_linear's weights, and of those of
   * groups and experts, whose rows of A have scales in tiles of WL_SF_128x4 in any case. Each run
   * packs them into its workspace ahead of the product: one launch more for each product, and a
   * read and a write of all scales, of groups those of them that have rows. Weights are better
   * packed once, when they are loaded. */
  WL_SF_PLAIN = 1
} wl_sf_layout;

/* Bytes of one operand's scales (one batch entry). 0 when rows or k are not positive or the size
 * does not fit in 63 bits. */
WL_API size_t wl_sf_bytes(wl_sf_layout layout, int64_t rows, int64_t k);
/* Host to host: plain row-major [rows, ceil(k / 16)] bytes to `layout` and back. Packing writes
 * `padding` into the padding. */
WL_API wl_status wl_sf_pack(wl_sf_layout layout, int64_t rows, int64_t k, const uint8_t* plain,
                            uint8_t* packed, uint8_t padding);
WL_API wl_status wl_sf_unpack(wl_sf_layout layout, int64_t rows, int64_t k, const uint8_t* packed,
                              uint8_t* plain);

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct wl_plan wl_plan;

/* `flags` of an operation's arguments. */
typedef enum wl_plan_flags WL_INT {
  /* Products and experts: B and SFB, all of them, are not written by any work that may still run
   * when the plan's does: they were complete before the run was queued, or before an event or a
   * kernel without programmatic launch that the stream waits for. As weights of a model are. A
   * kernel may then read them while the work ahead of it in the stream ends; A, SFA, the factors,
   * the biases and D it touches afterwards, as ever. With WL_SF_PLAIN it changes nothing. */
  WL_STATIC_WEIGHTS = 1,
  /* Any operation: a run launches a CUDA graph that the plan made of its kernels, one driver call
   * for all of them. It takes less of the host's time and more of the device's (on an H200 1 to 2
   * us for 3 to 7, and 0.6 to 1.5 us longer for runs in a row): a graph starts when all work ahead
   * of it has ended, where kernels of the library start under it, so WL_STATIC_WEIGHTS gains
   * nothing here. The first run with a workspace makes the graph, which allocates. The plan keeps
   * the graphs of the last 4 workspaces and frees them when it is destroyed. The driver runs one
   * graph once at a time: runs of a plan with the same workspace, or with none, follow each other,
   * on whatever streams. In a stream that is being captured a run enqueues the kernels themselves.
   * wl_*_plan refuses the flag where the driver has no graphs. */
  WL_GRAPH_LAUNCH = 2,
  /* Products of FP8 operands on Hopper: the tensor core may add over all of K, keeping 14 bits of a
   * sum; PyTorch's use_fast_accum=True. Without it, what the tensor core makes of 128 of K is added
   * in FP32. Of other operands of a product and on other devices it changes nothing; operations
   * that are no single product refuse it. */
  WL_FAST_ACCUMULATION = 4
} wl_plan_flags;

typedef struct wl_plan_info {
  size_t struct_size; /* in: sizeof(wl_plan_info) */
  char config[64];    /* name of the configuration */
  char kernel[96];    /* entry name in the PTX */
  char target[16];    /* "sm_100f", "sm_90a" */
  unsigned grid[3], block[3], cluster[3];
  /* tile_m: most rows of a tile; those of NVFP4 weights on Hopper may have fewer, as many as each
   * other. tile_n: columns of one product, of wl_gemm half of a tile's; 0: no such extent */
  int tile_m, tile_n, tile_k;
  int stages;       /* 0: none */
  int shared_bytes; /* dynamic + static */
  int registers;    /* per thread at entry, as the driver reports */
  int launches;     /* kernels that one run enqueues */
  size_t workspace_bytes;
  double load_ms;  /* time that loading the kernels took in this process, JIT included */
  int precompiled; /* 1: machine code of the library; 0: the driver compiled the PTX */
} wl_plan_info;

/* What the plan chose. info->struct_size is set by the caller. */
WL_API wl_status wl_plan_get_info(const wl_plan* plan, wl_plan_info* info);

/* Enqueues the plan on `stream`. `workspace` is device memory of at least workspace_bytes, 256-byte
 * aligned, of any content, apart from all that the run reads or writes, and may be null when that
 * is 0. Two runs that may overlap need two workspaces. Whether the device reaches the workspace is
 * asked of the driver at the plan's first run with it: that it was freed since is not noticed. */
WL_API wl_status wl_plan_run(const wl_plan* plan, void* workspace, size_t workspace_bytes,
                             wl_stream stream);
/* The stream's work with the plan must have ended. Null is ignored. */
WL_API void wl_plan_destroy(wl_plan* plan);

/* ---- dual GEMM ------------------------------------------------------------------------------- */

/* Gates by formula. sigma(x) = 1 / (1 + exp(-x)) */
typedef enum wl_gate WL_INT {
  WL_GATE_SILU = 0,      /* x1 sigma(x1) x2, SwiGLU */
  WL_GATE_GELU_TANH = 1, /* gelu(x1) x2, GeGLU, with the gelu of WL_ACTIVATION_GELU_TANH */
  /* x1 sigma(1.702 x1) (x2 + 1), GPT-OSS's: always with a gate_limit, there 7; 1.702 and 1 are
   * constants of the model. */
  WL_GATE_CLAMPED = 2
} wl_gate;

/*     D = gate(x1, x2)        x1 = alpha1 * A.B1^T + bias1        x2 = alpha2 * A.B2^T + bias2
 *
 * A [M,K], B1 and B2 [N,K] are NVFP4, K contiguous: two E2M1 values a byte, the lower nibble the
 * even k; one E4M3 scale (sign bit ignored) per 16 values of K. Products accumulate in FP32; x1 and
 * x2 are rounded to FP32 once each, every step of the gate is FP32, and D [M,N], N contiguous, is
 * rounded once. A gate_limit of g takes min(x1, g) for x1 and min(max(x2, -g), g) for x2.
 * With WL_NVFP4, D is [L, M, N/2] bytes and sfd its scales, N a multiple of 64: D and sfd are A and
 * sfa of a product with K = N, whose alpha takes *d_scale in. The scale of 16 columns is their
 * largest magnitude / (6 * *d_scale), rounded to E4M3; scale padding of rows beyond M is not
 * written. A batch of L problems lies contiguously: operand entry l starts l * rows * K / 2 bytes
 * in, scale entry l starts l * wl_sf_bytes() in, D entry l starts l * batch_stride_d elements in;
 * factors and biases serve all.
 * a_type and b_type may name other types, [L, M, K] and [L, N, K] elements, K as at wl_gemm_args,
 * with D in WL_F16 or WL_BF16: A and both B TF32 or INT8 (not on B300), all of one type, or each
 * E4M3 or E5M2; on Blackwell FP16 or BF16, all of one type, or each an MXFP8, MXFP6 or MXFP4 type,
 * or A FP16 or BF16 and both B NVFP4, which each run decodes to A's type in the workspace first, 2
 * bytes an element; on Hopper FP16 or BF16, all of one type, D of it too, or A FP16, or BF16 with D
 * in WL_BF16, and both B NVFP4. alpha1 and alpha2 take in the tensors' scales; sums of FP8 on
 * Hopper are as WL_FAST_ACCUMULATION says. No value of an operand is rounded or scaled but TF32's:
 * subnormal numbers, infinities and NaN count as what they are.
 *
 * Beyond the ordinary, with x1 and x2 as FP32 numbers, as the limit leaves them:
 *   An NVFP4 scale of 0x7F, or an MX scale of 0xFF, is NaN, and so is every output whose sums it
 *   enters: a row of D for one of A, a column for one of B1 or B2. Sums of other NVFP4 operands are
 *   finite; an alpha or a bias that is NaN, infinite or large can make x1 and x2 so. On Hopper an
 *   alpha of 2^114 or more may count as infinite, and of a BF16 A sums below 2^-119 lose places as
 *   FP32's subnormal numbers do. No limit holds for a NaN: where x1 or x2 is NaN, so is D. A zero
 *   times an infinity is NaN.
 *   silu(x1) is -0 for x1 below -87.4, where the true result lies between -1.1e-36 and 0; infinite
 *   for +infinity; for -infinity, where the limit is -0, it is NaN, or -0 under a gate_limit.
 *   gelu(x1) is -0 below -10.1 and x1 sigma(1.702 x1) below -51.4, where the true results lie
 *   between -1.2e-37 and 0, and -6.1e-37 and 0; both are infinite for +infinity, -0 for -infinity.
 *   FP16 outputs are infinite from 65520 on, BF16 outputs from 2^128 - 2^119 on; NaN stays NaN.
 *   NVFP4 has neither. Scale and code saturate, at 448 and 6. A NaN takes no part in its block's
 *   scale and gets the code of 6; an infinity gets 6 of the same sign under the scale 448. Where
 *   all 16 are too small for a scale, it is 0 and codes are zeros, signs kept (a NaN's is 6).
 *   *d_scale must be positive, finite and normal, as the quantiser's: a kernel reads it, no call
 *   checks it, and scales may become NaN with another one. */
typedef struct wl_dual_gemm_args {
  size_t struct_size; /* sizeof(wl_dual_gemm_args) */
  int64_t m;          /* 1 to 2^30; tiles of 128 x 64 of all entries together below 2^31 */
  int64_t n;          /* multiple of 8, to 2^30 */
  int64_t k;      /* multiple of 64 with NVFP4, to 2^30; an entry of an operand below 2^40 bytes */
  int64_t l;      /* batch, 1 to 2^20; a tensor below 2^47 bytes */
  const void* a;  /* device, [L, M, K/2] bytes, 16-byte aligned, MXFP6 and MXFP4 32-byte */
  const void* b1; /* device, [L, N, K/2] bytes, likewise */
  const void* b2;
  const void* sfa;  /* device, scales of A in sf_layout, 16-byte aligned */
  const void* sfb1; /* device, scales of B1 and B2 likewise */
  const void* sfb2;
  wl_sf_layout sf_layout;
  const float* alpha1; /* device, 4-byte aligned, null = 1; read when the kernel runs */
  const float* alpha2;
  void* d; /* device, 16-byte aligned; may not overlap an input */
  wl_dtype d_type;
  int64_t ldd;            /* elements from row to row of D, multiple of 8, 0 = N */
  int64_t batch_stride_d; /* elements from entry to entry of D, multiple of 8, 0 = M * ldd */
  const char* config;     /* name of a configuration to force, null = the library chooses */
  /* WL_NVFP4 only; ldd and batch_stride_d are 0, N and M * N then. */
  void* sfd; /* device, scales of D in sf_layout, 16-byte aligned */
  /* device, 4-byte aligned, null = 1; read when the kernel runs, normal and positive then */
  const float* d_scale;
  uint32_t flags;     /* of enum wl_plan_flags */
  const void* bias1;  /* device, [N] of bias_type, 16-byte aligned, null = none */
  const void* bias2;  /* likewise */
  wl_dtype bias_type; /* WL_F32, WL_F16 or WL_BF16, of both biases */
  wl_gate gate;
  float gate_limit;  /* positive; 0 = none, but for WL_GATE_CLAMPED */
  wl_operand a_type; /* of A; where it has no block scales, sfa is null */
  wl_operand b_type; /* of B1 and B2, likewise */
} wl_dual_gemm_args;

/* Checks the arguments against the constraint table for the context's device. Touches no memory,
 * but asks the driver whether the device can reach what the pointers that are not null point to,
 * and whether it lies in one allocation (or one reservation of addresses) to its last byte. */
WL_API wl_status wl_dual_gemm_check(wl_context* context, const wl_dual_gemm_args* args);
/* Checks, then makes a plan for the arguments, which it keeps. Its configuration is that for M
 * rows: few rows are faster with a plan for few. */
WL_API wl_status wl_dual_gemm_plan(wl_context* context, const wl_dual_gemm_args* args,
                                   wl_plan** plan);
/* Runs a plan of wl_dual_gemm_plan with the operands of `args`. N, K, L, the types and the layouts,
 * of scales too, are the plan's, M is at most the plan's; pointers, strides and what else `args`
 * says may differ: biases may come or go, and the gate may be another one. The arguments are
 * checked as by wl_dual_gemm_check, except that memory which a run of this plan asked the driver
 * about is not asked about again. The configuration and flags are the plan's, args->config and
 * args->flags are not looked at; a plan with WL_GRAPH_LAUNCH launches its kernels one by one.
 * Workspace, stream and threads are as at wl_plan_run, which runs with the plan's own operands. */
WL_API wl_status wl_dual_gemm_run(const wl_plan* plan, const wl_dual_gemm_args* args,
                                  void* workspace, size_t workspace_bytes, wl_stream stream);

/* How tiles come to the clusters of a launch. */
typedef enum wl_scheduler WL_INT {
  WL_SCHEDULER_ONE_TILE = 0,       /* a cluster for each tile */
  WL_SCHEDULER_STATIC = 1,         /* resident clusters walk over the tiles in a fixed order */
  WL_SCHEDULER_LAUNCH_CONTROL = 2, /* running clusters cancel others and take over their tiles */
  WL_SCHEDULER_STREAM_K = 3        /* resident clusters share the K of all tiles evenly */
} wl_scheduler;

/* One configuration as a candidate for a problem. Times are the model's, in SM clocks; see
 * kernels/gemm/sm100_cost.cpp. They rank configurations and predict nothing. */
typedef struct wl_dual_gemm_config {
  char name[64];
  char target[16];
  int runs; /* 1: can run the problem on this device */
  /* 1: what wl_dual_gemm_plan takes when none is forced, by what is known of the device:
   * how many clusters it holds is asked when a plan with clusters of that size is first made. */
  int chosen;
  /* Why it cannot run, why it was chosen, or what it lacks against the chosen one. */
  char reason[192];
  int tile_m, tile_n, tile_k; /* of one MMA; tile_n counts columns of one product */
  int cta_group;              /* CTAs an MMA works on */
  int cluster_m, cluster_n;   /* CTAs of a cluster along M and N */
  int split_k;                /* parts of a cluster that share the K of a tile */
  int stages, acc_stages;
  wl_scheduler scheduler;
  int shared_bytes, tmem_columns;
  int64_t tiles; /* of a whole cluster */
  int64_t waves; /* tiles of the busiest cluster */
  int64_t ctas;  /* that run at once */
  /* Bytes read from L2 for each operand, both products together, a multicast counted once; those
   * that arrive in shared memory; and the least possible. 0 where a family has no model. */
  int64_t a_bytes, b_bytes, sfa_bytes, sfb_bytes;
  int64_t delivered_bytes, least_bytes;
  double tile_clocks, epilogue_clocks, memory_clocks, total_clocks;
} wl_dual_gemm_config;

/* Lists the configurations that make args->d_type, best first, those that cannot run last. Reads
 * sizes, types, layouts and strides of `args`, and of pointers whether they are null. `count` in:
 * entries that `configs` has room for; out: configurations there are. `configs` may be null when
 * *count is 0. config_size is sizeof(wl_dual_gemm_config). */
WL_API wl_status wl_dual_gemm_list_configs(wl_context* context, const wl_dual_gemm_args* args,
                                           wl_dual_gemm_config* configs, size_t config_size,
                                           int* count);

/* ---- GEMM: a linear layer -------------------------------------------------------------------- */

/* Named by formula; sources of the formulas: PyTorch's torch.nn.functional. */
typedef enum wl_activation WL_INT {
  WL_ACTIVATION_NONE = 0,         /* x */
  WL_ACTIVATION_RELU = 1,         /* max(x, 0) */
  WL_ACTIVATION_RELU_SQUARED = 2, /* max(x, 0)^2 */
  WL_ACTIVATION_SILU = 3,         /* x / (1 + exp(-x)) */
  WL_ACTIVATION_GELU_TANH = 4,    /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
  WL_ACTIVATION_GELU_ERF = 5      /* x / 2 (1 + erf(x / sqrt 2)) */
} wl_activation;

/*     D[m,n] = activation(row[m] * col[n] * alpha * (A.B^T)[m,n] + bias[n]) + residual[m,n]
 *
 * A [M,K] and B [N,K] are NVFP4 with block scales, as at wl_dual_gemm_args, or of the types that
 * a_type and b_type name; K is then a multiple of 4 elements of 32 bits, 8 of 16, 16 of 8, 32 of
 * MXFP8 and 128 of MXFP6 and MXFP4, and of 64 where the other one is NVFP4. With an FP16 or BF16 A
 * D may be in WL_F32 as well, and on Blackwell each run decodes an NVFP4 B to A's type first, in
 * the workspace, 2 bytes an element. Products accumulate in FP32 (of FP8 on Hopper see
 * WL_FAST_ACCUMULATION), everything behind is FP32, and D [M,N], N contiguous, is rounded once.
 * With WL_NVFP4, D and sfd are as there. NaN in a sum, factor, bias or residual makes the output
 * NaN. On Hopper a product alpha * row of 2^114 or more counts as infinite, as an alpha does there.
 * A batch of L problems lies contiguously: row entry l starts l * M floats in; alpha and bias serve
 * all. */
typedef struct wl_gemm_args {
  size_t struct_size; /* sizeof(wl_gemm_args) */
  int64_t m;          /* sizes and limits as at wl_dual_gemm_args; of INT8 K is below 2^17 */
  int64_t n;
  int64_t k;
  int64_t l;
  const void* a;   /* device, [L, M, K/2] bytes, 16-byte aligned, MXFP6 and MXFP4 32-byte */
  const void* b;   /* device, [L, N, K/2] bytes, likewise */
  const void* sfa; /* device, scales of A in sf_layout, 16-byte aligned */
  const void* sfb;
  wl_sf_layout sf_layout;
  const float* alpha; /* device, multiplies the sum, 4-byte aligned, null = 1 */
  const float* row;   /* device, [L, M], multiplies rows of the sum, 4-byte aligned, null = 1 */
  const void* bias;   /* device, [N] of bias_type, 16-byte aligned, null = none */
  wl_dtype bias_type; /* WL_F32, WL_F16 or WL_BF16 */
  wl_activation activation;
  const void* residual;   /* device, [L, M, N] of d_type, 16-byte aligned, null = none; may be d */
  int64_t ldr;            /* elements from row to row of the residual, multiple of 8, 0 = N */
  int64_t batch_stride_r; /* from entry to entry, multiple of 8, 0 = M * ldr */
  void* d;                /* device, 16-byte aligned; may overlap no input but the residual, and
                             that only where it is the residual, with the same strides */
  wl_dtype d_type;        /* WL_F16, WL_BF16, WL_F32 or WL_NVFP4 */
  int64_t ldd;            /* elements from row to row of D, multiple of 8, 0 = N */
  int64_t batch_stride_d; /* elements from entry to entry of D, multiple of 8, 0 = M * ldd */
  const char* config;     /* name of a configuration to force, null = the library chooses */
  void* sfd;              /* WL_NVFP4 only, as at wl_dual_gemm_args */
  const float* d_scale;
  uint32_t flags;    /* of enum wl_plan_flags */
  wl_operand a_type; /* of A; where it has no block scales, sfa is null */
  wl_operand b_type; /* of B, likewise */
  /* device, [N], multiplies columns of the sum, 4-byte aligned, null = 1. Of FP8 and INT8 operands;
   * else null. */
  const float* col;
  wl_layout a_layout; /* of A; WL_MN_MAJOR: [L, K, M], M a multiple of 8 */
  wl_layout b_layout; /* of B; WL_MN_MAJOR: [L, K, N] */
} wl_gemm_args;

/* Check and plan as wl_dual_gemm_check and wl_dual_gemm_plan. */
WL_API wl_status wl_gemm_check(wl_context* context, const wl_gemm_args* args);
WL_API wl_status wl_gemm_plan(wl_context* context, const wl_gemm_args* args, wl_plan** plan);
/* Runs a plan of wl_gemm_plan with the operands of `args`, as wl_dual_gemm_run does. A bias,
 * factors and a residual may come or go, and the activation may be another one. */
WL_API wl_status wl_gemm_run(const wl_plan* plan, const wl_gemm_args* args, void* workspace,
                             size_t workspace_bytes, wl_stream stream);
/* As wl_dual_gemm_list_configs. A tile has 2 * tile_n columns here. */
WL_API wl_status wl_gemm_list_configs(wl_context* context, const wl_gemm_args* args,
                                      wl_dual_gemm_config* configs, size_t config_size, int* count);

/* ---- grouped GEMM: the experts of a mixture ---------------------------------------------------
 */

/* Groups of rows, each with a B of its own. Rows of A and D lie one behind the other, group by
 * group; how many each group has, only the device knows, and reads it when the kernel runs. The
 * host knows M, the rows that A and D have room for. Groups may be empty; rows of D that belong to
 * no group are not written.
 *
 * Offsets that are wrong harm nobody: a group starts where the one ahead of it ended, ends at M at
 * the latest and never before its start. What was wrong is added to *status. */
typedef struct wl_groups {
  int32_t count; /* E, 1 to 512 */
  /* device [E], 4-byte aligned: group g has rows ends[g - 1], 0 for the first, to ends[g] - 1. Of
   * E + 1 starts with a leading 0 it is the second. Null with sizes. */
  const int32_t* ends;
  /* device [E], 4-byte aligned: group g has sizes[g] rows from g * row_stride on. Null with ends.
   * A size beyond row_stride counts as row_stride, one below 0 as 0. */
  const int32_t* sizes;
  int64_t row_stride; /* with sizes: rows from group to group, at least 1, E * row_stride <= M */
  /* Scales of rows of groups (SFA, and SFD of a D in WL_NVFP4) lie in tiles of 128 rows: those of
   * group g, which starts at row s, from tile s / 128 + g on, so ceil(M / 128) + E - 1 tiles of
   * wl_sf_bytes(layout, 128, k) bytes hold all. Or from tile sf_tiles[g] on: device [E], 4-byte
   * aligned, of sf_tile_count tiles; a tile beyond them counts as the last one. */
  const int32_t* sf_tiles; /* null = by the rule above */
  int64_t sf_tile_count;   /* with sf_tiles: at least 1; else 0 */
  /* device [M], 4-byte aligned, null = none: row i of the product is row rows[i] of A, whose
   * a_rows rows and scales are then those of an ordinary operand, in no groups. A number out of
   * [0, a_rows) counts as the nearest one in it. */
  const int32_t* rows;
  int64_t a_rows; /* with rows: rows of A, at least 1; else 0 */
  /* Bytes from group to group of B (of B1 and of B2), a multiple of 16, 0 = N rows; and of its
   * scales, a multiple of 16, 0 = wl_sf_bytes(layout, N, K). Elements from group to group of the
   * biases, a multiple of 8, 0 = N. */
  int64_t b_stride_bytes, sfb_stride_bytes, bias_stride;
  /* device, 4-byte aligned, null = none: bits of wl_group_status are added to it, none is ever
   * taken away. */
  uint32_t* status;
} wl_groups;

/* What a run found wrong with wl_groups. */
typedef enum wl_group_status WL_INT {
  WL_GROUPS_DECREASE = 1, /* an end before the end ahead of it, or a negative end or size */
  WL_GROUPS_BEYOND_M = 2, /* an end beyond M, or a size beyond row_stride */
  WL_GROUPS_BAD_ROW = 4,  /* one of rows outside [0, a_rows) */
  WL_GROUPS_BAD_TILE = 8  /* sf_tiles leaves a group's scales outside [0, sf_tile_count) */
} wl_group_status;

/*     D[m,n] = activation(row[m] * alpha[g] * (A.B[g]^T)[m,n] + bias[g,n]) + residual[m,n]
 *
 * for the rows m of each group g: wl_gemm for every group, in one launch. `gemm` is as at wl_gemm,
 * but for these: m is the most rows there are, l is 1; B is [E, N, K] and has its scales for each
 * group, alpha is [E], bias [E, N]; row is [M] and residual [M, N], as D; col is null. A and B are
 * both in NVFP4, both in FP16, BF16 or FP8, or on Hopper in 16 bits and NVFP4. gemm.struct_size is
 * not looked at. */
typedef struct wl_grouped_gemm_args {
  size_t struct_size; /* sizeof(wl_grouped_gemm_args) */
  wl_gemm_args gemm;
  wl_groups groups;
} wl_grouped_gemm_args;

/* Check and plan as wl_dual_gemm_check and wl_dual_gemm_plan. */
WL_API wl_status wl_grouped_gemm_check(wl_context* context, const wl_grouped_gemm_args* args);
WL_API wl_status wl_grouped_gemm_plan(wl_context* context, const wl_grouped_gemm_args* args,
                                      wl_plan** plan);
/* As wl_gemm_run. The groups may be others, as many as the plan's, with `rows` exactly where the
 * plan has them. */
WL_API wl_status wl_grouped_gemm_run(const wl_plan* plan, const wl_grouped_gemm_args* args,
                                     void* workspace, size_t workspace_bytes, wl_stream stream);
/* As wl_gemm_list_configs; how rows spread over the groups is not known: as if evenly. */
WL_API wl_status wl_grouped_gemm_list_configs(wl_context* context, const wl_grouped_gemm_args* args,
                                              wl_dual_gemm_config* configs, size_t config_size,
                                              int* count);

/*     D = gate(x1, x2)     x1 = alpha1[g] * A.B1[g]^T + bias1[g]     x2 = alpha2[g] * ... likewise
 *
 * wl_dual_gemm for every group: as there, with the differences of wl_grouped_gemm_args. A and B are
 * both in NVFP4, or on Hopper both in FP16 or BF16, or A in one of these and B in NVFP4. */
typedef struct wl_grouped_dual_gemm_args {
  size_t struct_size; /* sizeof(wl_grouped_dual_gemm_args) */
  wl_dual_gemm_args gemm;
  wl_groups groups;
} wl_grouped_dual_gemm_args;

/* All four as those of wl_grouped_gemm. */
WL_API wl_status wl_grouped_dual_gemm_check(wl_context* context,
                                            const wl_grouped_dual_gemm_args* args);
WL_API wl_status wl_grouped_dual_gemm_plan(wl_context* context,
                                           const wl_grouped_dual_gemm_args* args, wl_plan** plan);
WL_API wl_status wl_grouped_dual_gemm_run(const wl_plan* plan,
                                          const wl_grouped_dual_gemm_args* args, void* workspace,
                                          size_t workspace_bytes, wl_stream stream);
WL_API wl_status wl_grouped_dual_gemm_list_configs(wl_context* context,
                                                   const wl_grouped_dual_gemm_args* args,
                                                   wl_dual_gemm_config* configs, size_t config_size,
                                                   int* count);

/* ---- quantize -------------------------------------------------------------------------------- */

/* What is done to the rows of X ahead of their quantisation, in FP32; n is K. */
typedef enum wl_norm WL_INT {
  WL_NORM_NONE = 0,
  WL_NORM_RMS = 1,  /* RMSNorm: x / sqrt(sum(x^2) / n + eps) * gamma */
  WL_NORM_LAYER = 2 /* LayerNorm: (x - mu) / sqrt(sum((x - mu)^2) / n + eps) * gamma + beta,
                       mu = sum(x) / n */
} wl_norm;

/* X [L,M,K] in FP16 or BF16 becomes D [L,M,K/2] in NVFP4 with scales sfd: A and sfa, or B and sfb,
 * of a dual GEMM whose alpha takes *d_scale in. An element of X is about E2M1 * E4M3 * *d_scale.
 * (Where other libraries take a global scale to multiply with, that is 1 / *d_scale; the largest
 * magnitude of X / (6 * 448) is the usual *d_scale.)
 *
 * Of each 16 values of K, in FP32, every step rounded to nearest even, fl being that rounding:
 *   inverse = 1 / *d_scale                sixth = inverse * fl(1/6)
 *   scale = largest |x| * sixth in E4M3   factor = inverse * (1 / scale), 0 where the scale is 0
 *   code = x * factor in E2M1
 * which is the arithmetic of the dual GEMM's NVFP4 output. Scale and code saturate, at 448 and 6.
 * A NaN takes no part in its block's scale and gets the code of 6; an infinity gets 6 of the same
 * sign under the scale 448; where all 16 are too small for a scale, the scale is 0 and codes are
 * zeros, signs kept. *d_scale must be positive, finite and normal.
 *
 * A batch of L problems: X entry l starts l * batch_stride_x elements in, D entry l starts l * M *
 * K / 2 bytes in, scale entry l starts l * wl_sf_bytes() in. Scale padding of rows beyond M is not
 * written.
 *
 * With a norm each row of X is read once, a residual added to it and the sum rounded to x_type; the
 * row, or the sum, is normalised, and not rounded before its codes are made:
 *   WL_NORM_RMS    x * gamma takes the place of x above, and rstd / *d_scale that of 1 / *d_scale
 *   WL_NORM_LAYER  fma((x - mu) * rstd, gamma, beta) takes the place of x
 * where rstd = 1 / sqrt(sum / n + eps), every step rounded to FP32. Sums are added in one order,
 * which depends on K alone (kernels/norm/rows.inc): a row's result does not depend on M or on
 * the device. A row with a NaN has NaN for scales; so has one with an infinity, of WL_NORM_RMS its
 * block alone, whose others are 0, as are those of a row whose squares add up to 2^128 or more.
 * *d_scale is from 2^-40 to 2^40 with a norm. */
typedef struct wl_quantize_args {
  size_t struct_size;     /* sizeof(wl_quantize_args) */
  int64_t m;              /* >= 1 */
  int64_t k;              /* multiple of 64 */
  int64_t l;              /* batch, >= 1 */
  const void* x;          /* device, 16-byte aligned */
  wl_dtype x_type;        /* WL_F16 or WL_BF16 */
  int64_t ldx;            /* elements from row to row of X, multiple of 8, 0 = K */
  int64_t batch_stride_x; /* elements from entry to entry of X, multiple of 8, 0 = M * ldx */
  void* d;                /* device, 16-byte aligned; may not overlap an input */
  void* sfd;              /* device, scales of D in sf_layout, 16-byte aligned, likewise */
  wl_sf_layout sf_layout;
  const float* d_scale;   /* device, 4-byte aligned, null = 1; read when the kernel runs */
  const char* config;     /* name of a configuration to force, null = the library chooses */
  uint32_t flags;         /* of enum wl_plan_flags: 0 or WL_GRAPH_LAUNCH */
  wl_norm norm;           /* K is at most 32768 with one; without, all that follows is 0 or null */
  float eps;              /* positive and finite */
  wl_dtype gamma_type;    /* of gamma and beta: x_type or WL_F32; counts where there is one */
  const void* gamma;      /* device, [K] of gamma_type, 16-byte aligned, null = 1 */
  const void* beta;       /* likewise, WL_NORM_LAYER only, null = 0 */
  const void* residual;   /* device, [L,M,K] of x_type, 16-byte aligned, null = none */
  int64_t ldr;            /* elements from row to row of the residual, multiple of 8, 0 = K */
  int64_t batch_stride_r; /* from entry to entry, multiple of 8, 0 = M * ldr */
  /* Takes X plus the residual in x_type, at the residual's strides: device, 16-byte aligned, null =
   * not written. It may be the residual, and overlaps no other operand. */
  void* sum;
} wl_quantize_args;

/* Checks the arguments as wl_dual_gemm_check does. */
WL_API wl_status wl_quantize_check(wl_context* context, const wl_quantize_args* args);
/* The plan needs no workspace. Its launch lets a kernel behind it in the stream that was made for
 * programmatic dependent launch, as the dual GEMM's for Hopper, start while it runs. */
WL_API wl_status wl_quantize_plan(wl_context* context, const wl_quantize_args* args,
                                  wl_plan** plan);
/* Runs a plan of wl_quantize_plan with the operands of `args`, as wl_dual_gemm_run does: M is at
 * most the plan's, K, L, x_type and norm are the plan's. */
WL_API wl_status wl_quantize_run(const wl_plan* plan, const wl_quantize_args* args, void* workspace,
                                 size_t workspace_bytes, wl_stream stream);

/* ---- norm and a linear layer ----------------------------------------------------------------- */

/* How wl_norm_linear comes to its result. */
typedef enum wl_norm_form WL_INT {
  /* Rows are normalised, in x_type or, with NVFP4 weights, in NVFP4, and multiplied. */
  WL_NORM_PLAIN = 0,
  /* X itself is multiplied, and each row of the sum by the norm's factor: half the memory traffic
   * ahead of the product. w and bias are what wl_norm_linear_fold made of them. LayerNorm's mean
   * is then taken off by weights whose rows add up to nothing but for their rounding: beside the
   * plain form's error stands |mu| / sigma of a row times as much. Take it where |mu| is about
   * sigma at most, as in a model's residual stream; with FP16 weights 8 times that. */
  WL_NORM_FOLDED = 1
} wl_norm_form;

/*     D[m,n] = activation(alpha * (norm(X + residual) . W^T)[m,n] + bias[n])
 *
 * norm is that of wl_quantize_args. X [M,K] is FP16 or BF16, W [N,K] of the same type or NVFP4 with
 * scales. WL_NORM_PLAIN: normalised rows are rounded to x_type once, or become NVFP4 as wl_quantize
 * makes it under *a_scale, which alpha takes in; what follows is wl_gemm. WL_NORM_FOLDED: rows of
 * sums are multiplied by rstd in FP32, which is wl_gemm with row factors. */
typedef struct wl_norm_linear_args {
  size_t struct_size; /* sizeof(wl_norm_linear_args) */
  int64_t m;          /* >= 1 */
  int64_t n;          /* multiple of 8 */
  int64_t k;          /* multiple of 64, at most 32768 */
  const void* x;      /* device, [M,K], 16-byte aligned */
  wl_dtype x_type;    /* WL_F16 or WL_BF16 */
  int64_t ldx;        /* elements from row to row of X, multiple of 8, 0 = K; folded: K or 0 */
  wl_norm norm;       /* WL_NORM_RMS or WL_NORM_LAYER */
  wl_norm_form form;
  float eps;            /* positive and finite */
  wl_dtype gamma_type;  /* of gamma and beta: x_type or WL_F32; counts where there is one */
  const void* gamma;    /* device, [K] of gamma_type, 16-byte aligned, null = 1; folded: null */
  const void* beta;     /* likewise, WL_NORM_LAYER only, null = 0 */
  const void* residual; /* device, [M,K] of x_type, 16-byte aligned, null = none */
  int64_t ldr;          /* elements from row to row of residual and sum, as ldx */
  void* sum;            /* takes X plus the residual, as at wl_quantize_args; folded: not null where
                           there is a residual */
  const void* w;        /* device, [N,K] of w_type, 16-byte aligned */
  wl_operand w_type;    /* WL_OPERAND_F16 or _BF16, as x_type is, or WL_OPERAND_NVFP4 */
  const void* sfw;      /* WL_OPERAND_NVFP4 only: scales of w in sf_layout, 16-byte aligned */
  wl_sf_layout sf_layout;
  const float* a_scale; /* WL_OPERAND_NVFP4 only: device, 4-byte aligned, null = 1 */
  const float* alpha;   /* device, multiplies the sum, 4-byte aligned, null = 1 */
  const void* bias;     /* device, [N] of bias_type, 16-byte aligned, null = none */
  wl_dtype bias_type;   /* WL_F32, WL_F16 or WL_BF16 */
  wl_activation activation;
  void* d;            /* device, [M,N], 16-byte aligned; may overlap no other operand */
  wl_dtype d_type;    /* WL_F16, WL_BF16 or WL_F32, as wl_gemm makes it of the types */
  int64_t ldd;        /* elements from row to row of D, multiple of 8, 0 = N */
  const char* config; /* name of a configuration of wl_gemm to force, null = the library chooses */
  uint32_t flags;     /* of enum wl_plan_flags: 0 or WL_GRAPH_LAUNCH */
} wl_norm_linear_args;

/* Checks the arguments as wl_dual_gemm_check does. */
WL_API wl_status wl_norm_linear_check(wl_context* context, const wl_norm_linear_args* args);
/* Two kernels or more, one behind the other. The workspace holds the normalised rows, M * K * 2
 * bytes or M * K * 9/16 of NVFP4, of the folded form M floats; and the product's own. */
WL_API wl_status wl_norm_linear_plan(wl_context* context, const wl_norm_linear_args* args,
                                     wl_plan** plan);
/* Runs a plan of wl_norm_linear_plan with the operands of `args`, as wl_dual_gemm_run does: M is at
 * most the plan's; N, K, the types of X, W and D, sf_layout, norm and form are the plan's. Gamma,
 * beta, a residual and a bias may come or go, and the activation may be another one. */
WL_API wl_status wl_norm_linear_run(const wl_plan* plan, const wl_norm_linear_args* args,
                                    void* workspace, size_t workspace_bytes, wl_stream stream);
/* What the folded form reads, once for a model's weights: of args' norm, k, n, x_type, and gamma,
 * beta, w and bias with their types, all else of which counts for nothing here, it makes on the
 * stream, w_type being FP16 or BF16 as x_type is,
 *   w_folded[n,k] = w[n,k] * gamma[k], for LayerNorm less the mean of that over k, in w_type
 *   bias_folded[n] = bias[n] + sum_k beta[k] * w[n,k], in FP32
 * w_folded is device memory, [N,K], 16-byte aligned, and may be w; bias_folded is device memory,
 * [N], 16-byte aligned. With an alpha other than 1, beta has no place in bias_folded: it is null
 * then. Loads a kernel, where wl_plan_run loads none. */
WL_API wl_status wl_norm_linear_fold(wl_context* context, const wl_norm_linear_args* args,
                                     void* w_folded, float* bias_folded, wl_stream stream);

/* ---- mixture of experts ---------------------------------------------------------------------- */

/*     y[t] = sum over j of weights[t,j] * down(h(x[t]))  + shared[t]       j = 0 to top_k - 1
 *     h(x)    = gate(alpha_gate * G.x + bias_gate, alpha_up * U.x + bias_up)
 *     down(h) = alpha_down * W.h + bias_down
 *
 * where G, U [I,H] and W [H,I] are the gate, up and down matrices of expert ids[t,j] - first_expert
 * in NVFP4, with scales, factors and biases of its own. A j whose expert is none of the E that are
 * here takes no part, whatever its weight: as expert parallelism needs it. The host reads nothing
 * of what the device computes, so a run can be captured in a CUDA graph.
 *
 * A run orders the T * top_k pairs of token and expert by expert, those of one expert by token;
 * multiplies their rows with their experts' matrices as wl_grouped_dual_gemm and wl_grouped_gemm
 * do; and adds up each token's rows in FP32, an fma for each j in their order from +0 on, then the
 * shared output, rounding once. The same arguments give the same bits. There is no unordered way:
 * this one reads each row once and is bound by that. Up to 64 pairs may be multiplied without being
 * ordered first (Hopper; configurations moe_up_* and moe_down_*); the library takes up to 128 / T
 * so. moe_down_*_sum_* add up the rows of a token, of top_k up to 8, in the down product itself.
 *
 * a_type says what the tokens are multiplied as. On Hopper WL_OPERAND_F16 or WL_OPERAND_BF16, as
 * x_type: they are read where they lie. Or WL_OPERAND_NVFP4: each token is quantised once with
 * *x_scale, by the arithmetic of wl_quantize, and alpha_gate and alpha_up take *x_scale in. On
 * Hopper h is then of x_type. On Blackwell only NVFP4 is there, and h is NVFP4 as well, with
 * *h_scale, which alpha_down takes in. The rows of the down products are rounded to y_type; on
 * Hopper to BF16 where y_type is that, else to x_type. */
typedef struct wl_moe_args {
  size_t struct_size;   /* sizeof(wl_moe_args) */
  int64_t tokens;       /* T, >= 1; T * top_k below 2^30 */
  int64_t hidden;       /* H, multiple of 64, to 2^20 */
  int64_t intermediate; /* I, multiple of 64, to 2^20 */
  int64_t experts;      /* E, that are here, 1 to 512 */
  int64_t top_k;        /* 1 to 32 */
  int64_t first_expert; /* id of the first of them, >= 0; first_expert + E at most 2^31 */
  const void* x;        /* device, [T, H] of x_type, 16-byte aligned */
  wl_dtype x_type;      /* WL_F16 or WL_BF16 */
  wl_operand a_type;    /* WL_OPERAND_NVFP4, or x_type's */
  const int32_t* ids;   /* device, [T, top_k], 4-byte aligned, any numbers */
  const float* weights; /* device, [T, top_k], 4-byte aligned, null = 1 */
  const void* w_gate;   /* device, [E, I, H/2] bytes, 16-byte aligned */
  const void* w_up;     /* likewise */
  const void* w_down;   /* device, [E, H, I/2] bytes, 16-byte aligned */
  const void* sf_gate;  /* device, scales of the matrices in sf_layout, for each expert, 16-byte */
  const void* sf_up;    /* aligned */
  const void* sf_down;
  wl_sf_layout sf_layout;
  int64_t
      w_stride_bytes; /* of w_gate and of w_up, from expert to expert, multiple of 16, 0 = dense */
  int64_t sf_stride_bytes; /* of their scales, likewise */
  int64_t w_down_stride_bytes;
  int64_t sf_down_stride_bytes;
  const float* alpha_gate; /* device, [E], 4-byte aligned, null = 1 */
  const float* alpha_up;
  const float* alpha_down;
  const void* bias_gate; /* device, [E, I] of bias_type, 16-byte aligned, null = none */
  const void* bias_up;   /* likewise */
  const void* bias_down; /* device, [E, H] of bias_type, likewise */
  wl_dtype bias_type;    /* WL_F32, WL_F16 or WL_BF16, of all biases */
  wl_gate gate;
  float gate_limit;     /* as at wl_dual_gemm_args */
  const float* x_scale; /* device, 4-byte aligned, null = 1; of NVFP4 tokens, normal and positive */
  const float* h_scale; /* likewise, of an h in NVFP4 */
  const void* shared;   /* device, [T, H] of y_type, 16-byte aligned, null = none; may be y */
  int64_t ld_shared;    /* elements from row to row of shared, multiple of 8, 0 = H */
  void* y;              /* device, [T, H], 16-byte aligned; overlaps no input but shared, and that
                           only where it is shared, with the same stride */
  wl_dtype y_type;      /* WL_F16, WL_BF16 or WL_F32 */
  int64_t ldy;          /* elements from row to row of y, multiple of 8, 0 = H */
  uint32_t flags;       /* of enum wl_plan_flags */
  /* Names of configurations to force, null = the library chooses: of wl_grouped_dual_gemm and of
   * wl_grouped_gemm, or, both together, moe_up_* and moe_down_*. */
  const char* config_up;
  const char* config_down;
} wl_moe_args;

/* Checks the arguments as wl_dual_gemm_check does. */
WL_API wl_status wl_moe_check(wl_context* context, const wl_moe_args* args);
/* The workspace holds what the kernels hand each other: h, the rows of the down products, the order
 * of the pairs, and NVFP4 tokens. */
WL_API wl_status wl_moe_plan(wl_context* context, const wl_moe_args* args, wl_plan** plan);
/* Runs a plan of wl_moe_plan with the operands of `args`, as wl_dual_gemm_run does: T is at most
 * the plan's, the other sizes, top_k, the types and sf_layout are the plan's. Pointers, strides,
 * first_expert, biases, the gate and the shared output may differ as there. */
WL_API wl_status wl_moe_run(const wl_plan* plan, const wl_moe_args* args, void* workspace,
                            size_t workspace_bytes, wl_stream stream);

#ifdef __cplusplus
}
#endif

#endif
