#pragma once
// Reconciles the pools with a plan. A new pool gets its compute modes, directories and daemon. A pool whose limits
// changed gets the new limits. A pool that is no longer planned stops after its last client has exited, because a
// change of configuration must not kill a tenant (pool_life.h). Restores the compute modes that no pool needs any more.
// Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mps/pool/pool.h"

namespace tranche::agent {

class PoolSet {
 public:
  PoolSet(host::Loop& loop, PoolSetSettings settings, host::ComputeModes& modes, std::function<void()> on_change);
  ~PoolSet();
  PoolSet(const PoolSet&) = delete;
  PoolSet& operator=(const PoolSet&) = delete;

  // nullopt: the program was not found yet, and why.
  void set_binary(const Result<host::ControlBinary>& binary);
  void want(const plan::Plan& plan, const inventory::Inventory& inventory, const config::Sharing& sharing);
  // Devices that containers hold without MPS: no daemon is started on them, and a daemon without clients stops.
  void set_other_holders(std::set<std::string> devices);
  // New clients of a pool may be unable to start: starts a proof soon.
  void doubt(const std::string& pool, const std::string& why);
  void client_ended(const std::string& pool, int pid);  // from the relay
  // A condition that kept a pool from stopping or starting may be gone.
  void look_again();
  // Stops all pools; `done` runs once all daemons have exited and all compute modes are restored (or could not be).
  // With `end_clients`, their clients are first stopped, waited for and killed; without, clients lose MPS when their
  // server exits.
  void stop(std::function<void()> done, bool end_clients = false);

  // The same for daemons of an earlier run, without a plan.
  void end(const std::vector<host::LeftPool>& left, std::function<void()> done);

  const std::map<std::string, Pool>& pools() const { return pools_; }
  Pool* find(const std::string& id);  // null: there is none
  bool serves_all_users() const { return context_.serves_all_users(); }

 private:
  std::string waits_for(const Pool& pool) const;
  void post(void (PoolSet::*what)());
  void look();  // at every pool
  void look_and_list();
  void sweep();  // removes pools that have ended and restores compute modes that are no longer needed
  void give_back_unneeded();

  host::Loop& loop_;
  PoolContext context_;
  std::map<std::string, Pool> pools_;
  std::function<void()> stopped_;
  std::map<std::string, bool> giving_back_;  // by UUID: true = failed; retried only after the mode was needed again
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a posted look may run after our end
};

}  // namespace tranche::agent
