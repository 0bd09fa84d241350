#pragma once
// The node's plan during a change of configuration (src/grants/change): combines kubelet's list of holdings, later
// Allocate responses and the limits of grants, and has it decide which plan is enforced. Pure; one thread.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grants/change/change.h"
#include "grants/ledger.h"
#include "node/recall.h"
#include "node/snapshot.h"

namespace tranche::node {

// What containers hold, by grant and device. Under MPS every grant has an endpoint or limits in the ledger; while
// `tranche mps` does not answer, the enforced plan counts. Pure.
std::vector<grants::HeldShare> held_shares(const std::vector<grants::Held>& held, const NodeView& node);

// Devices of which a share is held without MPS. Pure.
std::set<std::string> held_without_mps(const std::vector<grants::HeldShare>& shares);

// Slots of devices that MPS must not serve, but that a pool of `tranche mps` still has: with the pool's compute mode no
// process outside MPS could start there. Pure.
plan::Withheld still_served(const plan::Plan& plan, const mps::PoolReports& reports);

class PlanChange {
 public:
  explicit PlanChange(grants::Ledger& ledger) : ledger_(ledger) {}

  // What steps changed, for those that report it.
  struct Moved {
    bool plan = false;
    std::vector<grants::Step> steps;
    bool done = false;                            // nothing waits any more
    std::optional<HeldWithoutMps> other_holders;  // absent: not decided yet
  };

  void aim(plan::Plan newest) { change_.aim(std::move(newest)); }
  // `can_report`: kubelet's socket is there. Where it never was (NVIDIA's chart does not mount it) kubelet will never
  // report what is held, and a change is made at once, as by a restart of NVIDIA's plugin. True: that is found now.
  bool answered(bool listed, bool can_report) {
    ever_listed_ = ever_listed_ || listed;
    return !std::exchange(unguarded_, !ever_listed_ && !can_report) && unguarded_;
  }
  // Decides which plan is enforced, by the decision so far: plan, change and withheld slots.
  void step(const Inputs& in, Decision& decision, Moved& moved);
  // Another answer of kubelet's may say that something is free. It is asked also while nothing waits for that: a change
  // that comes later is then done at once.
  bool awaits_kubelet() const { return ledger_.in_doubt() || change_.awaits_holders(); }
  bool unguarded() const { return unguarded_; }  // kubelet's socket is not there: what is held is not reported

 private:
  HeldWithoutMps other_holders(const std::vector<grants::HeldShare>& shares,
                               const std::map<std::string, std::string>& withdrawn) const;

  grants::Ledger& ledger_;
  grants::Change change_;
  bool ever_listed_ = false;
  bool unguarded_ = false;
};

}  // namespace tranche::node
