#include "simulate/json.h"

#include <nlohmann/json.hpp>

namespace tranche::landing {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Holding& holding) {
  Json json{{"container", holding.container},
            {"role", std::string(to_string(holding.role))},
            {"resource", holding.resource},
            {"pool", holding.pool}};
  json["devices"] = Json::array();
  for (const OnDevice& on : holding.devices)
    json["devices"].push_back({{"uuid", on.uuid},
                               {"index", on.index},
                               {"slots", on.slots},
                               {"worth",
                                {{"memoryMiB", on.worth.memory.in_mib()},
                                 {"threadsPercent", on.worth.threads.value()},
                                 {"sms", on.worth.sms}}}});
  return json;
}

Json to_json(const PodLanding& landing) {
  Json json{
      {"namespace", landing.pod_namespace}, {"name", landing.name}, {"fate", std::string(to_string(landing.fate))}};
  json["holdings"] = Json::array();
  for (const Holding& holding : landing.holdings) json["holdings"].push_back(to_json(holding));
  json["lacks"] = Json::array();
  for (const Lack& lack : landing.lacks)
    json["lacks"].push_back(
        {{"resource", lack.resource}, {"asked", lack.asked}, {"free", lack.free}, {"largest", lack.largest}});
  json["why"] = landing.why;
  json["notes"] = landing.notes;
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

Json to_json(const Landings& landings) {
  Json json{{"lands", landings.count(Fate::kLands)},
            {"waits", landings.count(Fate::kWaits)},
            {"refused", landings.count(Fate::kRefused)},
            {"unknown", landings.count(Fate::kUnknown)},
            {"others", landings.others},
            {"elsewhere", landings.elsewhere}};
  json["pods"] = Json::array();
  for (const PodLanding& landing : landings.pods) json["pods"].push_back(to_json(landing));
  json["left"] = Json::array();
  for (const ResourceLeft& left : landings.resources) json["left"].push_back(to_json(left));
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

}  // namespace tranche::landing
