// Claims (Dynamic Resource Allocation) as a part of `tranche node`: what it learns of the node, and its sockets.
#include <fmt/format.h>

#include <filesystem>

#include "agent/node/node_parts.h"
#include "host/log/log.h"
#include "plan/slot_id.h"

namespace tranche::agent {
namespace {

constexpr Duration kServeAgainAfter = std::chrono::seconds(5);  // a directory of kubelet's that is not there yet

// The GPUs that are planned for claims, and those of which a former configuration may have given claims a part.
std::vector<plan::PlannedDevice> gpus_of(const plan::Plan& plan) {
  auto gpus = plan.for_claims;
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices)
      if (!device.is_mig) gpus.push_back(device);
  return gpus;
}

std::vector<host::DraDeviceHealth> health_of(const dra::Offered& offered) {
  std::vector<host::DraDeviceHealth> health;
  for (const auto& device : offered.devices)
    health.push_back({offered.pool, device.name, !device.fault, device.fault ? device.fault->why : std::string()});
  return health;
}

}  // namespace

void NodeProgram::open_claims(const std::string& mps_here) {
  Claims::Callbacks callbacks;
  callbacks.api = [this](std::string& why_not) {
    auto* client = link_->client();
    if (client == nullptr) why_not = link_->settled() ? link_->closed_because() : "it is being looked for";
    return client;
  };
  callbacks.changed = [this] {
    if (stopping_) return;
    publish();
    holdings_->ask();  // whoever acts on holders learns of them with kubelet's answer
  };
  claims_ = std::make_unique<Claims>(
      *loop_, ClaimsSettings{.mps_root = mps_here, .run_dir = options_.run_dir, .cdi_root = options_.cdi_root},
      std::move(callbacks));
}

void NodeProgram::follow_claims() {
  const auto& dra = state_.config.config.dra;
  if (!claims_ || !state_.inventory) return;
  const bool offered = dra.devices == config::DraDevices::kAll;
  if (!offered && claims_->prepared().empty()) {
    dra_retry_.reset();
    dra_problem_.clear();
    return dra_server_.reset();
  }
  ClaimFacts facts;
  facts.offered.driver = dra.driver_name;
  facts.offered.pool = options_.node_name;
  facts.offered.devices = dra_devices(state_).list;
  facts.offered.rounding = state_.config.config.sharing.sm_rounding;
  for (const auto& device : state_.plan.for_claims) facts.offered.mps_pools[device.uuid] = device.pool;
  const auto health = health_of(facts.offered);
  facts.offered.slots_known = state_.holdings_read != MonoTime{};
  for (const auto& holding : state_.holdings)
    for (const auto& slot : holding.slots)
      facts.offered.slots_held[std::string(plan::device_of(slot))] =
          fmt::format("pod {}/{} (container {})", holding.pod_namespace, holding.pod, holding.container);
  facts.gpus = gpus_of(state_.plan);
  facts.allocation = state_.allocation;
  claims_->follow(std::move(facts));
  serve_claims();
  if (dra_server_) dra_server_->health(health);
}

// After the claims of before are known again: kubelet may ask at once.
void NodeProgram::serve_claims() {
  const std::string& driver = state_.config.config.dra.driver_name;
  if (dra_server_ && dra_driver_ == driver) return;
  dra_server_.reset();
  dra_driver_ = driver;
  const std::string kubelet = std::filesystem::path(options_.plugin_dir).parent_path();
  host::DraServerSettings settings;
  settings.driver = driver;
  settings.registry_dir = kubelet + "/plugins_registry";
  settings.plugins_dir = kubelet + "/plugins";
  auto opened = host::DraServer::open(*loop_, std::move(settings), *claims_, [this] {
    if (!stopping_) publish();
  });
  if (opened) {
    dra_server_ = *std::move(opened);
    dra_problem_.clear();
    log::info("dra.serving", {{"driver", driver}, {"claims", claims_->prepared().size()}});
    return;
  }
  const auto problem = to_string(opened.error());
  if (problem != dra_problem_) log::warning("dra.not_serving", {{"driver", driver}, {"why", problem}});
  dra_problem_ = problem;
  if (!dra_retry_) dra_retry_ = std::make_unique<host::Timer>(*loop_);
  dra_retry_->start(kServeAgainAfter, [this] { follow_claims(); });
}

std::optional<ClaimsReport> NodeProgram::claims_report() const {
  if (!claims_ || (!dra_server_ && dra_problem_.empty() && claims_->prepared().empty())) return std::nullopt;
  ClaimsReport report{dra_driver_, {}, claims_->prepared(), claims_->grants()};
  if (dra_server_) report.server = dra_server_->state();
  if (!dra_server_) report.server.problem = dra_problem_;
  return report;
}

}  // namespace tranche::agent
