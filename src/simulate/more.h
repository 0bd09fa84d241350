#pragma once
// How many more containers of one size fit on a node that is partly held: the device manager's preference and this
// product's allocation, container after container, until one is refused. What else keeps a pod away (CPU, taints,
// quotas) is not looked at. Pure; equal inputs give equal answers.
#include <cstdint>
#include <set>
#include <string>

#include "config/model.h"
#include "plan/plan.h"

namespace tranche::simulate {

// One resource of a node.
struct Offer {
  plan::PlannedResource resource;
  std::set<std::string> taken;  // slots that are held or unhealthy
  config::AllocationPolicy policy = config::AllocationPolicy::kDistributed;
};

struct More {
  std::uint64_t containers = 0;
  bool possible = false;  // one would fit on an empty node
  friend bool operator==(const More&, const More&) = default;
};
std::uint64_t largest_that_fits(const Offer& offer);  // slots of one container
More more_that_fit(const Offer& offer, std::uint64_t slots_of_each);

}  // namespace tranche::simulate
