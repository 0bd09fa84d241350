#pragma once
// The node agent's log messages, one function per event. They change nothing.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kube/pod.h"
#include "node/gpu/transitions.h"
#include "node/grants/answers.h"
#include "node/grants/holders.h"
#include "node/plan_change.h"

namespace tranche::node {

// A missing driver is an error or not according to failOnInitError; a driver that has disappeared always is one.
void log_no_driver(const Inputs& in);
void log_inventory(const std::optional<gpu::Inventory>& before, const gpu::Inventory& scanned);
void log_plan(const plan::Plan& plan);
void log_change(const PlanChange::Moved& change);
void log_health(const std::vector<ConditionChange>& changes);
void log_plugins(const std::vector<kubelet::PluginState>& before, const std::vector<kubelet::PluginState>& next);
void log_pools(const mps::PoolReports& before, const mps::PoolReports& next, bool needed);
// Pods that hold a grant and are terminating. True: a pod with slots has ended, so kubelet's list has changed.
bool log_pods(const kube::PodChanges& changes, const std::vector<Holder>& holders);
void log_answered(const Answered& answered);

// Which container holds a grant, and that it holds it no longer, as kubelet and the claims report it: the first and the
// last line that name the grant's pod. Attributes are named as in OpenTelemetry. Loop thread only.
class GrantLog {
 public:
  void follow(const std::vector<Holder>& holders, MonoTime now);

 private:
  struct Held {
    Holder holder;
    MonoTime since{};
  };
  std::map<std::string, Held> held_;  // by grant and tenant
};

}  // namespace tranche::node
