#include "dra/claim_spec.h"

namespace tranche::dra {
namespace {

constexpr const char* kClass = "claim";

cdi::Edits edits_of(const allocate::Grant& grant) {
  cdi::Edits edits;
  for (const auto& [name, value] : grant.envs) {
    std::string entry = name;
    entry += '=';
    entry += value;
    edits.env.push_back(std::move(entry));
  }
  for (const auto& node : grant.device_nodes)
    edits.device_nodes.push_back({.path = node.container_path,
                                  .host_path = node.host_path == node.container_path ? "" : node.host_path,
                                  .type = {},
                                  .permissions = node.permissions});
  for (const auto& mount : grant.mounts)
    edits.mounts.push_back({.host_path = mount.host_path,
                            .container_path = mount.container_path,
                            .type = {},
                            .options = {mount.read_only ? "ro" : "rw", "nosuid", "nodev", "rbind", "rprivate"}});
  return edits;
}

}  // namespace

cdi::Spec claim_spec(const std::string& driver, const PreparedClaim& claim,
                     const std::vector<allocate::Grant>& grants) {
  cdi::Spec spec;
  spec.vendor = driver;
  spec.cls = kClass;
  for (std::size_t i = 0; i < claim.parts.size() && i < grants.size(); ++i)
    for (const auto& device : claim.parts[i].devices)
      spec.devices.push_back({cdi_device_name(claim.name, claim.parts[i], device), {}, edits_of(grants[i])});
  spec.version = cdi::minimum_version(spec);
  return spec;
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
