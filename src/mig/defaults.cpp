#include "mig/defaults.h"

#include <algorithm>
#include <map>
#include <set>

namespace tranche::mig {
namespace {

// GPUs of one PCI device number have the same profiles.
struct AlikeGpus {
  DeviceFilter filter;
  const GpuState* gpu;
};

std::vector<AlikeGpus> kinds_of(const std::vector<GpuState>& gpus) {
  std::vector<AlikeGpus> kinds;
  for (const auto& gpu : gpus) {
    if (!gpu.capable || gpu.profiles.empty()) continue;
    if (std::ranges::none_of(kinds, [&](const AlikeGpus& kind) { return kind.filter.device == gpu.pci_device_id; }))
      kinds.push_back({{gpu.pci_device_id, std::nullopt}, &gpu});
  }
  std::ranges::sort(kinds, {}, [](const AlikeGpus& kind) { return to_string(kind.filter); });
  return kinds;
}

Configuration simple(std::string name, bool enabled) {
  Entry entry;
  entry.enabled = enabled;
  return {std::move(name), {std::move(entry)}};
}

// Two of one slice and one of two, and on GPUs of seven slices one of three.
Instances balanced(const GpuState& gpu) {
  std::uint32_t whole = 0;
  for (const auto& profile : gpu.profiles) whole = std::max(whole, profile.slices);
  Instances wanted;
  const auto add = [&](std::uint32_t slices, std::uint32_t count) {
    // Of several with as many slices the one without attributes that fits most often: 1g.10gb, not 1g.20gb.
    const Profile* best = nullptr;
    for (const auto& profile : gpu.profiles)
      if (profile.slices == slices && profile.name.ends_with("gb") &&
          (best == nullptr || profile.at_most > best->at_most))
        best = &profile;
    if (best == nullptr) return false;
    wanted[*parse_profile_name(best->name)] = count;
    return true;
  };
  if (whole != 4 && whole != 7) return {};
  if (!add(1, 2) || !add(2, 1) || (whole == 7 && !add(3, 1))) return {};
  return wanted;
}

// "all-1g.10gb.me" of "1g.10gb+me".
std::string default_name(const ProfileName& profile) {
  std::string name = "all-" + to_string(profile);
  std::ranges::replace(name, '+', '.');
  return name;
}

}  // namespace

ConfigurationFile default_configurations(const std::vector<GpuState>& gpus) {
  const auto kinds = kinds_of(gpus);
  const bool several =
      std::ranges::any_of(gpus, [&](const GpuState& gpu) { return gpu.pci_device_id != gpus.front().pci_device_id; });
  ConfigurationFile file;
  file.configurations = {simple("all-disabled", false), simple("all-enabled", true)};

  Configuration all_balanced{"all-balanced", {}};
  for (const AlikeGpus& kind : kinds) {
    Entry entry;
    entry.enabled = true;
    entry.instances = balanced(*kind.gpu);
    if (several) entry.filters = {kind.filter};
    if (!entry.instances.empty()) all_balanced.entries.push_back(std::move(entry));
  }
  if (!all_balanced.entries.empty()) file.configurations.push_back(std::move(all_balanced));

  // By name, then by how many of it fit: kinds that agree share an entry.
  std::map<ProfileName, std::map<std::uint32_t, std::vector<DeviceFilter>>> by_name;
  for (const AlikeGpus& kind : kinds)
    for (const auto& profile : kind.gpu->profiles)
      if (const auto name = parse_profile_name(profile.name)) by_name[*name][profile.at_most].push_back(kind.filter);
  for (const auto& [name, counts] : by_name) {
    Configuration configuration{default_name(name), {}};
    for (const auto& [count, filters] : counts) {
      Entry entry;
      entry.enabled = true;
      entry.instances[name] = count;
      if (several) entry.filters = filters;
      configuration.entries.push_back(std::move(entry));
    }
    file.configurations.push_back(std::move(configuration));
  }
  return file;
}

ConfigurationFile exported(const std::vector<GpuState>& gpus, const std::string& name) {
  std::map<std::uint32_t, std::set<std::uint32_t>> of_number;  // indices by PCI device number
  std::vector<Entry> entries;
  for (const auto& gpu : gpus) {
    of_number[gpu.pci_device_id].insert(gpu.index);
    Entry entry;
    entry.enabled = gpu.enabled;
    entry.filters = {{gpu.pci_device_id, std::nullopt}};
    entry.devices = {{gpu.index}};
    if (gpu.enabled)
      for (const auto& device : device_names(gpu))
        if (const auto parsed = parse_profile_name(device)) ++entry.instances[*parsed];
    const auto alike = std::ranges::find_if(entries, [&](const Entry& other) {
      return other.enabled == entry.enabled && other.instances == entry.instances;
    });
    if (alike == entries.end()) {
      entries.push_back(std::move(entry));
      continue;
    }
    auto& devices = alike->devices;
    if (devices) devices->push_back(gpu.index);
    if (std::ranges::find(alike->filters, entry.filters.front()) == alike->filters.end())
      alike->filters.push_back(entry.filters.front());
  }
  for (Entry& entry : entries) {
    std::ranges::sort(entry.filters, {}, [](const DeviceFilter& filter) { return to_string(filter); });
    std::set<std::uint32_t> named;
    for (const auto& filter : entry.filters)
      named.insert(of_number[filter.device].begin(), of_number[filter.device].end());
    if (entry.devices && std::ranges::equal(named, *entry.devices)) entry.devices.reset();  // every GPU of these models
    if (of_number.size() == 1 || entries.size() == 1) entry.filters.clear();
  }
  ConfigurationFile file;
  file.configurations.push_back({name, std::move(entries)});
  return file;
}

}  // namespace tranche::mig
