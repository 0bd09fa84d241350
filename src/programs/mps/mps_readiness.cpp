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

std::string pool_text(const PoolReadiness& pool) {
  return fmt::format("{} is {}{}{}", pool.id, pool.state, pool.reason.empty() ? "" : ": ", pool.reason);
}

}  // namespace

MpsReadiness mps_readiness(const MpsReadinessInputs& inputs) {
  if (inputs.ends) return no("it is ending");
  if (!inputs.driver_problem.empty()) {
    if (inputs.needs_driver) return no("the driver is waited for: " + inputs.driver_problem);
    return {true, "idle without a driver, which failOnInitError: false allows: " + inputs.driver_problem};
  }
  const auto error = std::ranges::find(inputs.plan_problems, Severity::kError, &Problem::severity);
  if (error != inputs.plan_problems.end()) return no(to_string(*error));
  if (inputs.pools.empty()) return {true, "nothing is shared by MPS"};
  const auto serving = std::ranges::count_if(inputs.pools, serves);
  std::string line = fmt::format("{} of {} {} serve{}", serving, inputs.pools.size(),
                                 inputs.pools.size() == 1 ? "pool" : "pools", inputs.pools.size() == 1 ? "s" : "");
  bool begin = false;
  for (const auto& pool : inputs.pools) {
    if (serves(pool)) continue;
    line += "; " + pool_text(pool);
    begin = begin || pool.begins;
  }
  return {serving > 0 && !begin, std::move(line)};
}

}  // namespace tranche::agent
