#pragma once
// The holders of devices, as reported by kubelet (PodResources, and the claims that it had prepared), the plan and the
// API server. Pure.
#include <optional>
#include <string>
#include <vector>

#include "grants/ledger.h"
#include "kube/event_queue.h"
#include "kube/pod.h"
#include "mps/protocol/pool_reports.h"

namespace tranche::node {

struct NodeView;  // node/snapshot.h

using grants::Holder;

std::vector<Holder> holders(const NodeView& node, const kube::PodTable& pods);
// nullptr where none is known, and of a grant "".
const Holder* find_holder(const std::vector<Holder>& holders, const std::string& grant);
// Its pod, or its claim if any pod may use that.
kube::ObjectRef object_of(const Holder& holder);
// What the ledger of grants (grants/ledger.h) goes by, from the agent's values. Of all pools; absent while `tranche
// mps` does not answer.
std::optional<std::vector<grants::Endpoint>> endpoints_of(const mps::PoolReports& pools);

}  // namespace tranche::node
