// The guard's part of the status document and of the metrics page.
#include <nlohmann/json.hpp>

#include "node/reports.h"
#include "observe/metrics/metric_names.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

Json act_json(const GuardAct& act) {
  Json json{{"atMs", ms(act.at.time_since_epoch())},
            {"what", act.what},
            {"outcome", act.outcome},
            {"holder", act.holder},
            {"grant", act.grant},
            {"device", act.device},
            {"pool", act.pool},
            {"resource", act.resource},
            {"policy", act.policy}};
  if (act.pid != 0) {
    json["pid"] = act.pid;
    json["memoryMiB"] = act.memory.in_mib();
  }
  json["heldMiB"] = act.sum.in_mib();
  json["limitMiB"] = act.limit.in_mib();
  json["overMiB"] = act.most > act.limit ? (act.most - act.limit).in_mib() : 0;
  if (act.stopped) json["stoppedMs"] = ms(*act.stopped);
  json["tookMs"] = ms(act.took);
  json["beside"] = act.beside;
  json["note"] = act.note;
  json["times"] = act.times;
  return json;
}

Json processes_json(const std::vector<GuardedProcess>& processes) {
  Json list = Json::array();
  for (const auto& process : processes)
    list.push_back({{"device", process.device},
                    {"pid", process.pid},
                    {"memoryMiB", process.memory.in_mib()},
                    {"name", process.name},
                    {"grant", process.grant},
                    {"podUid", process.pod_uid},
                    {"containerId", process.container_id}});
  return list;
}

}  // namespace

Json guard_json(const GuardReport& report, const grants::Shares& shares) {
  Json json{{"state", report.off.empty() ? "on" : "off"},
            {"reason", report.off},
            {"intervalMs", ms(report.interval)},
            {"paceMs", ms(report.pace)}};
  json["paces"] = Json::object();
  for (const auto& [gpu, pace] : report.paces) json["paces"][gpu] = ms(pace);
  json["memory"] = Json::object();
  for (const auto& [resource, policy] : report.policies) json["memory"][resource] = std::string(to_string(policy));
  json["foreignProcessesPolicy"] = std::string(to_string(report.foreign_processes_policy));
  json["limits"] = Json::array();
  for (const auto& [key, share] : shares)
    if (share.memory.value > 0)
      json["limits"].push_back({{"grant", key.first}, {"device", key.second}, {"limitMiB", share.memory.in_mib()}});
  json["acts"] = Json::array();
  for (const auto& act : report.acts) json["acts"].push_back(act_json(act));
  json["stopped"] = Json::array();
  for (const auto& process : report.stopped)
    json["stopped"].push_back({{"device", process.device},
                               {"grant", process.grant},
                               {"holder", process.holder},
                               {"pid", process.pid},
                               {"atMs", ms(process.since.time_since_epoch())}});
  json["foreignProcesses"] = processes_json(report.foreign_processes);
  json["unattributed"] = processes_json(report.unattributed);
  json["notInForce"] = report.not_in_force;
  return json;
}

void put_guard(metrics::Page& page, const GuardReport& report) {
  for (const auto& [key, count] : report.counts) {
    const auto& [resource, policy, outcome] = key;
    page.set("tranche_guard_acts_total", {resource, policy, outcome}, static_cast<double>(count));
  }
  if (!report.off.empty()) return;
  std::map<std::string, std::uint64_t> foreign_processes;
  for (const auto& process : report.foreign_processes) ++foreign_processes[process.device];
  for (const auto& [device, count] : foreign_processes)
    page.set("tranche_guard_foreign_processes", {device}, static_cast<double>(count));
  page.set("tranche_guard_not_in_force", static_cast<double>(report.not_in_force.size()));
}

}  // namespace tranche::agent
