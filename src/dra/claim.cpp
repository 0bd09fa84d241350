#include "dra/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "base/units.h"

namespace tranche::dra {
namespace {

using Json = nlohmann::json;

// "gpu/first" → "gpu": kubelet knows requests only.
std::string base_request(const std::string& request) {
  return request.substr(0, request.find('/'));
}

Result<Allocated> read_result(const Json& result, const std::string& field) {
  Allocated device{.request = base_request(text_at(result, "request")),
                   .pool = text_at(result, "pool"),
                   .device = text_at(result, "device"),
                   .share_id = text_at(result, "shareID"),
                   .admin_access = truth_at(result, "adminAccess"),
                   .consumed = {}};
  for (const auto& [name, value] : map_at(result, "consumedCapacity").items()) {
    TRY(device.consumed[name], read_quantity(value, fmt::format("{}.consumedCapacity[{}]", field, in_quotes(name))));
  }
  return device;
}

Status read_results(const Json& devices, std::string_view driver, Claim& claim) {
  const Json& results = list_at(devices, "results");
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (text_at(results[i], "driver") != driver) continue;
    TRY(claim.devices.emplace_back(), read_result(results[i], fmt::format("status.allocation.devices.results[{}]", i)));
  }
  if (claim.devices.empty())
    return wrong_field("status.allocation.devices.results", fmt::format("names no device of the driver {}", driver));
  return {};
}

// Whether a configuration's request, "gpu" or "gpu/first", is one for which a device was allocated: that of an
// alternative that was not taken is not.
bool is_allocated(const Json& devices, const std::string& request) {
  return !request.contains('/') || std::ranges::any_of(list_at(devices, "results"), [&](const Json& result) {
    return text_at(result, "request") == request;
  });
}

bool has_alternatives(const Json& devices) {
  return std::ranges::any_of(list_at(devices, "results"),
                             [](const Json& result) { return text_at(result, "request").contains('/'); });
}

// A configuration for a driver of which the claim has no device has no effect, unless it is for an alternative.
Status check_driver(const Json& devices, const Json& config, const std::string& field, std::string_view driver) {
  const Json& opaque = member_at(config, "opaque");
  const auto named = text_at(opaque, "driver");
  const bool of_a_result = std::ranges::any_of(list_at(devices, "results"),
                                               [&](const Json& result) { return text_at(result, "driver") == named; });
  const bool ours = text_at(member_at(opaque, "parameters"), "apiVersion").starts_with("resource.nvidia.com/");
  if (of_a_result || !ours || text_at(config, "source") != "FromClaim" || has_alternatives(devices)) return {};
  return wrong_field(field + ".opaque.driver",
                     fmt::format("is {}, and the claim has no device of that driver", in_quotes(named)),
                     fmt::format("write driver: {} in spec.devices.config of the claim", driver));
}

Status read_configs(const Json& devices, std::string_view driver, Claim& claim) {
  const Json& configs = list_at(devices, "config");
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const std::string field = fmt::format("status.allocation.devices.config[{}]", i);
    const Json& opaque = member_at(configs[i], "opaque");
    if (text_at(opaque, "driver") != driver) {
      TRY_STATUS(check_driver(devices, configs[i], field, driver));
      continue;
    }
    const auto named = texts_at(configs[i], "requests");
    std::vector<std::string> requests;
    for (const auto& name : named)
      if (is_allocated(devices, name)) requests.push_back(base_request(name));
    if (requests.empty() && !named.empty()) continue;
    TRY(auto config, read_device_config(member_at(opaque, "parameters"), field + ".opaque.parameters"));
    config.from_class = text_at(configs[i], "source") == "FromClass";
    config.requests = std::move(requests);
    claim.configs.push_back(std::move(config));
  }
  return {};
}

const Json& owning_pod(const Json& metadata) {
  static const Json kNone;
  for (const Json& owner : list_at(metadata, "ownerReferences"))
    if (text_at(owner, "kind") == "Pod" && truth_at(owner, "controller")) return owner;
  return kNone;
}

// Made by the controller from a template, or by the scheduler for an extended resource: for one pod, which owns it.
bool is_generated(const Json& metadata) {
  const Json& annotations = member_at(metadata, "annotations");
  return !text_at(annotations, "resource.kubernetes.io/pod-claim-name").empty() ||
         text_at(annotations, "resource.kubernetes.io/extended-resource-claim") == "true";
}

// A user who writes a claim can write an owner too, but not for which pods it is reserved: the scheduler does that, and
// kubelet has prepared what is reserved for its pod only. The scheduler reserves a generated claim for a different pod
// that names it as well, which must not get what the owner was granted.
Status read_owner(const Json& document, Claim& claim) {
  const Json& metadata = member_at(document, "metadata");
  const Json& owner = owning_pod(metadata);
  const auto uid = text_at(owner, "uid"), name = text_at(owner, "name");
  if (uid.empty() || name.empty()) return {};
  const Json& reserved = list_at(member_at(document, "status"), "reservedFor");
  const bool for_owner = std::ranges::any_of(reserved, [&](const Json& each) {
    return text_at(each, "resource") == "pods" && text_at(each, "uid") == uid && text_at(each, "name") == name;
  });
  const bool generated = is_generated(metadata);
  if (generated && !for_owner)
    return wrong_field(
        "status.reservedFor",
        fmt::format("does not have the pod {}, for which the claim was generated (metadata.ownerReferences)",
                    in_quotes(name)),
        "a pod gets a claim of its own with resourceClaimTemplateName; several pods share a claim that you "
        "create yourself");
  if (!for_owner || (!generated && reserved.size() != 1)) return {};
  claim.pod = name;
  claim.pod_uid = uid;
  return {};
}

}  // namespace

std::unexpected<Error> wrong_field(const std::string& field, std::string_view what, std::string_view remedy) {
  return fail(tranche::Kind::kInvalid, fmt::format("{} {}; {}", field, what, remedy));
}

Result<std::uint64_t> read_quantity(const Json& value, const std::string& field, std::string_view remedy) {
  if (!value.is_string() && !value.is_number_unsigned()) return wrong_field(field, "is not a quantity", remedy);
  const auto amount = parse_quantity(value.is_string() ? value.get<std::string>() : json_text(value));
  if (!amount) return wrong_field(field, "cannot be used: " + amount.error().what, remedy);
  return *amount;
}

std::string to_string(const ClaimName& claim) {
  return fmt::format("{}/{} ({})", claim.claim_namespace, claim.name, claim.uid);
}

Result<Claim> read_claim(std::string_view json, const ClaimName& asked, std::string_view driver) {
  const Json document = json_of(json);
  if (const auto uid = text_at(member_at(document, "metadata"), "uid"); uid != asked.uid)
    return fail(tranche::Kind::kConflict,
                fmt::format("metadata.uid is {}, and kubelet asks for {}: the claim was deleted and created again; "
                            "delete the pod that waits for the former claim",
                            in_quotes(uid), in_quotes(asked.uid)));
  const Json& allocation = member_at(member_at(document, "status"), "allocation");
  if (!allocation.is_object())
    return fail(tranche::Kind::kUnavailable,
                "status.allocation is absent: the scheduler has not allocated the claim, or the "
                "allocation was withdrawn; kubelet asks again");
  Claim claim;
  claim.name = asked;
  TRY_STATUS(read_owner(document, claim));
  const Json& devices = member_at(allocation, "devices");
  TRY_STATUS(read_results(devices, driver, claim));
  TRY_STATUS(read_configs(devices, driver, claim));
  return claim;
}

}  // namespace tranche::dra
