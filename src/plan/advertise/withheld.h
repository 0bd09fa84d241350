#pragma once
// Slots that kubelet sees but must not allocate, although they are not faulty: those that containers still hold from
// before a change of configuration, and those that the change cannot offer yet (src/grants/change). kubelet sees them
// as unhealthy, so it neither allocates them nor takes them from their holders. Pure.
#include <map>
#include <string>
#include <vector>

#include "plan/advertise/advertise.h"

namespace tranche::advertise {

// By resource and slot id, with the reason. A slot or resource that is not in the plan is advertised as long as it is
// listed here.
using Withheld = std::map<std::string, std::map<std::string, std::string>>;

std::vector<Advertised> advertise(const plan::Plan& plan, const Faults& faults, const Withheld& withheld);

// Why this slot must not be allocated now; nullptr = not withheld.
const std::string* reason_withheld(const Withheld& withheld, const std::string& resource, const std::string& slot);

}  // namespace tranche::advertise
