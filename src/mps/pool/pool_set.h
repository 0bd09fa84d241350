#pragma once
// The pools of a plan. A pool (Pool) owns its daemon (pool_daemon.h), its endpoints (mps/endpoints/endpoints.h), its
// life (PoolLife) and its servers' shared memory, and carries out what its life decides.
//
// The set (PoolSet) reconciles the pools with a plan. A new pool gets its compute modes, directories and daemon. A pool
// whose limits changed gets the new limits. A pool that is no longer planned stops after its last client has exited,
// because a change of configuration must not kill a tenant (PoolLife). The set restores the compute modes that no
// pool needs any more. Loop thread only.
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/model.h"
#include "mps/daemon/adoption.h"
#include "mps/daemon/compute_modes.h"
#include "mps/endpoints/endpoints.h"
#include "mps/pool/pool_daemon.h"
#include "os/loop/loop.h"
#include "plan/plan.h"

namespace tranche::mps {

// --- the life of a pool --------------------------------------------------------------------------------------------

// The life of a pool, from the plan that has it to the end of its daemon's last process: whether it may start, whether
// it has to wait for its users, when its daemon stops and starts again. The daemon itself (start, restarts, limits) is
// the supervisor's (mps/daemon/supervisor.h).
//
//     ┌───────── gone, planned; a start that failed ─────────┐
//     ▼                                                      │
//   kIdle ──may start, and modes are set──► kServing ──unused and not planned, or another holder──► kEnding
//     │ not planned                             │ forced                                            ▲
//     ▼                                         └──► kForcing ──clients have ended───────────────────┘
//   kEnded
//
// kIdle waits: for other holders, the program, the modes, or to try again. A pool that is not planned any more serves
// its users until they leave.
//
// Level-triggered: each step takes the current inputs in whole. A daemon that has users stops only when the program
// ends; where that is forced (`tranche mps --end`), its clients are ended first. Pure.

enum class LifeState { kIdle, kServing, kForcing, kEnding, kEnded };

struct LifeInputs {
  bool planned = true;
  bool closing = false;     // the program ends
  bool forced = false;      // closing, and clients are ended before the daemon stops
  std::string waits = {};   // why it may not start; "" = it may
  bool held = false;        // containers hold its GPUs without MPS
  std::string users = {};   // the event after which it has no users ("client has left"); "" = it has none
  bool has_daemon = false;  // a process of it is left, or may start
};

enum class LifeEvent {
  kInputs,        // the inputs may have changed
  kPlanChanged,   // the plan is new, or has changed this pool
  kModesSet,      // its GPUs have their compute mode
  kStartFailed,   // that failed, or the start
  kClientsEnded,  // those that it had
  kRetry,         // some time after a failure
};

enum class LifeAction {
  kSetModes,    // kModesSet or kStartFailed follows
  kStart,       // starts the daemon, or gives the one that runs the limits of the plan
  kStop,        // the daemon; its clients, if any, lose MPS
  kEndClients,  // admits no clients, and ends those that it has; kClientsEnded follows
  kDiscard,     // what is left of the daemon, which has ended
  kRetryLater,  // kRetry follows
};

struct PoolLife {
  LifeState state = LifeState::kIdle;
  bool setting_modes = false;  // kModesSet or kStartFailed will follow
  bool failed = false;         // since the last start: kRetry will follow
  std::string reason = {};     // why it does not serve, or will end; "" = none
};

// `why`: of kStartFailed.
std::vector<LifeAction> step(PoolLife& life, LifeEvent event, const LifeInputs& inputs, const std::string& why = {});

// --- the pools -----------------------------------------------------------------------------------------------------

class PoolSet;

struct PoolSetSettings {
  DaemonSettings daemons;  // PoolSet::want() sets `proof.every`
  Duration try_again = std::chrono::seconds(10);
  std::optional<EndpointsSettings> endpoints = {};  // absent: none
};

class Pool final : public EndpointsPool {
 public:
  Pool(PoolSet& set, const std::string& id);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void set_planned(const plan::PlannedPool* planned);  // null: the plan does not have it any more
  void follow_plan();                                  // after set_planned() of every pool
  void look() { feed(LifeEvent::kInputs); }
  Status adopt(const LeftPool&);  // a daemon of an earlier run, which no plan has

  const plan::PlannedPool& planned() const { return planned_; }
  bool is_planned() const { return is_planned_; }
  bool is_exclusive() const { return planned_.compute_mode == config::ComputeModePolicy::kExclusive; }
  bool waits() const;  // for other holders
  bool has_ended() const { return life_.state == LifeState::kEnded; }
  const std::string& problem() const { return life_.reason; }  // why it has no daemon, or will have none
  std::string_view state_name() const { return daemon_ ? daemon_->state_name() : to_string(State::kAbsent); }
  PoolDaemon* daemon() const { return daemon_.get(); }       // null: none was opened
  Endpoints* endpoints() const { return endpoints_.get(); }  // null: none were opened
  const ServerMemory* memory() const { return memory_ ? &*memory_ : nullptr; }
  std::string capacity_note() const;  // warns that clients will soon find no place; "" = enough

  void end_clients(const std::vector<int>& clients, std::function<void(const std::vector<Terminated>&)> done) override;
  void client_gone(int pid) override;
  void server_doubted() override;  // new clients may be unable to start: starts a proof soon
  Result<DaemonLimits> limits_for(const std::optional<GrantLimits>& limits) const override;
  void set_next_limits(const std::optional<GrantLimits>& limits, PoolDaemon::Done done) override;

 private:
  void feed(LifeEvent event, const std::string& why = {});
  LifeInputs inputs() const;
  void act(LifeAction action);
  void make_exclusive(std::vector<std::string> left);
  void modes_are(const Status& set);
  void start();
  Status open();
  void end_all_clients();

  // --- its daemon --------------------------------------------------------------------------------------------------
  void daemon_changed();
  void look_at_memory();
  void log_state();
  void log_limits() const;

  // --- its limits --------------------------------------------------------------------------------------------------
  const plan::PlannedDevice* planned_device(const std::string& uuid) const;  // null: none
  void set_places() const;

  PoolSet& set_;
  const std::string id_;
  plan::PlannedPool planned_;
  bool is_planned_ = false;
  bool changed_ = false;  // by the last plan
  PoolLife life_;
  std::unique_ptr<PoolDaemon> daemon_;
  std::unique_ptr<Endpoints> endpoints_;  // after the daemon: no client may connect while that ends
  std::optional<ServerMemory> memory_;
  std::string logged_state_;
  bool nearly_full_ = false;  // last logged value
  os::Timer retry_;
};

class PoolSet {
 public:
  PoolSet(os::Loop& loop, PoolSetSettings settings, ComputeModes& modes, std::function<void()> on_change);
  PoolSet(const PoolSet&) = delete;
  PoolSet& operator=(const PoolSet&) = delete;

  // nullopt: the program was not found yet, and why.
  void set_binary(const Result<ControlBinary>& binary);
  void want(const plan::Plan& plan, const config::Sharing& sharing);
  // Devices that containers hold without MPS: no daemon is started on them, and a daemon without clients stops.
  void set_other_holders(std::set<std::string> devices);
  // A condition that kept a pool from stopping or starting may be gone.
  void look_again();
  // Stops all pools; `done` runs once all daemons have exited and all compute modes are restored (or could not be).
  // With `end_clients`, their clients are first stopped, waited for and killed; without, clients lose MPS when their
  // server exits.
  void stop(std::function<void()> done, bool end_clients = false);

  // The same for daemons of an earlier run, without a plan.
  void end(const std::vector<LeftPool>& left, std::function<void()> done);

  // Answers the requests on mps.sock. `reply` runs once, inside the call or in a later callback.
  void answer(const std::string& request, const Endpoints::Reply& reply);
  const KilledWith& killed_with() const { return settings_.daemons.killed_with; }

  const std::map<std::string, Pool>& pools() const { return pools_; }
  std::uint64_t keeper_files() const;  // descriptors that the keeper may have open; 0 = not known
  bool serves_all_users() const { return binary_ && binary_->offers_multiuser && ::geteuid() == 0; }  // -M needs root

 private:
  friend class Pool;
  std::string waits_for(const Pool& pool) const;  // why it may not start yet; "" = it may
  void look_soon() {
    looking_.start({}, [this] { look(); });
  }
  void look();   // at every pool
  void sweep();  // removes pools that have ended and restores compute modes that are no longer needed
  void give_back_unneeded();

  os::Loop& loop_;
  os::Timer looking_{loop_};
  os::Timer listing_{loop_};
  PoolSetSettings settings_;
  ComputeModes& modes_;
  std::function<void()> on_change_;  // a visible property changed
  Result<ControlBinary> binary_ = fail(Kind::kUnavailable, "the MPS control program is being looked for");
  plan::Plan plan_;
  config::Sharing sharing_;
  std::set<std::string> other_holders_;  // devices that containers hold without MPS
  bool closing_ = false;
  bool ends_clients_ = false;                    // closing, and clients are ended before their daemon stops
  std::unique_ptr<EndpointsContext> endpoints_;  // null: none
  std::map<std::string, Pool> pools_;
  std::function<void()> stopped_;
  std::map<std::string, bool> giving_back_;  // by UUID: true = failed; retried only after the mode was needed again
};

}  // namespace tranche::mps
