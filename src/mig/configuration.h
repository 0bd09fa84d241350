#pragma once
// mig-parted's files. The configuration file, format v1: named lists of entries, each with GPUs, their MIG mode and
// their instances; and the configurations that exist without a file. Everything wrong is reported with its place;
// mig-parted itself only fails, or passes over a device filter that it cannot read. Pure; fuzzed.
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "gpu/mig/state.h"

namespace tranche::mig {

// One device filter: "0x20B010DE", with the board's number behind a colon where only that board is meant.
struct DeviceFilter {
  std::uint32_t device = 0;                // 0xDDDDVVVV
  std::optional<std::uint32_t> subsystem;  // 0xSSSSVVVV; absent = every board
  bool matches(std::uint32_t pci_device_id, std::uint32_t pci_subsystem_id) const {
    return device == pci_device_id && (!subsystem || *subsystem == pci_subsystem_id);
  }
  friend auto operator<=>(const DeviceFilter&, const DeviceFilter&) = default;
};
std::optional<DeviceFilter> parse_device_filter(std::string_view text);
std::string to_string(const DeviceFilter& filter);  // as mig-parted writes it: "0x20B010DE:0x134F10DE"

// Compute instances by the name of their profile, with their number, which is at least 1.
using Instances = std::map<ProfileName, std::uint32_t>;
std::string to_string(const Instances& instances);  // "2 × 1g.10gb, 1 × 3g.40gb"; "no instances"
// What the GPU has, as mig-parted compares it; all whose profile has no proper name as one kind, ProfileName{}.
Instances instances_of(const GpuState& gpu);

struct Entry {
  std::vector<DeviceFilter> filters{};                  // empty = every model
  std::optional<std::vector<std::uint32_t>> devices{};  // indices; absent = all
  bool enabled = false;
  Instances instances{};
  Place place{};
  std::map<ProfileName, Place> places{};  // of each profile in `instances`; empty where no file was read

  bool names(std::uint32_t index, std::uint32_t pci_device_id, std::uint32_t pci_subsystem_id) const;
};

struct Configuration {
  std::string name;
  std::vector<Entry> entries;
};

struct ConfigurationFile {
  std::vector<Configuration> configurations;  // in file order
  const Configuration* find(std::string_view name) const;
  std::vector<std::string_view> names() const;
};

struct ParsedFile {
  ConfigurationFile file;  // of use only without errors among the problems
  std::vector<Problem> problems;
};
ParsedFile parse_configuration_file(std::string_view text, std::string_view source);

// The named one, or without a name the only one. Error: a Problem that lists the names there are.
std::expected<const Configuration*, Problem> select_configuration(const ConfigurationFile& file, std::string_view name,
                                                                  std::string_view source);

// As mig-parted writes it; the order of the configurations is kept.
std::string to_yaml(const ConfigurationFile& file);
std::string to_json_text(const ConfigurationFile& file);

// The configurations that exist without a file for these GPUs, by NVIDIA's names: all-disabled, all-enabled,
// all-balanced, and all-<profile> for every profile of the GPUs ("+" of a profile is "." in the name). Entries have a
// device filter only where GPUs differ in what a name means.
ConfigurationFile default_configurations(const std::vector<GpuState>& gpus);

// What the node is cut into as a configuration of that name, as mig-parted exports it: GPUs of equal state together.
ConfigurationFile exported(const std::vector<GpuState>& gpus, const std::string& name);

// Of mig-parted's hooks file: a command that runs around a change of `nvidia-mig-parted apply`.
struct Hook {
  std::string command;
  std::vector<std::string> args;
  std::map<std::string, std::string> envs;
  std::string workdir;
  friend bool operator==(const Hook&, const Hook&) = default;
};

// By stage: "apply-start"; "pre-apply-mode": before the mode of a GPU changes; "pre-apply-config": before instances
// change; "apply-exit": always.
using Hooks = std::map<std::string, std::vector<Hook>>;

struct ParsedHooks {
  Hooks hooks;  // of use only without errors among the problems
  std::vector<Problem> problems;
};
ParsedHooks parse_hooks_file(std::string_view text, std::string_view source);

}  // namespace tranche::mig
