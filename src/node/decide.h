#pragma once
// Inputs → decision: the enforced plan, the slots that kubelet may give, the grants that hold them, and what differs
// from the previous decision (apply.cpp acts on the difference). Pure: `now` is passed in and never goes back; one
// thread.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dra/dra_devices.h"
#include "kube/event_queue.h"
#include "kube/pod.h"
#include "node/plan_change.h"
#include "node/snapshot.h"

namespace tranche::node {

// Changes on this node for people (docs/reference/events.md): health of devices, pools, configuration.
struct NodeEvent {
  const kube::Reason* reason = nullptr;
  std::string message;
  friend bool operator==(const NodeEvent&, const NodeEvent&) = default;
};

// A device whose pool is down is reported as the pool's.
std::vector<NodeEvent> health_events(const std::vector<ConditionChange>& changes);
NodeEvent config_event(const config::ConfigView& view);
NodeEvent pages_event(const std::string& program, const std::string& problem);  // "node", "mps"

class PoolEvents {
 public:
  // A pool is reported as down only after it has served, and as serving again only after it was reported as down; a
  // pool that is no longer planned is forgotten.
  std::vector<NodeEvent> update(const plan::Plan& plan, const mps::PoolReports& reports);

 private:
  std::map<std::string, bool> serves_;  // by pool that has served
};

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

// What the node offers through Dynamic Resource Allocation, of the configuration and GPUs. A pool that does not serve
// is a fault of its shared devices.
dra::Devices dra_devices(const NodeView& node);

}  // namespace tranche::node
