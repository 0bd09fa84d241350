#include "config/render_sharing.h"

#include <nlohmann/json.hpp>

#include "config/document/amounts.h"
#include "config/document/duration.h"
#include "config/enum_text.h"

namespace tranche::config {
namespace {

using Json = nlohmann::ordered_json;

Json number(std::uint32_t hundredths) {
  if (hundredths % 100 == 0) return hundredths / 100;
  return hundredths / 100.0;
}

Json render(const ThreadsPolicy& policy) {
  if (policy.kind == ThreadsPolicy::Kind::kFactor) return {{"factor", number(policy.factor_hundredths)}};
  if (policy.kind == ThreadsPolicy::Kind::kSms) return {{"sms", policy.sms}};
  return to_string(policy);
}

Json render(const MemoryPolicy& policy) {
  if (policy.kind == MemoryPolicy::Kind::kFactor) return {{"factor", number(policy.factor_hundredths)}};
  return to_string(policy);
}

Json render(const DeviceSelection& selection) {
  if (const auto* count = std::get_if<DeviceCount>(&selection)) return count->count;
  Json list = Json::array();
  if (const auto* refs = std::get_if<std::vector<DeviceRef>>(&selection))
    for (const DeviceRef& ref : *refs) list.push_back(ref.text);
  return list;
}

// Policies of an entry are written if they differ from the section's; a split if it differs from the names' default.
void add_policies(const Sharing& sharing, const SharedResource& resource, Json& entry) {
  if (resource.guard_memory) entry["guard"]["memory"] = word(*resource.guard_memory);
  if (!resource.names.empty()) entry["names"] = resource.names;
  if (resource.threads != sharing.threads) entry["threads"] = render(resource.threads);
  if (resource.memory != sharing.memory) entry["memory"] = render(resource.memory);
  const SplitPolicy usual = is_individual(resource) ? SplitPolicy::kSpan : SplitPolicy::kReject;
  if (resource.split != usual) entry["split"] = word(resource.split);
}

Json render(const Sharing& sharing, const SharedResource& resource, bool mps) {
  Json entry{{"name", resource.name}};
  if (resource.slot_memory)
    entry["slotMemory"] = render_memory_size(*resource.slot_memory);
  else
    entry["replicas"] = resource.replicas;
  if (resource.rename) entry["rename"] = *resource.rename;
  if (!std::holds_alternative<AllDevices>(resource.devices)) entry["devices"] = render(resource.devices);
  if (mps) add_policies(sharing, resource, entry);
  return entry;
}

void add_mps(const Sharing& sharing, Json& section) {
  if (sharing.threads != ThreadsPolicy{}) section["threads"] = render(sharing.threads);
  if (sharing.memory != MemoryPolicy{}) section["memory"] = render(sharing.memory);
  if (sharing.reserve != Reserve{}) section["reserve"] = to_string(sharing.reserve);
  section["computeMode"] = word(sharing.compute_mode);
  section["smRounding"] = word(sharing.sm_rounding);
  section["endpoint"] = word(sharing.endpoint);
  section["guard"] = {{"interval", render_duration(sharing.guard.interval)},
                      {"memory", word(sharing.guard.memory)},
                      {"foreignProcesses", word(sharing.guard.foreign_processes)}};
  section["proofEvery"] = render_duration(sharing.proof_every);
  if (sharing.max_clients != 0) section["maxClients"] = sharing.max_clients;
  section["processesPerSlot"] = sharing.processes_per_slot;
  section["migDevices"] = sharing.mig_devices;
  section["stopPatience"] = render_duration(sharing.stop_patience);
  section["frameworkEnvironment"] = sharing.framework_environment;
}

}  // namespace

Json render_sharing(const Sharing& sharing) {
  Json json = Json::object();
  if (sharing.per_device) json["perDevice"] = true;
  if (sharing.strategy == SharingStrategy::kNone) return json;
  const bool mps = sharing.strategy == SharingStrategy::kMps;
  Json& section = json[mps ? "mps" : "timeSlicing"];
  section["renameByDefault"] = sharing.rename_by_default;
  section["failRequestsGreaterThanOne"] = sharing.fail_requests_greater_than_one;
  section["resources"] = Json::array();
  Json beside = Json::array();
  for (const SharedResource& resource : sharing.resources) {
    const bool time_sliced = mps && resource.strategy == SharingStrategy::kTimeSlicing;
    (time_sliced ? beside : section["resources"]).push_back(render(sharing, resource, mps && !time_sliced));
  }
  if (mps) add_mps(sharing, section);
  if (!beside.empty())
    json["timeSlicing"] = {{"failRequestsGreaterThanOne", sharing.one_time_slice}, {"resources", std::move(beside)}};
  return json;
}

}  // namespace tranche::config
