#pragma once
// Who uses which device of this node, as kubelet and the node agent's own answers have it. Values.
#include <map>
#include <string>
#include <vector>

#include "base/time.h"

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

}  // namespace tranche::agent
