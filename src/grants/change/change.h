#pragma once
// What was in force + newest plan + what is held → the plan that may be in force now, and what is shown to kubelet
// without being handed out. Nothing that is held is taken away or comes to mean something else:
//
//   * a held slot that the newest plan does not have stays, unhealthy, until it is free;
//   * an id that is held under a different resource is not given a second time;
//   * a device that changes its means (exclusive, time-slicing, an MPS pool) stays as it is, and gives out nothing,
//     while anything of it is held; the devices of a joined pool change together; all others change at once;
//   * where the limits of all slots exceed what is free of a device, that many slots wait.
//
// Level-triggered: the same question is asked again whenever the plan or the holdings are new, also after a restart,
// when `before` is empty. Equal inputs give equal answers, and with nothing held the newest plan is the answer.
//
// Change keeps a change of the plan on its way: what is in force now, what it is to become, and the steps between.
// Pure; one thread.
#include <optional>
#include <vector>

#include "grants/change/change_steps.h"
#include "grants/change/held.h"
#include "plan/advertise/advertise.h"
#include "plan/plan.h"

namespace tranche::change {

struct Settled {
  plan::Plan plan;
  advertise::Withheld withheld;
  std::vector<Step> waiting;  // each with what it waits for
  friend bool operator==(const Settled&, const Settled&) = default;
};

// Every slot that kubelet sees, as held: what is assumed once the holders are not known.
std::vector<HeldShare> shown(const Settled& settled);

// While the holders are not known, the holdings are assumed; `unknown` has the reason.
Settled settle(const Settled& before, const plan::Plan& newest, const Holdings& holdings);

class Change {
 public:
  // The newest plan that could be made. It is in force as far as follow() finds that it may be.
  void aim(plan::Plan newest);
  // What is held now. True: something of what is below changed.
  bool follow(const Holdings& holdings);

  const plan::Plan& in_force() const { return now_.plan; }
  const advertise::Withheld& withheld() const { return now_.withheld; }
  // Of the last change, and what waits of earlier ones; in order. Those that wait say for what.
  const std::vector<Step>& steps() const { return steps_; }
  bool waits() const { return !now_.waiting.empty(); }

 private:
  Holdings with_assumed(const Holdings& holdings);

  std::optional<plan::Plan> newest_;
  std::vector<Step> planned_;  // from what was in force when the newest plan came
  Settled now_;
  std::optional<std::vector<HeldShare>> assumed_;  // while the holders are not known
  std::vector<Step> steps_;
};

}  // namespace tranche::change
