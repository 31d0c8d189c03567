// OpenCL C through LLVM: local memory, barriers, vectors, atomics, a function that is not inlined.
int tid(void) { return __nvvm_read_ptx_sreg_tid_x(); }
int block(void) { return __nvvm_read_ptx_sreg_ctaid_x(); }
int width(void) { return __nvvm_read_ptx_sreg_ntid_x(); }

__kernel void saxpy(__global const float* x, __global float* y, float a, int n) {
  int i = block() * width() + tid();
  if (i < n) y[i] = a * x[i] + y[i];
}

__kernel void reversed(__global const int* in, __global int* out) {
  __local int room[64];
  room[tid()] = in[tid()];
  __nvvm_barrier_sync(0);
  out[tid()] = room[63 - tid()];
}

typedef float float4 __attribute__((ext_vector_type(4)));
__kernel void rows(__global const float4* in, __global float* out) {
  float4 v = in[tid()];
  v *= v;
  out[tid()] = v.x + v.y + v.z + v.w;
}

__attribute__((noinline)) int collatz(int n) {
  int steps = 0;
  while (n != 1) {
    n = n & 1 ? 3 * n + 1 : n / 2;
    ++steps;
  }
  return steps;
}
__kernel void steps(__global int* out, __global int* longest) {
  int s = collatz(tid() + 1);
  out[tid()] = s;
  __nvvm_atom_max_gen_i((int*)longest, s);
}

// Indexed by a value that is not known: local memory.
__kernel void counted(__global const unsigned char* in, __global int* out, int n) {
  int bins[8] = {0};
  for (int i = 0; i < n; ++i) ++bins[in[i * width() + tid()] & 7];
  for (int b = 0; b < 8; ++b) out[b * width() + tid()] = bins[b];
}
