#pragma once
// A change of the plan on its way: what is in force now, what it is to become, and the steps between. Pure; one thread.
#include <optional>
#include <string>
#include <vector>

#include "grants/change/change_steps.h"
#include "grants/change/held.h"
#include "grants/change/settle.h"
#include "plan/advertise/withheld.h"
#include "plan/plan.h"

namespace tranche::change {

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
