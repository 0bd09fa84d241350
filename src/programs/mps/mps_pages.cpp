#include "programs/mps/mps_pages.h"

#include <fmt/format.h>
#include <algorithm>

namespace tranche::agent {
namespace {

constexpr int kServiceUnavailable = 503;

PoolReadiness readiness_of(const std::string& id, const Pool& pool) {
  const auto* daemon = pool.daemon();
  if (daemon == nullptr) return {.id = id, .begins = pool.problem().empty(), .reason = pool.problem()};
  const auto& supervisor = daemon->supervisor();
  const bool has_failed = supervisor.restarts > 0 || supervisor.state == mps::State::kBackingOff ||
                          supervisor.state == mps::State::kGivenUp ||
                          daemon->proof().state == mps::ProofState::kFailed || !pool.problem().empty();
  return {.id = id,
          .state = std::string(daemon->state_name()),
          .begins = !has_failed,
          .reason = pool.problem().empty() ? daemon->reason() : pool.problem()};
}

}  // namespace

host::HttpServer::Routes MpsPages::routes() {
  return {{"/metrics", [this] { return metrics(); }}, {"/readyz", [this] { return ready(); }}};
}

void MpsPages::put(std::string metrics, MpsReadiness readiness) {
  const std::lock_guard lock(mutex_);
  metrics_.swap(metrics);
  std::swap(readiness_, readiness);
}

host::HttpAnswer MpsPages::metrics() const {
  const std::lock_guard lock(mutex_);
  return host::HttpAnswer::metrics(metrics_);
}

host::HttpAnswer MpsPages::ready() const {
  const std::lock_guard lock(mutex_);
  host::HttpAnswer answer = host::HttpAnswer::text(readiness_.reason + "\n");
  if (!readiness_.ready) answer.status = kServiceUnavailable;
  return answer;
}

std::vector<PoolReadiness> pool_readiness(const PoolSet& pools) {
  std::vector<PoolReadiness> found;
  for (const auto& [id, pool] : pools.pools())
    if (pool.is_planned()) found.push_back(readiness_of(id, pool));
  return found;
}

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
