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
// Change follows a change of the plan: the plan in effect, the newest plan, and the steps between. `tranche status`,
// the log and `tranche plan --against` have the same text of a step. Pure; one thread.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/units.h"
#include "config/model.h"
#include "plan/plan.h"

namespace tranche::grants {

// The slots that one container holds of one device.
struct HeldShare {
  std::string resource;  // of the request
  std::string device;    // UUID
  std::vector<std::string> slots;
  std::string pool;  // the MPS pool at the time of the allocation; "" = none
  Bytes memory;      // the sum of their memory limits; 0 = not limited, or not known
};

// How a device is shared. This changes only while no container holds a slot of the device: a process that uses MPS and
// one that does not cannot share it, and neither can clients of two daemons.
struct SharingMode {
  config::SharingStrategy strategy = config::SharingStrategy::kNone;
  std::string pool;  // of MPS
  friend bool operator==(const SharingMode&, const SharingMode&) = default;
};
SharingMode mode_of(const plan::PlannedDevice& device);
SharingMode mode_of(const HeldShare& share);
// "time-slicing → MPS", "MPS pool a → MPS pool b"; from nothing: "to MPS".
std::string change_text(const std::optional<SharingMode>& before, const SharingMode& after);

enum class What {
  kVanishes,     // a resource
  kShrinks,      // slots of devices
  kSharingMode,  // of a device
  kShare,        // of a slot
  kLimits,       // of the clients of an MPS pool
  kGrows,
  kAppears,
};
ENUM_NAMES(What::kAppears, "vanishes", "shrinks", "strategy", "share", "limits", "grows", "appears")

struct Step {
  What what = What::kVanishes;
  std::string resource;              // or pool; "" = the step is about a device itself
  std::vector<std::string> devices;  // UUIDs, in driver order; empty = all of the resource
  std::string text;                  // "nvidia.com/gpu on GPUs 0-3: 10 → 5 slots"
  std::string waits_for = {};        // "" = it waits for nothing
  bool affects_held = true;          // false: nothing of it can be held
  bool waits() const { return !waits_for.empty(); }
  friend bool operator==(const Step&, const Step&) = default;
};

// From one plan to the next, in words for an operator: first what is removed, then what changes, then what is added.
std::vector<Step> steps(const plan::Plan& before, const plan::Plan& after);

// In one line, with the effect on held slots or waits_for: "nvidia.com/gpu on GPU 0: 10 → 5 slots (held slots stay
// until they are free)".
std::string to_string(const Step& step);
std::string name_of(const std::vector<const plan::PlannedDevice*>& devices);  // "GPUs 0-3", "GPU 0:1"

struct Settled {
  plan::Plan plan;
  plan::Withheld withheld;
  std::vector<Step> waiting;  // each with waits_for
  friend bool operator==(const Settled&, const Settled&) = default;
};

Settled settle(const Settled& before, const plan::Plan& newest, const std::vector<HeldShare>& held);

class Change {
 public:
  // The newest valid plan. follow() decides which part of it takes effect.
  void aim(plan::Plan newest);
  // True: a result below changed. `unknown`: why the present holders are not known; a change waits then, except the
  // first plan.
  bool follow(const std::vector<HeldShare>& held, const std::string& unknown = {});

  const plan::Plan& in_force() const { return now_.plan; }
  const plan::Withheld& withheld() const { return now_.withheld; }
  // Of the last change, and those of earlier changes that wait, in order.
  const std::vector<Step>& steps() const { return steps_; }
  bool awaits_holders() const { return unsettled_; }

 private:
  std::optional<plan::Plan> newest_;
  bool unsettled_ = false;     // the newest plan waits until the holders are known
  std::vector<Step> planned_;  // from the plan in effect when the newest plan came
  Settled now_;
  std::vector<Step> steps_;
};

}  // namespace tranche::grants
