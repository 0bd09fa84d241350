#pragma once
// Reconciles the running pools with a plan. A new pool gets its compute modes, directories and daemon. A pool whose
// limits changed gets the new limits. A pool that is no longer planned stops after its last client has exited, because
// a change of configuration must not kill a tenant. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gpu/inventory/inventory.h"
#include "mps/daemon/adoption.h"
#include "mps/daemon/binary.h"
#include "mps/daemon/compute_modes.h"
#include "mps/daemon/server_memory.h"
#include "mps/endpoints/endpoints.h"
#include "mps/pool/namespace_keeper.h"
#include "mps/pool/pool.h"
#include "os/loop/loop.h"
#include "plan/plan.h"

namespace tranche::agent {

struct PoolSetSettings {
  allocate::Paths paths;
  mps::SupervisorSettings supervisor;
  mps::ProofSettings proof = {};                // want() sets its `every`
  std::vector<std::string> proof_program = {};  // argv of `tranche probe`; empty = no proofs
  Duration try_again = std::chrono::seconds(10);
  bool may_serve_all_users = false;  // this process is root, which -M needs
  host::DaemonHome home;
  std::shared_ptr<host::Endings> endings = {};
  std::shared_ptr<host::LogWatch> logs = {};
  Endpoints* endpoints = nullptr;  // the pools' endpoints; null: links, which the pools create themselves
};

// One pool and its state.
struct Member {
  explicit Member(host::Loop& loop) : retry(loop) {}
  plan::PlannedPool planned;
  bool wanted = true;
  std::string problem;  // why it has no daemon, if the daemon was not even started
  bool preparing = false;
  std::string logged_state;
  bool nearly_full = false;                     // last logged value
  std::unique_ptr<host::Pool> pool;             // null until it is opened
  std::unique_ptr<NamespaceKeeper> namespaces;  // of a pool in tier v3; destroyed before its pool
  std::optional<host::ServerMemory> memory;     // of its servers; since it was opened
  bool switching = false;                       // its daemon is being replaced by one of another tier
  bool waits = false;   // another holder has its GPUs; a daemon that it still has is being stopped
  bool forced = false;  // a forced change is terminating its clients
  host::Timer retry;
};

class PoolSet {
 public:
  PoolSet(host::Loop& loop, PoolSetSettings settings, host::ComputeModes& modes, std::function<void()> on_change);
  ~PoolSet();
  PoolSet(const PoolSet&) = delete;
  PoolSet& operator=(const PoolSet&) = delete;

  // nullopt: the program was not found yet, and why.
  void set_binary(const Result<host::ControlBinary>& binary);
  // sharing.change `force`: a pool that is no longer planned stops at once; its clients are stopped, waited for and
  // killed.
  void want(const plan::Plan& plan, const inventory::Inventory& inventory, const config::Sharing& sharing);
  // Devices that containers hold without MPS: no daemon is started on them, and a daemon without clients stops.
  void set_other_holders(std::set<std::string> devices);
  // New clients of a pool may be unable to start: starts a proof soon.
  void doubt(const std::string& pool, const std::string& why);
  void client_ended(const std::string& pool, int pid);  // from the relay
  // A condition that kept a pool from stopping or starting may be gone.
  void look_again();
  // Stops all pools; `done` runs once all daemons have exited and all compute modes are restored (or could not be).
  // With `end_clients`, their clients are first terminated as above; without, clients lose MPS when their server exits.
  void stop(std::function<void()> done, bool end_clients = false);

  // The same for daemons of an earlier run, without a plan.
  void end(const std::vector<host::LeftPool>& left, std::function<void()> done);

  // The limits that the daemon enforces for clients with these grant limits; absent: the pool's own.
  Result<mps::DaemonLimits> limits_for(const std::string& pool, const std::optional<mps::GrantLimits>& limits) const;
  // As Pool::tell_next(), with a grant's limits; absent: the pool's own.
  void tell_next(const std::string& pool, const std::optional<mps::GrantLimits>& limits, host::Pool::Told told);

  const std::map<std::string, Member>& members() const { return members_; }
  // A pool's present tier, and why it differs from the requested one.
  mps::TierChoice tier_of(const Member& member) const;
  std::string room_note(const Member& member) const;  // warns that clients will soon find no place; "" = enough
  // Makes a pool's daemon hold what the pool's endpoints need: in tier v3, a namespace for each.
  void provide(const std::string& pool, NamespaceKeeper::Done done);
  bool serves_all_users() const { return binary_ && settings_.may_serve_all_users && binary_->offers_multiuser; }

 private:
  void prepare(const std::string& id);
  void make_next_exclusive(const std::string& id, std::vector<std::string> left);
  void run(Member& member);
  mps::TierChoice chosen_tier(const Member& member) const;
  Status may_have_namespaces(const Member& member) const;
  void open_namespaces(Member& member);
  NamespaceKeeper::Namespaces wanted_namespaces(const std::string& id);
  void change_namespaces(const std::string& id, const NamespaceKeeper::Namespaces& all, NamespaceKeeper::Done done);
  void remove_namespace(const std::string& id, const std::string& name, NamespaceKeeper::Done done);
  Member* running(const std::string& id);  // null: the pool has no daemon
  mps::DaemonLimits limits_of(const Member& member) const;
  const plan::PlannedDevice* planned_device(const std::string& uuid, const std::string& pool) const;  // null: none
  void switch_tier_if_idle(Member& member);
  Status open_pool(Member& member);
  void fail_member(Member& member, const Error& error);
  void tell_endpoints(const std::string& id, const mps::Supervisor& before, const mps::Supervisor& after);
  host::Pool::Callbacks callbacks_for(const std::string& id);
  void log_state(const std::string& id, Member& member);
  void pool_changed(const std::string& id, const mps::Supervisor& before, const mps::Supervisor& after);
  void tell_most_clients(const Member& member);
  static bool begins_anew(const Member& member);
  void retire(Member& member);
  void retire_if_idle(Member& member);
  void retire_by_force(Member& member);
  void yield_if_idle(Member& member);
  std::string end_of_use(const Member& member) const;
  std::string waits_for(const std::string& id, const Member& member) const;  // why it cannot start yet; "" = it can
  void sweep();  // removes members that are gone and restores compute modes that are no longer needed
  void give_back_unneeded();
  void log_limits(const Member& member) const;
  void look_at_memory(Member& member);

  host::Loop& loop_;
  PoolSetSettings settings_;
  host::ComputeModes& modes_;
  std::function<void()> on_change_;
  Result<host::ControlBinary> binary_ = fail(Kind::kUnavailable, "the MPS control program is being looked for");
  config::ChangePolicy change_ = config::ChangePolicy::kWait;
  Duration stop_patience_ = config::Sharing{}.stop_patience;
  std::size_t processes_per_slot_ = config::Sharing{}.processes_per_slot;
  plan::Plan plan_;
  inventory::Inventory inventory_;
  std::map<std::string, Member> members_;
  std::set<std::string> other_holders_;
  std::function<void()> stopped_;
  bool sweeping_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a posted look may run after our end
  std::map<std::string, bool> giving_back_;  // by UUID: true = failed; retried only after the mode was needed again
};

}  // namespace tranche::agent
