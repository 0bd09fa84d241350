// Claims (Dynamic Resource Allocation) as a part of `tranche node`: its inputs from the node, and its sockets.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "node/node_parts.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

constexpr Duration kShowAfter = std::chrono::milliseconds(100);
constexpr Duration kServeAgainAfter = std::chrono::seconds(5);  // if a directory of kubelet does not exist yet

// The GPUs planned for claims, and those of which claims may hold a part from an earlier configuration.
std::vector<plan::PlannedDevice> gpus_of(const plan::Plan& plan) {
  auto gpus = plan.for_claims;
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices) gpus.push_back(device);
  return gpus;
}

}  // namespace

// Once for claims that come together, and after them: kubelet waits for each answer, and containers start later.
void NodeProgram::on_claims() {
  if (mig_) mig_->use_is(mig_use(false));
  if (claims_changed_.running()) return;
  claims_changed_.start(kShowAfter, [this] {
    step();
    if (dra_servers_.size() > dra_servers_.count(dra_driver())) follow_claims();
    holdings_.ask();  // kubelet's answer reports the holders to the guard
  });
}

void NodeProgram::take_claims() {
  // Where both had the same names, the newer agent's sockets are of no use any more.
  std::erase_if(dra_servers_, [](const auto& each) { return !each.second->state().serving; });
  claims_.take();
  step({.offer = true});
}

// kubelet calls the agent that it registered last. Where none of the claims can be this agent's to serve, it has to
// know at once which GPUs they hold.
void NodeProgram::want_claims() {
  const bool served = inputs_.config.config.dra.devices != config::DraDevices::kNone;
  const auto* server = dra_server();
  if (!served || (server != nullptr && server->state().registered)) claims_lock_.want();
}

void NodeProgram::follow_claims() {
  const auto& dra = inputs_.config.config.dra;
  want_claims();
  const bool offered = dra.devices != config::DraDevices::kNone;
  if (!offered && claims_.prepared().empty()) {
    dra_retry_.stop();
    dra_problem_.clear();
    return dra_servers_.clear();
  }
  if (!inputs_.inventory) return serve_claims();  // what is prepared can be unprepared without the driver
  ClaimInputs claim_inputs;
  claim_inputs.offered.driver = dra.driver_name;
  const auto devices = dra_devices({inputs_, decision_}).list;
  claim_inputs.offered.devices = devices;
  claim_inputs.offered.rounding = inputs_.config.config.sharing.sm_rounding;
  claim_inputs.offered.partitions_known = inputs_.partitionable.known;
  for (const auto& gpu : inputs_.inventory->gpus)
    for (const auto& mig : gpu.mig_devices)
      if (dra::is_usable(inputs_.config.config, mig)) claim_inputs.mig_devices.insert(mig.uuid);
  for (const auto& device : decision_.plan.for_claims)
    if (!device.pool.empty()) claim_inputs.offered.mps_pools[device.uuid] = device.pool;
  claim_inputs.offered.slots_known = inputs_.holdings_read != MonoTime{};
  for (const auto& holding : inputs_.holdings)
    for (const auto& slot : holding.slots)
      claim_inputs.offered.slots_held[std::string(plan::device_of(slot))] =
          fmt::format("pod {}/{} (container {})", holding.pod_namespace, holding.pod, holding.container);
  claim_inputs.gpus = gpus_of(decision_.plan);
  claim_inputs.allocation = inputs_.allocation;
  claims_.follow(std::move(claim_inputs));
  serve_claims();
  for (const auto& [name, server] : dra_servers_) server->health(options_.node_name, devices);
}

// After earlier claims are known again, because kubelet may call immediately. It calls the driver under which a claim
// was prepared, so an earlier name is served while it has claims.
void NodeProgram::serve_claims() {
  std::set<std::string> names{dra_driver()};
  for (const auto& [uid, claim] : claims_.prepared()) names.insert(claim.driver);
  std::erase_if(dra_servers_, [&](const auto& each) {
    if (names.contains(each.first)) return each.second->state().gone;
    log::info("dra.former_name_ended", {{"driver", each.first}});
    return true;
  });
  std::string problem;
  for (const auto& name : names) {
    if (dra_servers_.contains(name)) continue;
    const std::string kubelet = std::filesystem::path(options_.plugin_dir).parent_path();
    auto opened = kubelet::DraServer::open(loop_, name, kubelet, options_.pod_uid, claims_, [this] {
      want_claims();
      step();
      if (std::ranges::any_of(dra_servers_, [](const auto& each) { return each.second->state().gone; }))
        follow_claims();
    });
    if (opened) {
      log::info("dra.serving", {{"driver", name}, {"claims", claims_.prepared().size()}});
      dra_servers_[name] = *std::move(opened);
      continue;
    }
    problem = to_string(opened.error());
    if (problem != dra_problem_) log::warning("dra.not_serving", {{"driver", name}, {"why", problem}});
    dra_retry_.start(kServeAgainAfter, [this] { follow_claims(); });
  }
  dra_problem_ = problem;
}

const kubelet::DraServer* NodeProgram::dra_server() const {
  const auto at = dra_servers_.find(dra_driver());
  return at == dra_servers_.end() ? nullptr : at->second.get();
}

std::optional<ClaimsReport> NodeProgram::claims_report() const {
  const bool ours = claims_.standing() == ClaimsStanding::kOurs;
  const auto* server = dra_server();
  if (ours && server == nullptr && dra_problem_.empty() && claims_.prepared().empty()) return std::nullopt;
  ClaimsReport report{dra_driver(), {}, claims_.prepared(), claim_statuses_.problem(), claims_.standing()};
  if (server != nullptr)
    report.server = server->state();
  else
    report.server.problem = dra_problem_;
  if (!ours && report.server.problem.empty())
    report.server.problem = claims_.standing() == ClaimsStanding::kWaiting
                                ? "an older agent of this node still has the claims"
                                : "a newer agent of this node has the claims";
  return report;
}

}  // namespace tranche::node
