#include "config/model.h"

namespace tranche::config {

std::string_view to_string(MigStrategy value) {
  switch (value) {
    case MigStrategy::kNone:
      return "none";
    case MigStrategy::kSingle:
      return "single";
    case MigStrategy::kMixed:
      return "mixed";
  }
  return "";
}

std::string_view to_string(ListStrategy value) {
  switch (value) {
    case ListStrategy::kEnvvar:
      return "envvar";
    case ListStrategy::kVolumeMounts:
      return "volume-mounts";
    case ListStrategy::kCdiAnnotations:
      return "cdi-annotations";
    case ListStrategy::kCdiCri:
      return "cdi-cri";
  }
  return "";
}

std::string_view to_string(IdStrategy value) {
  return value == IdStrategy::kUuid ? "uuid" : "index";
}

std::string_view to_string(AllocationPolicy value) {
  return value == AllocationPolicy::kDistributed ? "distributed" : "packed";
}

std::string_view to_string(DiscoveryStrategy value) {
  switch (value) {
    case DiscoveryStrategy::kAuto:
      return "auto";
    case DiscoveryStrategy::kNvml:
      return "nvml";
    case DiscoveryStrategy::kTegra:
      return "tegra";
    case DiscoveryStrategy::kVfio:
      return "vfio";
  }
  return "";
}

std::string_view to_string(SharingStrategy value) {
  switch (value) {
    case SharingStrategy::kNone:
      return "none";
    case SharingStrategy::kTimeSlicing:
      return "time-slicing";
    case SharingStrategy::kMps:
      return "mps";
  }
  return "";
}

std::string_view to_string(DraPartitions value) {
  switch (value) {
    case DraPartitions::kStatic:
      return "static";
    case DraPartitions::kOnDemand:
      return "onDemand";
  }
  return "";
}

std::string_view to_string(DraDevices value) {
  switch (value) {
    case DraDevices::kNone:
      return "none";
    case DraDevices::kAll:
      return "all";
    case DraDevices::kListed:
      return "listed";
  }
  return "";
}

std::string_view to_string(ComputeModePolicy value) {
  return value == ComputeModePolicy::kExclusive ? "exclusive" : "leave";
}

std::string_view to_string(EndpointPolicy value) {
  return value == EndpointPolicy::kRelay ? "relay" : "link";
}

std::string_view to_string(SmRounding value) {
  switch (value) {
    case SmRounding::kUp:
      return "up";
    case SmRounding::kDown:
      return "down";
    case SmRounding::kOff:
      return "off";
  }
  return "";
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
