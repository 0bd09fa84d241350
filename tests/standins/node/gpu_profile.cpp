#include "gpu_profile.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "yaml_tree.h"

namespace tranche::sim {
namespace {

// "7g.141gb" has 7 compute slices.
std::uint32_t slices_in(std::string_view name) {
  const auto pieces = split(name, 'g');
  const auto number = parse_unsigned(pieces.front());
  return number && *number >= 1 && *number <= 8 ? static_cast<std::uint32_t>(*number) : 0;
}

void read_placements(YamlReader& reader, const YamlItem& item, GiProfile& profile) {
  if (!reader.required(item, "starts")) return;
  const YamlItem& starts = *item.find("starts");
  if (!reader.expect_list(starts)) return;
  if (starts.entries.empty() || starts.entries.size() > kMaxPlacements) {
    reader.fault(starts, "must list 1 to 8 places", "write for example: starts: [0, 2, 4]");
    return;
  }
  for (const auto& [name, start] : starts.entries) {
    const auto value = parse_unsigned(start.text);
    if (!value || *value > 15) {
      reader.fault(start, "must be a memory slice from 0 to 15", "write for example: 4");
      return;
    }
    profile.placement_starts[profile.placement_count++] = static_cast<std::uint32_t>(*value);
  }
}

GiProfile read_gi_profile(YamlReader& reader, const YamlItem& item) {
  GiProfile profile{};
  if (!reader.expect_map(item, {"enum", "id", "name", "max", "memoryMiB", "sms", "ce", "dec", "enc", "jpg", "ofa",
                                "size", "starts"})) {
    return profile;
  }
  for (const auto* key : {"enum", "id", "name", "max", "memoryMiB", "sms", "size"}) reader.required(item, key);
  std::string name;
  reader.text(item, "name", name);
  profile.name = name;
  profile.slices = slices_in(name);
  if (profile.slices == 0) reader.fault(item, "name must begin with slices, as in 1g.18gb", "write <n>g.<GB>gb");
  reader.number(item, "enum", profile.enum_value, kMaxGiProfiles - 1);
  reader.number(item, "id", profile.id, 1000);
  reader.number(item, "max", profile.max_count, 16);
  reader.number(item, "memoryMiB", profile.memory_mib, 1 << 24);
  reader.number(item, "sms", profile.sm_count, 1024);
  reader.number(item, "ce", profile.copy_engines, 64);
  reader.number(item, "dec", profile.decoders, 64);
  reader.number(item, "enc", profile.encoders, 64);
  reader.number(item, "jpg", profile.jpegs, 64);
  reader.number(item, "ofa", profile.ofas, 64);
  reader.number(item, "size", profile.placement_size, 16);
  read_placements(reader, item, profile);
  return profile;
}

void read_mig(YamlReader& reader, const YamlItem& item, MigTraits& mig) {
  if (!reader.expect_map(item, {"memorySlices", "smsPerSlice", "doubleMemoryCi", "needsReset", "profiles"})) return;
  bool needs_reset = false;
  reader.number(item, "memorySlices", mig.memory_slices, 16);
  reader.number(item, "smsPerSlice", mig.sms_per_slice, 1024);
  reader.number(item, "doubleMemoryCi", mig.ci_of_double_memory, 7);
  reader.flag(item, "needsReset", needs_reset);
  mig.needs_reset = needs_reset ? 1 : 0;
  if (!reader.required(item, "memorySlices") || !reader.required(item, "profiles")) return;
  const YamlItem& profiles = *item.find("profiles");
  if (!reader.expect_list(profiles)) return;
  if (profiles.entries.size() > kMaxGiProfiles) {
    reader.fault(profiles, "lists more than 18 profiles", "keep those that the driver offers");
    return;
  }
  for (const auto& [name, entry] : profiles.entries) mig.profiles[mig.profile_count++] = read_gi_profile(reader, entry);
}

void read_identity(YamlReader& reader, const YamlItem& root, GpuProfile& profile) {
  std::string name, board, vbios, compute;
  for (const auto* key : {"name", "pci", "memory", "sms", "computeCapability", "architecture"}) {
    reader.required(root, key);
  }
  reader.text(root, "name", name);
  reader.text(root, "topology", board);
  reader.text(root, "vbios", vbios);
  profile.name = name;
  profile.board = board;
  profile.vbios = vbios;
  if (const auto* pci = root.find("pci"); pci != nullptr && reader.expect_map(*pci, {"device", "subsystem", "class"})) {
    reader.number(*pci, "device", profile.pci_device_id);
    reader.number(*pci, "subsystem", profile.pci_subsystem_id);
    reader.number(*pci, "class", profile.pci_class);
  }
  reader.text(root, "computeCapability", compute);
  const auto dotted = split(compute, '.');
  const auto major = parse_unsigned(dotted.front());
  const auto minor = dotted.size() == 2 ? parse_unsigned(dotted[1]) : std::nullopt;
  if (major && minor && *major < 100 && *minor < 100) {
    profile.cc_major = static_cast<std::int32_t>(*major);
    profile.cc_minor = static_cast<std::int32_t>(*minor);
  } else if (const auto* item = root.find("computeCapability")) {
    reader.fault(*item, "must be a version, but is " + in_quotes(compute), "write for example: \"9.0\"");
  }
  reader.number(root, "architecture", profile.architecture);
  reader.number(root, "brand", profile.brand);
}

void read_sizes(YamlReader& reader, const YamlItem& root, GpuProfile& profile) {
  if (const auto* memory = root.find("memory");
      memory != nullptr && reader.expect_map(*memory, {"total", "reserved"})) {
    reader.bytes(*memory, "total", profile.memory_total);
    reader.bytes(*memory, "reserved", profile.memory_reserved);
    if (profile.memory_reserved >= profile.memory_total) {
      reader.fault(*memory, "reserved must be less than total", "write the total as the driver reports it");
    }
  }
  reader.number(root, "sms", profile.sm_count, 4096);
  reader.number(root, "coresPerSm", profile.cores_per_sm, 4096);
  if (profile.sm_count == 0) reader.fault(root, "sms must be more than 0", "write for example: sms: 132");
}

void read_links_and_power(YamlReader& reader, const YamlItem& root, GpuProfile& profile) {
  bool fabric = false;
  bool ecc = false;
  if (const auto* link = root.find("nvlink");
      link != nullptr && reader.expect_map(*link, {"count", "version", "mbps", "fabric"})) {
    reader.number(*link, "count", profile.nvlink_count, 36);
    reader.number(*link, "version", profile.nvlink_version, 16);
    reader.number(*link, "mbps", profile.nvlink_mbps);
    reader.flag(*link, "fabric", fabric);
  }
  if (const auto* power = root.find("powerMw");
      power != nullptr && reader.expect_map(*power, {"default", "min", "max", "idle"})) {
    reader.number(*power, "default", profile.power_default_mw);
    reader.number(*power, "min", profile.power_min_mw);
    reader.number(*power, "max", profile.power_max_mw);
    reader.number(*power, "idle", profile.power_idle_mw);
  }
  if (const auto* clocks = root.find("clocksMhz"); clocks != nullptr && reader.expect_map(*clocks, {"sm", "memory"})) {
    reader.number(*clocks, "sm", profile.max_sm_mhz, 100000);
    reader.number(*clocks, "memory", profile.max_memory_mhz, 100000);
  }
  reader.flag(root, "ecc", ecc);
  profile.fabric = fabric ? 1 : 0;
  profile.ecc = ecc ? 1 : 0;
}

}  // namespace

GpuProfile parse_profile(std::string_view text, const std::string& source, std::vector<Problem>& problems) {
  GpuProfile profile{};
  const auto root = read_yaml(text, source, problems);
  if (!root) return profile;
  YamlReader reader(problems);
  if (!reader.expect_map(*root, {"name", "topology", "pci", "memory", "sms", "coresPerSm", "computeCapability",
                                 "architecture", "brand", "nvlink", "powerMw", "clocksMhz", "ecc", "vbios", "mig"})) {
    return profile;
  }
  read_identity(reader, *root, profile);
  read_sizes(reader, *root, profile);
  read_links_and_power(reader, *root, profile);
  if (const auto* mig = root->find("mig")) read_mig(reader, *mig, profile.mig);
  return profile;
}

}  // namespace tranche::sim
