#pragma once
// The pools that should run and those that do: reconciles them with a plan. A pool that is new gets its compute modes,
// its directories and a daemon; one whose limits changed is told; one that is no longer planned ends when its last
// client has left, because a change of configuration must not kill a tenant. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/loop/loop.h"
#include "host/mps/binary.h"
#include "host/mps/compute_modes.h"
#include "host/mps/pool.h"
#include "inventory/inventory.h"
#include "plan/plan.h"

namespace tranche::agent {

struct PoolSetSettings {
  allocate::Paths paths;
  mps::SupervisorSettings supervisor;
  Duration try_again = std::chrono::seconds(10);
  bool may_serve_all_users = false;  // we are root, which -M needs
};

// One pool as it is shown.
struct Member {
  plan::PlannedPool planned;
  bool wanted = true;
  std::string problem;  // why it has no daemon, when the reason lies before the daemon
  bool preparing = false;
  std::unique_ptr<host::Pool> pool;  // null until it could be opened
  host::Loop::Id retry = 0;
};

class PoolSet {
 public:
  PoolSet(host::Loop& loop, PoolSetSettings settings, host::ComputeModes& modes, std::function<void()> on_change);
  ~PoolSet();
  PoolSet(const PoolSet&) = delete;
  PoolSet& operator=(const PoolSet&) = delete;

  // nullopt: it is not there yet, and why.
  void set_binary(const Result<host::ControlBinary>& binary);
  void want(const plan::Plan& plan, const inventory::Inventory& inventory);
  // Ends everything; done comes once all daemons are gone and all compute modes are given back (or could not be).
  void stop(std::function<void()> done);

  const std::map<std::string, Member>& members() const { return members_; }
  bool serves_all_users() const { return binary_ && settings_.may_serve_all_users && binary_->offers_multiuser; }

 private:
  void prepare(const std::string& id);
  void make_next_exclusive(const std::string& id, std::vector<std::string> left);
  void run(Member& member);
  void fail_member(Member& member, const Error& error);
  void pool_changed(const std::string& id, const mps::Supervisor& before, const mps::Supervisor& after);
  void retire_if_idle(Member& member);
  void sweep();  // members that are gone; compute modes that nobody needs any more
  void give_back_unneeded();
  void log_limits(const Member& member) const;

  host::Loop& loop_;
  PoolSetSettings settings_;
  host::ComputeModes& modes_;
  std::function<void()> on_change_;
  Result<host::ControlBinary> binary_ = fail(Kind::kUnavailable, "the MPS control program is being looked for");
  plan::Plan plan_;
  inventory::Inventory inventory_;
  std::map<std::string, Member> members_;
  std::function<void()> stopped_;
  bool sweeping_ = false;
  std::map<std::string, bool> giving_back_;  // by UUID: true = failed, not tried again while stopping
};

}  // namespace tranche::agent
