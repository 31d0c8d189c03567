#include "tools/cli/safetensors.hpp"

#include "tools/cli/json.hpp"
#include "tools/cli/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace warpline::cli {
namespace {

struct Dtype {
  const char* name;
  unsigned bits;
};
constexpr Dtype dtypes[] = {
    {"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"F4", 4},   {"U16", 16}, {"I16", 16},    {"F16", 16},
    {"BF16", 16},   {"U32", 32}, {"I32", 32}, {"F32", 32},    {"U64", 64},
    {"I64", 64},    {"F64", 64}, {"C64", 64}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Failure(exit_usage, path + ": " + what);
}

uint64_t take_unsigned(const std::string& path, const std::string& tensor, const Json& value,
                       const char* what) {
  if (value.kind != Json::Kind::number || !value.is_unsigned)
    refuse(path, "tensor " + tensor + ": " + what + " must be whole numbers from 0 to 2^64 - 1");
  return value.integer;
}

const Json& member(const std::string& path, const std::string& tensor, const Json& object,
                   const char* name, Json::Kind kind) {
  const Json* value = object.find(name);
  if (!value) refuse(path, "tensor " + tensor + " has no \"" + name + "\"");
  if (value->kind != kind)
    refuse(path, "tensor " + tensor + ": \"" + name + "\" is " + name_of(value->kind) +
                     ", must be " + name_of(kind));
  return *value;
}

// F4 counts elements in the shape by the format's rule, and bytes (two elements each) in the files
// of some writers; both are taken, told apart by the byte count.
void check_size(const std::string& path, const std::string& shown, const Tensor& tensor,
                unsigned bits) {
  uint64_t count = 1;
  for (uint64_t extent : tensor.shape)
    if (__builtin_mul_overflow(count, extent, &count))
      refuse(path, "tensor " + shown + ": the product of shape " + shape_text(tensor.shape) +
                       " overflows 64 bits");
  uint64_t total_bits;
  if (__builtin_mul_overflow(count, uint64_t{bits}, &total_bits))
    refuse(path, "tensor " + shown + ": the size of shape " + shape_text(tensor.shape) +
                     " overflows 64 bits");
  if (total_bits % 8 == 0 && tensor.bytes() == total_bits / 8) return;
  if (bits == 4 && tensor.bytes() == count) return;
  refuse(path, "tensor " + shown + ": data_offsets hold " + std::to_string(tensor.bytes()) +
                   " bytes, but " + tensor.dtype + " " + shape_text(tensor.shape) + " takes " +
                   std::to_string((total_bits + 7) / 8));
}

Tensor parse_tensor(const std::string& path, const std::string& name, const Json& value,
                    uint64_t data_bytes) {
  const std::string shown = shown_name(name);
  if (value.kind != Json::Kind::object)
    refuse(path,
           "tensor " + shown + " is described by " + name_of(value.kind) + ", must be an object");
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = member(path, shown, value, "dtype", Json::Kind::string).text;
  const auto dtype = std::find_if(std::begin(dtypes), std::end(dtypes),
                                  [&](const Dtype& d) { return tensor.dtype == d.name; });
  if (dtype == std::end(dtypes))
    refuse(path, "tensor " + shown + " has the unknown dtype " + shown_name(tensor.dtype));
  const Json& shape = member(path, shown, value, "shape", Json::Kind::array);
  if (shape.items.size() > 16)
    refuse(path, "tensor " + shown + " has " + std::to_string(shape.items.size()) +
                     " dimensions, at most 16 are taken");
  for (const Json& extent : shape.items)
    tensor.shape.push_back(take_unsigned(path, shown, extent, "extents in \"shape\""));
  const Json& offsets = member(path, shown, value, "data_offsets", Json::Kind::array);
  if (offsets.items.size() != 2)
    refuse(path, "tensor " + shown + ": data_offsets must be two numbers, has " +
                     std::to_string(offsets.items.size()));
  tensor.begin = take_unsigned(path, shown, offsets.items[0], "data_offsets");
  tensor.end = take_unsigned(path, shown, offsets.items[1], "data_offsets");
  const std::string range =
      "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + "]";
  if (tensor.begin > tensor.end)
    refuse(path, "tensor " + shown + ": data_offsets " + range + " are reversed");
  if (tensor.end > data_bytes)
    refuse(path, "tensor " + shown + ": data_offsets " + range + " lie beyond the file's " +
                     std::to_string(data_bytes) + " bytes of data (is the file truncated?)");
  check_size(path, shown, tensor, dtype->bits);
  return tensor;
}

// The data must be covered without overlap and without gaps.
void check_cover(const std::string& path, const std::vector<Tensor>& tensors, uint64_t data_bytes) {
  std::vector<const Tensor*> order;
  for (const Tensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const Tensor* a, const Tensor* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t covered = 0;
  const Tensor* before = nullptr;
  for (const Tensor* tensor : order) {
    if (tensor->begin < covered)
      refuse(path, "tensors " + shown_name(before->name) + " and " + shown_name(tensor->name) +
                       " overlap at data byte " + std::to_string(tensor->begin));
    if (tensor->begin > covered)
      refuse(path, "data bytes " + std::to_string(covered) + " to " +
                       std::to_string(tensor->begin) + " belong to no tensor");
    covered = tensor->end;
    before = tensor;
  }
  if (covered != data_bytes)
    refuse(path, "the tensors end at data byte " + std::to_string(covered) + ", the file at " +
                     std::to_string(data_bytes));
}

void read_exactly(const std::string& path, int descriptor, void* to, uint64_t bytes,
                  uint64_t offset) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got =
        pread(descriptor, out, std::min<uint64_t>(bytes, 1 << 30), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) refuse(path, "became shorter while it was read");
    out += got;
    bytes -= static_cast<uint64_t>(got);
    offset += static_cast<uint64_t>(got);
  }
}

} // namespace

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string shown_names(const std::vector<std::string>& names) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + shown_name(names[i]);
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

std::vector<Tensor> parse_header(const std::string& path, std::string_view header,
                                 uint64_t data_bytes) {
  if (header.empty() || header.front() != '{')
    refuse(path, "the header does not begin with '{': not a safetensors file");
  Json root;
  try {
    root = parse_json(header, {.depth = 8, .values = 1000000});
  } catch (const JsonError& error) {
    refuse(path, std::string("the header is not right JSON: ") + error.what());
  }
  std::vector<Tensor> tensors;
  for (const auto& [name, value] : root.members) {
    if (name == "__metadata__") {
      bool strings = value.kind == Json::Kind::object;
      for (const auto& [key, text] : value.members)
        strings = strings && text.kind == Json::Kind::string;
      if (!strings) refuse(path, "__metadata__ must be an object of strings");
      continue;
    }
    tensors.push_back(parse_tensor(path, name, value, data_bytes));
  }
  check_cover(path, tensors, data_bytes);
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  struct stat info;
  // O_NONBLOCK: a named pipe must be refused below, not waited for.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0 || fstat(descriptor_, &info) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    refuse(path, std::string("cannot be opened: ") + std::strerror(error));
  }
  try {
    if (!S_ISREG(info.st_mode)) refuse(path, "is not a regular file");
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size < 8)
      refuse(path, "has " + std::to_string(size) +
                       " bytes, a safetensors file begins with 8 bytes of header length");
    uint8_t raw[8];
    read_exactly(path, descriptor_, raw, 8, 0);
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | raw[i];
    if (length > largest_header)
      refuse(path, "the header length " + std::to_string(length) + " is beyond the limit of " +
                       std::to_string(largest_header) + " bytes: not a safetensors file?");
    if (length > size - 8)
      refuse(path, "the header length " + std::to_string(length) + " is beyond the file's " +
                       std::to_string(size - 8) + " remaining bytes (is the file truncated?)");
    std::string header(length, '\0');
    read_exactly(path, descriptor_, header.data(), length, 8);
    data_start_ = 8 + length;
    tensors_ = parse_header(path, header, size - data_start_);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { close(descriptor_); }

const Tensor* SafetensorsFile::find(std::string_view name) const {
  for (const Tensor& tensor : tensors_)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

std::vector<uint8_t> SafetensorsFile::read(const Tensor& tensor) const {
  std::vector<uint8_t> data(tensor.bytes());
  read(tensor, data.data());
  return data;
}

void SafetensorsFile::read(const Tensor& tensor, void* to) const {
  read_exactly(path_, descriptor_, to, tensor.bytes(), data_start_ + tensor.begin);
}

void write_safetensors(const std::string& path, const std::vector<OutputTensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::set<std::string> names = {"__metadata__"};
  for (const OutputTensor& tensor : tensors)
    if (!names.insert(tensor.name).second)
      refuse(path, "would have two entries of the name " + shown_name(tensor.name) +
                       ", nothing was written");
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (size_t i = 0; i < metadata.size(); ++i)
      header += (i == 0 ? "" : ",") + json_string(metadata[i].first) + ":" +
                json_string(metadata[i].second);
    header += "}";
  }
  uint64_t offset = 0;
  for (const OutputTensor& tensor : tensors) {
    header += (header.size() == 1 ? "" : ",") + json_string(tensor.name) +
              ":{\"dtype\":" + json_string(tensor.dtype) +
              ",\"shape\":" + shape_text(tensor.shape) + ",\"data_offsets\":[" +
              std::to_string(offset) + "," + std::to_string(offset + tensor.bytes) + "]}";
    offset += tensor.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' '); // data begins 8-byte aligned
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(uint64_t{header.size()} >> 8 * i);
  std::vector<std::string_view> parts = {{length, 8}, header};
  for (const OutputTensor& tensor : tensors)
    parts.emplace_back(static_cast<const char*>(tensor.data), tensor.bytes);
  write_file(path, parts);
}

} // namespace warpline::cli
