#pragma once
// The node's plan during a change of configuration (src/grants/change): combines kubelet's list of holdings, later
// Allocate responses and the limits of grants, and has it decide which plan is in effect. Loop thread only.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "grants/allocate/grant.h"
#include "grants/change/change.h"
#include "grants/ledger.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

// What containers hold, by grant and device. Under MPS every grant has an endpoint or limits in the ledger; while
// `tranche mps` does not answer, the plan in force counts. What was taken from a container by force is marked. Pure.
std::vector<change::HeldShare> held_shares(const std::vector<grants::Held>& held, const Snapshot& snapshot);

// Devices of which a share is held without MPS and was not taken. Pure.
std::set<std::string> held_without_mps(const std::vector<change::HeldShare>& shares);

// Slots of devices that MPS must not serve, but that a pool of `tranche mps` still has: with the pool's compute mode no
// process outside MPS could start there. `pools`: the devices of planned pools; for others the id is used. Pure.
advertise::Withheld still_served(const plan::Plan& plan, const PoolReports& reports,
                                 const std::map<std::string, std::vector<std::string>>& pools);

class PlanChange {
 public:
  // `mps_root` is where the MPS directory is for this process: `tranche mps` reads there who holds what without it.
  PlanChange(grants::Ledger& ledger, std::string mps_root) : ledger_(ledger), mps_root_(std::move(mps_root)) {}

  void aim(plan::Plan newest) { change_.aim(std::move(newest)); }
  // `can_tell`: kubelet's socket is there. Where it never was (NVIDIA's chart does not mount it) nobody will ever say
  // what is held, and a change is done at once, as by a restart of NVIDIA's plugin.
  void listed(const Result<std::vector<host::PodHolding>>& answer, MonoTime asked, bool can_tell);
  // Updates the snapshot to the present state, and logs changes.
  void follow(Snapshot& snapshot, change::Policy policy);
  // Shares that were taken from containers and not reported to their pods yet: once each, as soon as kubelet has
  // reported the holder.
  struct Loss {
    host::PodHolding holder;
    std::string device;
    std::string text;  // "time-slicing → MPS"
  };
  std::vector<Loss> losses_to_tell(const std::vector<host::PodHolding>& holdings);
  // Devices that the MIG manager removes: when no container holds them, `tranche mps` ends the daemons on them.
  void withdraw(std::set<std::string> devices) { withdrawn_ = std::move(devices); }
  // Another answer of kubelet's may say that something is free. It is asked also while nothing waits for that: a change
  // that comes later is then done at once.
  bool awaits_kubelet() const { return ledger_.in_doubt(); }
  bool nobody_tells() const { return nobody_tells_; }  // what is held: kubelet's socket is not there

 private:
  bool take(std::vector<change::HeldShare>& shares, change::Policy policy, bool endpoints_known);
  void tell_mps(const std::vector<change::HeldShare>& shares);
  void say_steps(const std::vector<change::Step>& before) const;

  grants::Ledger& ledger_;
  std::string mps_root_;
  change::Change change_;
  std::map<std::string, std::vector<std::string>> pools_;  // that were planned, with their devices
  std::set<std::string> withdrawn_;
  std::set<std::string> told_;
  bool ever_told_ = false;
  bool ever_listed_ = false;
  bool nobody_tells_ = false;
  std::string not_told_;
};

}  // namespace tranche::agent
