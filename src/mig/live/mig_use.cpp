#include "mig/live/mig_use.h"

namespace tranche::agent {

std::string to_string(const MigUser& user) {
  if (user.pod.empty()) return "a container that kubelet does not list yet";
  return "pod " + user.pod_namespace + "/" + user.pod + " (container " + user.container + ")";
}

std::vector<mig::Holder> holders_in(const MigUse& use, const std::string& uuid) {
  if (!use.unknown.empty())
    return {{"a holder that is not known, because kubelet does not answer (" + use.unknown + ")"}};
  std::vector<mig::Holder> holders;
  if (const auto found = use.users.find(uuid); found != use.users.end())
    for (const MigUser& user : found->second) holders.push_back({to_string(user)});
  return holders;
}

}  // namespace tranche::agent
