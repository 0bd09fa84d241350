#pragma once
// The holders of devices, as reported by kubelet (PodResources, and the claims that it had prepared), the plan and the
// API server. Pure.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grants/allocate/grant.h"
#include "grants/ledger.h"
#include "kube/pod.h"
#include "kubelet/pod_resources.h"
#include "mps/protocol/pool_reports.h"

namespace tranche::node {

struct NodeView;  // node/snapshot.h

using grants::Holder;

std::vector<Holder> holders(const NodeView& node, const kube::PodTable& pods);
// nullptr where none is known, and of a grant "".
const Holder* find_holder(const std::vector<Holder>& holders, const std::string& grant);
// Slots that were allocated again no longer belong to the holder that kubelet reported before; it reports the new one a
// little later.
void forget_former_holders(std::vector<kubelet::PodHolding>& holdings, const grants::Grant& given);

// What the ledger of grants (grants/ledger.h) goes by, from the agent's values. Of all pools; absent while `tranche
// mps` does not answer.
std::optional<std::vector<grants::Endpoint>> endpoints_of(const mps::PoolReports& pools);

// Whether kubelet lists a pod that the API server says is over or gone.
bool lists_ended_pods(const std::vector<kubelet::PodHolding>& holdings, const kube::PodTable& pods);

// Pods that kubelet does not list though they run. For seconds after its own start, kubelet answers and has not read
// the API server's pods yet: it lists no pod. What such a pod holds stays as it was, so that names, figures, and the
// stop of its clients before a deletion do not wait for kubelet.
class LatePods {
 public:
  // Adds to kubelet's answer what it had listed before for pods that are not in it, that the API server reports as
  // running still, and whose slots no other container holds now. True when there is one: kubelet will list it.
  // `pods` must be current: with what the API server reported long ago, a pod that is gone would hold its slots.
  bool complete(std::vector<kubelet::PodHolding>& listed, const std::vector<kubelet::PodHolding>& before,
                const kube::PodTable& pods);

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  std::map<Key, std::string> uids_;  // of the pods that were listed: one of the same name may be another pod
};

}  // namespace tranche::node
