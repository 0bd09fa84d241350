#include <nlohmann/json.hpp>

#include "plan/plan_json.h"
#include "simulate/landing_table.h"

namespace tranche::simulate {

namespace {
using Json = nlohmann::ordered_json;
}

static void to_json(Json& json, const OnDevice& on) {
  json = {{"uuid", on.uuid}, {"index", on.index}, {"slots", on.slots}, {"share", on.limits}};
}

static void to_json(Json& json, const Holding& holding) {
  json = {{"container", holding.container},
          {"role", to_string(holding.role)},
          {"resource", holding.resource},
          {"pool", holding.pool},
          {"devices", holding.devices}};
}

static void to_json(Json& json, const Lack& lack) {
  json = {{"resource", lack.resource}, {"asked", lack.asked}, {"free", lack.free}, {"largest", lack.largest}};
}

static void to_json(Json& json, const PodOutcome& outcome) {
  json = {{"namespace", outcome.pod_namespace},
          {"name", outcome.name},
          {"fate", to_string(outcome.fate)},
          {"holdings", outcome.holdings},
          {"claims", outcome.claims},
          {"lacks", outcome.lacks},
          {"why", outcome.why},
          {"notes", outcome.notes}};
}

static void to_json(Json& json, const DeviceLeft& device) {
  json = {{"uuid", device.uuid},
          {"index", device.index},
          {"slots", device.slots},
          {"taken", device.taken},
          {"memoryMiB", device.memory.in_mib()},
          {"promisedMemoryMiB", device.promised_memory.in_mib()},
          {"sms", device.sms},
          {"promisedSms", device.promised_sms}};
}

static void to_json(Json& json, const ResourceLeft& left) {
  json = {{"resource", left.resource}, {"slots", left.slots},       {"free", left.free},
          {"largest", left.largest},   {"stranded", left.stranded}, {"strandedRequest", left.stranded_request},
          {"devices", left.devices}};
}

void to_json(Json& json, const Simulation& simulation) {
  for (const Fate fate : {Fate::kLands, Fate::kWaits, Fate::kRefused, Fate::kUnknown, Fate::kUnpredicted})
    json[std::string(to_string(fate))] = simulation.count(fate);
  json["others"] = simulation.others;
  json["elsewhere"] = simulation.elsewhere;
  json["pods"] = simulation.pods;
  json["left"] = simulation.resources;
}

void to_json(Json& json, const UnknownObject& object) {
  json = {{"apiVersion", object.api_version},
          {"kind", object.kind},
          {"namespace", object.object_namespace},
          {"name", object.name}};
}

void to_json(Json& json, const Difference& difference) {
  json = {{"what", difference.what},
          {"devices", difference.devices},
          {"field", difference.field},
          {"before", difference.before},
          {"after", difference.after}};
}

}  // namespace tranche::simulate
