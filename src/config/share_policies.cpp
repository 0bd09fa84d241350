#include "config/share_policies.h"

#include "config/document/amounts.h"

namespace tranche::config {

std::string to_string(const ThreadsPolicy& policy) {
  switch (policy.kind) {
    case ThreadsPolicy::Kind::kEqual:
      return "equal";
    case ThreadsPolicy::Kind::kFactor:
      return "factor " + render_factor(policy.factor_hundredths);
    case ThreadsPolicy::Kind::kOpen:
      return "open";
    case ThreadsPolicy::Kind::kTenant:
      return "tenant";
    case ThreadsPolicy::Kind::kSms:
      return "sms " + std::to_string(policy.sms);
  }
  return "";
}

std::string to_string(const MemoryPolicy& policy) {
  switch (policy.kind) {
    case MemoryPolicy::Kind::kEqual:
      return "equal";
    case MemoryPolicy::Kind::kFactor:
      return "factor " + render_factor(policy.factor_hundredths);
    case MemoryPolicy::Kind::kOpen:
      return "open";
    case MemoryPolicy::Kind::kTenant:
      return "tenant";
    case MemoryPolicy::Kind::kSize:
      return render_memory_size(policy.size);
  }
  return "";
}

std::string to_string(const Reserve& reserve) {
  switch (reserve.kind) {
    case Reserve::Kind::kNone:
      return "none";
    case Reserve::Kind::kAuto:
      return "auto";
    case Reserve::Kind::kSize:
      return render_memory_size(reserve.size);
  }
  return "";
}

}  // namespace tranche::config
