#include "programs/mps/mps_pages.h"

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

}  // namespace tranche::agent
