#pragma once
// Which pod and container a grant belongs to: as reported by kubelet (PodResources: namespace, pod,
// container, slots) and the API server (uid, container id, whether it is being deleted). Pure.
#include <string>
#include <vector>

#include "kube/pod_table.h"
#include "kubelet/pod_resources.h"

namespace tranche::agent {

struct Holder;  // node/grants/holders.h

struct GrantOwner {
  std::string grant;  // its endpoint's name
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string uid;           // "" when only kubelet knows the pod (yet)
  std::string container_id;  // "containerd://…", "" when not known
  bool deleting = false;
  friend bool operator==(const GrantOwner&, const GrantOwner&) = default;
};

// By grant. Holders without an endpoint are left out.
std::vector<GrantOwner> grant_owners(const std::vector<Holder>& holders, const kube::PodTable& pods);

// Whether kubelet lists a pod that the API server says is over or gone.
bool lists_ended_pods(const std::vector<host::PodHolding>& holdings, const kube::PodTable& pods);

}  // namespace tranche::agent
