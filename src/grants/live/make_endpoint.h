#pragma once
// Has `tranche mps` open a grant's endpoint, `<mps-root>/pools/<pool>/endpoints/<grant>`, with the grant's limits,
// before kubelet gets the grant. kubelet asks for slots only when no container holds them, so everything that a former
// tenant left (its directory, its clients) is removed. May be called again. Any thread; blocks for 5 s at most.
#include <string>

#include "base/result.h"
#include "grants/allocate/grant.h"

namespace tranche::agent {

Status make_endpoint(const allocate::Paths& paths, const allocate::Grant& grant);

}  // namespace tranche::agent
