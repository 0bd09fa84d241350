#pragma once
// Private to doctor/verify/live: what is tried with one grant, and judged. The same wherever the probes run.
#include <optional>

#include "doctor/verify/deep.h"
#include "doctor/verify/live/looks.h"
#include "doctor/verify/live/probes.h"

namespace tranche::agent {

struct Trial {
  verify::DeepGrant expected;
  GrantHere grant;
  std::optional<GrantHere> neighbour;   // a different slot of the same GPU
  bool observed = false;                // the guard only reports
  std::string deaths_not_covered = {};  // why the node agent says that a client's death can hurt others
};

void try_grant(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places, const Trial& trial,
               verify::Checks& checks);
// "deep.deaths". A death can harm other pods' clients where tranche-keeper does not hold the client: then it is not
// tried beside them.
void try_deaths(Probes& probes, const VerifyPlaces& places, const Trial& trial, bool tensor_cores,
                verify::Checks& checks);

}  // namespace tranche::agent
