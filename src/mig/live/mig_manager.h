#pragma once
// The MIG manager of the node agent: partitions this node's GPUs as its label nvidia.com/mig.config asks, changing only
// what must change, and reports in nvidia.com/mig.config.state as NVIDIA's manager does. MigChoice knows what is asked
// for, MigManager carries it out.
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

#include "base/time.h"
#include "kube/client/kube_client.h"
#include "kube/client/list_watch.h"
#include "kube/event_queue.h"
#include "kube/object.h"
#include "mig/configuration.h"
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

  bool known() const { return label_ && (source_.empty() || file_); }
  bool other_manager() const { return other_manager_; }  // NVIDIA's manager runs here
  std::string name() const;                              // the label's value, else the default; "" = none
  std::string source() const { return file_ && *file_ ? source_ : "defaults"; }
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
  std::string source_;  // of the definitions; "" = there are only the defaults
  std::optional<Definitions> newest_;
  std::optional<Result<ParsedFile>> file_;  // absent: not read yet
  ConfigurationFile defaults_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // jobs of the worker may finish after this object
};

class Evictions;
class StateLabel;

struct MigSettings {
  MigOptions options;
  std::string node_name;
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
    std::function<void(const Holder&, const kube::Reason&, const std::string&)> emit_on_pod;
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
  bool report_waiting(const std::string& message);
  void evict(const std::vector<const GpuPlan*>& blocked);
  void apply(std::vector<MigDriver::Work> work);
  void on_applied(const std::vector<MigDriver::Done>& all);
  void reset(const GpuState& gpu);
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
  bool begun_ = false;                             // a GPU was worked on for the change under way
  std::string reported_waiting_;
  std::vector<std::string> changed_gpus_;  // "GPU 0: 3g.20gb at 0, 3g.20gb at 4", for the event
  std::string read_problem_, warned_;      // that were logged last
  MigReport report_;

  std::unique_ptr<StateLabel> state_label_;
  std::unique_ptr<Evictions> evictions_;
  std::unique_ptr<os::Worker> resetter_;
  std::set<std::string> reset_tried_;  // GPUs that were reset for report_.config: a failed reset is not repeated
  MigDriver driver_;
};

}  // namespace tranche::mig
