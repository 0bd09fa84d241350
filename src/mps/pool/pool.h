#pragma once
// One pool: its life (pool_life.h), its daemon (pool_daemon.h), the limits of its endpoints, its servers' shared
// memory. It carries out what its life decides; the set of pools (pool_set.h) reports changes to it. Loop thread only.
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "mps/daemon/adoption.h"
#include "mps/daemon/compute_modes.h"
#include "mps/daemon/server_memory.h"
#include "mps/endpoints/endpoints.h"
#include "mps/pool/pool_daemon.h"
#include "mps/pool/pool_life.h"
#include "os/loop/loop.h"
#include "plan/plan.h"

namespace tranche::agent {

class Pool;

struct PoolSetSettings {
  allocate::Paths paths;
  mps::SupervisorSettings supervisor;
  mps::ProofSettings proof = {};                // PoolSet::want() sets its `every`
  std::vector<std::string> proof_program = {};  // argv of `tranche probe`; empty = no proofs
  Duration try_again = std::chrono::seconds(10);
  bool may_serve_all_users = false;  // this process is root, which -M needs
  host::DaemonHome home;
  std::shared_ptr<host::Endings> endings = {};
  std::shared_ptr<host::LogWatch> logs = {};
  Endpoints* endpoints = nullptr;  // the pools' endpoints; null: links, which the pools create themselves
};

// What all pools of a set share, and what a pool needs of the set.
struct PoolContext {
  PoolSetSettings settings;
  host::ComputeModes& modes;
  Result<host::ControlBinary> binary = fail(Kind::kUnavailable, "the MPS control program is being looked for");
  plan::Plan plan = {};
  inventory::Inventory inventory = {};
  config::Sharing sharing = {};
  std::set<std::string> other_holders = {};  // devices that containers hold without MPS
  bool closing = false;
  bool ends_clients = false;  // closing, and clients are ended before their daemon stops

  std::function<std::string(const Pool&)> waits_for = {};  // why the pool may not start yet; "" = it may
  std::function<void()> pool_changed = {};                 // in a later callback, every pool looks at its inputs again
  std::function<void()> on_change = {};                    // a visible property changed

  bool serves_all_users() const { return binary && settings.may_serve_all_users && binary->offers_multiuser; }
};

class Pool {
 public:
  Pool(host::Loop& loop, PoolContext& context, const std::string& id);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void set_planned(const plan::PlannedPool* planned);  // null: the plan does not have it any more
  void follow_plan();                                  // after set_planned() of every pool
  void look() { feed(mps::LifeEvent::kInputs); }
  void list_clients();                  // now: the list is up to a few seconds old
  Status adopt(const host::LeftPool&);  // a daemon of an earlier run, which no plan has
  void apply_sharing();

  const plan::PlannedPool& planned() const { return planned_; }
  bool is_planned() const { return is_planned_; }
  bool is_exclusive() const { return planned_.compute_mode == config::ComputeModePolicy::kExclusive; }
  bool uses(const std::string& device) const;
  bool waits() const { return life_.state == mps::LifeState::kWaiting && context_.binary; }  // for other holders
  bool has_ended() const { return life_.state == mps::LifeState::kEnded; }
  const std::string& problem() const { return life_.reason; }  // why it has no daemon, or will have none
  host::PoolDaemon* daemon() const { return daemon_.get(); }   // null: none was opened
  const host::ServerMemory* memory() const { return memory_ ? &*memory_ : nullptr; }
  std::string capacity_note() const;  // warns that clients will soon find no place; "" = enough

  // The limits that the daemon enforces for clients with these grant limits; absent: the pool's own.
  Result<mps::DaemonLimits> limits_for(const std::optional<mps::GrantLimits>& limits) const;
  // As PoolDaemon::set_next_limits(), with a grant's limits; absent: the pool's own.
  void set_next_limits(const std::optional<mps::GrantLimits>& limits, host::PoolDaemon::Done done);

 private:
  void feed(mps::LifeEvent event, const std::string& why = {});
  mps::LifeInputs inputs() const;
  void act(mps::LifeAction action);
  void make_exclusive(std::vector<std::string> left);
  void modes_are(const Status& set);
  void start();
  Status open();
  void end_clients();
  std::string end_of_use() const;

  // --- its daemon --------------------------------------------------------------------------------------------------
  host::PoolDaemon::Callbacks callbacks();
  void daemon_changed(const mps::Supervisor& before, const mps::Supervisor& after);
  void inform_endpoints(const mps::Supervisor& before, const mps::Supervisor& after);
  void look_at_memory();
  void log_state();
  void log_limits() const;

  // --- its limits --------------------------------------------------------------------------------------------------
  const plan::PlannedDevice* planned_device(const std::string& uuid) const;  // null: none
  void set_most_clients() const;

  host::Loop& loop_;
  PoolContext& context_;
  const std::string id_;
  plan::PlannedPool planned_;
  bool is_planned_ = false;
  bool changed_ = false;  // by the last plan
  mps::PoolLife life_;
  std::unique_ptr<host::PoolDaemon> daemon_;
  std::optional<host::ServerMemory> memory_;
  std::string logged_state_;
  bool nearly_full_ = false;  // last logged value
  host::Timer retry_;
};

}  // namespace tranche::agent
