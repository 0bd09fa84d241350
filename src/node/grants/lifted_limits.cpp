#include "node/grants/lifted_limits.h"

#include <algorithm>

namespace tranche::agent {

void LiftedLimits::given(const std::string& grant) {
  holder_of_.erase(grant);
  waiting_.erase(grant);
}

void LiftedLimits::holders(const std::map<std::string, std::string>& holder_of_grant) {
  holder_of_ = holder_of_grant;
  std::erase_if(reported_, [&](const auto& reported) {
    return std::ranges::none_of(holder_of_, [&](const auto& held) { return held.second == reported.first; });
  });
}

void LiftedLimits::pools(const PoolReports& reports) {
  if (!reports.connected) return;
  std::map<std::string, std::uint64_t> now;
  for (const auto& [id, pool] : reports.pools) {
    for (const auto& endpoint : pool.endpoints) {
      const auto before = seen_.find(endpoint.grant);
      now[endpoint.grant] = endpoint.limits_lifted;
      if (!first_ && endpoint.limits_lifted > (before == seen_.end() ? 0 : before->second))
        waiting_[endpoint.grant] = endpoint.refused_why;
    }
  }
  std::erase_if(waiting_, [&](const auto& waiting) { return !now.contains(waiting.first); });
  seen_ = std::move(now);
  first_ = false;
}

std::vector<LiftedLimit> LiftedLimits::unreported() {
  std::vector<LiftedLimit> found;
  std::erase_if(waiting_, [&](const auto& waiting) {
    const auto holder = holder_of_.find(waiting.first);
    if (holder == holder_of_.end()) return false;
    if (reported_.emplace(holder->second, waiting.second).second)
      found.push_back({holder->second, waiting.first, waiting.second});
    return true;
  });
  return found;
}

}  // namespace tranche::agent
