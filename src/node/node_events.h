#pragma once
// Changes on this node as events for people (docs/reference/events.md): health of devices, pools, configuration. Pure.
#include <map>
#include <string>
#include <vector>

#include "config/live/config_source.h"
#include "kube/event_json.h"
#include "mps/protocol/pool_reports.h"
#include "node/gpu/transitions.h"
#include "plan/plan.h"

namespace tranche::node {

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

}  // namespace tranche::node
