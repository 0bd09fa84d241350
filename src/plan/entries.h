#pragma once
// Inside plan/: which devices of a resource each entry of the sharing sections takes, and into which resources it cuts
// them. What cannot be meant (a GPU in two entries, slots below what the driver takes) is a Problem.
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/devices.h"
#include "plan/plan.h"

namespace tranche::plan {

// An entry with its devices, in driver order.
struct Taken {
  const config::SharedResource* entry = nullptr;
  std::vector<Candidate> candidates;
};
struct Division {
  std::vector<Taken> entries;   // those with devices, and one that has lost all of them
  std::vector<Candidate> rest;  // advertised whole
};

// With perDevice: lists first, then counts, then the entry that takes what is left; else the entry takes all. Notes say
// what a list names that the node does not have.
Division divide(const config::Config& config, const std::string& name, std::vector<Candidate> candidates,
                std::vector<Problem>& problems, std::vector<std::string>& notes);

// Slots, policy and worth of each device; devices that hold no slot are left out.
void cut(const config::Config& config, Taken& taken, BaseResources& base);

// The resources that an entry's devices are advertised as: one, or by its names one for each of them.
std::vector<PlannedResource> resources_of(const config::Config& config, const Taken& taken,
                                          std::vector<Problem>& problems);

// "sharing.mps.resources[0].replicas"
std::string entry_path(const config::Config& config, const config::SharedResource& entry, std::string_view field);

}  // namespace tranche::plan
