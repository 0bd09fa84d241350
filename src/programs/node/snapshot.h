#pragma once
// The node agent's whole state, as one immutable value that any thread may read: published by the loop at the end of a
// callback, read by gRPC's threads (Allocate), the pages and the status socket.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/problem.h"
#include "config/live/config_source.h"
#include "dra/live/claims_report.h"
#include "dra/live/slice_report.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"
#include "gpu/live/fault_book.h"
#include "gpu/live/gpu_health.h"
#include "grants/allocate/grant.h"
#include "grants/change/steps.h"
#include "grants/live/grant_owners.h"
#include "grants/live/held_times.h"
#include "grants/shares.h"
#include "guard/live/guard_report.h"
#include "kube/live/cluster_link.h"
#include "kubelet/plugin_host.h"
#include "kubelet/pod_resources.h"
#include "labels/live/label_report.h"
#include "mig/live/mig_report.h"
#include "mps/protocol/pools.h"
#include "plan/advertise/advertise.h"
#include "plan/advertise/withheld.h"
#include "plan/plan.h"
#include "termination/live/container_stops.h"

namespace tranche::agent {

struct Snapshot {
  MonoTime taken{};
  WallTime taken_wall{};
  ConfigView config;
  std::optional<inventory::Inventory> inventory;  // absent: no driver yet
  std::string driver_problem;                     // why not, or why it could not be read again
  plan::Plan plan;                                // in force; a change of configuration may wait on its way to another
  advertise::Withheld withheld;                   // slots that are shown meanwhile and not handed out
  std::vector<change::Step> change;               // of the last change, and what waits
  grants::TakenShares taken_shares;               // from containers by a forced change, as long as these hold slots
  std::vector<Problem> plan_problems;  // of the newest inventory and configuration, when they do not fit together
  advertise::Faults faults;
  std::vector<advertise::Advertised> advertised;
  PoolReports pools;
  std::vector<host::PluginState> plugins;
  std::vector<host::PodHolding> holdings;
  std::string holdings_problem;
  MonoTime holdings_read{};        // when kubelet said so
  HeldTimes held_times;            // of tenants, as of held_read
  MonoTime held_read{};            // the answer of kubelet's that they are of
  grants::Shares shares;           // limits of the grants since they were given
  std::vector<GrantOwner> owners;  // of the holdings that have an endpoint
  ClusterReport cluster;
  std::vector<host::GpuUse> use;
  std::map<std::uint32_t, std::string> grant_of_pid;  // processes on shared GPUs, as the guard attributes them
  GuardReport guard;
  std::vector<ToldFault> told_faults;  // oldest first
  HealthReport health;
  std::map<std::string, std::string> labels;  // the desired labels
  LabelReport label_report;                   // and whether they are written
  allocate::Settings allocation;
  StoppingReport stopping;
  SliceReport slices;                  // the offer through Dynamic Resource Allocation
  std::optional<ClaimsReport> claims;  // absent: claims are neither served nor prepared
  std::optional<MigReport> mig;        // absent: the MIG manager is not enabled
  std::string pages_problem;           // why the HTTP pages are not served; "" = they are, or none are requested
  std::string cdi_problem;             // of the CDI specs, while a list strategy uses CDI
};

class SnapshotBox {
 public:
  std::shared_ptr<const Snapshot> get() const {
    const std::lock_guard lock(mutex_);
    return snapshot_;
  }
  void put(std::shared_ptr<const Snapshot> snapshot) {
    const std::lock_guard lock(mutex_);
    snapshot_.swap(snapshot);
  }

 private:
  mutable std::mutex mutex_;  // not std::atomic<shared_ptr>: ThreadSanitizer reports this standard library's
  std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
};

}  // namespace tranche::agent
