#pragma once
// From a configuration and the GPUs as they are to the steps that change only what must change: what stays, what goes,
// what is made and where, whether the mode changes and what that needs, and which holders are in the way. The live
// engine (mig/driver) derives the same steps, each from what the driver shows by then. Pure.
#include <string>
#include <vector>

#include "base/problem.h"
#include "gpu/mig/state.h"
#include "mig/configuration.h"
#include "mig/layout.h"
#include "mig/mig_steps.h"

namespace tranche::mig {

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
  bool mode_only = false;        // leave instances as far as the mode allows
  bool some_are_silent = false;  // an index that is not among `gpus` may be that of a GPU that does not answer
};
Plan make_plan(const Configuration& configuration, const std::vector<GpuState>& gpus, const PlanOptions& options = {});

// Whether the node is as configured, as mig-parted asserts it: every GPU named, modes and names equal. Empty = it is;
// otherwise one sentence a difference.
std::vector<std::string> differences(const Configuration& configuration, const std::vector<GpuState>& gpus,
                                     bool mode_only);

}  // namespace tranche::mig
