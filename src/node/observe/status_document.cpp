#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/version.h"
#include "labels/label.h"
#include "node/reports.h"

namespace tranche::node {
namespace {

using Json = nlohmann::ordered_json;

template <class Each>
Json list_of(const auto& elements, Each each) {
  Json list = Json::array();
  for (const auto& element : elements) list.push_back(each(element));
  return list;
}

Json problems_json(const std::vector<Problem>& problems) {
  return list_of(problems, [](const auto& problem) { return to_string(problem); });
}

Json driver_json(const Snapshot& s) {
  return {{"state", s.inventory ? "ready" : "waiting"},
          {"version", s.inventory ? s.inventory->driver_version : ""},
          {"platform", s.inventory ? std::string(gpu::to_string(s.inventory->platform)) : ""},
          {"reason", s.driver_problem}};
}

Json config_json(const Snapshot& s) {
  return {{"path", s.config.path},
          {"inForce", s.config.last_good      ? "last good"
                      : s.config.path.empty() ? "defaults"
                                              : "file"},
          {"name", s.config.name},
          {"chosenBy", s.config.chosen_by},
          {"label", s.config.label},
          {"hash", s.config.hash},
          {"problems", problems_json(s.config.problems)},
          {"sharing", std::string(config::to_string(s.config.config.sharing.strategy))},
          {"allocationPolicy",
           std::string(config::to_string(s.config.config.flags.plugin.shared_devices_allocation_policy))}};
}

Json health_json(const Snapshot& s) {
  return {{"checks", s.health.off.empty() ? "on" : "off"},
          {"reason", s.health.off},
          {"quietPeriodMs", milliseconds_of(s.health.quiet_period)},
          {"problems", problems_json(s.health.problems)}};
}

using HolderOf = std::map<std::string_view, const Holder*>;  // by slot

// Who reads the document.
struct Reader {
  const std::vector<gpu::GpuTelemetry>& gpus;  // measured last
  const guard::Figures* figures = nullptr;     // what the guard knows of tenants: of any client of the network
  bool of_node() const { return figures == nullptr; }
};

// Of the GPU, or of the MIG device.
const gpu::GpuActivity* activity_of(const plan::PlannedDevice& device, const std::vector<gpu::GpuTelemetry>& gpus) {
  const auto gpu = std::ranges::find(gpus, device.gpu_uuid, &gpu::GpuTelemetry::uuid);
  if (gpu == gpus.end()) return nullptr;
  if (!device.is_mig) return &gpu->activity;
  const auto mig = std::ranges::find(gpu->mig, device.uuid, &gpu::MigTelemetry::uuid);
  return mig == gpu->mig.end() ? nullptr : &mig->activity;
}

Json device_json(const Snapshot& s, const plan::PlannedResource& resource, const plan::PlannedDevice& device,
                 const HolderOf& holder_of, const Reader& reader) {
  const auto fault = plan::fault_of(device, s.faults);
  Json json{{"uuid", device.uuid},
            {"index", device.index},
            {"resource", resource.name},
            {"sharing", std::string(config::to_string(grants::mode_of(device).strategy))},
            {"memoryMiB", device.memory.in_mib()},
            {"smCount", device.sm_count},
            {"slotMemoryMiB", device.share.memory.in_mib()},
            {"slotSms", device.share.sms},
            {"slotThreads", device.share.threads.hundredths == 0 ? "" : to_string(device.share.threads)},
            {"healthy", !fault},
            {"reason", fault ? fault->why : ""}};
  if (const auto it = s.health.unhealthy.find(device.uuid); it != s.health.unhealthy.end()) {
    json["cause"] = std::string(gpu::to_string(it->second.what.cause));
    json["unhealthyMs"] = milliseconds_of(s.taken - it->second.since);
  }
  json["pool"] = device.pool;
  if (const auto it = s.pools.pools.find(device.pool); it != s.pools.pools.end()) {
    json["poolState"] = it->second.state;
    json["poolClients"] = it->second.clients;
  }
  if (s.inventory) {
    if (const auto* gpu = gpu::find_gpu(*s.inventory, device.gpu_uuid)) json["name"] = gpu->name;
  }
  if (const auto* activity = activity_of(device, reader.gpus); activity != nullptr && activity->sm)
    json["smActive"] = std::lround(*activity->sm * 100);
  for (const auto& use : s.use) {
    if (use.uuid != device.gpu_uuid) continue;
    json["memoryUsedMiB"] = use.used.in_mib();
    json["utilization"] = use.utilization;
    if (!reader.of_node()) continue;
    json["processes"] = list_of(use.processes, [&](const auto& p) {
      Json process{{"pid", p.pid}, {"memoryMiB", p.memory.in_mib()}, {"mpsClient", p.mps_client}};
      if (const auto it = s.grant_of_pid.find(p.pid); it != s.grant_of_pid.end()) process["grant"] = it->second;
      return process;
    });
  }
  json["slots"] = list_of(plan::slot_ids(device), [&](const auto& id) {
    Json slot{{"id", id}};
    if (const auto it = holder_of.find(id); it != holder_of.end()) slot["holder"] = holder_name(*it->second);
    return slot;
  });
  return json;
}

Json kubernetes_json(const Snapshot& s) {
  const auto& cluster = s.cluster;
  Json json{{"state", cluster.state}, {"reason", cluster.reason}, {"server", cluster.server},
            {"node", cluster.node},   {"pods", cluster.pods},     {"watchRestarts", cluster.watch_restarts}};
  json["condition"] = {{"written", cluster.condition.written}, {"problem", cluster.condition.problem}};
  json["events"] = {{"told", cluster.events.emitted},
                    {"written", cluster.events.sent},
                    {"waiting", cluster.events.waiting},
                    {"dropped", cluster.events.dropped},
                    {"lastDropped", cluster.events.last_dropped},
                    {"problem", cluster.events.problem}};
  return json;
}

Json change_json(const Snapshot& s) {
  Json steps = Json::array(), waiting = Json::array();
  for (const auto& step : s.change) {
    steps.push_back({{"what", std::string(grants::to_string(step.what))},
                     {"resource", step.resource},
                     {"devices", step.devices},
                     {"text", grants::to_string(step)},
                     {"state", step.waits() ? "waiting" : "done"},
                     {"waitsFor", step.waits_for}});
    if (step.waits()) waiting.push_back(grants::to_string(step));
  }
  return {{"steps", std::move(steps)}, {"waitingFor", std::move(waiting)}};
}

Json in_force_json(const Snapshot& s) {
  return list_of(in_force(s), [](const auto& row) {
    return Json{{"promise", row.what}, {"state", row.state}, {"by", row.by}, {"why", row.why}};
  });
}

Json party_json(const FaultParty& party) {
  return {{"pid", party.pid}, {"grant", party.grant}, {"holder", party.holder}};
}

Json faults_json(const Snapshot& s) {
  return list_of(s.reported_faults, [](const auto& fault) {
    return Json{{"atMs", fault.at_ms},
                {"pool", fault.pool},
                {"kind", fault.kind},
                {"culprit", party_json(fault.culprit)},
                {"victims", list_of(fault.victims, party_json)}};
  });
}

using ClientsOf = std::multimap<std::string_view, const mps::ClientProtection*>;  // by grant

ClientsOf clients_of_grants(const Snapshot& s) {
  ClientsOf clients;
  for (const auto& [id, pool] : s.pools.pools)
    for (const auto& endpoint : pool.endpoints)
      for (const auto& client : endpoint.protection) clients.emplace(endpoint.grant, &client);
  return clients;
}

Json grant_json(const Holder& holder, const ClientsOf& clients_of, const Reader& reader) {
  Json devices = Json::array();
  for (const auto& d : holder.devices) {
    devices.push_back({{"uuid", d.uuid},
                       {"slots", d.slots},
                       {"memoryMiB", d.limits.memory.in_mib()},
                       {"threads", d.limits.threads.hundredths == 0 ? "" : to_string(d.limits.threads)},
                       {"sms", d.limits.sms}});
    if (reader.figures == nullptr) continue;
    const auto figure = reader.figures->find({holder.grant, d.uuid});
    if (figure == reader.figures->end()) continue;
    if (const auto& used = figure->second.used) devices.back()["usedMiB"] = used->in_mib();
  }
  Json json{{"namespace", holder.pod_namespace}, {"pod", holder.pod},     {"container", holder.container},
            {"resource", holder.resource},       {"slots", holder.slots}, {"grant", holder.grant},
            {"devices", std::move(devices)}};
  if (!holder.claim.empty()) json["claim"] = holder.claim;
  for (auto [of, end] = clients_of.equal_range(holder.grant); of != end; ++of) {
    Json client{{"protected", of->second->state}, {"why", of->second->why}};
    if (reader.of_node()) client["pid"] = of->second->pid;
    json["protection"].push_back(std::move(client));
  }
  if (holder.grant.empty() || holder.pod_uid.empty()) return json;
  if (reader.of_node()) {
    json["podUid"] = holder.pod_uid;
    json["containerId"] = holder.container_id;
  }
  json["deleting"] = holder.deleting;
  return json;
}

Json resources_json(const Snapshot& s) {
  Json list = Json::array();
  for (const auto& advertised : s.advertised) {
    Json json{{"name", advertised.resource},
              {"slots", advertised.slots.size()},
              {"healthy", std::ranges::count_if(advertised.slots, [](const auto& slot) { return slot.healthy; })}};
    std::size_t allocated = 0;
    for (const auto& holding : s.holdings)
      allocated += holding.resource == advertised.resource ? holding.slots.size() : 0;
    json["allocated"] = allocated;
    if (const auto* planned = plan::find_resource(s.plan, advertised.resource)) {
      json["oneSlotPerRequest"] = planned->one_slot_per_request;
      json["split"] = std::string(config::to_string(planned->split));
    }
    for (const auto& plugin : s.plugins) {
      if (plugin.resource != advertised.resource) continue;
      json.update({{"endpoint", plugin.endpoint},
                   {"serving", plugin.serving},
                   {"registered", plugin.registered},
                   {"watchers", plugin.watchers},
                   {"problem", plugin.problem},
                   {"registrations", plugin.registrations},
                   {"allocations", plugin.allocations},
                   {"refused", plugin.refused}});
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json label_output_json(const labels::LabelReport& report) {
  return {{"output", labels::to_string(report.output)},
          {"state", report.state},
          {"reason", report.reason},
          {"writes", report.writes},
          {"foreign", report.foreign}};
}

Json claim_json(const dra::PreparedClaim& claim) {
  const auto shown = [](const auto& device) {
    return Json{{"pool", device.pool}, {"device", device.device}, {"shareID", device.share_id}};
  };
  Json parts = Json::array();
  for (const auto& part : claim.parts) {
    parts.push_back({{"request", part.request},
                     {"gpu", part.gpu_uuid},
                     {"kind", std::string(dra::to_string(part.kind))},
                     {"mpsPool", part.mps_pool},
                     {"grant", part.grant},
                     {"memoryMiB", part.limits.memory.in_mib()},
                     {"cores", part.cores},
                     {"threadsPercent", part.limits.threads.value()},
                     {"sms", part.limits.sms},
                     {"devices", list_of(part.devices, shown)}});
    if (part.instance)
      parts.back()["instance"] = {{"gpu", part.parent_uuid},
                                  {"profileId", part.instance->profile_id},
                                  {"start", part.instance->place.start},
                                  {"size", part.instance->place.size},
                                  {"made", part.is_made()}};
    if (part.process != plan::ShareLimits{})
      parts.back()["process"] = {{"memoryMiB", part.process.memory.in_mib()},
                                 {"threadsPercent", part.process.threads.value()},
                                 {"sms", part.process.sms}};
  }
  return {{"namespace", claim.name.claim_namespace},
          {"name", claim.name.name},
          {"uid", claim.name.uid},
          {"driver", claim.driver},
          {"parts", std::move(parts)}};
}

Json claims_json(const ClaimsReport& report) {
  return {{"driver", report.driver},
          {"serving", report.server.serving},
          {"registered", report.server.registered},
          {"problem", report.server.problem},
          {"statusProblem", report.status_problem},
          {"claims", list_of(report.prepared, [](const auto& each) { return claim_json(each.second); })}};
}

Json mig_json(const mig::MigReport& mig) {
  auto gpus = list_of(mig.gpus, [](const auto& gpu) {
    return Json{{"index", gpu.index},
                {"uuid", gpu.uuid},
                {"now", gpu.now},
                {"target", gpu.target},
                {"waitsFor", gpu.waits_for}};
  });
  return {{"state", mig.state},         {"reason", mig.reason},   {"message", mig.message}, {"config", mig.config},
          {"source", mig.source},       {"label", mig.written},   {"changes", mig.changes}, {"failures", mig.failures},
          {"evictions", mig.evictions}, {"gpus", std::move(gpus)}};
}

Json slices_json(const SliceReport& report) {
  return {{"state", report.state},     {"problem", report.problem}, {"driver", report.driver},
          {"devices", report.devices}, {"slices", report.slices},   {"generation", report.generation},
          {"writes", report.writes},   {"notes", report.notes},     {"withheld", report.withheld}};
}

HolderOf holders_of_slots(const Snapshot& s) {
  HolderOf holder_of;
  for (const auto& holder : s.holders)
    for (const auto& slot : holder.slots) holder_of[slot] = &holder;
  return holder_of;
}

Json left_out_json(const Snapshot& s) {
  return list_of(s.plan.left_out, [](const auto& left) { return Json{{"what", left.what}, {"why", left.why}}; });
}

Json notes_json(const Snapshot& s) {
  Json notes = s.plan.notes;
  if (!s.health.off.empty()) notes.push_back(s.health.off + "; a GPU that is lost is still noticed");
  if (s.inventory)
    for (auto& note : labels::notes_for(*s.inventory)) notes.push_back(std::move(note));
  return notes;
}

Json dra_json(const Snapshot& s) {
  Json json;
  if (s.slices.state != "off") json = {{"slices", slices_json(s.slices)}};
  if (s.claims) json.update(claims_json(*s.claims));
  for (const auto& device : s.plan.for_claims) json["gpus"].push_back({{"index", device.index}, {"uuid", device.uuid}});
  return json;
}

Json act_json(const GuardAct& act) {
  Json json{{"atMs", milliseconds_of(act.at.time_since_epoch())},
            {"what", std::string(guard::to_string(act.what))},
            {"outcome", act.outcome},
            {"holder", act.holder},
            {"grant", act.grant},
            {"device", act.device},
            {"pool", act.pool},
            {"resource", act.resource},
            {"policy", act.policy},
            {"pid", act.pid},
            {"memoryMiB", act.memory.in_mib()},
            {"heldMiB", act.sum.in_mib()},
            {"limitMiB", act.limit.in_mib()},
            {"overMiB", act.most > act.limit ? (act.most - act.limit).in_mib() : 0}};
  if (act.stopped) json["stoppedMs"] = milliseconds_of(*act.stopped);
  json["tookMs"] = milliseconds_of(act.took);
  json["beside"] = act.beside;
  json["note"] = act.note;
  json["times"] = act.times;
  return json;
}

Json processes_json(const std::vector<GuardedProcess>& processes) {
  return list_of(processes, [](const auto& process) {
    return Json{{"device", process.device},
                {"pid", process.pid},
                {"memoryMiB", process.memory.in_mib()},
                {"name", process.name},
                {"grant", process.grant},
                {"podUid", process.pod_uid},
                {"containerId", process.container_id}};
  });
}

Json guard_json(const GuardReport& report, const grants::Shares& shares) {
  Json json{{"state", report.off.empty() ? "on" : "off"},
            {"reason", report.off},
            {"intervalMs", milliseconds_of(report.interval)},
            {"paceMs", milliseconds_of(report.pace)}};
  json["paces"] = Json::object();
  for (const auto& [gpu, pace] : report.paces) json["paces"][gpu] = milliseconds_of(pace);
  json["memory"] = Json::object();
  for (const auto& [resource, policy] : report.policies) json["memory"][resource] = std::string(to_string(policy));
  json["foreignProcessesPolicy"] = std::string(to_string(report.foreign_processes_policy));
  json["limits"] = Json::array();
  for (const auto& [key, share] : shares)
    if (share.memory.value > 0)
      json["limits"].push_back({{"grant", key.first}, {"device", key.second}, {"limitMiB", share.memory.in_mib()}});
  json["acts"] = list_of(report.acts, act_json);
  json["stopped"] = list_of(report.stopped, [](const auto& process) {
    return Json{{"device", process.device},
                {"grant", process.grant},
                {"holder", process.holder},
                {"pid", process.pid},
                {"atMs", milliseconds_of(process.since.time_since_epoch())}};
  });
  json["foreignProcesses"] = processes_json(report.foreign_processes);
  json["unattributed"] = processes_json(report.unattributed);
  json["notInForce"] = report.not_in_force;
  return json;
}

Json guard_for_network(const Snapshot& s) {
  const auto shown = [](const auto& process) { return Json{{"device", process.device}}; };
  return {{"foreignProcesses", list_of(s.guard.foreign_processes, shown)}};
}

// Members one after another, as text. A reader of the network gets those that are named for it: what is added to the
// document is not shown to the network by itself.
LongText document_for(const Snapshot& s, const Reader& reader) {
  LongText text;
  const auto begin = [&text](std::string_view key) {
    text += text.empty() ? "{\"" : ",\"";
    text += key;
    text += "\":";
  };
  // For the network as well.
  const auto show = [&](std::string_view key, const Json& value) {
    begin(key);
    text += json_text(value);
  };
  const auto add = [&](std::string_view key, const Json& value) {
    if (reader.of_node()) show(key, value);
  };
  show("program", "node");
  show("version", kVersion);
  show("node", s.cluster.node);
  add("pid", ::getpid());
  const auto ready = readiness(s);
  show("ready", ready.ready);
  show("readyReason", ready.message);
  show("driver", driver_json(s));
  show("config", config_json(s));
  show("change", change_json(s));
  show("health", health_json(s));
  show("mps", {{"connected", s.pools.connected},
               {"problem", s.pools.problem},
               {"needed", !s.plan.pools.empty()},
               {"cpuProblem", s.pools.cpu_problem}});
  show("guard", reader.of_node() ? guard_json(s.guard, s.shares) : guard_for_network(s));
  show("inForce", in_force_json(s));
  add("faults", faults_json(s));
  add("pages", {{"problem", s.pages_problem}});
  show("loop", {{"worstLatenessMs", s.loop.worst_lateness_ms}, {"cpuProblem", s.loop.cpu_problem}});
  show("cdiProblem", s.cdi_problem);
  show("kubelet", {{"holdingsProblem", s.holdings_problem}});
  add("kubernetes", kubernetes_json(s));
  show("resources", resources_json(s));
  const auto show_list = [&](std::string_view key, auto put_all) {
    begin(key);
    std::string_view before = "[";
    put_all([&](const Json& element) {
      text += std::exchange(before, ",");
      text += json_text(element);
    });
    text += before == "[" ? "[]" : "]";
  };
  show_list("devices", [&, holder_of = holders_of_slots(s)](auto put) {
    for (const auto& resource : s.plan.resources)
      for (const auto& device : resource.devices) put(device_json(s, resource, device, holder_of, reader));
  });
  show_list("grants", [&, clients_of = clients_of_grants(s)](auto put) {
    for (const auto& holder : s.holders) put(grant_json(holder, clients_of, reader));
  });
  show("planProblems", problems_json(s.plan_problems));
  show("leftOut", left_out_json(s));
  show("notes", notes_json(s));
  show("labels", s.labels);
  add("labelOutput", label_output_json(s.label_report));
  if (const auto dra = dra_json(s); !dra.is_null()) add("dra", dra);
  if (s.mig) add("mig", mig_json(*s.mig));
  text += "}";
  return text;
}

}  // namespace

LongText status_document(const Snapshot& snapshot, const std::vector<gpu::GpuTelemetry>& gpus) {
  return document_for(snapshot, {gpus});
}

LongText network_document(const Snapshot& snapshot, const guard::Figures& figures,
                          const std::vector<gpu::GpuTelemetry>& gpus) {
  return document_for(snapshot, {gpus, &figures});
}

}  // namespace tranche::node
