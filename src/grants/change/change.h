#pragma once
// Previous plan + newest plan + held slots → the plan that may take effect now, and the slots that are shown to kubelet
// and not allocated. A change of the plan never takes a held slot away or changes what it means:
//
//   * a held slot that the newest plan does not have stays, unhealthy, until it is free;
//   * an id that is held under a different resource is not allocated a second time;
//   * a device whose kind of sharing changes (exclusive, time-slicing, an MPS pool) stays as it is, and none of its
//     slots is allocated, while one of them is held; the devices of a joined pool change together, all others at once;
//   * if the limits of all slots exceed what a device has free, the slots that do not fit wait.
//
// Level-triggered: decided again whenever the plan or the holdings change, also after a restart, when `before` is
// empty. Equal inputs give equal results, and if no slot is held, the result is the newest plan.
//
// Change follows a change of the plan: the plan in effect, the newest plan, and the steps between. Pure; one thread.
#include <optional>
#include <vector>

#include "grants/change/change_steps.h"
#include "grants/change/held.h"
#include "plan/advertise/advertise.h"
#include "plan/plan.h"

namespace tranche::grants {

struct Settled {
  plan::Plan plan;
  plan::Withheld withheld;
  std::vector<Step> waiting;  // each with waits_for
  friend bool operator==(const Settled&, const Settled&) = default;
};

// Every slot that kubelet sees, as held: assumed while the holders are not known.
std::vector<HeldShare> shown(const Settled& settled);

// While the holders are not known, the holdings are assumed; `unknown` has the reason.
Settled settle(const Settled& before, const plan::Plan& newest, const Holdings& holdings);

class Change {
 public:
  // The newest valid plan. follow() decides which part of it takes effect.
  void aim(plan::Plan newest);
  // The present holdings. True: a result below changed.
  bool follow(const Holdings& holdings);

  const plan::Plan& in_force() const { return now_.plan; }
  const plan::Withheld& withheld() const { return now_.withheld; }
  // Of the last change, and those of earlier changes that wait, in order.
  const std::vector<Step>& steps() const { return steps_; }
  bool waits() const { return !now_.waiting.empty(); }

 private:
  Holdings with_assumed(const Holdings& holdings);

  std::optional<plan::Plan> newest_;
  std::vector<Step> planned_;  // from the plan in effect when the newest plan came
  Settled now_;
  std::optional<std::vector<HeldShare>> assumed_;  // while the holders are not known
  std::vector<Step> steps_;
};

}  // namespace tranche::grants
