#pragma once
// Inside plan/: which devices of a resource each entry of the sharing sections uses, and into which resources it
// divides them. Contradictions (a GPU in two entries, slots below the driver's minimum) are Problems.
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

// With perDevice: lists first, then counts, then the entry for the rest; otherwise the entry gets all devices.
// Listed devices that the node does not have are warnings.
Division divide(const config::Config& config, const std::string& name, std::vector<Candidate> candidates,
                std::vector<Problem>& problems, std::vector<std::string>& notes);

// Slots, policy and limits of each device; devices without a slot are omitted.
void cut(const config::Config& config, Taken& taken, BaseResources& base);

// The resources that advertise an entry's devices: one, or with a name pattern one for each of them.
std::vector<PlannedResource> resources_of(const config::Config& config, const Taken& taken,
                                          std::vector<Problem>& problems);

// A Problem of a field of an entry: "sharing.mps.resources[0].replicas".
Problem entry_problem(const config::Config& config, const config::SharedResource& entry, std::string_view field,
                      std::string what, std::string remedy, Severity severity = Severity::kError);

}  // namespace tranche::plan
