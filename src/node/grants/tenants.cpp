#include "node/grants/tenants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.h"
#include "node/grants/ledger_inputs.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

std::string holder_name(const Holder& holder) {
  return fmt::format("{}/{}/{}", holder.pod_namespace, holder.pod, holder.container);
}

// The pool that has the grant's endpoint: a later plan may have its devices in a different pool.
std::string pool_of(const Holder& holder, const Decision& decision) {
  for (const auto& device : holder.devices) {
    const auto share = decision.shares->find({holder.grant, device.uuid});
    if (share != decision.shares->end()) return share->second.pool;
  }
  for (const auto& planned : decision.plan.pools)
    for (const auto& device : holder.devices)
      if (std::ranges::find(planned.devices, device.uuid) != planned.devices.end()) return planned.id;
  return {};
}

std::string act_text(const GuardAct& act) {
  std::string text =
      fmt::format("the container held {} MiB of {}, {} MiB more than its limit of {} MiB there: ", act.most.in_mib(),
                  act.device, act.most > act.limit ? (act.most - act.limit).in_mib() : 0, act.limit.in_mib());
  const std::string process = act.pid == 0 ? "" : fmt::format("process {} ", act.pid);
  if (act.what == "terminate" && act.stopped) {
    text += fmt::format("{}was stopped {} ms after the crossing was seen", process, milliseconds_of(*act.stopped));
    text += act.outcome == "done" ? fmt::format(" and ended after {} ms", milliseconds_of(act.took))
                                  : fmt::format(" and has not ended: {} ({})", act.outcome, act.note);
  } else {
    text += fmt::format("{}{}{}", process, act.what, act.outcome == "done" ? "" : " (" + act.outcome + ")");
  }
  if (!act.beside.empty()) text += "; other tenants with clients on the GPU: " + join(act.beside, ", ");
  return text;
}

std::string victim_grants(const ReportedFault& fault) {
  std::set<std::string> grants;
  for (const auto& victim : fault.victims) grants.insert(victim.grant);
  return fmt::format("{}", fmt::join(grants, ","));
}

// In doubt it is: what an older or a newer agent has prepared meanwhile is not known here.
bool may_be_of_claim(const Inputs& in, const std::string& grant) {
  const auto& claims = in.claims;
  return claims && (claims->standing != ClaimsStanding::kOurs || claims->grants.contains(grant));
}

}  // namespace

void EndpointCollecting::look(const PoolReports& pools, const NodeView& node) {
  auto endpoints = endpoints_of(pools);
  if (!endpoints) return;
  std::erase_if(*endpoints, [&](const grants::Endpoint& endpoint) { return may_be_of_claim(node.in, endpoint.grant); });
  for (const auto& endpoint : ledger_.over(*endpoints, loop_.now())) remove(endpoint);
}

void EndpointCollecting::pod_ended(const std::string& pool, const std::string& grant) {
  ledger_.pod_ended(pool, grant, loop_.now());
}

void EndpointCollecting::remove(const grants::Endpoint& endpoint) {
  const RemoveEndpointRequest remove{{endpoint.pool, endpoint.grant}, endpoint.made};
  mps_.request(remove, [pool = endpoint.pool, grant = endpoint.grant](const Status& removed) {
    if (removed) {
      log::info("endpoint.collected", {{"pool", pool}, {"grant", grant}});
    } else {
      log::warning("endpoint.kept", {{"pool", pool}, {"grant", grant}, {"why", removed.error()}});
    }
  });
}

bool EndpointCollecting::retire(const PoolReports& pools, const NodeView& node) {
  std::vector<grants::Endpoint> endpoints;
  for (const auto& [id, pool] : pools.pools) {
    if (plan::find_pool(node.decision.plan, id) != nullptr) continue;
    for (const auto& endpoint : pool.endpoints)
      if (endpoint.clients.empty() && !may_be_of_claim(node.in, endpoint.grant))
        endpoints.push_back(endpoint_of(id, endpoint));
  }
  const auto retiring = ledger_.retire(endpoints, pools.connected && node.in.inventory.has_value());
  for (const auto& endpoint : retiring.now) remove(endpoint);
  return retiring.later;
}

Tenants::Tenants(host::Loop& loop, grants::Ledger& ledger, MpsClient& mps, const TenantsSettings& settings,
                 TenantsCallbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)), collecting_(loop, ledger, mps), sender_(loop, mps) {
  Guarding::Callbacks guard_callbacks;
  guard_callbacks.sample = callbacks_.sample;
  guard_callbacks.last_sample = callbacks_.last_sample;
  guard_callbacks.last_sample_of_any = callbacks_.last_sample_of_any;
  guard_callbacks.acted = [this](const GuardAct& act) { report_act(act); };
  guard_callbacks.changed = callbacks_.changed;
  guard_callbacks.figures = callbacks_.figures;
  guarding_ = std::make_unique<Guarding>(loop_, ledger, mps, settings.mps_root_here, settings.run_dir,
                                         std::move(guard_callbacks));
}

Tenants::~Tenants() = default;

void Tenants::follow(const NodeView& node, bool listed) {
  owners_ = node.decision.owners;
  if (listed) holders_are(node);
  guarding_->follow(node);
  sender_.follow(guarding_->tenants(), pools_);
  if (listed) collecting_.look(pools_, node);
  retiring_ = collecting_.retire(pools_, node);
}

void Tenants::on_pools(const PoolReports& reports) {
  pools_ = reports;
  guarding_->on_pools(reports);
  clients_are(reports);
  report_faults(faults_.update(reports, loop_.now()));
  notices_.pools(reports);
  report_notices();
  sender_.follow(guarding_->tenants(), pools_);
}

// By the endpoints they came through; behind links, as the guard attributes them.
void Tenants::clients_are(const PoolReports& reports) {
  if (!reports.connected) return;
  std::map<std::uint32_t, std::string> grant_of = guarding_->grants_of_processes();
  for (const auto& [id, pool] : reports.pools)
    for (const auto& endpoint : pool.endpoints)
      for (const auto pid : endpoint.clients) grant_of[static_cast<std::uint32_t>(pid)] = endpoint.grant;
  faults_.processes(grant_of, loop_.now());
}

void Tenants::report_faults(const std::vector<ReportedFault>& faults) {
  fault_timer_.stop();
  if (faults_.waiting())
    fault_timer_.start(FaultAttribution::kPatience, [this] { report_faults(faults_.settled(loop_.now())); });
  for (const auto& fault : faults) {
    const std::string text = culprit_text(fault);
    log::error("mps.fault", {{"pool", fault.pool},
                             {"kind", fault.kind},
                             {"culprit", fault.culprit.pid},
                             {"grant", fault.culprit.grant},
                             {"holder", fault.culprit.holder},
                             {"victims", fault.victims.size()},
                             {"victim_grants", victim_grants(fault)}});
    if (fault.kind == "unclean-exit") {
      callbacks_.emit_on_node(kube::kNeighbourAtRisk, text);
    } else if (!fault.culprit.holder.empty()) {
      callbacks_.emit(pod_of(fault.culprit.holder, fault.culprit.grant), kube::kMpsFault, text);
    }
    std::set<std::string> reported{fault.culprit.holder};
    for (const auto& victim : fault.victims) {
      if (victim.holder.empty() || !reported.insert(victim.holder).second) continue;
      callbacks_.emit(pod_of(victim.holder, victim.grant), kube::kMpsFault, victim_text(fault));
    }
  }
}

void Tenants::on_pods(const kube::PodChanges& changes) {
  for (const auto& [what, pod] : changes) {
    const bool ended = what == kube::PodChange::What::kGone || what == kube::PodChange::What::kEnded;
    if (!ended || pod.mirror) continue;  // deleting a mirror pod ends nothing
    for (const auto& endpoint : held_)
      if (endpoint.pod == pod.name && endpoint.pod_namespace == pod.pod_namespace)
        collecting_.pod_ended(endpoint.pool, endpoint.grant);
  }
  notices_.pods(changes);
  report_notices();
}

void Tenants::report_notices() {
  for (const auto& notice : notices_.take()) {
    const std::string pod = notice.pod_namespace + "/" + notice.pod;
    log::warning(notice.event,
                 {{"grant", notice.grant}, {"pod", pod}, {"container", notice.container}, {"what", notice.message}});
    callbacks_.emit(notice.uid.empty() ? pod_of(pod + "/" + notice.container, notice.grant)
                                       : kube::ObjectRef::pod(notice.pod_namespace, notice.pod, notice.uid),
                    *notice.reason, "container " + notice.container + ": " + notice.message);
  }
}

void Tenants::holders_are(const NodeView& node) {
  std::vector<HeldEndpoint> endpoints;
  std::map<std::string, std::string> holder_of;
  holders_ = node.decision.holders;
  for (const auto& holder : holders_) {
    if (holder.grant.empty()) continue;
    holder_of[holder.grant] = holder_name(holder);
    const std::string pool = pool_of(holder, node.decision);
    if (!pool.empty())
      endpoints.push_back({holder.pod_namespace, holder.of_several ? std::string() : holder.pod, holder.container, pool,
                           holder.grant, holder.claim});
  }
  faults_.holders(holder_of);
  report_faults(faults_.settled(loop_.now()));
  notices_.held(holders_, endpoints);
  report_notices();
  held_ = std::move(endpoints);
}

void Tenants::granted(const std::vector<allocate::Grant>& grants, bool holders_known) {
  if (!holders_known) {
    for (const auto& grant : grants) {
      faults_.given(grant.id);
      notices_.given(grant.id);
    }
  }
  guarding_->granted(grants);
}

// An event about a claim that any pod may use is the claim's.
kube::ObjectRef Tenants::pod_of(const std::string& holder, const std::string& grant) const {
  const auto owner = std::ranges::find(owners_, grant, &GrantOwner::grant);
  const auto slash = holder.find('/');
  const auto second = holder.find('/', slash + 1);
  const std::string pod_namespace = holder.substr(0, slash);
  const std::string name = holder.substr(slash + 1, second - slash - 1);
  if (name.starts_with(kClaimAsPod)) {
    const auto held = std::ranges::find(holders_, grant, &Holder::grant);
    const bool known = held != holders_.end() && holder_name(*held) == holder;
    return kube::ObjectRef::claim(pod_namespace, name.substr(kClaimAsPod.size()), known ? held->claim_uid : "");
  }
  const bool same = owner != owners_.end() && owner->pod_namespace == pod_namespace && owner->pod == name;
  return kube::ObjectRef::pod(pod_namespace, name, same ? owner->uid : "");
}

void Tenants::report_act(const GuardAct& act) {
  if (!act.holder.empty() && act.what != "let-in" && act.what != "continue")
    callbacks_.emit(pod_of(act.holder, act.grant), kube::kGuardActed, act_text(act));
}

void Tenants::report(Snapshot& into) const {
  into.guard = guarding_->report();
  into.grant_of_pid = guarding_->grants_of_processes();
  into.reported_faults.assign(faults_.last().begin(), faults_.last().end());
}

}  // namespace tranche::agent
