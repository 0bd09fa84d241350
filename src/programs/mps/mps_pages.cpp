#include "programs/mps/mps_pages.h"

namespace tranche::agent {
namespace {

constexpr int kServiceUnavailable = 503;

PoolReadiness readiness_of(const std::string& id, const Member& member) {
  if (!member.pool) return {.id = id, .begins = member.problem.empty(), .reason = member.problem};
  const auto& supervisor = member.pool->supervisor();
  const bool has_failed = supervisor.restarts > 0 || supervisor.state == mps::State::kBackingOff ||
                          supervisor.state == mps::State::kGivenUp ||
                          member.pool->proof().state == mps::ProofState::kFailed || !member.problem.empty();
  return {.id = id,
          .state = std::string(member.pool->state_word()),
          .begins = !has_failed,
          .reason = member.problem.empty() ? member.pool->reason() : member.problem};
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
  for (const auto& [id, member] : pools.members()) {
    if (member.wanted) found.push_back(readiness_of(id, member));
  }
  return found;
}

}  // namespace tranche::agent
