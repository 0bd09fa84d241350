#pragma once
// The holders of devices, as reported by kubelet (PodResources, and the claims that it had prepared), the plan and the
// API server. Pure.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grants/allocate/grant.h"
#include "grants/ledger.h"
#include "kube/pod_table.h"
#include "kubelet/pod_resources.h"
#include "mps/protocol/pool_reports.h"

namespace tranche::node {

struct NodeView;  // node/snapshot.h

// Prefix of the name of a claim that replaces a pod's: a pod's name cannot have a colon.
inline constexpr std::string_view kClaimAsPod = "claim:";

struct Holder {
  std::string pod_namespace;
  std::string pod;  // kClaimAsPod and the name of a claim that any pod may use
  std::string container;
  std::string resource;
  std::vector<std::string> slots;
  std::vector<allocate::GrantLimit> devices;
  std::string grant;       // its endpoint's name, "" without MPS
  std::string claim = {};  // of the holding; "": held by slots
  std::string claim_uid = {};
  // As reported by the API server; "" and false while only kubelet knows the pod.
  std::string pod_uid = {};
  std::string container_id = {};  // "containerd://…"
  bool deleting = false;

  friend bool operator==(const Holder&, const Holder&) = default;
};
std::vector<Holder> holders(const NodeView& node, const kube::PodTable& pods);
// nullptr where none is known, and of a grant "".
const Holder* find_holder(const std::vector<Holder>& holders, const std::string& grant);
std::string holder_name(const Holder& holder);  // "namespace/pod/container"
// Holders with the same key are one tenant: the grants of a container. A request of a claim is a tenant of its own,
// whatever the names of the claim, its request and its pod, because users choose these names.
std::string tenant_key(const Holder& holder);
// Slots that were allocated again no longer belong to the holder that kubelet reported before; it reports the new one a
// little later.
void forget_former_holders(std::vector<kubelet::PodHolding>& holdings, const allocate::Grant& given);

// What the ledger of grants (grants/ledger.h) goes by, from the agent's values.
std::vector<grants::Named> named_grants(const std::vector<Holder>& holders);
// Of all pools; absent while `tranche mps` does not answer.
std::optional<std::vector<grants::Endpoint>> endpoints_of(const mps::PoolReports& pools);
grants::Endpoint endpoint_of(const std::string& pool, const mps::EndpointReport& endpoint);

// Whether kubelet lists a pod that the API server says is over or gone.
bool lists_ended_pods(const std::vector<kubelet::PodHolding>& holdings, const kube::PodTable& pods);

}  // namespace tranche::node
