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

namespace tranche::agent {

// Has `tranche mps` remove the endpoints whose pods are gone, after each answer of kubelet: grants/ledger.h decides
// which. Loop thread only.
class EndpointCollecting {
 public:
  EndpointCollecting(host::Loop& loop, grants::Ledger& ledger, MpsClient& mps)
      : loop_(loop), ledger_(ledger), mps_(mps) {}

  // An endpoint of a pool that is no longer planned keeps the pool from ending. It is removed at once if the ledger
  // knows that its slots are free, otherwise after a second answer of kubelet without its grant. True: some wait for
  // that answer.
  bool retire(const PoolReports& pools, const NodeView& node);
  // Leaves endpoints of claims alone: kubelet's NodeUnprepareResources ends those.
  void look(const PoolReports& pools, const NodeView& node);
  // As reported by the API server: the endpoint is removed after kubelet's next answer without it.
  void pod_ended(const std::string& pool, const std::string& grant);

 private:
  void remove(const grants::Endpoint& endpoint);

  host::Loop& loop_;
  grants::Ledger& ledger_;
  MpsClient& mps_;
};

struct TenantsSettings {
  std::string mps_root_here;  // where the MPS root is for this process
  std::string run_dir;
};

struct TenantsCallbacks {
  std::function<void(std::vector<host::SampleWish>)> sample;
  std::function<MonoTime(const std::string& gpu_uuid)> last_sample;
  std::function<MonoTime()> last_sample_of_any;
  std::function<void()> changed;  // report() has changed
  guard::SharedFigures* figures = nullptr;
  std::function<void(const kube::ObjectRef& about, const kube::Reason& reason, const std::string& message)> emit;
  std::function<void(const kube::Reason& reason, const std::string& message)> emit_on_node;
};

class Tenants {
 public:
  Tenants(host::Loop& loop, grants::Ledger& ledger, MpsClient& mps, const TenantsSettings& settings,
          TenantsCallbacks callbacks);
  ~Tenants();
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  // After every change of plan, configuration, holdings or pools. listed: with an answer of kubelet's.
  void follow(const NodeView& node, bool listed);
  void on_pools(const PoolReports& reports);
  void on_pods(const kube::PodChanges& changes);
  // After the ledger has them. holders_known: kubelet has named their holders since.
  void granted(const std::vector<allocate::Grant>& grants, bool holders_known);
  void on_sample(const std::vector<host::GpuSample>& samples) { guarding_->on_sample(samples); }
  bool retires_endpoints() const { return retiring_; }  // the next answer of kubelet may end a pool
  void sample_again() { guarding_->sample_again(); }

  void report(Snapshot& into) const;

 private:
  void holders_are(const NodeView& node);
  void clients_are(const PoolReports& reports);
  void report_faults(const std::vector<ReportedFault>& faults);
  void report_notices();
  void report_act(const GuardAct& act);
  kube::ObjectRef pod_of(const std::string& holder, const std::string& grant) const;

  host::Loop& loop_;
  TenantsCallbacks callbacks_;
  std::unique_ptr<Guarding> guarding_;
  EndpointCollecting collecting_;
  bool retiring_ = false;
  EndpointLimitSender sender_;
  SharedList<Holder> holders_;     // by kubelet's last answer
  SharedList<HeldEndpoint> held_;  // the same, those with an endpoint
  FaultAttribution faults_;
  PodNotices notices_;
  host::Timer fault_timer_{loop_};
  PoolReports pools_;
  SharedList<GrantOwner> owners_;
};

}  // namespace tranche::agent
