#include "agent/node/node_log.h"

#include <fmt/format.h>

#include <string>

#include "host/log/log.h"
#include "inventory/compare.h"

namespace tranche::agent {

void log_problems(const std::vector<Problem>& problems) {
  for (const auto& problem : problems) {
    if (problem.severity == Severity::kError) {
      log::error("config.problem", {{"text", to_string(problem)}});
    } else {
      log::warning("config.problem", {{"text", to_string(problem)}});
    }
  }
}

void log_no_driver(const Snapshot& state) {
  if (state.inventory) {
    log::error("driver.gone", {{"why", state.driver_problem}});
  } else if (state.config.config.flags.fail_on_init_error) {
    log::error("driver.waiting", {{"why", state.driver_problem}});
  } else {
    log::info("driver.waiting", {{"why", state.driver_problem}, {"idle", true}});
  }
}

void log_inventory(const std::optional<inventory::Inventory>& before, const inventory::Inventory& scanned) {
  if (before) {
    for (const auto& change : inventory::changes(*before, scanned)) log::info("inventory.changed", {{"what", change}});
  } else {
    log::info("driver.ready", {{"version", scanned.driver_version},
                               {"gpus", scanned.gpus.size()},
                               {"platform", inventory::to_string(scanned.platform)}});
  }
  for (const auto& text : scanned.unreadable) log::warning("gpu.unreadable", {{"what", text}});
  for (const auto& text : scanned.doubts) log::warning("gpu.doubt", {{"what", text}});
}

void log_plan(const plan::Plan& plan) {
  for (const auto& resource : plan.resources) {
    std::size_t slots = 0;
    for (const auto& device : resource.devices) slots += device.slots;
    log::info("plan.resource", {{"resource", resource.name},
                                {"slots", slots},
                                {"devices", resource.devices.size()},
                                {"sharing", std::string(config::to_string(resource.sharing))}});
  }
  for (const auto& left : plan.left_out) log::warning("plan.left_out", {{"what", left.what}, {"why", left.why}});
  for (const auto& note : plan.notes) log::info("plan.note", {{"text", note}});
}

void log_pools(const PoolReports& before, const PoolReports& next, bool needed) {
  for (const auto& [id, pool] : next.pools) {
    const auto it = before.pools.find(id);
    if (it == before.pools.end() || it->second.state != pool.state)
      log::info("pool.state", {{"pool", id}, {"state", pool.state}, {"why", pool.reason}});
  }
  if (next.connected != before.connected && needed)
    log::info("mps.connection", {{"connected", next.connected}, {"why", next.problem}});
}

void log_answered(const Answered& answered) {
  for (const auto& grant : answered.given) {
    log::info("grant.given", {{"grant", grant.id},
                              {"resource", grant.resource},
                              {"slots", fmt::format("{}", fmt::join(grant.slots, ","))},
                              {"pool", grant.pool}});
  }
  for (const auto& [resource, error] : answered.refused)
    log::warning("grant.refused", {{"resource", resource}, {"why", error}});
}

}  // namespace tranche::agent
