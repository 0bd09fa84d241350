#pragma once
// Inputs → decision: the enforced plan, the slots that kubelet may give, the grants that hold them, and what differs
// from the previous decision (apply.cpp acts on the difference). Pure: `now` is passed in and never goes back; one
// thread.
#include <optional>
#include <vector>

#include "kube/pod.h"
#include "node/node_events.h"
#include "node/plan_change.h"
#include "node/snapshot.h"

namespace tranche::node {

// State that outlives a decision; decide() reads and updates it.
struct Records {
  grants::Ledger& ledger;
  GpuHealth& health;
  PlanChange& change;
  PoolEvents& pools;
  const kube::PodTable& pods;
};

struct Decided {
  Decision decision;
  // What differs from the last decision.
  bool problems = false;                // the plan's
  PlanChange::Moved change;             // of the plan, step by step
  std::vector<ConditionChange> health;  // of devices
  std::vector<NodeEvent> events;        // of health and of pools
  bool ask_driver = false;              // what GPUs with a fault are used for
  std::optional<MonoTime> wake;         // when to decide again without an input
};

// `last` stays as it is where no input is fresh.
Decided decide(const Inputs& in, const Records& records, Decision last, MonoTime now);

// Empty while there is no driver.
const gpu::Inventory& known_inventory(const Inputs& in);

}  // namespace tranche::node
