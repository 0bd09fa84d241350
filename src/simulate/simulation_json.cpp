#include <nlohmann/json.hpp>

#include "simulate/landing_table.h"

namespace tranche::simulate {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const plan::ShareLimits& limits) {
  return {{"memoryMiB", limits.memory.in_mib()}, {"threadsPercent", limits.threads.value()}, {"sms", limits.sms}};
}

Json to_json(const Holding& holding) {
  Json json{{"container", holding.container},
            {"role", std::string(to_string(holding.role))},
            {"resource", holding.resource},
            {"pool", holding.pool}};
  json["devices"] = Json::array();
  for (const OnDevice& on : holding.devices)
    json["devices"].push_back(
        {{"uuid", on.uuid}, {"index", on.index}, {"slots", on.slots}, {"share", to_json(on.limits)}});
  return json;
}

Json to_json(const PodOutcome& outcome) {
  Json json{
      {"namespace", outcome.pod_namespace}, {"name", outcome.name}, {"fate", std::string(to_string(outcome.fate))}};
  json["holdings"] = Json::array();
  for (const Holding& holding : outcome.holdings) json["holdings"].push_back(to_json(holding));
  json["claims"] = outcome.claims;
  json["lacks"] = Json::array();
  for (const Lack& lack : outcome.lacks)
    json["lacks"].push_back(
        {{"resource", lack.resource}, {"asked", lack.asked}, {"free", lack.free}, {"largest", lack.largest}});
  json["why"] = outcome.why;
  json["notes"] = outcome.notes;
  return json;
}

Json to_json(const ResourceLeft& left) {
  Json json{{"resource", left.resource}, {"slots", left.slots},       {"free", left.free},
            {"largest", left.largest},   {"stranded", left.stranded}, {"strandedRequest", left.stranded_request}};
  json["devices"] = Json::array();
  for (const DeviceLeft& device : left.devices)
    json["devices"].push_back({{"uuid", device.uuid},
                               {"index", device.index},
                               {"slots", device.slots},
                               {"taken", device.taken},
                               {"memoryMiB", device.memory.in_mib()},
                               {"promisedMemoryMiB", device.promised_memory.in_mib()},
                               {"sms", device.sms},
                               {"promisedSms", device.promised_sms}});
  return json;
}

}  // namespace

Json to_json(const Simulation& simulation) {
  Json json{{"lands", simulation.count(Fate::kLands)},
            {"waits", simulation.count(Fate::kWaits)},
            {"refused", simulation.count(Fate::kRefused)},
            {"unknown", simulation.count(Fate::kUnknown)},
            {"unpredicted", simulation.count(Fate::kUnpredicted)},
            {"others", simulation.others},
            {"elsewhere", simulation.elsewhere}};
  json["pods"] = Json::array();
  for (const PodOutcome& outcome : simulation.pods) json["pods"].push_back(to_json(outcome));
  json["left"] = Json::array();
  for (const ResourceLeft& left : simulation.resources) json["left"].push_back(to_json(left));
  return json;
}

Json to_json(const std::vector<UnknownObject>& objects) {
  Json json = Json::array();
  for (const UnknownObject& object : objects)
    json.push_back({{"apiVersion", object.api_version},
                    {"kind", object.kind},
                    {"namespace", object.object_namespace},
                    {"name", object.name}});
  return json;
}

Json to_json(const std::vector<Difference>& differences) {
  Json json = Json::array();
  for (const Difference& difference : differences)
    json.push_back({{"what", difference.what},
                    {"devices", difference.devices},
                    {"field", difference.field},
                    {"before", difference.before},
                    {"after", difference.after}});
  return json;
}

}  // namespace tranche::simulate
