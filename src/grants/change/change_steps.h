#pragma once
// From one plan to the next, as the steps that a person would name: first what goes, then what becomes something else,
// then what comes. The same text is in `tranche status`, in the log and in `tranche plan --against`. Pure.
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tranche::change {

enum class What {
  kVanishes,     // a resource
  kShrinks,      // slots of devices
  kSharingMode,  // a device is shared by other means
  kShare,        // of a slot
  kLimits,       // of the clients of an MPS pool
  kGrows,
  kAppears,
};
std::string_view to_string(What what);  // "vanishes", "shrinks", "strategy", "share", "limits", "grows", "appears"

struct Step {
  What what = What::kVanishes;
  std::string resource;              // or pool; "" of a device as such
  std::vector<std::string> devices;  // UUIDs, in driver order; empty when it is of all that the resource has
  std::string text;                  // "nvidia.com/gpu on GPUs 0-3: 10 → 5 slots"
  std::string means;                 // for what is held: "held slots stay until they are free"; "" = nothing
  std::string waits_for;             // "" = it waits for nothing
  friend bool operator==(const Step&, const Step&) = default;
};

std::vector<Step> steps(const plan::Plan& before, const plan::Plan& after);

// In one line: "nvidia.com/gpu on GPU 0: 10 → 5 slots (held slots stay until they are free)", or with what it waits
// for.
std::string to_string(const Step& step);

}  // namespace tranche::change
