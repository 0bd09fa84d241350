#include "dra/prepare.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/enum_names.h"
#include "base/json_read.h"
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

std::optional<std::uint32_t> small_at(const Json& object, const char* key) {
  const auto number = number_at(object, key);
  if (!number || *number < 0 || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::optional<plan::ShareLimits> limits_of(const Json& json) {
  const auto threads = small_at(json, "threadsHundredths"), sms = small_at(json, "sms");
  const auto memory = number_at(json, "memory");
  if (!threads || !sms || !memory || *memory < 0) return std::nullopt;
  return plan::ShareLimits{Bytes{static_cast<std::uint64_t>(*memory)}, Percent{*threads}, *sms};
}

// False: it has one that cannot be read.
bool read_instance(const Json& json, Part& part) {
  if (!json.contains("instance")) return true;
  const Json& object = member_at(json, "instance");
  const auto profile = small_at(object, "profile"), slices = small_at(object, "slices");
  const auto start = small_at(object, "start"), size = small_at(object, "size");
  part.parent_uuid = text_at(object, "parent");
  if (!profile || !slices || !start || !size || part.parent_uuid.empty()) return false;
  part.begun = truth_at(object, "begun");
  part.instance = mig::WholeInstance{*profile, *slices, {*start, *size}};
  return part.kind == Kind::kMig;
}

std::optional<Part> part_of(const Json& json) {
  Part part;
  part.request = text_at(json, "request");
  part.gpu_uuid = text_at(json, "gpu");
  part.mps_pool = text_at(json, "mpsPool");
  part.grant = text_at(json, "grant");
  const auto kind = enum_of<Kind>(text_at(json, "kind"));
  const auto cores = small_at(json, "cores");
  const auto limits = limits_of(json);
  const auto process = json.contains("process") ? limits_of(member_at(json, "process")) : plan::ShareLimits{};
  if (!kind || !cores || !limits || !process) return std::nullopt;
  part.kind = *kind;
  part.cores = *cores;
  part.limits = *limits;
  part.process = *process;
  for (const Json& device : list_at(json, "devices"))
    part.devices.push_back({text_at(device, "pool"), text_at(device, "device"), text_at(device, "shareID")});
  if (!read_instance(json, part)) return std::nullopt;
  if (part.request.empty() || part.gpu_uuid.empty() || part.devices.empty()) return std::nullopt;
  if (has_endpoint(part.kind) && (part.mps_pool.empty() || part.grant.empty())) return std::nullopt;
  return part;
}

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
  if (claim.name.claim_namespace.empty() || claim.name.name.empty() || claim.name.uid.empty() || claim.driver.empty())
    return std::nullopt;
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
