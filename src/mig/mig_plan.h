#pragma once
// The next driver call on the way from what a GPU is cut into to what it is to be cut into, and the plan of a
// configuration: what stays, what goes, what is made and where, whether the mode changes and what that needs, and which
// holders are in the way. Every call is derived from what the driver shows at that moment, so a program that was killed
// between any two calls goes on where it was. The plan that is printed is the same function run on a copy, so it is
// what happens. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/problem.h"
#include "gpu/mig/state.h"
#include "mig/configuration.h"
#include "mig/layout.h"

namespace tranche::mig {

// Nothing: the GPU is as wanted. The mode goes on first and off last; what goes comes before what is made, by
// placement.
std::optional<Step> next_step(const GpuState& now, const Layout& wanted);

// What holds the change up until it ends.
struct Blocker {
  std::string what;  // "3g.40gb at slices 4-7", "the whole GPU"
  std::vector<Holder> holders;
  friend bool operator==(const Blocker&, const Blocker&) = default;
};

// The number of an instance that only exists in GpuPlan::after.
inline constexpr std::uint32_t kNotMadeYet = ~std::uint32_t{0};

// Of one GPU: every step from what it is cut into to a layout, if the driver does what it is asked to.
struct GpuPlan {
  GpuState now;
  bool matched = false;  // an entry names this GPU; otherwise it stays as it is
  bool as_wanted = false;
  Layout target{};
  std::vector<Step> steps{};
  std::vector<Blocker> blockers{};  // none = the steps can be taken now
  GpuState after{};                 // where they lead
  std::string mode_why{};           // of a mode change and its reset, or ""
  std::string fits_beside{};        // with blockers: how much of the wanted set has room beside the held instances

  bool mode_changes() const { return now.enabled != target.enabled; }
  bool needs_reset() const;
  std::vector<GpuInstance> goes() const;    // present instances that are not in `after`
  std::vector<std::string> leaves() const;  // UUIDs of the MIG devices that are not
};
GpuPlan plan_to(const GpuState& now, const Layout& target);
GpuPlan left_alone(const GpuState& now);  // neither matched nor as wanted

struct Plan {
  std::string configuration;
  std::vector<GpuPlan> gpus;  // by index
  std::vector<Problem>
      problems;  // a profile that the GPU does not have, a set without a layout; warnings: an index without a GPU
  bool as_wanted() const;
  bool possible() const;  // no error among the problems
  bool blocked() const;
  bool needs_reset() const;
};

// mode_only: leaves instances as far as the mode allows.
Plan make_plan(const Configuration& configuration, const std::vector<GpuState>& gpus, bool mode_only = false);

// Whether the node is as configured, as mig-parted asserts it: every GPU named, modes and names equal. Empty = it is;
// otherwise one sentence a difference.
std::vector<std::string> differences(const Configuration& configuration, const std::vector<GpuState>& gpus,
                                     bool mode_only);

}  // namespace tranche::mig
