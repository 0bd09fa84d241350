#pragma once
// The node agent's whole state, as one immutable value that any thread may read: published by the loop at the end of a
// callback, read by gRPC's threads (Allocate), the pages and the status socket.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/shared_list.h"
#include "base/shared_value.h"
#include "dra/live/slice_report.h"
#include "gpu/live/fault_attribution.h"
#include "gpu/live/gpu_health.h"
#include "grants/change/steps.h"
#include "grants/live/grant_owners.h"
#include "grants/live/held_times.h"
#include "grants/live/holders.h"
#include "grants/shares.h"
#include "guard/live/guard_report.h"
#include "kube/live/cluster_link.h"
#include "kube/node_condition.h"
#include "labels/live/label_report.h"
#include "observe/pages/http_pages.h"
#include "plan/advertise/advertise.h"
#include "plan/advertise/withheld.h"
#include "plan/plan.h"
#include "programs/node/inputs.h"

namespace tranche::agent {

// What was decided from the inputs (decide.h).
struct Decision {
  plan::Plan plan;                     // enforced; a change of configuration may wait on its way to a newer one
  advertise::Withheld withheld;        // slots that are shown meanwhile and not handed out
  std::vector<change::Step> change;    // of the last change, and what waits
  std::vector<Problem> plan_problems;  // of the newest inventory and configuration, when they do not fit together
  advertise::Faults faults;
  HealthReport health;
  std::vector<advertise::Advertised> advertised;
  SharedValue<grants::Shares> shares;  // limits of the grants since they were given
  SharedList<Holder> holders;          // of devices, as reported by kubelet and the claims
  SharedList<GrantOwner> owners;       // of those that have an endpoint
  std::shared_ptr<const HeldTimes> held_times = std::make_shared<const HeldTimes>();  // of tenants, as of held_read
  MonoTime held_read{};                                                               // the answer of kubelet's
  kube::NodeCondition condition;
};

struct Snapshot : Inputs, Decision {
  MonoTime taken{};
  WallTime taken_wall{};
  // What those that act on the decision report.
  ClusterReport cluster;
  GuardReport guard;
  std::map<std::uint32_t, std::string> grant_of_pid;  // processes on shared GPUs, as the guard attributes them
  std::vector<ReportedFault> reported_faults;         // oldest first
  std::map<std::string, std::string> labels;          // the desired labels
  LabelReport label_report;                           // and whether they are written
  SliceReport slices;                                 // the offer through Dynamic Resource Allocation
  LoopReport loop;
};

// Inputs with the decision on them, inside a callback or of a snapshot.
struct NodeView {
  NodeView(const Inputs& given, const Decision& decided) : in(given), decision(decided) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a snapshot has both
  NodeView(const Snapshot& snapshot) : in(snapshot), decision(snapshot) {}
  const Inputs& in;
  const Decision& decision;
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
