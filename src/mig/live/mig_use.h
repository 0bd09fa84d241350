#pragma once
// Who uses which device of this node, as kubelet and the node agent's own answers have it. Values.
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "mig/state.h"

namespace tranche::agent {

struct MigUser {
  std::string pod_namespace;  // "" = kubelet has not listed the grant yet
  std::string pod;
  std::string container;
  friend bool operator==(const MigUser&, const MigUser&) = default;
};
std::string to_string(const MigUser& user);  // "pod team/job (container main)"

struct MigUse {
  std::string unknown;                                // why it is not known; "" = it is
  std::map<std::string, std::vector<MigUser>> users;  // by the UUID of a MIG device or GPU
  MonoTime asked{};                                   // when kubelet was asked whose answer this is
  friend bool operator==(const MigUse&, const MigUse&) = default;
};

// As holders of a device, by its UUID. While it is not known who uses what, every device is held.
std::vector<mig::Holder> holders_in(const MigUse& use, const std::string& uuid);

}  // namespace tranche::agent
