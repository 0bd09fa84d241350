#pragma once
// Slots that are shown to kubelet and not handed out, though nothing is wrong with them: what a change of configuration
// leaves held of before, and what it may not give yet (src/grants/change). They are unhealthy for kubelet, which then
// neither gives them anew nor takes them from who holds them. Pure.
#include <map>
#include <string>
#include <vector>

#include "plan/advertise/advertise.h"

namespace tranche::advertise {

// By resource and slot id, with the reason. One that the plan does not have is shown as long as it stands here, and so
// is a resource that only stands here.
using Withheld = std::map<std::string, std::map<std::string, std::string>>;

std::vector<Advertised> advertise(const plan::Plan& plan, const Faults& faults, const Withheld& withheld);

// Why this slot is not handed out now; nullptr = nothing here keeps it.
const std::string* reason_withheld(const Withheld& withheld, const std::string& resource, const std::string& slot);

}  // namespace tranche::advertise
