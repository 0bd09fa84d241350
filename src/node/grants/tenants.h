#pragma once
// Everything that the node agent does about tenants: the guard of their memory, removing unused endpoints, naming the
// pod that a fault belongs to. It composes the parts and decides nothing itself; `tranche mps` acts on its requests.
// Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grants/ledger.h"
#include "kube/event_json.h"
#include "kube/live/cluster_link.h"
#include "kube/pod_table.h"
#include "kube/reasons.h"
#include "mps/protocol/mps_client.h"
#include "mps/protocol/pool_reports.h"
#include "node/gpu/fault_attribution.h"
#include "node/grants/endpoint_limit_sender.h"
#include "node/grants/pod_notices.h"
#include "node/guard/guarding.h"
#include "node/snapshot.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::node {

class Tenants {
 public:
  // driver: null while there is none; mps_root: where the MPS root is for this process; changed: report() has changed.
  Tenants(os::Loop& loop, grants::Ledger& ledger, mps::MpsClient& mps, const std::unique_ptr<gpu::NvmlThread>& driver,
          kube::Cluster& cluster, guard::SharedFigures& figures, const std::string& mps_root,
          const std::string& run_dir, std::function<void()> changed);
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  // After every change of plan, configuration, holdings or pools. listed: with an answer of kubelet's.
  void follow(const NodeView& node, bool listed);
  void on_pools(const mps::PoolReports& reports);
  void on_pods(const kube::PodChanges& changes);
  // After the ledger has them. holders_known: kubelet has named their holders since.
  void granted(const std::vector<allocate::Grant>& grants, bool holders_known);
  void on_sample(const std::vector<gpu::GpuSample>& samples) { guarding_.on_sample(samples); }
  bool retires_endpoints() const { return retiring_; }  // the next answer of kubelet may end a pool
  void sample_again() { guarding_.sample_again(); }

  void report(Snapshot& into) const;

 private:
  void holders_are(const NodeView& node);
  // Has `tranche mps` remove the endpoints whose pods are gone, after each answer of kubelet: grants/ledger.h decides
  // which. Leaves endpoints of claims alone: kubelet's NodeUnprepareResources ends those.
  void collect_endpoints(const NodeView& node);
  // An endpoint of a pool that is no longer planned keeps the pool from ending. It is removed at once if the ledger
  // knows that its slots are free, otherwise after a second answer of kubelet without its grant. True: some wait for
  // that answer.
  bool retire_endpoints(const NodeView& node);
  void remove(const grants::Endpoint& endpoint);
  void report_faults(const std::vector<ReportedFault>& faults);
  void report_notices();
  void report_act(const GuardAct& act);
  kube::ObjectRef pod_of(const std::string& holder, const std::string& grant) const;

  os::Loop& loop_;
  grants::Ledger& ledger_;
  mps::MpsClient& mps_;
  kube::Cluster& cluster_;
  Guarding guarding_;
  bool retiring_ = false;
  EndpointLimitSender sender_;
  SharedList<Holder> holders_;                  // by kubelet's last answer
  std::map<std::string, std::string> pool_of_;  // the same, by grant: the pool of its endpoint
  FaultAttribution faults_;
  PodNotices notices_;
  os::Timer fault_timer_{loop_};
  mps::PoolReports pools_;
  SharedList<GrantOwner> owners_;
};

}  // namespace tranche::node
