#pragma once
// Private to `tranche node`: the program as one class in several files. node_program.cpp opens and closes its parts,
// node_inputs.cpp receives the inputs, apply.cpp has their parts act on what decide() makes of them. Loop thread only,
// except what SnapshotBox returns.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cdi/live/cdi_specs.h"
#include "cdi/live/device_nodes.h"
#include "config/live/config_source.h"
#include "gpu/driver/nvml.h"
#include "grants/ledger.h"
#include "kube/client/kube_link.h"
#include "kube/live/cluster_link.h"
#include "kubelet/dra_server.h"
#include "kubelet/loop_signal.h"
#include "kubelet/plugin_host.h"
#include "labels/live/label_controller.h"
#include "mig/live/mig_manager.h"
#include "mig/live/partitions.h"
#include "node/decide.h"
#include "node/dra/claim_statuses.h"
#include "node/dra/claims.h"
#include "node/dra/claims_lock.h"
#include "node/dra/dra_slices.h"
#include "node/gpu/gpu_figures.h"
#include "node/gpu/gpu_health.h"
#include "node/grants/answers.h"
#include "node/grants/holdings.h"
#include "node/grants/tenants.h"
#include "node/node_log.h"
#include "node/node_program.h"
#include "node/recall.h"
#include "observe/pages/http_pages.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/socket/status_socket.h"
#include "os/worker/worker.h"

namespace tranche::agent {

std::string host_mps_root(const config::Config& config);

class NodeProgram {
 public:
  explicit NodeProgram(const NodeOptions& options);

  int run();

 private:
  using Fresh = Inputs::Fresh;
  enum class Phase { kOpening, kRunning, kEnding };

  Status open();
  void open_mig();
  void open_claims();
  void look_at_partitions();
  dra::Partitionable partitionable() const;
  void follow_claims();
  void take_claims();
  void want_claims();
  void serve_claims();
  std::unique_ptr<host::DraServer> serve_driver(const std::string& driver, const std::string& problem_before);
  std::optional<ClaimsReport> claims_report() const;
  MigUse mig_use(bool kubelet_answered) const;
  void open_driver();  // again when the configuration names another place
  void step(const Fresh& fresh = {});
  void collect();
  void apply(const Decided& decided, const Fresh& had);
  void publish();
  void serve();
  void report_events(const std::vector<NodeEvent>& events);
  void choose_gpus();

  void on_config();
  void on_inventory(const Result<inventory::Inventory>& scanned);
  void on_gpu_event(const host::GpuEvent& event);
  void on_use(const Result<std::vector<host::GpuUse>>& use);
  void on_pools(const PoolReports& next);
  void on_answered();
  void on_pods(const kube::PodChanges& changes);
  void on_holdings(Result<std::vector<host::PodHolding>> listed);
  void on_pages();
  void on_looked();
  Result<std::string> answer(const std::string& request);
  void answer(const std::string& request, const host::StatusServer::Reply& reply);
  void answer_waiting();
  void tidy_later();

  NodeOptions options_;
  std::string program_dir_;  // that containers get; "" = none
  std::unique_ptr<host::Loop> loop_;
  std::unique_ptr<host::KubeLink> link_;
  ConfigSource config_;
  GpuHealth health_;
  std::unique_ptr<host::Timer> health_timer_;
  Phase phase_ = Phase::kOpening;
  bool stepping_ = false;
  bool again_ = false;                                     // something was reported during the step
  bool waits_for_kubelet_ = false;                         // for a change, or for endpoints to be removed
  MonoTime use_read_{};                                    // when the driver answered what its GPUs are used for
  std::vector<host::StatusServer::Reply> status_readers_;  // wait for a newer answer
  Inputs inputs_;
  Decision decision_;
  std::optional<inventory::Inventory> scanned_;  // all GPUs, including missing ones; inputs_ has those in use
  std::vector<std::string> missing_;
  host::Presence presence_;
  config::DeviceFilter chosen_by_;
  SnapshotBox box_;
  guard::SharedFigures figures_;
  GpuFigures gpu_figures_;

  std::unique_ptr<host::LoopSignal> looked_;  // GPU figures were read
  std::unique_ptr<host::Timer> measure_timer_;
  std::unique_ptr<host::Timer> use_timer_;
  std::unique_ptr<host::Timer> tidy_timer_;  // after a change or a reader, free memory goes back to the system
  host::NvmlSettings driver_settings_;
  std::unique_ptr<DeviceNodes> nodes_;
  std::unique_ptr<host::LoopSignal> answered_;
  std::unique_ptr<NodeAnswers> answers_;
  std::unique_ptr<host::Worker> worker_;
  std::unique_ptr<Holdings> holdings_;
  LatePods late_pods_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<LabelController> labels_;  // uses the link's client
  std::unique_ptr<DraSlices> dra_slices_;    // uses the link's client
  PoolEvents pool_events_;
  GrantLog grant_log_;
  std::unique_ptr<CdiSpecs> cdi_;
  GrantsFile grants_file_{options_.run_dir};
  std::unique_ptr<MpsClient> mps_;  // the next four use it, or the ledger
  grants::Ledger ledger_;
  std::unique_ptr<Tenants> tenants_;
  PlanChange change_{ledger_};
  std::unique_ptr<OtherHoldersFile> other_holders_;
  std::unique_ptr<MigPartitions> partitions_;  // the claims use it
  std::unique_ptr<host::Timer> claims_changed_;
  MonoTime claims_changed_since_{};
  std::unique_ptr<Claims> claims_;
  std::unique_ptr<ClaimsLock> claims_lock_;        // whether they are this agent's
  std::unique_ptr<ClaimStatuses> claim_statuses_;  // reads the claims
  std::string dra_driver_;                         // its server's name
  std::string dra_problem_;                        // why there is no server
  std::unique_ptr<host::Timer> dra_retry_;
  std::unique_ptr<host::DraServer> dra_server_;  // uses the claims
  // By name: servers under earlier names, as long as these have claims.
  std::map<std::string, std::unique_ptr<host::DraServer>> former_dra_servers_;
  std::unique_ptr<MigManager> mig_;  // null if it is not enabled
  std::unique_ptr<host::NvmlThread> nvml_;
  std::unique_ptr<host::PluginHost> plugins_;
  std::unique_ptr<host::StatusServer> status_;
  std::unique_ptr<HttpPages> http_;
};

}  // namespace tranche::agent
