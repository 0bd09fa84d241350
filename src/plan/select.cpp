#include "plan/select.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "config/names.h"
#include "gpu/inventory/compare.h"

namespace tranche::plan {
namespace {

using gpu::Gpu;

// UUIDs are written with and without dashes, in braces, or as a URN: returns the plain form.
std::string plain_uuid(std::string_view text) {
  std::string plain;
  const auto dash = text.find('-');  // of "GPU-" or "MIG-"
  plain = text.substr(0, dash);
  if (dash == std::string_view::npos) return plain;
  std::string_view rest = text.substr(dash + 1);
  if (rest.starts_with("urn:uuid:")) rest.remove_prefix(9);
  for (const char c : rest)
    if (c != '-' && c != '{' && c != '}') plain += to_lower(c);
  return plain;
}

bool same_uuid(std::string_view a, std::string_view b) {
  return plain_uuid(a) == plain_uuid(b);
}

bool same_index(std::string_view reference, std::uint32_t index) {
  return parse_unsigned(reference) == index;
}

// "MIG-GPU-<uuid>/<gpu instance>/<compute instance>", the MIG device names of old drivers.
bool names_instances(std::string_view reference, const Candidate& candidate) {
  const auto pieces = split(reference.substr(4), '/');
  const auto& devices = candidate.gpu->mig_devices;
  const auto mig = std::ranges::find(devices, candidate.device.uuid, &gpu::MigDevice::uuid);
  return pieces.size() == 3 && mig != devices.end() && same_uuid(pieces[0], candidate.device.gpu_uuid) &&
         same_index(pieces[1], mig->gpu_instance) && same_index(pieces[2], mig->compute_instance);
}

// The first pattern of the list that matches this GPU; nullptr = none.
const config::DeviceRef* found_in(const std::vector<config::DeviceRef>& patterns, const Gpu& gpu) {
  const auto found = std::ranges::find_if(patterns, [&](const auto& ref) { return names_gpu(ref.text, gpu); });
  return found == patterns.end() ? nullptr : &*found;
}

// Why a GPU is excluded, or "".
std::string why_out(const config::DeviceFilter& filter, const Gpu& gpu) {
  if (const auto* pattern = found_in(filter.exclude, gpu))
    return fmt::format("devices.exclude has {}", in_quotes(pattern->text));
  if (!filter.include.empty() && found_in(filter.include, gpu) == nullptr) return "devices.include does not name it";
  return {};
}

}  // namespace

bool names_gpu(std::string_view pattern, const Gpu& gpu) {
  if (pattern.starts_with("GPU-")) return same_uuid(pattern, gpu.uuid);
  if (const auto index = parse_unsigned(pattern)) return *index == gpu.index;
  if (const auto address = config::pci_address(pattern)) return address == config::pci_address(gpu.pci_bus_id);
  return config::matches(gpu.name, pattern);
}

bool is_for_claims(const config::Dra& dra, const Gpu& gpu) {
  return dra.devices == config::DraDevices::kAll || found_in(dra.listed, gpu) != nullptr;
}

bool names_device(std::string_view reference, const Candidate& candidate) {
  const PlannedDevice& device = candidate.device;
  if (reference.starts_with("MIG-GPU-")) return candidate.gpu != nullptr && names_instances(reference, candidate);
  if (reference.starts_with("GPU-") || reference.starts_with("MIG-"))
    return same_uuid(reference, device.uuid) || same_uuid(reference, device.gpu_uuid);
  if (reference.find(':') == std::string_view::npos && candidate.gpu != nullptr)
    return same_index(reference, candidate.gpu->index);
  const auto theirs = split(reference, ':');
  const auto ours = split(device.index, ':');
  return std::ranges::equal(
      theirs, ours, {}, [](std::string_view piece) { return parse_unsigned(piece); },
      [](std::string_view piece) { return parse_unsigned(piece); });
}

gpu::Inventory keep_gpus(const config::DeviceFilter& filter, const gpu::Inventory& inventory) {
  if (filter.include.empty() && filter.exclude.empty()) return inventory;
  gpu::Inventory kept = inventory;
  kept.gpus.clear();
  for (const Gpu& gpu : inventory.gpus) {
    if (std::string why = why_out(filter, gpu); !why.empty()) {
      kept.set_aside.push_back({name_of(gpu), std::move(why)});
      continue;
    }
    kept.gpus.push_back(gpu);
  }
  kept.links = gpu::links_among(kept.gpus, {&inventory});
  return kept;
}

}  // namespace tranche::plan
