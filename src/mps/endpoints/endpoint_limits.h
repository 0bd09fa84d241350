#pragma once
// Where the limits of grants are kept: `<mps-root>/pools/<pool>/limits/<grant>`, and an empty file `<grant>.any-pod`
// for those that are for several pods; beside the doors and not in them, so that no container ever sees the file. It is
// written before the door listens and goes after it, so that there is never a door whose limits were forgotten. Loop
// thread only.
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "mps/limits/grant_limits.h"
#include "mps/protocol/requests.h"

namespace tranche::agent {

// nullopt: none were told. kInvalid: what is there is not what we wrote.
Result<std::optional<mps::GrantLimits>> read_door_limits(const allocate::Paths& paths, const DoorName& door);
Status write_door_limits(const allocate::Paths& paths, const DoorName& door, const mps::GrantLimits& limits);
// Whether clients of several pods may come in by it, as was said before.
bool kept_for_any_pod(const allocate::Paths& paths, const DoorName& door);
Status keep_for_any_pod(const allocate::Paths& paths, const DoorName& door, bool any_pod);
// And which pod the endpoint is for.
Status remove_door_limits(const allocate::Paths& paths, const DoorName& door);
// Those of a pool that belong to no door: of a start that was broken off. The first error; all are tried.
Status sweep_door_limits(const allocate::Paths& paths, const std::string& pool, const std::vector<std::string>& doors);

}  // namespace tranche::agent
