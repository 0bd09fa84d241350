#include "dra/prepare.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::dra {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kDigits = 16;

Json json_of_part(const Part& part) {
  Json devices = Json::array();
  for (const auto& device : part.devices)
    devices.push_back({{"pool", device.pool}, {"device", device.device}, {"shareID", device.share_id}});
  Json json{{"request", part.request},
            {"gpu", part.gpu_uuid},
            {"kind", to_string(part.kind)},
            {"mpsPool", part.mps_pool},
            {"grant", part.grant},
            {"cores", part.cores},
            {"memory", part.limits.memory.value},
            {"threadsHundredths", part.limits.threads.hundredths},
            {"sms", part.limits.sms},
            {"devices", devices}};
  if (part.process != plan::ShareLimits{})
    json["process"] = {{"memory", part.process.memory.value},
                       {"threadsHundredths", part.process.threads.hundredths},
                       {"sms", part.process.sms}};
  if (part.instance)
    json["instance"] = {{"parent", part.parent_uuid},        {"profile", part.instance->profile_id},
                        {"slices", part.instance->slices},   {"start", part.instance->place.start},
                        {"size", part.instance->place.size}, {"begun", part.begun}};
  return json;
}

std::uint32_t small_at(const Json& object, const char* key) {
  return static_cast<std::uint32_t>(count_at(object, key));
}

plan::ShareLimits limits_of(const Json& json) {
  return {Bytes{count_at(json, "memory")}, Percent{small_at(json, "threadsHundredths")}, small_at(json, "sms")};
}

// nullopt: of a kind that only a newer release knows.
std::optional<Part> part_of(const Json& json) {
  const auto kind = enum_of<Kind>(text_at(json, "kind"));
  if (!kind) return std::nullopt;
  Part part{.request = text_at(json, "request"),
            .gpu_uuid = text_at(json, "gpu"),
            .kind = *kind,
            .mps_pool = text_at(json, "mpsPool"),
            .grant = text_at(json, "grant"),
            .cores = small_at(json, "cores"),
            .limits = limits_of(json),
            .process = limits_of(member_at(json, "process")),
            .devices = {}};
  for (const Json& device : list_at(json, "devices"))
    part.devices.push_back({text_at(device, "pool"), text_at(device, "device"), text_at(device, "shareID")});
  if (const Json& made = map_at(json, "instance"); !made.empty()) {
    part.instance = mig::WholeInstance{
        small_at(made, "profile"), small_at(made, "slices"), {small_at(made, "start"), small_at(made, "size")}};
    part.parent_uuid = text_at(made, "parent");
    part.begun = truth_at(made, "begun");
  }
  return part;
}

// What has its hash is as this program, or another release of it, wrote it.
std::optional<PreparedClaim> claim_of(std::string_view line) {
  if (line.size() <= kDigits || line[kDigits] != ' ') return std::nullopt;
  const auto text = line.substr(kDigits + 1);
  if (hex16(stable_hash(text)) != line.substr(0, kDigits)) return std::nullopt;
  const Json json = json_of(text);
  PreparedClaim claim;
  claim.name = {text_at(json, "namespace"), text_at(json, "name"), text_at(json, "uid")};
  claim.pod = text_at(json, "pod");
  claim.pod_uid = text_at(json, "podUid");
  claim.driver = text_at(json, "driver");
  claim.boot = text_at(json, "boot");
  for (const Json& each : list_at(json, "parts")) {
    const auto part = part_of(each);
    if (!part) return std::nullopt;
    claim.parts.push_back(*part);
  }
  return claim;
}

}  // namespace

std::string render_prepared(const PreparedClaim& claim) {
  Json parts = Json::array();
  for (const auto& part : claim.parts) parts.push_back(json_of_part(part));
  Json json{{"namespace", claim.name.claim_namespace},
            {"name", claim.name.name},
            {"uid", claim.name.uid},
            {"pod", claim.pod},
            {"podUid", claim.pod_uid},
            {"driver", claim.driver},
            {"parts", parts}};
  if (!claim.boot.empty()) json["boot"] = claim.boot;
  const auto line = json_text(json);
  return hex16(stable_hash(line)) + " " + line + "\n";
}

ReadPrepared parse_prepared(std::string_view text) {
  ReadPrepared read;
  std::size_t number = 0;
  for (const auto line : lines_of(text)) {
    ++number;
    auto claim = claim_of(line);
    if (!claim) {
      read.lost.push_back(fmt::format("line {}: the record is damaged", number));
      continue;
    }
    const std::string uid = claim->name.uid;
    read.claims[uid] = *std::move(claim);
  }
  return read;
}

}  // namespace tranche::dra
