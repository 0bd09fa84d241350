#pragma once
// The steps from one plan to the next, in words for an operator: first what is removed, then what changes, then what is
// added. `tranche status`, the log and `tranche plan --against` have the same text. Pure.
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "grants/change/held.h"
#include "plan/plan.h"

namespace tranche::grants {

// Private to src/grants/change: the text of figures and names in steps.
inline constexpr const char* kStayUntilFree = "held slots stay until they are free";
inline constexpr const char* kWaitsForFree = "as soon as nothing of it is held";
inline constexpr const char* kNextContainer = "for containers to come, those that run keep theirs";
inline constexpr const char* kNextClient = "takes effect with the next client";

std::string name_of(const std::vector<const plan::PlannedDevice*>& devices);  // "GPUs 0-3", "GPU 0:1"
std::string limits_text(const plan::ShareLimits& limits);                     // "14377 MiB and 12 SMs (10 %)"
std::string text_of(const SharingMode& mode);                                 // "exclusive", "time-slicing", "MPS"
std::string change_text(const SharingMode& before,
                        const SharingMode& after);  // "time-slicing → MPS", "MPS pool a → MPS pool b"

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
  std::string means;                 // the effect on held slots: "held slots stay until they are free"; "" = none
  std::string waits_for;             // "" = it waits for nothing
  bool waits() const { return !waits_for.empty(); }
  friend bool operator==(const Step&, const Step&) = default;
};

std::vector<Step> steps(const plan::Plan& before, const plan::Plan& after);

// In one line: "nvidia.com/gpu on GPU 0: 10 → 5 slots (held slots stay until they are free)", or with waits_for.
std::string to_string(const Step& step);

}  // namespace tranche::grants
