// Claims (Dynamic Resource Allocation) as a part of `tranche node`: its inputs from the node, and its sockets.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "os/log/log.h"
#include "plan/slot_id.h"
#include "programs/node/node_parts.h"

namespace tranche::agent {
namespace {

constexpr Duration kShowAfter = std::chrono::milliseconds(20);
constexpr Duration kShowAtMostAfter = std::chrono::milliseconds(500);
constexpr Duration kServeAgainAfter = std::chrono::seconds(5);  // if a directory of kubelet does not exist yet

// The GPUs planned for claims, and those of which claims may hold a part from an earlier configuration.
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

void NodeProgram::open_claims() {
  Claims::Callbacks callbacks;
  callbacks.api = [this](std::string& why_not) {
    auto* client = link_->client();
    if (client == nullptr) why_not = link_->settled() ? link_->closed_because() : "it is being looked for";
    return client;
  };
  // Once for claims that come together, and after them: kubelet waits for each answer, and containers start later.
  claims_changed_ = std::make_unique<host::Timer>(*loop_);
  callbacks.changed = [this] {
    if (!claims_changed_->running()) claims_changed_since_ = loop_->now();
    const auto latest = claims_changed_since_ + kShowAtMostAfter - loop_->now();
    claims_changed_->start(std::clamp<Duration>(latest, Duration::zero(), kShowAfter), [this] {
      if (stopping_) return;
      publish();
      if (!former_dra_servers_.empty()) follow_claims();
      holdings_->ask();  // kubelet's answer reports the holders to the guard
    });
  };
  claims_ = std::make_unique<Claims>(
      *loop_, *mps_, ClaimsSettings{.run_dir = options_.run_dir, .cdi_root = options_.cdi_root}, std::move(callbacks));
  claim_statuses_ = std::make_unique<ClaimStatuses>(
      *loop_,
      ClaimStatuses::Callbacks{
          .api = [this] { return link_->client(); },
          .wanted = [this] { return claim_statuses(claims_->prepared(), dra_devices(state_).list, state_.pools); },
          .changed =
              [this] {
                if (!stopping_) publish();
              }});
}

void NodeProgram::follow_claims() {
  const auto& dra = state_.config.config.dra;
  if (!claims_) return;
  const bool offered = dra.devices == config::DraDevices::kAll;
  if (!offered && claims_->prepared().empty()) {
    dra_retry_.reset();
    dra_problem_.clear();
    former_dra_servers_.clear();
    return dra_server_.reset();
  }
  if (!state_.inventory) return serve_claims();  // what is prepared can be unprepared without the driver
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
  for (const auto& [name, server] : former_dra_servers_) server->health(health);
}

// After earlier claims are known again, because kubelet may call immediately. It calls the driver under which a claim
// was prepared, so an earlier name is served while it has claims.
void NodeProgram::serve_claims() {
  const std::string& driver = state_.config.config.dra.driver_name;
  const auto problem_before = std::exchange(dra_problem_, {});
  if (dra_server_ && dra_driver_ != driver) former_dra_servers_[dra_driver_] = std::exchange(dra_server_, nullptr);
  dra_driver_ = driver;
  if (auto again = former_dra_servers_.extract(driver)) dra_server_ = std::move(again.mapped());
  const auto held = claims_->drivers();
  std::erase_if(former_dra_servers_, [&](const auto& each) {
    const bool over = !held.contains(each.first);
    if (over) log::info("dra.former_name_ended", {{"driver", each.first}});
    return over;
  });
  for (const auto& name : held) {
    if (name == driver || former_dra_servers_.contains(name)) continue;
    if (auto server = serve_driver(name, problem_before)) former_dra_servers_[name] = std::move(server);
  }
  if (!dra_server_) dra_server_ = serve_driver(driver, problem_before);
}

std::unique_ptr<host::DraServer> NodeProgram::serve_driver(const std::string& driver,
                                                           const std::string& problem_before) {
  const std::string kubelet = std::filesystem::path(options_.plugin_dir).parent_path();
  host::DraServerSettings settings;
  settings.driver = driver;
  settings.registry_dir = kubelet + "/plugins_registry";
  settings.plugins_dir = kubelet + "/plugins";
  auto opened = host::DraServer::open(*loop_, std::move(settings), *claims_, [this] {
    if (!stopping_) publish();
  });
  if (opened) {
    log::info("dra.serving", {{"driver", driver}, {"claims", claims_->prepared().size()}});
    return *std::move(opened);
  }
  dra_problem_ = to_string(opened.error());
  if (dra_problem_ != problem_before) log::warning("dra.not_serving", {{"driver", driver}, {"why", dra_problem_}});
  if (!dra_retry_) dra_retry_ = std::make_unique<host::Timer>(*loop_);
  dra_retry_->start(kServeAgainAfter, [this] { follow_claims(); });
  return nullptr;
}

std::optional<ClaimsReport> NodeProgram::claims_report() const {
  if (!claims_ || (!dra_server_ && dra_problem_.empty() && claims_->prepared().empty())) return std::nullopt;
  ClaimsReport report{dra_driver_, {}, claims_->prepared(), claims_->grants(), claim_statuses_->problem()};
  if (dra_server_) report.server = dra_server_->state();
  if (!dra_server_) report.server.problem = dra_problem_;
  return report;
}

}  // namespace tranche::agent
