#include "stopping/suspicion.h"

#include <algorithm>

namespace tranche::stopping {

void Suspicions::died(const std::string& pool, MonoTime now) {
  const auto last = proved.find(pool);
  due.try_emplace(pool, last == proved.end() ? now : std::max(now, last->second + spacing));
}

std::vector<std::string> Suspicions::take_due(MonoTime now) {
  std::vector<std::string> pools;
  for (const auto& [pool, at] : due)
    if (at <= now) pools.push_back(pool);
  for (const auto& pool : pools) {
    due.erase(pool);
    proved[pool] = now;
  }
  return pools;
}

std::optional<MonoTime> Suspicions::next() const {
  std::optional<MonoTime> first;
  for (const auto& [pool, at] : due) first = first ? std::min(*first, at) : at;
  return first;
}

}  // namespace tranche::stopping
