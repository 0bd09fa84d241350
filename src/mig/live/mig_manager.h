#pragma once
// The MIG manager of the node agent: partitions this node's GPUs as its label nvidia.com/mig.config asks, changing only
// what must change, and reports in nvidia.com/mig.config.state as NVIDIA's manager does. MigChoice knows what is asked
// for, MigManager carries it out; what it asks of the API server is Evictions, StateLabel and, in the place of the GPU
// Operator's manager, Operands.
//
//   idle ─change─► reading ─► as asked ─────────────────────────────► success
//                   │
//                   ├─► not possible ────────────────────────────► failed, tried again with the next news or later
//                   └─► "pending" is written, the devices that go are withdrawn from kubelet, kubelet is asked who
//                       holds them ─► held: waits (or evicts) ─► free: the calls, by MigDriver ─► rescan ─► reading
//
// Level-triggered: what is asked for and what is there are compared at each change, so a label that changes
// meanwhile, a kill and a second manager all lead through the same path. Loop thread only; MigDriver makes the driver
// calls on a thread of its own.
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "kube/client/kube_client.h"
#include "kube/client/kube_link.h"
#include "kube/client/list_watch.h"
#include "kube/event_queue.h"
#include "kube/node_condition.h"
#include "mig/configuration.h"
#include "mig/live/gpu_reset.h"
#include "mig/live/mig_driver.h"
#include "mig/live/mig_options.h"
#include "mig/mig_plan.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::mig {

std::string texts_of(const std::vector<Problem>& problems, Severity severity);  // only those; "" = none

// Which MIG configuration this node is to have: follows the labels of the node, and the file or ConfigMap with the
// configurations; finds the definition of the chosen name. Changes nothing on the node, and does not know what the GPUs
// have. Loop thread only; contents are parsed in the worker, and the newest one wins.
class MigChoice {
 public:
  struct Callbacks {
    std::function<void()> changed;                              // the name, its definition, or other_manager()
    std::function<void(const std::string& why)> unreachable;    // the node is not read yet
    std::function<void(const std::string& value)> state_label;  // what nvidia.com/mig.config.state is, at every change
  };
  MigChoice(os::Loop& loop, os::Worker& worker, const MigOptions& options, std::string node_name, Callbacks callbacks);
  ~MigChoice() { *alive_ = false; }
  MigChoice(const MigChoice&) = delete;
  MigChoice& operator=(const MigChoice&) = delete;

  void use(kube::KubeClient& client);  // once; before it nothing is known of the node

  bool known() const { return label_ && !text_pending_; }
  bool other_manager() const { return other_manager_; }  // NVIDIA's manager runs here
  std::string name() const;                              // the label's value, else the default; "" = none
  std::string source() const { return defined_ ? source_ : "defaults"; }
  // The definition of name() for these GPUs: the file's own, else one of the names that exist without a file. It lives
  // until the next call. nullptr: `why` names the fault, or the known names.
  const Configuration* find(const std::vector<GpuState>& gpus, std::string& why);

 private:
  using Definitions = Result<std::string>;
  void take(Definitions next);
  void watch_file();
  void on_node(const nlohmann::json& node);
  void on_map(const nlohmann::json* object);

  os::Loop& loop_;
  os::Worker& worker_;
  MigOptions options_;
  std::string node_name_;
  Callbacks callbacks_;

  std::unique_ptr<kube::WatchObject> node_watch_, map_watch_;
  std::unique_ptr<os::DirWatch> dir_watch_;
  os::Timer settle_{loop_};
  std::optional<std::string> label_;  // absent: not known yet
  bool other_manager_ = false;
  std::string source_;  // of the definitions
  std::optional<Definitions> newest_;
  bool defined_ = false;  // file_ is the content of the source
  std::string text_problem_;
  bool text_pending_ = false;  // not read yet
  ParsedFile file_, defaults_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // jobs of the worker may finish after this object
};

// Asks for evictions (the Eviction API: the pods' grace period counts, and PodDisruptionBudgets hold). A refusal by a
// budget is asked again, later each time, as long as the pod is wanted gone. With a UID the eviction is of this pod and
// of no successor.
class Evictions {
 public:
  // on_result: "evicted" or why not, one callback each.
  Evictions(os::Loop& loop, std::function<void(const MigUser& pod, bool accepted, const std::string& why)> on_result);
  Evictions(const Evictions&) = delete;
  Evictions& operator=(const Evictions&) = delete;

  void use(kube::KubeClient& client) { client_ = &client; }
  void want(const std::vector<MigUser>& pods);  // these and no others
  std::uint64_t accepted() const { return accepted_; }

 private:
  struct Entry {
    MigUser pod;
    Backoff backoff;
    kube::PendingRequest request;
    std::unique_ptr<os::Timer> timer;
  };
  void ask(Entry& entry);

  os::Loop& loop_;
  std::function<void(const MigUser&, bool, const std::string&)> on_result_;
  kube::KubeClient* client_ = nullptr;
  std::map<std::string, Entry> entries_;  // by namespace/name/uid
  std::uint64_t accepted_ = 0;
};

// Writes the label nvidia.com/mig.config.state on the Node. Each value is written, in order; what fails is written
// again, later each time, unless a newer value replaces it. A value is written twice when the watch brings the former
// one late.
class StateLabel {
 public:
  // on_written: the newest value was written, or writing failed and is repeated later.
  StateLabel(os::Loop& loop, std::string node, std::function<void()> on_written);
  StateLabel(const StateLabel&) = delete;
  StateLabel& operator=(const StateLabel&) = delete;

  void use(kube::KubeClient& client) { client_ = &client; }
  void is(const std::string& value);  // what the label is now, by the watch
  void want(const std::string& value);
  const std::string& written() const { return written_; }
  // Nothing under way: the wanted value is there, or has failed at least once.
  bool settled() const { return !request_.waits() && (written_ == wanted_ || !problem_.empty()); }

 private:
  void step();

  os::Loop& loop_;
  std::string node_;
  std::function<void()> on_written_;
  kube::KubeClient* client_ = nullptr;
  kube::PendingRequest request_;
  os::Timer timer_{loop_};
  Backoff backoff_;
  std::string wanted_, written_, problem_;
};

// The GPU Operator's pods that hold GPUs on this node: taken away by the labels that place them while a change is made
// (nvidia.com/gpu.deploy.* from "true" to "paused-for-mig-change"), and put back. Labels that an administrator has set
// to a different value stay. The labels themselves show which pods are paused, so the next program restores those of a
// killed one.
class Operands {
 public:
  // in_namespace: of the operator's pods.
  Operands(os::Loop& loop, std::string node, std::string in_namespace);
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  void use(kube::KubeClient& client);
  // gone: the pods have ended, or five minutes are over; a callback of its own.
  void pause(std::function<void()> gone);
  // validate: the operator's validators run again, as after each change.
  void resume(bool validate);

 private:
  void step();
  void on_node(const kube::KubeAnswer& answer);
  void ask_pods();
  void on_pods(const kube::KubeAnswer& answer);
  void validate();
  void later(const std::string& doing, const kube::KubeAnswer& answer);
  std::string pods_path(const std::string& apps) const;

  os::Loop& loop_;
  std::string node_, namespace_;
  kube::KubeClient* client_ = nullptr;
  kube::PendingRequest request_;
  os::Timer timer_{loop_}, patience_{loop_};
  Backoff retries_;
  bool pausing_ = false;  // else: resuming, until `settled_`
  bool settled_ = true;
  bool again_ = false;  // pause() or resume() came while a call was under way
  bool validate_ = false;
  std::function<void()> gone_;
  std::string problem_;
};

struct MigSettings {
  MigOptions options;
  std::string node_name;
  std::string folder;  // of the record of what is under way
  std::map<std::string, std::string> environment;
};

class MigManager {
 public:
  struct Callbacks {
    std::function<gpu::NvmlSettings()> driver;
    std::function<void()> ask_use;                  // kubelet, now; use_is() comes after
    std::function<void()> changed;                  // withdrawn() or report() are new
    std::function<void()> rescan;                   // on_inventory() comes after
    std::function<void(bool open)> driver_is_ours;  // false: let go of the driver for a reset; true: open it again
    std::function<void(const kube::Reason&, const std::string&)> emit_on_node;
    std::function<void(const MigUser&, const kube::Reason&, const std::string&)> emit_on_pod;
    // Before the first change: lets go of the GPUs what is not a tenant, then asks kubelet and calls ready. Way is made
    // until the report is success, failed or Waiting. Empty: nothing to do.
    std::function<void(std::function<void()> ready)> make_way{};
  };
  MigManager(os::Loop& loop, os::Worker& worker, kube::KubeLink& link, MigSettings settings, Callbacks callbacks);
  ~MigManager();
  MigManager(const MigManager&) = delete;
  MigManager& operator=(const MigManager&) = delete;

  void use_is(MigUse use);  // also when it is as before: kubelet was asked again
  void on_inventory();      // the driver was scanned

  // Devices (MIG devices, or whole GPUs) that accept no new pods, with the reason.
  const std::map<std::string, std::string>& withdrawn() const { return withdrawn_; }
  const MigReport& report() const { return report_; }
  kube::NodeCondition condition() const;

 private:
  enum class Phase { kIdle, kReading, kWriting, kAsking, kMakingWay, kApplying, kScanning, kResetting };
  void start();
  void on_change(bool asked_anew);
  void step();
  void on_read(MigDriver::Reading reading);
  void decide(const MigDriver::Reading& reading, const Configuration& wanted);
  bool withdraw(std::map<std::string, std::string> devices);
  void wait_for(const std::vector<const GpuPlan*>& blocked);
  void evict(const std::vector<const GpuPlan*>& blocked);
  void apply(std::vector<MigDriver::Work> work);
  void on_applied(const std::vector<MigDriver::Done>& all);
  void reset(const MigDriver::Work& work);
  void on_reset(const MigDriver::Work& work, const Status& status);
  void succeed();
  void report_changed();
  void failed(const std::string& reason, std::string message);
  void state(const char* state, const char* reason, std::string message);
  void wait_in(Phase phase);
  void again_in(Duration delay);
  void idle();

  os::Loop& loop_;
  kube::KubeLink& link_;
  MigSettings settings_;
  Callbacks callbacks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  MigChoice choice_;
  Phase phase_ = Phase::kIdle;
  bool again_ = false;
  bool way_is_made_ = false;
  MonoTime not_before_{};
  os::Timer timer_{loop_}, patience_{loop_};
  Backoff waits_, retries_;
  std::map<std::string, std::string> withdrawn_;
  std::map<std::string, std::string> waiting_devices_;  // of GPUs whose change waits for a holder
  std::string silent_;                                  // GPUs that do not answer, and which call
  MonoTime withdrawn_at_{};
  MonoTime began_{};  // the change under way
  MigUse use_;
  std::map<std::string, MonoTime> blocked_since_;  // by GPU
  std::set<std::string> begun_;                    // GPUs of the change under way that were worked on
  std::string reported_waiting_;
  std::vector<std::string> changed_gpus_;  // "GPU 0: 3g.20gb at 0, 3g.20gb at 4", for the event
  std::string read_problem_, warned_;      // that were logged last
  MigReport report_;

  StateLabel state_label_;
  Evictions evictions_;
  std::unique_ptr<GpuReset> reset_;
  std::set<std::string> reset_tried_;  // GPUs that were reset for report_.config: a failed reset is not repeated
  MigDriver driver_;
};

}  // namespace tranche::mig
