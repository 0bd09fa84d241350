// Tenants as a part of `tranche node`: what follows for the guard, endpoints, events and the log from who holds what.
// The parts and the ledger decide; `tranche mps` acts on what is requested here.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "base/text.h"
#include "node/node_parts.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

std::string act_text(const GuardAct& act) {
  std::string text = fmt::format(
      "the container held {} MiB of {}, {} MiB more than its limit of {} MiB there: process {} ", act.most.in_mib(),
      act.device, act.most > act.limit ? (act.most - act.limit).in_mib() : 0, act.limit.in_mib(), act.pid);
  if (act.what == guard::Order::What::kTerminate && act.stopped) {
    text += fmt::format("was stopped {} ms after the crossing was seen", milliseconds_of(*act.stopped));
    text += act.outcome == "done" ? fmt::format(" and ended after {} ms", milliseconds_of(act.took))
                                  : fmt::format(" and has not ended: {} ({})", act.outcome, act.note);
  } else {
    text += fmt::format("{}{}", guard::to_string(act.what), act.outcome == "done" ? "" : " (" + act.outcome + ")");
  }
  if (!act.beside.empty()) text += "; other tenants with clients on the GPU: " + join(act.beside, ", ");
  return text;
}

std::string victim_grants(const ReportedFault& fault) {
  std::set<std::string> grants;
  for (const auto& victim : fault.victims) grants.insert(victim.grant);
  return fmt::format("{}", fmt::join(grants, ","));
}

}  // namespace

void NodeProgram::follow_tenants(bool listed) {
  if (listed) faults_.processes(guarding_.grants_of_processes(), decision_.holders, loop_.now());
  guarding_.follow({inputs_, decision_});
  limit_sender_.follow(guarding_.tenants(), inputs_.pools);
  remove_endpoints(listed);
}

// The ledger decides which. Those of claims stay: kubelet's NodeUnprepareResources ends them.
void NodeProgram::remove_endpoints(bool listed) {
  const auto is_planned = [this](const std::string& pool) { return plan::find_pool(decision_.plan, pool) != nullptr; };
  const auto& pools = inputs_.pools;
  std::vector<grants::Endpoint> endpoints;
  // Without a new list of kubelet's, only those of a pool that is no longer planned can go.
  if (listed || !std::ranges::all_of(pools.pools | std::views::keys, is_planned))
    endpoints = endpoints_of(pools).value_or(std::vector<grants::Endpoint>{});
  if (inputs_.claims && !endpoints.empty()) {
    // What an older or a newer agent has prepared meanwhile is not known here.
    const bool any_may_be = inputs_.claims->standing != ClaimsStanding::kOurs;
    std::set<std::string_view> of_claims;
    for (const auto& [uid, claim] : inputs_.claims->prepared)
      for (const auto& part : claim.parts) of_claims.insert(part.grant);
    std::erase_if(endpoints, [&](const auto& each) { return any_may_be || of_claims.contains(each.grant); });
  }
  if (pools.connected && listed)
    for (const auto& endpoint : ledger_.over(endpoints, loop_.now())) remove(endpoint);
  std::erase_if(endpoints, [&](const auto& each) { return each.has_clients || is_planned(each.pool); });
  const auto retiring = ledger_.retire(endpoints, pools.connected && inputs_.inventory);
  for (const auto& endpoint : retiring.now) remove(endpoint);
  retiring_ = retiring.later;
}

void NodeProgram::remove(const grants::Endpoint& endpoint) {
  const mps::RemoveEndpointRequest remove{{endpoint.pool, endpoint.grant}, endpoint.made};
  mps_.request(remove, [pool = endpoint.pool, grant = endpoint.grant](const auto& removed) {
    if (removed) {
      log::info("endpoint.collected", {{"pool", pool}, {"grant", grant}});
    } else {
      log::warning("endpoint.kept", {{"pool", pool}, {"grant", grant}, {"why", removed.error()}});
    }
  });
}

void NodeProgram::follow_clients(const mps::PoolReports& reports) {
  guarding_.on_pools(reports);
  if (reports.connected) faults_.processes(guarding_.grants_of_processes(), decision_.holders, loop_.now());
  report_faults(faults_.update(reports, decision_.holders, loop_.now()));
  notices_.pools(reports);
  limit_sender_.follow(guarding_.tenants(), reports);
}

void NodeProgram::report_faults(const std::vector<ReportedFault>& faults) {
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
      cluster_.emit(fault.culprit.object, kube::kMpsFault, text);
    }
    std::set<std::string> reported{fault.culprit.holder};
    for (const auto& victim : fault.victims) {
      if (victim.holder.empty() || !reported.insert(victim.holder).second) continue;
      cluster_.emit(victim.object, kube::kMpsFault, victim_text(fault));
    }
  }
}

void NodeProgram::report_notices() {
  for (const auto& notice : notices_.look(decision_.holders, cluster_.pods())) {
    const Holder& of = notice.holder;
    log::warning(notice.event, {{"grant", of.grant},
                                {"pod", of.pod_namespace + "/" + of.pod},
                                {"container", of.container},
                                {"what", notice.message}});
    cluster_.emit(object_of(of), *notice.reason, "container " + of.container + ": " + notice.message);
  }
}

void NodeProgram::report_act(const GuardAct& act) {
  const auto* holder = find_holder(decision_.holders, act.grant);
  if (holder != nullptr && act.what != guard::Order::What::kContinue)
    cluster_.emit(object_of(*holder), kube::kGuardActed, act_text(act));
}

}  // namespace tranche::node
