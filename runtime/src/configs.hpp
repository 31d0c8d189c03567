// What every operation does with its table of configurations, whose entries have a `name` and
// the `target` of their PTX.
#pragma once

#include "runtime/src/context.hpp"
#include "runtime/src/images.hpp"
#include "runtime/src/rules.hpp"

#include <string>
#include <vector>

namespace warpline {

template <class Config>
const Config* find_config(const std::vector<Config>& configs, const std::string& name) {
  for (const Config& config : configs)
    if (name == config.name) return &config;
  return nullptr;
}

// "its target sm_90a does not run on compute capability 10.0", or "".
template <class Config>
std::string target_mismatch(const Config& config, const DeviceLimits& device) {
  if (target_runs_on(config.target, device.compute_major, device.compute_minor)) return "";
  return format("its target %s does not run on compute capability %d.%d", config.target,
                device.compute_major, device.compute_minor);
}

// Rules.
template <class Config>
Verdict device_supported(const std::vector<Config>& configs, const DeviceLimits& device) {
  std::string targets;
  const char* last = nullptr; // configs of one target stand together, and many of them
  for (const Config& config : configs) {
    if (config.target == last) continue;
    last = config.target;
    if (target_runs_on(config.target, device.compute_major, device.compute_minor)) return holds();
    if (targets.find(config.target) == std::string::npos)
      targets += (targets.empty() ? "" : ", ") + std::string(config.target);
  }
  return violated(format(" %s has compute capability %d.%d, which", device.name.c_str(),
                         device.compute_major, device.compute_minor),
                  targets);
}

// Of the configs that serve a request, the three with names like the one given; runs(config,
// &reason) says whether a config serves it, or why not.
template <class Config, class Runs>
std::string configs_like(const std::vector<Config>& configs, const char* config, const Runs& runs) {
  std::vector<std::string> serving;
  for (const Config& config : configs)
    if (runs(config, nullptr)) serving.emplace_back(config.name);
  std::string names;
  for (const std::string& name : nearest_names(config, serving, 3))
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

template <class Config, class Runs>
Verdict config_known(const std::vector<Config>& configs, const char* config, const Runs& runs) {
  if (config == nullptr || find_config(configs, config) != nullptr) return holds();
  return violated(format(" = \"%s\"", config), configs_like(configs, config, runs));
}

template <class Config, class Runs>
Verdict config_runs(const std::vector<Config>& configs, const char* name, const Runs& runs) {
  const Config* config = name != nullptr ? find_config(configs, name) : nullptr;
  std::string reason;
  if (config == nullptr || runs(*config, &reason)) return holds();
  return violated(format(" = \"%s\", but %s,", config->name, reason.c_str()),
                  configs_like(configs, name, runs));
}

} // namespace warpline
