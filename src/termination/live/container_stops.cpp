#include "termination/live/container_stops.h"

#include <fmt/format.h>

#include <algorithm>

#include "os/log/log.h"
#include "termination/program_arguments.h"

namespace tranche::agent {
namespace {

constexpr std::size_t kRecent = 16;

constexpr Duration kNotListedYet =
    std::chrono::minutes(10);  // from kubelet's request for a grant until kubelet lists it

std::string full_name(const stopping::Drain& drain) {
  return fmt::format("{}/{}/{}", drain.pod_namespace, drain.pod, drain.container);
}

bool being_deleted(const WatchedPod& pod) {
  return !pod.mirror && (pod.gone || pod.grace.has_value());
}

bool uses(const WatchedPod& pod, const std::string& claim) {
  return std::ranges::find(pod.claims, claim, &kube::ClaimUseSeen::claim) != pod.claims.end();
}

// A claim's request is of one container, or of several; of several, none speaks for the others.
std::string container_of(const HeldEndpoint& endpoint, const WatchedPod& pod) {
  std::string only;
  for (const auto& use : pod.claims) {
    if (use.claim != endpoint.claim || use.container.empty()) continue;
    if (!use.request.empty() && use.request != endpoint.container) continue;
    if (!only.empty() && only != use.container) return endpoint.container;
    only = use.container;
  }
  return only.empty() ? endpoint.container : only;
}

}  // namespace

bool is_drain_hook(std::span<const std::string> command) {
  if (command.empty()) return false;
  const std::string_view program = command[0];
  return program.substr(program.rfind('/') + 1) == stopping::kDrainProgram;
}

Stopping::Stopping(host::Loop& loop, StoppingCallbacks callbacks, bool hook_offered)
    : loop_(loop), callbacks_(std::move(callbacks)), hook_offered_(hook_offered) {}

void Stopping::set_stop_patience(Duration patience) {
  if (settings_.stop_patience == patience) return;
  settings_.stop_patience = patience;
  turn();
}

Stopping::~Stopping() {
  *alive_ = false;
}

void Stopping::pods_changed(std::vector<WatchedPod> changed) {
  for (auto& each : changed) take(std::move(each));
  turn();
}

void Stopping::take(WatchedPod changed) {
  const auto uid = changed.uid;
  if (changed.gone && !pods_.contains(uid)) return;
  // The next pod of that name may hold the same slots, so the previous pod's holdings must not be acted on any more.
  std::erase_if(pods_, [&changed](const auto& each) {
    const auto& [other, known] = each;
    return known.gone && other != changed.uid && known.name == changed.name &&
           known.pod_namespace == changed.pod_namespace;
  });
  if (changed.gone) {
    auto& endpoints = gone_endpoints_[uid];
    endpoints.clear();
    for (const auto& endpoint : holdings_)
      if (is_of(endpoint, changed)) endpoints.push_back(endpoint);
  }
  pods_.insert_or_assign(uid, std::move(changed));
}

void Stopping::granted(const std::string& grant) {
  granted_.insert_or_assign(grant, loop_.now());
}

// By name, because kubelet lists nothing else. The next pod of a StatefulSet has the same name, and a watch may lag: a
// grant made after the deletion was seen belongs to the next pod.
bool Stopping::is_of(const HeldEndpoint& endpoint, const WatchedPod& pod) const {
  if (endpoint.pod.empty()) return endpoint.pod_namespace == pod.pod_namespace && holds_alone(endpoint.claim, pod);
  if (endpoint.pod != pod.name || endpoint.pod_namespace != pod.pod_namespace) return false;
  const auto given = granted_.find(endpoint.grant);
  return given == granted_.end() || pod.seen == MonoTime{} || given->second <= pod.seen;
}

// The endpoint of a claim for several pods is ended with a pod only while no other pod uses it.
bool Stopping::holds_alone(const std::string& claim, const WatchedPod& pod) const {
  if (!uses(pod, claim)) return false;
  return std::ranges::none_of(pods_, [&](const auto& each) {
    const auto& [uid, other] = each;
    return uid != pod.uid && !other.gone && !other.over && other.pod_namespace == pod.pod_namespace &&
           uses(other, claim);
  });
}

void Stopping::holdings(SharedList<HeldEndpoint> all) {
  holdings_ = std::move(all);
  std::erase_if(granted_, [this](const auto& given) {
    return loop_.now() - given.second > kNotListedYet &&
           std::ranges::find(holdings_, given.first, &HeldEndpoint::grant) == holdings_.end();
  });
  turn();
}

void Stopping::clients(std::optional<std::map<std::string, std::vector<pid_t>>> by_grant) {
  clients_ = std::move(by_grant);
  turn();
}

stopping::Holding Stopping::holding_of(const WatchedPod& pod, const HeldEndpoint& endpoint) const {
  stopping::Holding holding{.container = container_of(endpoint, pod), .pool = endpoint.pool, .grant = endpoint.grant};
  const auto container = std::ranges::find(pod.containers, holding.container, &WatchedContainer::name);
  const bool known = container != pod.containers.end();
  holding.hooked = hook_offered_ && known && container->hooked;
  if (known) {
    holding.sleeps = container->sleeps;
    holding.own_hook = container->own_hook;
    holding.stop_signal = container->stop_signal;
  }
  if (!clients_) return holding;
  const auto found = clients_->find(endpoint.grant);
  holding.clients = found == clients_->end() ? 0 : found->second.size();
  return holding;
}

std::vector<stopping::Holding> Stopping::holdings_of(const WatchedPod& pod) const {
  const auto frozen = gone_endpoints_.find(pod.uid);
  const std::vector<HeldEndpoint>& now = holdings_;
  const auto& endpoints = pod.gone && frozen != gone_endpoints_.end() ? frozen->second : now;
  std::vector<stopping::Holding> held;
  for (const auto& endpoint : endpoints)
    if (is_of(endpoint, pod)) held.push_back(holding_of(pod, endpoint));
  return held;
}

std::vector<stopping::StoppingPod> Stopping::stopping_pods() const {
  std::vector<stopping::StoppingPod> stopping;
  for (const auto& [uid, pod] : pods_) {
    if (!being_deleted(pod)) continue;
    stopping.push_back(
        {uid, pod.pod_namespace, pod.name, pod.grace.value_or(Duration{}), pod.seen, pod.gone, holdings_of(pod)});
  }
  return stopping;
}

// A force-deleted pod is kept only while one of its drains runs or will be retried: its slots go to the next pod.
void Stopping::settle_gone() {
  std::erase_if(pods_, [this](const auto& each) {
    const auto& [uid, pod] = each;
    if (!pod.gone) return false;
    return std::ranges::none_of(state_, [&uid](const auto& entry) {
      const bool its = entry.first.first == uid;
      const auto phase = entry.second.last.phase;
      return its && (phase == stopping::Phase::kRunning ||
                     (phase == stopping::Phase::kWaiting && entry.second.last.attempts > 0));
    });
  });
  std::erase_if(gone_endpoints_, [this](const auto& each) { return !pods_.contains(each.first); });
}

void Stopping::turn() {
  const auto step = stopping::step(state_, stopping_pods(), loop_.now(), settings_);
  settle_gone();
  arm(step.next);
  for (const auto& drain : step.now) start(drain);
}

void Stopping::start(const stopping::Drain& drain) {
  log::info("drain.begin", {{"pod", full_name(drain)}, {"grant", drain.grant}, {"because", drain.reason}});
  callbacks_.drain(drain, [this, alive = alive_, drain](const Result<EndReply>& reply) {
    if (*alive) drained(drain, reply);
  });
}

namespace {

// One sentence on how the clients ended.
std::string how_ended(const EndReply& reply) {
  std::size_t ended = 0;
  std::chrono::milliseconds longest{};
  for (const auto& client : reply.clients) {
    if (client.outcome != mps::TerminateOutcome::kTerminated) continue;
    ++ended;
    longest = std::max(longest, client.waited);
  }
  return fmt::format("{} CUDA process{} stopped, given {} ms for queued GPU work, and killed", ended,
                     ended == 1 ? " was" : "es were", longest.count());
}

}  // namespace

void Stopping::drained(const stopping::Drain& drain, const Result<EndReply>& reply) {
  const auto with = [&reply](mps::TerminateOutcome outcome) {
    return reply ? std::ranges::count(reply->clients, outcome, &mps::Terminated::outcome) : 0;
  };
  const auto ended = with(mps::TerminateOutcome::kTerminated);
  const auto left = with(mps::TerminateOutcome::kRefused) + with(mps::TerminateOutcome::kTimedOut);
  const bool ok = reply && left == 0;
  std::string outcome = ended > 0 ? "ended" : "nothing to end";
  if (!ok) outcome = reply ? fmt::format("{} processes did not end", left) : to_string(reply.error());
  const auto say = ok ? log::info : log::warning;
  say("stop.clients", {{"pod", full_name(drain)},
                       {"grant", drain.grant},
                       {"ended", ended},
                       {"because", drain.reason},
                       {"outcome", outcome}});
  recent_.push_back({loop_.now(), full_name(drain), drain.grant, drain.reason, outcome});
  if (recent_.size() > kRecent) recent_.pop_front();
  stopping::ended(state_, {drain.uid, drain.grant}, drain.spare, ok);
  if (callbacks_.on_event && (!ok || ended > 0)) {
    callbacks_.on_event({ok ? StopEvent::What::kDrained : StopEvent::What::kDrainFailed, drain.pod_namespace, drain.pod,
                         drain.uid, drain.container, drain.pool, drain.grant,
                         ok ? how_ended(*reply) + ": " + drain.reason
                            : "its CUDA processes could not be ended before the container is stopped (" + outcome +
                                  "); neighbours on the GPU may be hurt"});
  }
  turn();
}

void Stopping::arm(std::optional<MonoTime> next) {
  timer_.stop();
  if (next) timer_.start(std::max<Duration>(*next - loop_.now(), Duration{}), [this] { turn(); });
}

StoppingReport Stopping::report() const {
  return {{}, {recent_.begin(), recent_.end()}};
}

}  // namespace tranche::agent
