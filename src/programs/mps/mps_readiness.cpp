#include "programs/mps/mps_readiness.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::agent {
namespace {

MpsReadiness no(std::string reason) {
  return {false, std::move(reason)};
}

bool serves(const PoolReadiness& pool) {
  return pool.state == "serving";
}

std::string in_words(const PoolReadiness& pool) {
  return fmt::format("{} is {}{}{}", pool.id, pool.state, pool.reason.empty() ? "" : ": ", pool.reason);
}

}  // namespace

MpsReadiness mps_readiness(const MpsReadinessFacts& facts) {
  if (facts.ends) return no("it is ending");
  if (!facts.driver_problem.empty()) {
    if (facts.needs_driver) return no("the driver is waited for: " + facts.driver_problem);
    return {true, "idle without a driver, which failOnInitError: false allows: " + facts.driver_problem};
  }
  const auto error = std::ranges::find(facts.plan_problems, Severity::kError, &Problem::severity);
  if (error != facts.plan_problems.end()) return no(to_string(*error));
  if (facts.pools.empty()) return {true, "nothing is shared by MPS"};
  const auto serving = std::ranges::count_if(facts.pools, serves);
  std::string line = fmt::format("{} of {} {} serve{}", serving, facts.pools.size(),
                                 facts.pools.size() == 1 ? "pool" : "pools", facts.pools.size() == 1 ? "s" : "");
  bool begin = false;
  for (const auto& pool : facts.pools) {
    if (serves(pool)) continue;
    line += "; " + in_words(pool);
    begin = begin || pool.begins;
  }
  return {serving > 0 && !begin, std::move(line)};
}

}  // namespace tranche::agent
