#include "config/model.h"

#include "config/document/amounts.h"

namespace tranche::config {

std::string to_string(const ThreadsPolicy& policy) {
  if (policy.kind == ThreadsPolicy::Kind::kFactor) return "factor " + to_string(Percent{policy.factor_hundredths});
  if (policy.kind == ThreadsPolicy::Kind::kSms) return "sms " + std::to_string(policy.sms);
  return std::string(to_string(policy.kind));
}

std::string to_string(const MemoryPolicy& policy) {
  if (policy.kind == MemoryPolicy::Kind::kFactor) return "factor " + to_string(Percent{policy.factor_hundredths});
  return policy.kind == MemoryPolicy::Kind::kSize ? render_memory_size(policy.size)
                                                  : std::string(to_string(policy.kind));
}

std::string to_string(const Reserve& reserve) {
  return reserve.kind == Reserve::Kind::kSize ? render_memory_size(reserve.size) : std::string(to_string(reserve.kind));
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

}  // namespace tranche::config
