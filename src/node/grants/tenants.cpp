#include "node/grants/tenants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

std::string act_text(const GuardAct& act) {
  std::string text =
      fmt::format("the container held {} MiB of {}, {} MiB more than its limit of {} MiB there: ", act.most.in_mib(),
                  act.device, act.most > act.limit ? (act.most - act.limit).in_mib() : 0, act.limit.in_mib());
  const std::string process = act.pid == 0 ? "" : fmt::format("process {} ", act.pid);
  if (act.what == guard::Order::What::kTerminate && act.stopped) {
    text += fmt::format("{}was stopped {} ms after the crossing was seen", process, milliseconds_of(*act.stopped));
    text += act.outcome == "done" ? fmt::format(" and ended after {} ms", milliseconds_of(act.took))
                                  : fmt::format(" and has not ended: {} ({})", act.outcome, act.note);
  } else {
    text += fmt::format("{}{}{}", process, guard::to_string(act.what),
                        act.outcome == "done" ? "" : " (" + act.outcome + ")");
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
  if (!in.claims || in.claims->standing != ClaimsStanding::kOurs) return in.claims.has_value();
  return std::ranges::any_of(in.claims->prepared, [&](const auto& claim) {
    return std::ranges::count(claim.second.parts, grant, &dra::Part::grant) > 0;
  });
}

}  // namespace

Tenants::Tenants(os::Loop& loop, grants::Ledger& ledger, mps::MpsClient& mps, gpu::NvmlThread& driver,
                 kube::Cluster& cluster, guard::SharedFigures& figures, const std::string& mps_root,
                 const std::string& run_dir, std::function<void()> changed)
    : loop_(loop),
      ledger_(ledger),
      mps_(mps),
      cluster_(cluster),
      guarding_(loop, ledger, mps, driver, figures, mps_root, run_dir,
                {.acted = [this](const GuardAct& act) { report_act(act); }, .changed = std::move(changed)}),
      sender_(loop, mps) {}

void Tenants::follow(const NodeView& node, bool listed) {
  newest_ = node.decision.holders;
  if (listed) holders_are(node);
  guarding_.follow(node);
  sender_.follow(guarding_.tenants(), pools_);
  if (listed) collect_endpoints(node);
  retiring_ = retire_endpoints(node);
}

void Tenants::collect_endpoints(const NodeView& node) {
  auto endpoints = endpoints_of(pools_);
  if (!endpoints) return;
  std::erase_if(*endpoints, [&](const grants::Endpoint& endpoint) { return may_be_of_claim(node.in, endpoint.grant); });
  for (const auto& endpoint : ledger_.over(*endpoints, loop_.now())) remove(endpoint);
}

bool Tenants::retire_endpoints(const NodeView& node) {
  std::vector<grants::Endpoint> endpoints;
  for (const auto& [id, pool] : pools_.pools) {
    if (plan::find_pool(node.decision.plan, id) != nullptr) continue;
    for (const auto& endpoint : pool.endpoints)
      if (endpoint.clients.empty() && !may_be_of_claim(node.in, endpoint.grant))
        endpoints.push_back(endpoint_of(id, endpoint));
  }
  const auto retiring = ledger_.retire(endpoints, pools_.connected && node.in.inventory.has_value());
  for (const auto& endpoint : retiring.now) remove(endpoint);
  return retiring.later;
}

void Tenants::remove(const grants::Endpoint& endpoint) {
  const mps::RemoveEndpointRequest remove{{endpoint.pool, endpoint.grant}, endpoint.made};
  mps_.request(remove, [pool = endpoint.pool, grant = endpoint.grant](const Status& removed) {
    if (removed) {
      log::info("endpoint.collected", {{"pool", pool}, {"grant", grant}});
    } else {
      log::warning("endpoint.kept", {{"pool", pool}, {"grant", grant}, {"why", removed.error()}});
    }
  });
}

void Tenants::on_pools(const mps::PoolReports& reports) {
  pools_ = reports;
  guarding_.on_pools(reports);
  if (reports.connected) faults_.processes(guarding_.grants_of_processes(), loop_.now());
  report_faults(faults_.update(reports, loop_.now()));
  notices_.pools(reports);
  report_notices();
  sender_.follow(guarding_.tenants(), pools_);
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
      cluster_.emit_on_node(kube::kNeighbourAtRisk, text);
    } else if (!fault.culprit.holder.empty()) {
      cluster_.emit(pod_of(fault.culprit.holder, fault.culprit.grant), kube::kMpsFault, text);
    }
    std::set<std::string> reported{fault.culprit.holder};
    for (const auto& victim : fault.victims) {
      if (victim.holder.empty() || !reported.insert(victim.holder).second) continue;
      cluster_.emit(pod_of(victim.holder, victim.grant), kube::kMpsFault, victim_text(fault));
    }
  }
}

void Tenants::on_pods(const kube::PodChanges& changes) {
  for (const auto& [what, pod] : changes) {
    const bool ended = what == kube::PodChange::What::kGone || what == kube::PodChange::What::kEnded;
    if (!ended || pod.mirror) continue;  // deleting a mirror pod ends nothing
    for (const auto& holder : holders_)
      if (!holder.pool.empty() && holder.pod == pod.name && holder.pod_namespace == pod.pod_namespace)
        ledger_.pod_ended(holder.pool, holder.grant, loop_.now());  // it goes after kubelet's next answer without it
  }
  notices_.pods(changes);
  report_notices();
}

void Tenants::report_notices() {
  for (const auto& notice : notices_.take()) {
    const Holder& of = notice.holder;
    log::warning(notice.event, {{"grant", of.grant},
                                {"pod", of.pod_namespace + "/" + of.pod},
                                {"container", of.container},
                                {"what", notice.message}});
    cluster_.emit(notice.uid.empty() ? pod_of(holder_name(of), of.grant)
                                     : kube::ObjectRef::pod(of.pod_namespace, of.pod, notice.uid),
                  *notice.reason, "container " + of.container + ": " + notice.message);
  }
}

void Tenants::holders_are(const NodeView& node) {
  std::map<std::string, std::string> holder_of;
  holders_ = node.decision.holders;
  for (const auto& holder : holders_)
    if (!holder.grant.empty()) holder_of[holder.grant] = holder_name(holder);
  faults_.holders(holder_of);
  report_faults(faults_.settled(loop_.now()));
  notices_.held(holders_);
  report_notices();
}

void Tenants::granted(const std::vector<grants::Grant>& grants, bool holders_known) {
  if (!holders_known) {
    for (const auto& grant : grants) {
      faults_.given(grant.id);
      notices_.given(grant.id);
    }
  }
  guarding_.granted(grants);
}

// An event about a claim that any pod may use is the claim's.
kube::ObjectRef Tenants::pod_of(const std::string& holder, const std::string& grant) const {
  const auto slash = holder.find('/');
  const auto second = holder.find('/', slash + 1);
  const std::string pod_namespace = holder.substr(0, slash);
  const std::string name = holder.substr(slash + 1, second - slash - 1);
  if (name.starts_with(grants::kClaimAsPod)) {
    const auto* held = find_holder(holders_, grant);
    const bool known = held != nullptr && holder_name(*held) == holder;
    return kube::ObjectRef::claim(pod_namespace, name.substr(grants::kClaimAsPod.size()), known ? held->claim_uid : "");
  }
  const auto* held = find_holder(newest_, grant);
  const bool same = held != nullptr && held->pod_namespace == pod_namespace && held->pod == name;
  return kube::ObjectRef::pod(pod_namespace, name, same ? held->pod_uid : "");
}

void Tenants::report_act(const GuardAct& act) {
  using What = guard::Order::What;
  if (!act.holder.empty() && act.what != What::kLetIn && act.what != What::kContinue)
    cluster_.emit(pod_of(act.holder, act.grant), kube::kGuardActed, act_text(act));
}

void Tenants::report(Snapshot& into) const {
  into.guard = guarding_.report();
  into.grant_of_pid = guarding_.grants_of_processes();
  into.reported_faults.assign(faults_.last().begin(), faults_.last().end());
}

}  // namespace tranche::node
