#pragma once
// Changes on this node as events for people (docs/reference/events.md): health of devices, pools, configuration. Pure.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/live/config_source.h"
#include "gpu/health/journal.h"
#include "kube/reasons.h"
#include "mps/protocol/pools.h"
#include "plan/plan.h"

namespace tranche::agent {

struct NodeNews {
  const kube::Reason* reason = nullptr;
  std::string message;
  friend bool operator==(const NodeNews&, const NodeNews&) = default;
};

// A device whose pool is down is reported as the pool's.
std::vector<NodeNews> news_of_health(const std::vector<health::Change>& changes);
NodeNews news_of_config(const ConfigView& view);
NodeNews news_of_pages(const std::string& program, const std::string& problem);  // "node", "mps"

// The message for a pod whose container lost its share to a forced change. `what`: "time-slicing → MPS".
std::string loss_words(const std::string& container, const std::string& device, const std::string& what);

class PoolNews {
 public:
  // A pool is reported as down only after it has served, and as serving again only after it was reported as down; a
  // pool that is no longer planned is forgotten.
  std::vector<NodeNews> update(const plan::Plan& plan, const PoolReports& reports);

 private:
  std::set<std::string> served_;
  std::set<std::string> down_;
};

}  // namespace tranche::agent
