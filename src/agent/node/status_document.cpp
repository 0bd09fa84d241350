#include <unistd.h>

#include <map>

#include <nlohmann/json.hpp>

#include "agent/node/readiness.h"
#include "agent/node/reports.h"
#include "base/version.h"
#include "plan/slot_id.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::ordered_json;

Json problems_json(const std::vector<Problem>& problems) {
  Json list = Json::array();
  for (const auto& problem : problems) list.push_back(to_string(problem));
  return list;
}

Json driver_json(const Snapshot& s) {
  return {{"state", s.inventory ? "ready" : "waiting"},
          {"version", s.inventory ? s.inventory->driver_version : ""},
          {"platform", s.inventory ? std::string(inventory::to_string(s.inventory->platform)) : ""},
          {"reason", s.driver_problem}};
}

Json config_json(const Snapshot& s) {
  return {{"path", s.config.path},
          {"inForce", s.config.last_good      ? "last good"
                      : s.config.path.empty() ? "defaults"
                                              : "file"},
          {"problems", problems_json(s.config.problems)},
          {"sharing", std::string(config::to_string(s.config.config.sharing.strategy))}};
}

Json health_json(const Snapshot& s) {
  return {{"checks", s.health.off.empty() ? "on" : "off"},
          {"reason", s.health.off},
          {"quietPeriodMs", std::chrono::duration_cast<std::chrono::milliseconds>(s.health.quiet_period).count()},
          {"problems", problems_json(s.health.problems)}};
}

using HolderOf = std::map<std::string, const Holder*>;

Json slots_json(const plan::PlannedResource& resource, const plan::PlannedDevice& device, const HolderOf& holder_of) {
  Json list = Json::array();
  for (std::uint32_t n = 0; n < device.slots; ++n) {
    const auto id = plan::render({device.uuid, device.replicated ? std::optional(n) : std::nullopt});
    Json slot{{"id", id}, {"resource", resource.name}};
    if (const auto it = holder_of.find(id); it != holder_of.end())
      slot["holder"] = it->second->pod_namespace + "/" + it->second->pod + "/" + it->second->container;
    list.push_back(std::move(slot));
  }
  return list;
}

Json device_json(const Snapshot& s, const plan::PlannedResource& resource, const plan::PlannedDevice& device,
                 const HolderOf& holder_of) {
  Json json{{"uuid", device.uuid},
            {"index", device.index},
            {"resource", resource.name},
            {"sharing", std::string(config::to_string(resource.sharing))},
            {"memoryMiB", device.memory.in_mib()},
            {"smCount", device.sm_count},
            {"slotMemoryMiB", device.share.memory.in_mib()},
            {"slotSms", device.share.sms},
            {"slotThreads", device.share.threads.hundredths == 0 ? "" : to_string(device.share.threads)}};
  const auto reason = advertise::reason_unhealthy(device, s.faults);
  json["healthy"] = !reason;
  json["reason"] = reason.value_or("");
  if (const auto it = s.health.unhealthy.find(device.uuid); it != s.health.unhealthy.end()) {
    json["cause"] = std::string(health::to_string(it->second.what.cause));
    json["unhealthyMs"] = std::chrono::duration_cast<std::chrono::milliseconds>(s.taken - it->second.since).count();
  }
  json["pool"] = device.pool;
  if (const auto it = s.pools.pools.find(device.pool); it != s.pools.pools.end()) {
    json["poolState"] = it->second.state;
    json["poolClients"] = it->second.clients;
  }
  if (s.inventory) {
    if (const auto* gpu = inventory::find_gpu(*s.inventory, device.gpu_uuid)) json["name"] = gpu->name;
  }
  for (const auto& use : s.use) {
    if (use.uuid != device.gpu_uuid) continue;
    json["memoryUsedMiB"] = use.used.in_mib();
    json["utilization"] = use.utilization;
    Json processes = Json::array();
    for (const auto& p : use.processes) {
      Json process{{"pid", p.pid}, {"memoryMiB", p.memory.in_mib()}, {"mpsClient", p.mps_client}};
      if (const auto it = s.grant_of_pid.find(p.pid); it != s.grant_of_pid.end()) process["grant"] = it->second;
      processes.push_back(std::move(process));
    }
    json["processes"] = std::move(processes);
  }
  json["slots"] = slots_json(resource, device, holder_of);
  return json;
}

Json grants_json(const std::vector<Holder>& all) {
  Json list = Json::array();
  for (const auto& holder : all) {
    Json devices = Json::array();
    for (const auto& d : holder.devices) {
      devices.push_back({{"uuid", d.uuid},
                         {"slots", d.slots},
                         {"memoryMiB", d.limits.memory.in_mib()},
                         {"threads", d.limits.threads.hundredths == 0 ? "" : to_string(d.limits.threads)},
                         {"sms", d.limits.sms}});
    }
    list.push_back({{"namespace", holder.pod_namespace},
                    {"pod", holder.pod},
                    {"container", holder.container},
                    {"resource", holder.resource},
                    {"slots", holder.slots},
                    {"grant", holder.grant},
                    {"devices", std::move(devices)}});
  }
  return list;
}

Json resources_json(const Snapshot& s) {
  Json list = Json::array();
  for (const auto& advertised : s.advertised) {
    std::size_t healthy = 0;
    for (const auto& slot : advertised.slots) healthy += slot.healthy ? 1 : 0;
    Json json{{"name", advertised.resource}, {"slots", advertised.slots.size()}, {"healthy", healthy}};
    std::size_t allocated = 0;
    for (const auto& holding : s.holdings)
      allocated += holding.resource == advertised.resource ? holding.slots.size() : 0;
    json["allocated"] = allocated;
    for (const auto& plugin : s.plugins) {
      if (plugin.resource != advertised.resource) continue;
      json["endpoint"] = plugin.endpoint;
      json["serving"] = plugin.serving;
      json["registered"] = plugin.registered;
      json["watchers"] = plugin.watchers;
      json["problem"] = plugin.problem;
      json["registrations"] = plugin.registrations;
      json["allocations"] = plugin.allocations;
      json["refused"] = plugin.refused;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

Json status_document(const Snapshot& s) {
  const auto all = holders(s);
  HolderOf holder_of;
  for (const auto& holder : all)
    for (const auto& slot : holder.slots) holder_of[slot] = &holder;

  Json document{{"program", "node"}, {"version", kVersion}, {"pid", ::getpid()}};
  const Readiness ready = readiness(s);
  document["ready"] = ready.ready;
  document["readyReason"] = ready.reason;
  document["driver"] = driver_json(s);
  document["config"] = config_json(s);
  document["health"] = health_json(s);
  document["mps"] = {{"connected", s.pools.connected}, {"problem", s.pools.problem}, {"needed", !s.plan.pools.empty()}};
  document["cdiProblem"] = s.cdi_problem;
  document["kubelet"] = {{"holdingsProblem", s.holdings_problem}};
  document["resources"] = resources_json(s);
  Json devices = Json::array();
  for (const auto& resource : s.plan.resources)
    for (const auto& device : resource.devices) devices.push_back(device_json(s, resource, device, holder_of));
  document["devices"] = std::move(devices);
  document["grants"] = grants_json(all);
  document["planProblems"] = problems_json(s.plan_problems);
  Json left_out = Json::array();
  for (const auto& left : s.plan.left_out) left_out.push_back({{"what", left.what}, {"why", left.why}});
  document["leftOut"] = std::move(left_out);
  document["notes"] = s.plan.notes;
  if (!s.health.off.empty()) document["notes"].push_back(s.health.off + "; a GPU that is lost is still noticed");
  document["labels"] = s.labels;
  return document;
}

}  // namespace tranche::agent
