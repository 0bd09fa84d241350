// inputs → decide → apply → publish → serve, once for each callback of the loop.
#include <algorithm>

#include "node/node_parts.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

void log_plan(const plan::Plan& plan) {
  for (const auto& resource : plan.resources) {
    log::info("plan.resource", {{"resource", resource.name},
                                {"slots", plan::slots_of(resource)},
                                {"devices", resource.devices.size()},
                                {"sharing", std::string(config::to_string(resource.sharing))}});
  }
  for (const auto& left : plan.left_out) log::warning("plan.left_out", {{"what", left.what}, {"why", left.why}});
  for (const auto& note : plan.notes) log::info("plan.note", {{"text", note}});
}

void log_change(const PlanChange::Moved& change) {
  for (const auto& step : change.steps)
    log::info(step.waits() ? "change.waits" : "change.step", {{"what", tranche::grants::to_string(step)}});
  if (change.done) log::info("change.done");
}

void log_health(const std::vector<ConditionChange>& changes) {
  for (const auto& change : changes) {
    const auto lasted = milliseconds_of(change.lasted);
    const std::string cause(gpu::to_string(change.condition.cause));
    switch (change.what) {
      case ConditionChange::What::kFell:
        log::warning("device.unhealthy", {{"device", change.device}, {"cause", cause}, {"why", change.condition.why}});
        break;
      case ConditionChange::What::kOtherCause:
        log::warning(
            "device.still_unhealthy",
            {{"device", change.device}, {"cause", cause}, {"why", change.condition.why}, {"lasted_ms", lasted}});
        break;
      case ConditionChange::What::kRecovered:
        log::info("device.healthy",
                  {{"device", change.device}, {"was", cause}, {"why", change.condition.why}, {"lasted_ms", lasted}});
        break;
    }
  }
}

}  // namespace

void GrantLog::follow(const std::vector<Holder>& holders, MonoTime now) {
  std::map<std::string, Held> next;
  for (auto holder : holders) {
    if (holder.grant.empty()) holder.grant = grants::grant_id(holder.slots);
    const std::string key = holder.grant + " " + tenant_key(holder);
    if (auto before = held_.extract(key); !before.empty()) {
      next.insert(std::move(before));
      continue;
    }
    if (!next.try_emplace(key, holder, now).second) continue;
    log::info("grant.held", {{"grant", holder.grant},
                             {"k8s.namespace.name", holder.pod_namespace},
                             {"k8s.pod.name", holder.pod},
                             {"k8s.container.name", holder.container},
                             {"k8s.pod.uid", holder.pod_uid},
                             {"claim", holder.claim}});
  }
  for (const auto& [key, held] : held_)
    log::info("grant.ended", {{"grant", held.holder.grant},
                              {"k8s.namespace.name", held.holder.pod_namespace},
                              {"k8s.pod.name", held.holder.pod},
                              {"k8s.container.name", held.holder.container},
                              {"k8s.pod.uid", held.holder.pod_uid},
                              {"claim", held.holder.claim},
                              {"held_s", std::chrono::duration_cast<std::chrono::seconds>(now - held.since).count()}});
  held_ = std::move(next);
}

// Parts may report a change while they are called from here; it is in the snapshot, or in that of one more round.
void NodeProgram::step(const Fresh& fresh) {
  inputs_.fresh.plan = inputs_.fresh.plan || fresh.plan;
  inputs_.fresh.offer = inputs_.fresh.offer || fresh.offer || fresh.plan;
  inputs_.fresh.holdings = inputs_.fresh.holdings || fresh.holdings;
  again_ = true;
  if (!running_ || stepping_) return;
  stepping_ = true;
  while (std::exchange(again_, false)) {
    collect();
    auto decided =
        decide(inputs_, {ledger_, health_, change_, pool_events_, cluster_.pods()}, std::move(decision_), loop_.now());
    decision_ = std::move(decided.decision);
    const Fresh had = std::exchange(inputs_.fresh, {});
    apply(decided, had);
    again_ = inputs_.fresh.offer;
    publish();
    if (had.offer) serve();
  }
  stepping_ = false;
}

// In this order: `tranche mps`, the log and events, what the next start needs, the driver, tenants, the cluster.
void NodeProgram::apply(const Decided& decided, const Fresh& had) {
  if (decided.change.other_holders) other_holders_.keep(*decided.change.other_holders);
  if (decided.problems) config::log_problems(decision_.plan_problems);
  log_change(decided.change);
  if (decided.change.plan) log_plan(decision_.plan);
  log_health(decided.health);
  report_events(decided.events);
  if (had.offer) {
    grants_file_.keep(ledger_.shares());
    if (decided.ask_driver) nvml_.ask_use();
    health_timer_.stop();
    if (decided.wake)
      health_timer_.start(std::max<Duration>(*decided.wake - loop_.now(), 0s), [this] { step({.offer = true}); });
    follow_tenants(had.holdings);
  }
  report_notices();
  const bool heard = inputs_.pools.connected || !inputs_.pools.problem.empty();  // from `tranche mps`
  if (inputs_.claims && heard) claim_statuses_.look();
  cluster_.condition(decision_.condition);
  if (mig_) cluster_.condition(mig_->condition());
  grant_log_.follow(decision_.holders, loop_.now());
  labels_.use(link_.client());
  if (inputs_.inventory) labels_.follow(inputs_.config.config, *inputs_.inventory, decision_.plan);
  const auto& dra = inputs_.config.config.dra;
  if (dra.devices == config::DraDevices::kNone)
    slices_.want({});
  else
    slices_.want(
        {dra.driver_name, dra_devices({inputs_, decision_}), inputs_.inventory && inputs_.partitionable.known});
  if (const auto condition = slices_.condition(inputs_.partitionable.why_not)) cluster_.condition(*condition);
}

void NodeProgram::publish() {
  auto snapshot = std::make_shared<Snapshot>();
  static_cast<Inputs&>(*snapshot) = inputs_;
  static_cast<Decision&>(*snapshot) = decision_;
  snapshot->taken = loop_.now();
  snapshot->taken_wall = loop_.wall_now();
  snapshot->guard = guarding_.report();
  snapshot->grant_of_pid = guarding_.grants_of_processes();
  snapshot->reported_faults.assign(faults_.last().begin(), faults_.last().end());
  snapshot->cluster = cluster_.report();
  snapshot->labels = labels_.labels();
  snapshot->label_report = labels_.report();
  snapshot->slices = slices_.report();
  snapshot->loop = http_.loop();
  box_.put(std::move(snapshot));
  if (status_) status_->changed();
  tidy_later();
}

// After the snapshot is out, because kubelet's next call may be about what it hears of here.
void NodeProgram::serve() {
  plugins_.publish(decision_.advertised);
  follow_claims();
  // A change that waits for a free slot or endpoint must not wait for kubelet's next callback, which may take half a
  // minute.
  const bool waits = change_.awaits_kubelet() || retiring_;
  if (waits && !waits_for_kubelet_) holdings_.ask();
  waits_for_kubelet_ = waits;
}

}  // namespace tranche::node
