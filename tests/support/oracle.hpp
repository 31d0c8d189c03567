// One PTX text, run on the real GPU and on the virtual one of the same kind, compared byte by byte.
//
// A case is a kernel body with its launch shape and buffers. The GPU's side runs in a process of
// its own (a trap or a bad address ends a CUDA context for good), which is started again behind a
// case that took it down. No case may wait without bound: see bounded_wait().
#pragma once

#include "tests/support/vgpu_run.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wltest::oracle {

struct Buffer {
  std::string name; // of the kernel's parameter, .u64
  std::vector<uint8_t> bytes;
  bool output = false; // compared after the run
};

// Arguments of cuTensorMapEncodeTiled, or of cuTensorMapEncodeIm2col when `channels` is not 0.
struct Map {
  uint32_t buffer = 0; // index of the buffer it lies in
  int type = 0;        // CUtensorMapDataType
  std::vector<uint64_t> dim, stride;
  std::vector<uint32_t> box, element_stride;
  int swizzle = 0, interleave = 0, fill = 0;
  std::vector<int> lower, upper;
  uint32_t channels = 0, pixels = 0;
  bool null_stride = false; // of rank 1: no array of strides at all

  // What the encoders get: an array even where no stride is read.
  const uint64_t* strides() const {
    static const uint64_t none[1] = {};
    return null_stride ? nullptr : stride.empty() ? none : stride.data();
  }
};

enum class Compare : uint8_t {
  bits,     // every byte of every output buffer
  ulp32,    // floats at the head of rows of `row_bytes`: an approximation, the distance is reported
  ulp16,    // the same with f16
  ulp_bf16, // the same with bf16
  measured, // analyse() only: a question to the hardware, not a claim
};

struct Case {
  std::string family, name, body;
  std::string head;       // module scope
  std::string directives; // of the entry, beside .maxntid
  Dim block{32}, grid{}, cluster{};
  uint32_t dynamic_shared = 0;
  std::vector<Map> maps;       // parameters m0, m1, ... come first
  std::vector<Buffer> buffers; // then these
  bool cluster_launch = false; // the launch names clusters, even of one CTA
  bool lenient = false;        // the virtual GPU tells of errors and goes on
  bool hopper_sums = false;    // option wgmma_accumulation of the virtual GPU
  bool scheduled = true;       // asynchronous: under several schedules, else under one
  Compare compare = Compare::bits;
  uint32_t row_bytes = 4;
  uint32_t operands = 0; // of a row, 8 bytes each behind its result: shown where results differ
  std::string refused;   // part of the virtual GPU's refusal: a question to the card alone
  std::vector<uint8_t> expected; // of the first output buffer; empty: not known here
  // Sentence for the report; `gpu` is empty without a GPU.
  std::function<std::string(const Case&, const std::vector<uint8_t>& gpu,
                            const std::vector<uint8_t>& simulated)>
      analyse;

  Case& in(const std::string& parameter, std::vector<uint8_t> bytes);
  Case& out(const std::string& parameter, std::vector<uint8_t> bytes);
  Case& out(const std::string& parameter, size_t bytes); // filled with 0xEE
};

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& v) {
  const auto* p = reinterpret_cast<const uint8_t*>(v.data());
  return {p, p + v.size() * sizeof(T)};
}

std::string ptx_text(const Case& c);

// Waits for a parity of the mbarrier at `barrier` ("[bar+8]"); traps after about half a second.
// Uses %p30, %p31 and %r63; `id` makes its labels unique.
std::string bounded_wait(const std::string& barrier, const std::string& parity, int id);

std::vector<uint8_t> random_bytes(size_t n, uint32_t seed);

struct Outcome {
  bool simulated = false, ran = false; // has results
  bool refused = false;                // by the virtual GPU, as the case says
  bool equal = false;                  // of both sides, or, without a GPU, with what is expected
  std::string error;                   // of either side
  std::string difference;              // first differing byte, or distances
  std::string note;
};

struct Summary {
  bool has_gpu = false;
  std::string device, why_not;
  std::vector<Outcome> outcomes; // by case
};

// The GPU's side of cases start, start + step, ...; results go into `directory`. For the child
// process.
void run_worker(const std::vector<Case>& cases, const std::string& directory, size_t start,
                size_t step);

// Both sides of all cases. `worker` is the command that ends in run_worker().
Summary run_both(const std::vector<Case>& cases, const std::vector<std::string>& worker);

// family | cases | bit-equal | differing | notes, in Markdown.
std::string table(const std::vector<Case>& cases, const Summary& summary);

} // namespace wltest::oracle
