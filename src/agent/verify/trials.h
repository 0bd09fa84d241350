#pragma once
// Private to agent/verify: what is tried with one grant, and judged. The same wherever the probes run.
#include <optional>

#include "agent/verify/looks.h"
#include "agent/verify/probes.h"
#include "verify/deep.h"

namespace tranche::agent {

struct Trial {
  verify::DeepGrant worth;
  GrantHere grant;
  std::optional<GrantHere> neighbour;  // another slot of the same GPU
  bool observed = false;               // the guard only tells
};

void try_grant(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places, const Trial& trial,
               verify::Checks& checks);

}  // namespace tranche::agent
