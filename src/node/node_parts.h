#pragma once
// Private to `tranche node`: the program as one class in several files. node_program.cpp makes its parts,
// node_inputs.cpp receives the inputs, apply.cpp and node_tenants.cpp have the parts act on what decide() makes of
// them. Loop thread only, except what SnapshotBox returns.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cdi/live/cdi_specs.h"
#include "config/live/config_source.h"
#include "gpu/driver/nvml.h"
#include "grants/ledger.h"
#include "kube/client/kube_client.h"
#include "kube/live/cluster_link.h"
#include "kubelet/dra_server.h"
#include "kubelet/loop_signal.h"
#include "kubelet/plugin_host.h"
#include "labels/live/label_controller.h"
#include "mig/live/mig_manager.h"
#include "mig/live/partitions.h"
#include "node/decide.h"
#include "node/dra/claims.h"
#include "node/dra/slice_publisher.h"
#include "node/gpu/fault_attribution.h"
#include "node/gpu/gpu_figures.h"
#include "node/gpu/gpu_health.h"
#include "node/grants/answers.h"
#include "node/grants/tenants.h"
#include "node/guard/guarding.h"
#include "node/node_program.h"
#include "node/recall.h"
#include "node/reports.h"
#include "observe/pages/http_pages.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"
#include "os/worker/worker.h"

namespace tranche::node {

std::string host_mps_root(const config::Config& config);

// Asks kubelet (PodResources) which containers hold which devices. kubelet sends no events, so it is asked after a
// grant, when a pod ended, when a user reads the status, and now and then. The question itself is asked on the worker.
class Holdings {
 public:
  using OnListed = std::function<void(const Result<std::vector<grants::Held>>&, MonoTime asked)>;
  // on_listed must end with settle().
  Holdings(os::Loop& loop, os::Worker& worker, std::string socket, OnListed on_listed);
  Holdings(const Holdings&) = delete;
  Holdings& operator=(const Holdings&) = delete;

  void ask();
  void ask_in(Duration delay);  // and not when it was due otherwise
  // When to ask next: `behind` while kubelet still lists pods that are gone, or not yet those that run, a little later
  // each time; `pods_reported` when the API server reports every pod that ends, so that asking is for safety
  // only.
  void settle(bool behind, bool pods_reported);

 private:
  os::Loop& loop_;
  os::Worker& worker_;
  std::string socket_;
  OnListed on_listed_;
  os::Timer timer_{loop_};
  bool asked_ = false;
  bool again_ = false;  // an answer is wanted to a question asked later than the one under way
  Duration behind_wait_{};
};

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

// Parts are destroyed in the reverse order of their declaration: each follows those that it uses. The loop does
// not run then, so nothing is reported any more.
class NodeProgram {
 public:
  // All must outlive it, except the worker: its jobs use the parts, so it ends first.
  NodeProgram(const NodeOptions& options, os::Loop& loop, os::Worker& worker, kube::KubeLink& link,
              config::ConfigSource& config);

  Status run();  // until the loop is stopped; an Error: it cannot start
  void rescan() { nvml_.rescan(); }

 private:
  using Fresh = Inputs::Fresh;

  Status open();
  void open_mig();
  void look_at_partitions();
  dra::Partitionable partitionable() const;
  void on_claims();
  void follow_claims();
  void take_claims();
  void want_claims();
  void serve_claims();
  const std::string& dra_driver() const { return inputs_.config.config.dra.driver_name; }  // the present name
  const kubelet::DraServer* dra_server() const;  // under the present name; nullptr = there is none
  std::optional<ClaimsReport> claims_report() const;
  mig::MigUse mig_use(bool kubelet_answered) const;
  void open_driver();  // again when the configuration names another place
  void step(const Fresh& fresh = {});
  void collect();
  void look_at_nodes();
  void await_channel();
  void apply(const Decided& decided, const Fresh& had);
  void publish();
  void serve();
  void report_events(const std::vector<NodeEvent>& events);
  void choose_gpus();

  void follow_tenants(bool listed);  // listed: with an answer of kubelet's
  void follow_clients(const mps::PoolReports& reports);
  void remove_endpoints(bool listed);
  void remove(const grants::Endpoint& endpoint);
  void report_faults(const std::vector<ReportedFault>& faults);
  void report_notices();
  void report_act(const GuardAct& act);

  void on_config();
  void on_inventory(const Result<gpu::Inventory>& scanned);
  void on_gpu_event(const gpu::GpuEvent& event);
  void on_use(const Result<std::vector<gpu::GpuUse>>& use);
  void on_pools(const mps::PoolReports& next);
  void on_answered();
  void on_endings(const std::vector<kube::PodEnding>& endings);
  void on_holdings(const Result<std::vector<grants::Held>>& listed, MonoTime asked);
  void on_pages();
  void on_looked();
  Result<std::string> answer(const std::string& request);
  void answer(const std::string& request, const os::StatusServer::Reply& reply);
  void answer_waiting();
  void tidy_later();

  const NodeOptions options_;
  os::Loop& loop_;
  os::Worker& worker_;
  kube::KubeLink& link_;
  config::ConfigSource& config_;
  const std::string mps_root_here_;  // where the MPS directory is for this process

  bool running_ = false;
  bool stepping_ = false;
  bool again_ = false;                                   // something was reported during the step
  bool waits_for_kubelet_ = false;                       // for a change, or for endpoints to be removed
  bool retiring_ = false;                                // its next answer may end a pool
  MonoTime use_read_{};                                  // when the driver answered what its GPUs are used for
  std::vector<os::StatusServer::Reply> status_readers_;  // wait for a newer answer
  Inputs inputs_;
  Decision decision_;
  std::optional<gpu::Inventory> scanned_;  // all GPUs, including missing ones; inputs_ has those in use
  std::vector<std::string> missing_;
  gpu::NvmlSettings driver_settings_;
  SnapshotBox box_;
  guard::SharedFigures figures_;
  GpuFigures gpu_figures_;
  GpuHealth health_{options_.environment, {options_.health_quiet_period}};
  PoolEvents pool_events_;
  GrantLog grant_log_;
  GrantsFile grants_file_{options_.run_dir};
  grants::Ledger ledger_{grants_file_.read()};
  PlanChange change_{ledger_};
  OtherHoldersFile other_holders_{mps_root_here_};

  os::Timer health_timer_{loop_};
  os::Timer measure_timer_{loop_};
  os::Timer use_timer_{loop_};
  os::Timer tidy_timer_{loop_};  // after a change or a reader, free memory goes back to the system
  os::Timer claims_changed_{loop_};
  os::Timer dra_retry_{loop_};
  kubelet::LoopSignal looked_{loop_, [this] { on_looked(); }};  // GPU figures were read
  // The log may be late, the next answer must not be.
  kubelet::LoopSignal answered_{loop_, [this] { on_answered(); }, std::chrono::milliseconds(50)};
  NodeAnswers answers_{box_, mps_root_here_, [this] { answered_.raise(); }};
  Holdings holdings_;
  cdi::DeviceNodes nodes_;
  os::Timer nodes_timer_{loop_};
  kube::Cluster cluster_;
  labels::LabelController labels_;
  SlicePublisher slices_;
  cdi::CdiSpecs cdi_;
  mps::MpsClient mps_{loop_, mps_root_here_};
  gpu::NvmlThread nvml_;  // stopped while a GPU is reset
  Guarding guarding_;
  EndpointLimitSender limit_sender_{loop_, mps_};
  FaultAttribution faults_;
  PodNotices notices_;
  ClaimsLock claims_lock_;  // whether the claims are this agent's
  mig::MigPartitions partitions_;
  Claims claims_;
  ClaimStatuses claim_statuses_;
  std::string dra_problem_;  // why a server is missing
  // By name: under the present one, and under earlier ones as long as these have claims.
  std::map<std::string, std::unique_ptr<kubelet::DraServer>> dra_servers_;
  std::unique_ptr<mig::MigManager> mig_;  // null if it is not enabled
  kubelet::PluginHost plugins_;
  std::unique_ptr<os::StatusServer> status_;  // null without a run directory
  ServedPages pages_;
  observe::HttpPages http_;
};

}  // namespace tranche::node
