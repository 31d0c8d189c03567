// What every operation does with its table of configuration rows, whose entries have a `name` and
// the `target` of their PTX.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/rules.hpp"

#include <string>
#include <vector>

namespace warpline {

template <class Row>
const Row* find_row(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

// "its target sm_90a does not run on compute capability 10.0", or "".
template <class Row>
std::string target_mismatch(const Row& row, const DeviceLimits& device) {
  if (target_runs_on(row.target, device.compute_major, device.compute_minor)) return "";
  return format("its target %s does not run on compute capability %d.%d", row.target,
                device.compute_major, device.compute_minor);
}

// Rules.
template <class Row>
Verdict device_supported(const std::vector<Row>& rows, const DeviceLimits& device) {
  std::string targets;
  const char* last = nullptr; // rows of one target stand together, and many of them
  for (const Row& row : rows) {
    if (row.target == last) continue;
    last = row.target;
    if (target_runs_on(row.target, device.compute_major, device.compute_minor)) return holds();
    if (targets.find(row.target) == std::string::npos)
      targets += (targets.empty() ? "" : ", ") + std::string(row.target);
  }
  return violated(format(" %s has compute capability %d.%d, which", device.name.c_str(),
                         device.compute_major, device.compute_minor),
                  targets);
}

// Of the rows that serve a request, the three with names like the one given; runs(row, &reason)
// says whether a row serves it, or why not.
template <class Row, class Runs>
std::string rows_like(const std::vector<Row>& rows, const char* config, const Runs& runs) {
  std::vector<std::string> serving;
  for (const Row& row : rows)
    if (runs(row, nullptr)) serving.emplace_back(row.name);
  std::string names;
  for (const std::string& name : nearest_names(config, serving, 3))
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

template <class Row, class Runs>
Verdict config_known(const std::vector<Row>& rows, const char* config, const Runs& runs) {
  if (config == nullptr || find_row(rows, config) != nullptr) return holds();
  return violated(format(" = \"%s\"", config), rows_like(rows, config, runs));
}

template <class Row, class Runs>
Verdict config_runs(const std::vector<Row>& rows, const char* config, const Runs& runs) {
  const Row* row = config != nullptr ? find_row(rows, config) : nullptr;
  std::string reason;
  if (row == nullptr || runs(*row, &reason)) return holds();
  return violated(format(" = \"%s\", but %s,", row->name, reason.c_str()),
                  rows_like(rows, config, runs));
}

} // namespace warpline
