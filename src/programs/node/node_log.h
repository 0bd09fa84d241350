#pragma once
// What the node agent's log says of its turns, one function an event. Says it and changes nothing.
#include <optional>
#include <vector>

#include "base/problem.h"
#include "grants/live/answers.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

void log_problems(const std::vector<Problem>& problems);
// Missing is an error or not as failOnInitError says; what was there and is gone always is one.
void log_no_driver(const Snapshot& state);
void log_inventory(const std::optional<inventory::Inventory>& before, const inventory::Inventory& scanned);
void log_plan(const plan::Plan& plan);
void log_pools(const PoolReports& before, const PoolReports& next, bool needed);
// Pods that hold a grant and are going. True: kubelet has something new to tell, since a pod that held slots ended.
bool log_pods(const kube::PodChanges& changes, const std::vector<GrantOwner>& owners);
void log_answered(const Answered& answered);

}  // namespace tranche::agent
