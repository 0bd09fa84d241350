#include "node/dra/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/object.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstRetry = 1s;
constexpr Duration kMostRetry = 5min;
constexpr std::string_view kServing = "serving";

bool has_limits(const mps::EndpointReport& endpoint, const dra::Part& part) {
  if (!endpoint.limits) return false;
  const mps::GrantLimit wanted{part.gpu_uuid, part.limits.memory, part.limits.threads};
  return std::ranges::find(*endpoint.limits, wanted) != endpoint.limits->end();
}

// Why its endpoint does not serve; "" = it does.
std::string why_not_served(const dra::Part& part, const mps::PoolReports& pools) {
  if (!pools.connected) return "tranche mps does not answer: " + pools.problem;
  const auto pool = pools.pools.find(part.mps_pool);
  if (pool == pools.pools.end()) return fmt::format("the MPS pool {} is not reported", part.mps_pool);
  if (pool->second.state != kServing)
    return fmt::format("the MPS pool {} is {}: {}", part.mps_pool, pool->second.state, pool->second.reason);
  if (mps::find_endpoint(pool->second, part.grant) == nullptr) return "its MPS endpoint is not open";
  return {};
}

nlohmann::json conditions_of(const dra::Part& part, const std::vector<dra::Device>& devices,
                             const mps::PoolReports& pools) {
  std::string fault;
  for (const dra::Device& each : devices)
    if (fault.empty() && each.gpu_uuid == (part.instance ? part.parent_uuid : part.gpu_uuid) &&
        each.kind == part.kind && each.fault)
      fault = fmt::format("{}: {}", to_string(each.fault->cause), each.fault->why);
  const auto not_served = dra::has_endpoint(part.kind) ? why_not_served(part, pools) : std::string();
  const auto ready = [](const char* reason, std::string_view message, bool holds = false) {
    return kube::condition_json(dra::kReady, holds, reason, message);
  };
  auto all = nlohmann::json::array();
  all.push_back(part.kind != dra::Kind::kMonitor && !fault.empty() ? ready("Unhealthy", fault)
                : !part.is_made()                                  ? ready("NotMade", "the MIG instance is being made")
                : !not_served.empty()                              ? ready("NotServed", not_served)
                                                                   : ready("Prepared", dra::part_text(part), true));
  if (part.kind != dra::Kind::kShared) return all;
  const auto enforced = [](const char* reason, std::string_view message, bool holds = false) {
    return kube::condition_json(dra::kLimitsEnforced, holds, reason, message);
  };
  all.push_back(!not_served.empty() ? enforced("NotServed", not_served)
                : has_limits(*mps::find_endpoint(pools.pools.at(part.mps_pool), part.grant), part)
                    ? enforced("Mps", "MPS limits every process that connects through the claim's endpoint", true)
                    : enforced("OtherLimits", "tranche mps does not report these limits for the endpoint"));
  return all;
}

}  // namespace

std::map<std::string, dra::ClaimStatus> claim_statuses(const dra::PreparedClaims& claims,
                                                       const std::vector<dra::Device>& devices,
                                                       const mps::PoolReports& pools) {
  std::map<std::string, dra::ClaimStatus> all;
  for (const auto& [uid, claim] : claims) {
    if (claim.driver.empty()) continue;
    auto& status = all.try_emplace(uid, claim.name, claim.driver).first->second;
    for (const auto& part : claim.parts) dra::add_part(status, part, conditions_of(part, devices, pools));
  }
  return all;
}

ClaimStatuses::ClaimStatuses(os::Loop& loop, kube::KubeLink& link, const Claims& claims, Callbacks callbacks)
    : loop_(loop),
      link_(link),
      claims_(claims),
      callbacks_(std::move(callbacks)),
      backoff_(kFirstRetry, kMostRetry, static_cast<std::uint64_t>(loop.now().time_since_epoch().count())) {
  link_.when_settled([this] { step(); });
}

void ClaimStatuses::look() {
  if (!settle_.running()) settle_.start(kSettle, [this] { take(); });
}

// An unprepared claim can stay allocated, for a different pod: its condition Ready must not stay true.
void ClaimStatuses::take() {
  auto wanted = callbacks_.wanted();
  for (const auto& [uid, entry] : entries_) wanted.try_emplace(uid, entry.wanted.name, entry.wanted.driver);
  for (auto& [uid, status] : wanted) entries_[uid].wanted = std::move(status);
  step();
}

void ClaimStatuses::step() {
  if (claims_.standing() != ClaimsStanding::kOurs) return;  // a newer agent writes them
  if (link_.client() == nullptr || request_.waits()) return;
  std::erase_if(entries_, [](const auto& each) {
    return each.second.written == each.second.wanted && each.second.wanted.entries.empty();
  });
  std::optional<MonoTime> next;
  for (const auto& [uid, entry] : entries_) {
    if (entry.written == entry.wanted) continue;
    if (entry.due <= loop_.now()) return write(uid);
    next = std::min(next.value_or(entry.due), entry.due);
  }
  if (!next) return report({});
  retry_.start(*next - loop_.now(), [this] { step(); });
}

void ClaimStatuses::write(const std::string& uid) {
  const auto wanted = entries_.at(uid).wanted;
  request_ = link_.client()->get(dra::claim_path(wanted.name), [this, uid, wanted](const kube::KubeAnswer& answer) {
    const auto claim = json_of(answer.body);
    const bool same = text_at(map_at(claim, "metadata"), "uid") == uid;
    const auto body = same ? dra::changed_status(wanted, claim, loop_.wall_now()) : std::nullopt;
    if (!body) return on_answer(uid, wanted, answer);
    request_ = link_.client()->apply(
        dra::claim_status_path(wanted.name), *body,
        [this, uid, wanted](const kube::KubeAnswer& written) { on_answer(uid, wanted, written); });
  });
}

// A claim that is gone, or whose name a later one has, needs no status. An older claim's entry goes with it.
void ClaimStatuses::on_answer(const std::string& uid, const dra::ClaimStatus& wanted, const kube::KubeAnswer& answer) {
  auto& entry = entries_.at(uid);
  if (answer.status == kube::http::kOk || answer.status == kube::http::kNotFound) {
    entry.written = wanted;
    backoff_.reset();
    return step();
  }
  const bool refused = answer.status == kube::http::kForbidden || answer.status == kube::http::kUnprocessable;
  std::string why = kube::why_not(answer);
  if (refused) why += "; give this pod's service account the rights of deploy/rbac/dra.yaml";
  entry.due = loop_.now() + (refused ? kMostRetry : backoff_.next());
  if (answer.status != kube::http::kConflict)  // perhaps a later claim of this name: it is read again
    report(fmt::format("status.devices of the claim {} is not written: {}", dra::to_string(entry.wanted.name), why));
  step();
}

void ClaimStatuses::report(std::string problem) {
  if (problem == problem_) return;
  problem_ = std::move(problem);
  if (!problem_.empty()) log::warning("claim.status_not_written", {{"why", problem_}});
  callbacks_.changed();
}

}  // namespace tranche::node
