// build/vgpu run FILE.ptx [options]: one kernel of a PTX file on the virtual GPU, without a host
// program. See usage() for the options. build/vgpu speed [THREADS]: how fast it is here.
#include "tools/vgpu/check/deadlock.hpp"
#include "tools/vgpu/check/ledger.hpp"
#include "tools/vgpu/check/options.hpp"
#include "tools/vgpu/isa/decode.hpp"
#include "tools/vgpu/isa/globals.hpp"
#include "tools/vgpu/isa/target.hpp"
#include "tools/vgpu/ptx/parser.hpp"
#include "tools/vgpu/run/speed.hpp"
#include "tools/vgpu/trace/coverage.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

using namespace vgpu;

namespace {

const char* const kUsage =
    R"(vgpu run FILE.ptx: runs one kernel of a PTX file on the virtual GPU.

  --entry NAME         the kernel; may be left out when the file has one
  --grid X[,Y[,Z]]     CTAs (default 1)
  --block X[,Y[,Z]]    threads of a CTA (default 32)
  --cluster X[,Y[,Z]]  CTAs of a cluster (default 1)
  --shared BYTES       dynamic shared memory (default 0)
  --stack BYTES        of a thread, for alloca and recursion (default 1024, as CU_LIMIT_STACK_SIZE)
  --heap BYTES         of the kernel's malloc (default 8388608, as CU_LIMIT_MALLOC_HEAP_SIZE)
  --param VALUE        one parameter, in order; repeat it for each:
                         TYPE:NUMBER   u8 u16 u32 u64 s32 s64 f32 f64, as in u32:7
                         buffer:BYTES            a device buffer of that size that nobody has
                                                 written (0xC7 in every byte)
                         zeros:BYTES             the same, filled with 0
                         file:PATH               a device buffer with the file's bytes
                         bytes:HEX               a parameter passed by value
  --dump N=PATH        after the run, writes the buffer of parameter N (from 0) to PATH
  --print N[:TYPE]     after the run, prints its first 64 elements (u32, s32, f32, u8, u64)
  --device NAME        b200 (default), b300, h200
  --schedule S         lazy (default), eager, reverse (as lazy, the newest operation first),
                       random:SEED, starve:WARP (one warp of a CTA lags),
                       hold:SEED (some operations come as late as can be),
                       stagger:SEED (the CTAs of a cluster start at different times),
                       explore:RUNS (one point of the schedule late, then two; a finding names
                       the schedule explore:@POINT,... that repeats it)
  --seeds N            runs random:1 .. random:N after the schedule; the first fault ends it
  --check LIST         all (default), off, or races,definedness,barriers,advice,proxy-reads,ledger
  --rules LIST         own (default: errors stop), foreign (errors are told and the run goes on),
                       then RULE=stop, =tell or =off, with commas; names: check/RULES.md
  --define NAME=VALUE  a name in the table that --check ledger reads (several: commas)
  --limit N            warp-instructions of a cluster (default 100000000)
  --graph PREFIX       a deadlock's wait-for graph, or a checker's finding, goes to PREFIX.json
                       and PREFIX.svg
  --coverage PREFIX    which instructions ran and which ways branches went: the text here and in
                       PREFIX.txt, listings with counts in PREFIX.KERNEL.ptx
  --json               the report as JSON

Exit status: 0 ran clean, 1 a fault, a finding or an error that was told, 2 bad usage, or a file
that cannot be read or is no PTX.
)";

struct Bad {
  std::string what;
};

struct Buffer {
  uint64_t address = 0;
  size_t bytes = 0;
};

struct Request {
  std::string file, entry, device = "b200", schedule = "lazy", check = "all", rules = "own",
                           coverage, graph, names;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{32, 1, 1}, cluster{1, 1, 1};
  uint64_t shared = 0, stack = 1024, heap = 8 << 20, limit = 100'000'000, seeds = 0;
  std::vector<std::string> params, dumps, prints;
  bool json = false;
};

uint64_t number(const std::string& text, const std::string& option) {
  char* end = nullptr;
  uint64_t v = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || *end || text[0] == '-')
    throw Bad{option + ": \"" + text + "\" is not a number"};
  return v;
}

uint64_t bytes_of_stack(const std::string& text, const std::string& option) {
  const uint64_t v = number(text, option);
  if (v > 512 << 10) throw Bad{option + " " + text + ": a thread has at most 524288 bytes"};
  return v;
}

std::array<uint32_t, 3> dims(const std::string& text, const std::string& option) {
  std::array<uint32_t, 3> d{1, 1, 1};
  std::istringstream in(text);
  std::string part;
  size_t i = 0;
  while (std::getline(in, part, ',')) {
    if (i == 3) throw Bad{option + ": at most three dimensions"};
    d[i++] = static_cast<uint32_t>(number(part, option));
  }
  return d;
}

Request parse(int argc, char** argv) {
  Request r;
  int i = 1;
  if (i < argc && std::string(argv[i]) == "run") ++i;
  for (; i < argc; ++i) {
    std::string a = argv[i];
    if (a == "--help" || a == "-h") {
      std::cout << kUsage;
      std::exit(0);
    }
    if (a == "--json") {
      r.json = true;
      continue;
    }
    if (a.rfind("--", 0) != 0) {
      if (!r.file.empty()) throw Bad{"two files: " + r.file + " and " + a};
      r.file = a;
      continue;
    }
    if (i + 1 >= argc) throw Bad{a + " needs a value"};
    std::string v = argv[++i];
    if (a == "--entry")
      r.entry = v;
    else if (a == "--grid")
      r.grid = dims(v, a);
    else if (a == "--block")
      r.block = dims(v, a);
    else if (a == "--cluster")
      r.cluster = dims(v, a);
    else if (a == "--shared")
      r.shared = number(v, a);
    else if (a == "--param")
      r.params.push_back(v);
    else if (a == "--dump")
      r.dumps.push_back(v);
    else if (a == "--print")
      r.prints.push_back(v);
    else if (a == "--device")
      r.device = v;
    else if (a == "--schedule")
      r.schedule = v;
    else if (a == "--seeds")
      r.seeds = number(v, a);
    else if (a == "--check")
      r.check = v;
    else if (a == "--rules")
      r.rules = v;
    else if (a == "--define")
      r.names += (r.names.empty() ? "" : ",") + v;
    else if (a == "--heap")
      r.heap = number(v, a);
    else if (a == "--stack")
      r.stack = bytes_of_stack(v, a);
    else if (a == "--limit")
      r.limit = number(v, a);
    else if (a == "--coverage")
      r.coverage = v;
    else if (a == "--graph")
      r.graph = v;
    else
      throw Bad{"unknown option " + a};
  }
  if (r.file.empty()) throw Bad{"no PTX file given"};
  return r;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Bad{path + " cannot be read"};
  std::ostringstream s;
  s << in.rdbuf();
  return s.str();
}

// The bytes of one parameter; buffers are made on the way.
std::vector<uint8_t> parameter(const std::string& text, mem::DeviceMemory& memory, Buffer& buffer) {
  size_t colon = text.find(':');
  if (colon == std::string::npos) throw Bad{"--param " + text + ": TYPE:VALUE is needed"};
  std::string type = text.substr(0, colon), value = text.substr(colon + 1);
  auto raw = [](const auto& v) {
    std::vector<uint8_t> b(sizeof v);
    std::memcpy(b.data(), &v, sizeof v);
    return b;
  };
  auto integer = [&](uint64_t most) {
    char* end = nullptr;
    uint64_t v = value[0] == '-' ? static_cast<uint64_t>(std::strtoll(value.c_str(), &end, 0))
                                 : std::strtoull(value.c_str(), &end, 0);
    if (value.empty() || *end) throw Bad{"--param " + text + ": no number"};
    if (value[0] != '-' && v > most) throw Bad{"--param " + text + " does not fit the type"};
    return v;
  };
  if (type == "u8") return raw(static_cast<uint8_t>(integer(0xFF)));
  if (type == "u16") return raw(static_cast<uint16_t>(integer(0xFFFF)));
  if (type == "u32" || type == "s32") return raw(static_cast<uint32_t>(integer(0xFFFFFFFF)));
  if (type == "u64" || type == "s64") return raw(integer(~0ull));
  if (type == "f32") return raw(std::strtof(value.c_str(), nullptr));
  if (type == "f64") return raw(std::strtod(value.c_str(), nullptr));
  if (type == "bytes") {
    std::vector<uint8_t> b;
    if (value.size() % 2) throw Bad{"--param bytes: an even number of hexadecimal digits"};
    for (size_t i = 0; i < value.size(); i += 2)
      b.push_back(static_cast<uint8_t>(number("0x" + value.substr(i, 2), "--param bytes")));
    return b;
  }
  std::string content;
  const bool written = type != "buffer";
  if (type == "file")
    content = read_file(value);
  else if (written && type != "zeros")
    throw Bad{"--param " + text + ": there is no type " + type};
  buffer.bytes = type == "file" ? content.size() : number(value, "--param " + type);
  if (!buffer.bytes) throw Bad{"--param " + text + ": an empty buffer"};
  buffer.address = memory.allocate(buffer.bytes, 512);
  if (!buffer.address) throw Bad{"--param " + text + ": more memory than the device or host has"};
  if (written) {
    uint8_t* const at = memory.find(buffer.address, buffer.bytes);
    if (type == "zeros")
      std::memset(at, 0, buffer.bytes);
    else
      std::memcpy(at, content.data(), buffer.bytes);
    memory.host_wrote(buffer.address, buffer.bytes);
  }
  return raw(buffer.address);
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

template <class T>
void print_as(const uint8_t* p, size_t bytes) {
  for (size_t i = 0; i < 64 && (i + 1) * sizeof(T) <= bytes; ++i) {
    T v;
    std::memcpy(&v, p + i * sizeof(T), sizeof(T));
    std::cout << (i % 8 ? " " : i ? "\n  " : "  ") << +v;
  }
  std::cout << "\n";
}

const Buffer& buffer_of(const std::vector<Buffer>& buffers, const std::string& index) {
  uint64_t n = number(index, "parameter");
  if (n >= buffers.size() || buffers[n].address == 0)
    throw Bad{"parameter " + index + " is no buffer"};
  return buffers[n];
}

check::Rules parse_rules(const std::string& text) {
  const size_t comma = text.find(',');
  const std::string first = text.substr(0, comma);
  const bool named = first == "own" || first == "foreign";
  check::Rules rules = first == "foreign" ? check::Rules::lenient() : check::Rules::strict();
  std::string error;
  if (!rules.apply(!named                       ? text
                   : comma == std::string::npos ? ""
                                                : text.substr(comma + 1),
                   &error))
    throw Bad{"--rules " + text + ": " + error};
  return rules;
}

int run(const Request& r) {
  const exec::Profile* profile = exec::find_profile(r.device);
  if (!profile) throw Bad{"--device " + r.device + ": known are b200, b300, h200"};
  std::string error;
  exec::LaunchSpec spec;
  if (!check::parse_checks(r.check, spec.checks, &error)) throw Bad{error};
  spec.rules = parse_rules(r.rules);
  check::LedgerNames names;
  if (!check::parse_names(r.names, names, &error)) throw Bad{"--define " + error};
  spec.names = r.names;
  if (!exec::make_policy(r.schedule, 0, &error)) throw Bad{error};
  const std::string text = read_file(r.file);
  const ptx::Module module = ptx::parse(text);
  isa::check_module(module, profile->major * 10 + profile->minor);
  const ptx::Function* entry = nullptr;
  size_t entries = 0;
  for (const ptx::Function& f : module.functions)
    if (f.is_entry && f.has_body && (r.entry.empty() || f.name == r.entry)) {
      entry = &f;
      ++entries;
    }
  if (!entry) throw Bad{r.file + " has no entry " + r.entry};
  if (entries > 1) throw Bad{r.file + " has several entries; --entry names one"};

  std::vector<std::string> schedules{r.schedule};
  for (uint64_t s = 1; s <= r.seeds; ++s) schedules.push_back("random:" + std::to_string(s));
  exec::Stats total;
  trace::Coverage coverage;
  if (!r.coverage.empty()) spec.coverage = &coverage;
  auto show_coverage = [&] {
    if (r.coverage.empty()) return;
    if (const std::string wrong = coverage.write(r.coverage); !wrong.empty()) throw Bad{wrong};
    if (!r.json) std::cout << coverage.text();
  };
  for (const std::string& schedule : schedules) {
    // Every run starts from the same memory.
    mem::DeviceMemory memory(profile->memory_bytes);
    memory.track_writes(spec.checks & check::kDefinedness);
    const auto globals = isa::place_globals(module, memory);
    const auto program = isa::decode(module, *entry, globals);
    std::vector<Buffer> buffers(r.params.size());
    if (program->params.size() != r.params.size())
      throw Bad{"the kernel takes " + std::to_string(program->params.size()) + " parameters, " +
                std::to_string(r.params.size()) + " are given"};
    spec.params.assign(program->param_bytes, 0);
    for (size_t i = 0; i < r.params.size(); ++i) {
      std::vector<uint8_t> bytes = parameter(r.params[i], memory, buffers[i]);
      if (bytes.size() != program->params[i].bytes)
        throw Bad{"--param " + r.params[i] + " has " + std::to_string(bytes.size()) + " bytes, " +
                  program->params[i].name + " has " + std::to_string(program->params[i].bytes)};
      std::memcpy(spec.params.data() + program->params[i].offset, bytes.data(), bytes.size());
    }
    spec.program = program.get();
    spec.profile = profile;
    spec.memory = &memory;
    spec.grid = r.grid;
    spec.block = r.block;
    spec.cluster = r.cluster;
    spec.stack_bytes = static_cast<uint32_t>(r.stack);
    spec.heap_bytes = r.heap;
    spec.dynamic_shared = static_cast<uint32_t>(r.shared);
    spec.schedule = schedule;
    spec.instruction_limit = r.limit;
    spec.graph = r.graph;
    if (std::string wrong = exec::check_launch(spec); !wrong.empty()) throw Bad{"launch: " + wrong};
    try {
      total.add(exec::run_grid(spec));
    } catch (const exec::Fault& f) {
      for (const auto& [place, told] : f.told)
        if (!r.json) std::cout << told << "\n";
      if (r.json)
        std::cout << "{\"ok\": false, \"schedule\": " << quoted(schedule)
                  << ", \"checker\": " << quoted(f.checker) << ", \"code\": " << int(f.code)
                  << ", \"report\": " << quoted(f.what()) << "}\n";
      else
        std::cout << f.what();
      show_coverage();
      return 1;
    }
    if (schedule != schedules.back()) continue;
    for (const std::string& d : r.dumps) {
      size_t eq = d.find('=');
      if (eq == std::string::npos) throw Bad{"--dump " + d + ": N=PATH is needed"};
      const Buffer& b = buffer_of(buffers, d.substr(0, eq));
      std::ofstream out(d.substr(eq + 1), std::ios::binary);
      out.write(reinterpret_cast<const char*>(memory.find(b.address, b.bytes)),
                static_cast<std::streamsize>(b.bytes));
      if (!out.flush()) throw Bad{"--dump " + d + ": the file cannot be written"};
    }
    for (const std::string& p : r.prints) {
      size_t colon = p.find(':');
      const Buffer& b = buffer_of(buffers, p.substr(0, colon));
      std::string type = colon == std::string::npos ? "u32" : p.substr(colon + 1);
      const uint8_t* at = memory.find(b.address, b.bytes);
      std::cout << "parameter " << p.substr(0, colon) << ":\n";
      if (type == "f32")
        print_as<float>(at, b.bytes);
      else if (type == "s32")
        print_as<int32_t>(at, b.bytes);
      else if (type == "u8")
        print_as<uint8_t>(at, b.bytes);
      else if (type == "u64")
        print_as<uint64_t>(at, b.bytes);
      else if (type == "u32")
        print_as<uint32_t>(at, b.bytes);
      else
        throw Bad{"--print " + p + ": there is no type " + type};
    }
  }
  show_coverage();
  if (r.json) {
    std::cout << "{\"ok\": true, \"schedules\": " << schedules.size()
              << ", \"warp_instructions\": " << total.warp_instructions;
    auto list = [](const char* name, const std::set<std::string>& texts) {
      std::cout << ", \"" << name << "\": [";
      const char* comma = "";
      for (const std::string& a : texts) {
        std::cout << comma << quoted(a);
        comma = ", ";
      }
      std::cout << "]";
    };
    list("errors", total.errors());
    list("advice", total.advice());
    std::cout << "}\n";
    return total.errors().empty() ? 0 : 1;
  }
  for (const auto& [place, told] : total.told) std::cout << told.full() << "\n";
  const size_t errors = total.errors().size();
  std::cout << (errors ? "ran on with " + std::to_string(errors) +
                             (errors == 1 ? " error" : " errors") + " under "
                       : std::string("ran clean under "))
            << schedules.size() << " schedule" << (schedules.size() == 1 ? "" : "s") << ", "
            << total.warp_instructions << " warp-instructions\n";
  return errors ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc >= 2 && std::string(argv[1]) == "speed")
      return run_speed(argc > 2 ? static_cast<unsigned>(number(argv[2], "speed")) : 2);
    return run(parse(argc, argv));
  } catch (const Bad& b) {
    std::fprintf(stderr, "vgpu: %s\n", b.what.c_str());
  } catch (const ptx::ParseError& e) {
    std::fprintf(stderr, "vgpu: %d:%d: %s\n", e.line, e.column, e.what());
  } catch (const isa::ModuleError& e) {
    std::fprintf(stderr, "vgpu: line %d: %s\n", e.line, e.what());
  } catch (const isa::DecodeError& e) {
    std::fprintf(stderr, "vgpu: %s\n", e.what());
  } catch (const exec::Fault& e) {
    std::fprintf(stderr, "%s", e.what());
  }
  return 2;
}
