#include "config/model.h"

namespace tranche::config {

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

}  // namespace tranche::config
