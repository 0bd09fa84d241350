#pragma once
// The node agent's whole state, as one immutable value that any thread may read: published by the loop at the end of a
// callback, read by gRPC's threads (Allocate), the pages and the status socket.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/problem.h"
#include "base/shared_list.h"
#include "base/time.h"
#include "config/live/config_source.h"
#include "dra/dra_devices.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"
#include "grants/allocate/grant.h"
#include "grants/change/change.h"
#include "grants/grant_shares.h"
#include "guard/judge.h"
#include "kube/live/cluster_link.h"
#include "kube/object.h"
#include "kubelet/plugin_host.h"
#include "labels/live/label_output.h"
#include "mig/live/mig_options.h"
#include "mps/protocol/pool_reports.h"
#include "node/dra/dra_report.h"
#include "node/gpu/fault_attribution.h"
#include "node/gpu/gpu_health.h"
#include "node/grants/holders.h"
#include "observe/pages/http_pages.h"
#include "os/worker/worker.h"
#include "plan/plan.h"

namespace tranche::node {

// Everything that a decision of the node agent starts from, as the driver, kubelet, `tranche mps`, the API server and
// the configuration reported it. The loop's callbacks store it (node_inputs.cpp), and decide() reads it.
struct Inputs {
  config::ConfigView config;
  std::optional<gpu::Inventory> inventory;  // of the GPUs that the configuration uses; absent: no driver yet
  std::string driver_problem;               // why not, or why it could not be read again
  std::vector<gpu::GpuUse> use;
  mps::PoolReports pools;
  SharedList<grants::Held> holdings;
  std::string holdings_problem;
  MonoTime holdings_read{};            // when kubelet was asked for them; what was granted later is not in them
  grants::Settings allocation;         // as the configuration and the files of the node have them
  std::vector<Problem> node_problems;  // of these files
  std::string node_block;              // why no device may be allocated; "" = they may
  std::string cdi_problem;             // of the CDI specs, while a list strategy uses CDI
  std::vector<kubelet::PluginState> plugins;
  dra::Partitionable partitionable;              // of GPUs in MIG mode that are partitioned on demand
  std::optional<ClaimsReport> claims;            // absent: claims are neither served nor prepared
  std::optional<mig::MigReport> mig;             // absent: the MIG manager is not enabled
  std::map<std::string, std::string> withdrawn;  // devices that the MIG manager removes, with the reason
  std::string pages_problem;  // why the HTTP pages are not served; "" = they are, or none are requested

  // What has come since the last decision; the rest of a decision stays as it is.
  struct Fresh {
    bool plan = false;      // configuration, inventory or files of the node: the plan may change
    bool offer = false;     // anything that decides which slots kubelet may give; implied by `plan`
    bool holdings = false;  // a new list from kubelet
  } fresh;
};

// How long a tenant has held its share of a device, for bills (node/observe/tenant_metrics.h).
struct HeldTime {
  MonoTime at{};             // the figures are as of then
  double share = 0;          // of the device's slots, since then
  double seconds = 0;        // with a slot of the device
  double share_seconds = 0;  // 1 = a second with all slots of the device
  HeldTime until(MonoTime now) const;
};
struct TenantKey {
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string device;
  std::string resource;
  auto operator<=>(const TenantKey&) const = default;
};
using HeldTimes = std::map<TenantKey, HeldTime>;

// What was decided from the inputs (decide.h).
struct Decision {
  plan::Plan plan;                     // enforced; a change of configuration may wait on its way to a newer one
  plan::Withheld withheld;             // slots that are shown meanwhile and not handed out
  std::vector<grants::Step> change;    // of the last change, and what waits
  std::vector<Problem> plan_problems;  // of the newest inventory and configuration, when they do not fit together
  plan::Faults faults;
  HealthReport health;
  std::vector<plan::Advertised> advertised;
  Shared<grants::Shares> shares;  // limits of the grants since they were given
  SharedList<Holder> holders;     // of devices
  Shared<HeldTimes> held_times;   // of tenants, as of held_read
  MonoTime held_read{};           // the answer of kubelet's
  kube::NodeCondition condition;
};

// --- what the node reports about its guard (docs/internals/guard.md)

// An order of the guard that was carried out, or that it attempted, for one of the order's processes.
struct GuardAct : guard::Order {
  WallTime at{};
  std::string holder;  // "namespace/pod/container" once kubelet has reported it
  pid_t pid = 0;
  Bytes memory;                       // of that process
  Bytes most;                         // the grant's largest sum since the crossing
  std::string outcome;                // "done", "not-a-client", "refused", "timed-out", "failed"
  std::string note;                   // why it was not done, in the text of the program that refused
  std::optional<Duration> stopped{};  // from the crossing to SIGSTOP
  Duration took{};                    // from the crossing (the foreign process) to this action
  std::vector<std::string> beside{};  // other tenants with clients on the device at that time
  std::uint64_t times = 1;
};

// A process on a shared GPU that is not an MPS client, or a client that does not belong to a grant.
struct GuardedProcess {
  std::string device;
  pid_t pid = 0;
  Bytes memory;
  std::string name;  // chosen by the process itself
  std::string grant;
  std::string pod_uid;
  std::string container_id;
};

// A process that the guard has stopped and neither ended nor continued yet.
struct GuardStopped {
  std::string device;
  std::string grant;
  std::string holder;
  pid_t pid = 0;
  WallTime since{};
};

struct GuardReport {
  std::string off;  // why the guard is off, "" while it is on
  Duration interval{};
  Duration pace{};  // present sampling interval: the configured one, or longer while no container holds a GPU
  std::map<std::string, Duration> paces;  // of GPUs that are sampled more often
  std::vector<GuardStopped> stopped;
  std::map<std::string, config::GuardMemory> policies;  // by resource
  config::GuardForeignProcesses foreign_processes_policy = config::GuardForeignProcesses::kObserve;
  std::vector<GuardAct> acts;                                                         // the latest ones, oldest first
  std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> counts;  // resource, policy, outcome
  std::vector<GuardedProcess> foreign_processes;
  std::vector<GuardedProcess> unattributed;
  std::vector<std::string> not_in_force;  // one sentence each
};

struct Snapshot : Inputs, Decision {
  MonoTime taken{};
  WallTime taken_wall{};
  // What those that act on the decision report.
  kube::ClusterReport cluster;
  GuardReport guard;
  std::map<pid_t, std::string> grant_of_pid;   // processes on shared GPUs, as the guard attributes them
  std::vector<ReportedFault> reported_faults;  // oldest first
  std::map<std::string, std::string> labels;   // the desired labels
  labels::LabelReport label_report;            // and whether they are written
  SliceReport slices;                          // the offer through Dynamic Resource Allocation
  observe::LoopReport loop;
};

// Inputs with the decision on them, inside a callback or of a snapshot.
struct NodeView {
  NodeView(const Inputs& given, const Decision& decided) : in(given), decision(decided) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a snapshot has both
  NodeView(const Snapshot& snapshot) : in(snapshot), decision(snapshot) {}
  const Inputs& in;
  const Decision& decision;
};

using SnapshotBox = os::SharedBox<Snapshot>;

}  // namespace tranche::node
