#include "config/model.h"

#include "base/enum_names.h"

namespace tranche::config {

std::string_view to_string(MigStrategy value) {
  return enum_name<MigStrategy::kMixed>(value, {"none", "single", "mixed"});
}

std::string_view to_string(ListStrategy value) {
  return enum_name<ListStrategy::kCdiCri>(value, {"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"});
}

std::string_view to_string(IdStrategy value) {
  return value == IdStrategy::kUuid ? "uuid" : "index";
}

std::string_view to_string(AllocationPolicy value) {
  return value == AllocationPolicy::kDistributed ? "distributed" : "packed";
}

std::string_view to_string(DiscoveryStrategy value) {
  return enum_name<DiscoveryStrategy::kVfio>(value, {"auto", "nvml", "tegra", "vfio"});
}

std::string_view to_string(SharingStrategy value) {
  return enum_name<SharingStrategy::kMps>(value, {"none", "time-slicing", "mps"});
}

std::string_view to_string(DraPartitions value) {
  return enum_name<DraPartitions::kOnDemand>(value, {"static", "onDemand"});
}

std::string_view to_string(DraDevices value) {
  return enum_name<DraDevices::kListed>(value, {"none", "all", "listed"});
}

std::string_view to_string(ComputeModePolicy value) {
  return value == ComputeModePolicy::kExclusive ? "exclusive" : "leave";
}

std::string_view to_string(EndpointPolicy value) {
  return value == EndpointPolicy::kRelay ? "relay" : "link";
}

std::string_view to_string(SmRounding value) {
  return enum_name<SmRounding::kOff>(value, {"up", "down", "off"});
}

SharingStrategy strategy_of(const Config& config, const SharedResource& entry) {
  return entry.strategy != SharingStrategy::kNone ? entry.strategy : config.sharing.strategy;
}

bool one_slot_per_request(const Config& config, const SharedResource& entry) {
  const bool beside_mps =
      config.sharing.strategy == SharingStrategy::kMps && strategy_of(config, entry) == SharingStrategy::kTimeSlicing;
  return beside_mps ? config.sharing.one_time_slice : config.sharing.fail_requests_greater_than_one;
}

GuardMemory guard_memory_of(const Config& config, const SharedResource& entry) {
  return entry.guard_memory.value_or(config.sharing.guard.memory);
}

bool is_individual(const SharedResource& entry) {
  return entry.names.find("%d") != std::string::npos;
}

const SharedResource* sharing_of(const Config& config, std::string_view resource_name) {
  const auto& entries = config.sharing.resources;
  for (auto it = entries.rbegin(); it != entries.rend(); ++it)
    if (it->name == resource_name) return &*it;
  return nullptr;
}

GuardMemory guard_memory_of(const Config& config, std::string_view resource_name) {
  const SharedResource* entry = sharing_of(config, resource_name);
  return entry != nullptr ? guard_memory_of(config, *entry) : config.sharing.guard.memory;
}

}  // namespace tranche::config
