#pragma once
// From a configuration and the GPUs as they are to the steps that change only what must change: what stays, what goes,
// what is made and where, whether the mode changes and what that needs, and which holders are in the way. The live
// engine (mig/driver) carries the steps out in order and plans again after each failure. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/problem.h"
#include "mig/configuration.h"
#include "mig/layout.h"
#include "mig/state.h"

namespace tranche::mig {

struct Step {
  enum class What {
    kDestroyCompute,  // compute instance `compute` of GPU instance `instance`
    kDestroyInstance,
    kModeOn,
    kModeOff,
    kReset,           // the GPU, with no process on it; or the machine starts again
    kCreateInstance,  // `profile_id` at `placement`
    kCreateCompute,   // in `instance`, or in the one that this plan creates at `placement`
  };
  What what = What::kDestroyInstance;
  std::optional<std::uint32_t> instance{};  // the driver's number of a GPU instance that exists
  std::optional<std::uint32_t> compute{};   // and of a compute instance in it
  std::uint32_t profile_id = 0;             // of the GPU instance
  std::string profile{};                    // "3g.40gb"; of a compute instance "1c.3g.40gb"
  Placement placement{};                    // of the GPU instance
  Placement compute_placement{};            // kCreateCompute, kDestroyCompute
  std::string why{};
  friend bool operator==(const Step&, const Step&) = default;
};
std::string to_string(const Step& step);  // "create 3g.40gb at slices 4-7"

// What holds the change up until it ends.
struct Blocker {
  std::string what;  // "3g.40gb at slices 4-7", "the whole GPU"
  std::vector<Holder> holders;
  friend bool operator==(const Blocker&, const Blocker&) = default;
};

struct GpuPlan {
  std::uint32_t index = 0;
  std::string uuid;
  std::string name;
  bool matched = false;  // an entry names this GPU; otherwise it stays as it is
  bool as_wanted = false;
  bool mode_from = false;
  bool mode_to = false;
  bool needs_reset = false;  // before instances can be made
  std::string mode_why{};    // of the mode change and the reset, or ""
  Instances wanted{};
  std::vector<Part> parts{};        // the layout to reach, kept ones marked
  std::vector<GpuInstance> goes{};  // present instances that are not in it
  std::vector<Step> steps{};        // in the order in which they are taken
  std::vector<Blocker> blockers{};  // none = the steps can be taken now
  std::string fits_beside{};        // with blockers: how much of the wanted set has room beside the held instances
  std::vector<Profile> profiles{};
};

struct Plan {
  std::string configuration;
  std::vector<GpuPlan> gpus;  // by index
  std::vector<Problem>
      problems;  // a profile that the GPU does not have, a set without a layout, an index that is not there
  bool as_wanted() const;
  bool possible() const;  // no error among the problems
  bool blocked() const;
  bool needs_reset() const;
};

struct PlanOptions {
  bool mode_only = false;  // leave instances as far as the mode allows
};
Plan make_plan(const Configuration& configuration, const std::vector<GpuState>& gpus, const PlanOptions& options = {});

// Of one GPU: what the live engine asks for again after each step.
GpuPlan plan_gpu(const Entry& entry, const GpuState& gpu, std::vector<Problem>& problems,
                 const PlanOptions& options = {});
// The entry that decides about a GPU: the last that names it. nullptr = none.
const Entry* entry_of(const Configuration& configuration, const GpuState& gpu);

// Whether the node is as configured, as mig-parted asserts it: every GPU named, modes and names equal. Empty = it is;
// otherwise one sentence a difference.
std::vector<std::string> differences(const Configuration& configuration, const std::vector<GpuState>& gpus,
                                     bool mode_only);

std::string plan_text(const Plan& plan, bool colour, int width);
std::string plan_json(const Plan& plan);

}  // namespace tranche::mig
