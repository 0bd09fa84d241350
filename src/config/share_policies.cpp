#include "config/share_policies.h"

#include "config/document/amounts.h"

namespace tranche::config {

std::string to_string(const ThreadsPolicy& policy) {
  if (policy.kind == ThreadsPolicy::Kind::kFactor) return "factor " + render_factor(policy.factor_hundredths);
  if (policy.kind == ThreadsPolicy::Kind::kSms) return "sms " + std::to_string(policy.sms);
  return word(policy.kind);
}

std::string to_string(const MemoryPolicy& policy) {
  if (policy.kind == MemoryPolicy::Kind::kFactor) return "factor " + render_factor(policy.factor_hundredths);
  return policy.kind == MemoryPolicy::Kind::kSize ? render_memory_size(policy.size) : word(policy.kind);
}

std::string to_string(const Reserve& reserve) {
  return reserve.kind == Reserve::Kind::kSize ? render_memory_size(reserve.size) : word(reserve.kind);
}

}  // namespace tranche::config
