#include "dra/claim_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "dra/prepare.h"

namespace tranche::dra {
namespace {

constexpr const char* kClass = "claim";
constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kRecordDevice = "record-";
constexpr std::string_view kRecord = "TRANCHE_CLAIM_RECORD=";

cdi::Device record_of(const PreparedClaim& claim) {
  cdi::Device device;
  device.name = std::string(kRecordDevice) + claim.name.uid;
  auto line = render_prepared(claim);
  line.pop_back();  // the line end
  device.edits.env.push_back(std::string(kRecord) + line);
  return device;
}

// "…/pools/<pool>/endpoints/<grant>"
std::optional<std::pair<std::string, std::string>> endpoint_at(std::string_view path) {
  constexpr std::string_view kPools = "/pools/", kEndpoints = "/endpoints/";
  const auto endpoints = path.rfind(kEndpoints);
  if (endpoints == std::string_view::npos) return std::nullopt;
  const auto pools = path.substr(0, endpoints).rfind(kPools);
  if (pools == std::string_view::npos) return std::nullopt;
  const auto pool = path.substr(pools + kPools.size(), endpoints - pools - kPools.size());
  return std::pair(std::string(pool), std::string(path.substr(endpoints + kEndpoints.size())));
}

cdi::Edits edits_of(const grants::Grant& grant) {
  cdi::Edits edits;
  for (const auto& [name, value] : grant.envs) edits.env.push_back(fmt::format("{}={}", name, value));
  for (const auto& node : grant.device_nodes)
    edits.device_nodes.push_back(
        {.path = node.container_path, .host_path = node.host_path == node.container_path ? "" : node.host_path});
  for (const auto& mount : grant.mounts)
    edits.mounts.push_back({.host_path = mount.host_path,
                            .container_path = mount.container_path,
                            .options = {mount.read_only ? "ro" : "rw", "nosuid", "nodev", "rbind", "rprivate"}});
  return edits;
}

}  // namespace

cdi::Spec claim_spec(const PreparedClaim& claim, const std::vector<grants::Grant>& grants) {
  cdi::Spec spec{claim.driver, kClass, {}, {}};
  for (std::size_t i = 0; i < claim.parts.size() && i < grants.size(); ++i)
    for (const auto& device : claim.parts[i].devices)
      spec.devices.push_back({cdi_device_name(claim.name, claim.parts[i], device), edits_of(grants[i])});
  spec.devices.push_back(record_of(claim));
  return spec;
}

std::optional<ReadClaimSpec> read_claim_spec(std::string_view file, std::string_view text) {
  const auto spec = json_of(text);
  const std::string kind = text_at(spec, "kind");
  const auto slash = kind.find('/');
  if (slash == std::string::npos || kind.substr(slash + 1) != kClass) return std::nullopt;
  ReadClaimSpec read;
  read.driver = kind.substr(0, slash);
  if (!file.starts_with(claim_spec_prefix(read.driver)) || !is_claim_spec_file(file)) return std::nullopt;
  for (const auto& device : list_at(spec, "devices")) {
    const auto& edits = map_at(device, "containerEdits");
    for (const auto& mount : list_at(edits, "mounts")) {
      auto endpoint = endpoint_at(text_at(mount, "hostPath"));
      if (endpoint && std::ranges::find(read.endpoints, *endpoint) == read.endpoints.end())
        read.endpoints.push_back(*std::move(endpoint));
    }
    const auto& env = list_at(edits, "env");
    if (!text_at(device, "name").starts_with(kRecordDevice) || env.size() != 1 || !env.front().is_string()) continue;
    const auto entry = env.front().get<std::string>();
    if (!entry.starts_with(kRecord)) continue;
    auto record = parse_prepared(std::string_view(entry).substr(kRecord.size()));
    for (auto& [uid, claim] : record.claims)
      if (file == claim_spec_file(read.driver, uid) && claim.driver == read.driver) read.claim = std::move(claim);
  }
  return read;
}

bool is_claim_spec_file(std::string_view file) {
  return file.find("-claim_") != std::string_view::npos && file.ends_with(kSuffix);
}

bool is_claim_spec_file(std::string_view file, std::string_view uid) {
  return !uid.empty() && file.ends_with("-claim_" + std::string(uid) + std::string(kSuffix));
}

std::string claim_spec_prefix(const std::string& driver) {
  return driver + "-" + kClass + "_";
}

std::string claim_spec_file(const std::string& driver, const std::string& uid) {
  return claim_spec_prefix(driver) + uid + ".json";
}

std::string claim_cdi_id(const std::string& driver, const std::string& device_name) {
  return driver + "/" + kClass + "=" + device_name;
}

}  // namespace tranche::dra
