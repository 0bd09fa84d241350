#pragma once
// Where the limits of grants are kept: `<mps-root>/pools/<pool>/limits/<grant>`, an empty file `<grant>.any-pod`
// for those that are for several pods, or a file `<grant>.pod` with the UID of the only pod; beside the endpoints and
// not in them, so that no container ever sees the file. It is written before the endpoint listens and goes after it, so
// that there is never an endpoint whose limits were forgotten. Loop thread only.
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "mps/protocol/grant_limits.h"
#include "mps/protocol/requests.h"

namespace tranche::agent {

// nullopt: the grant has no limits of its own. kInvalid: the file does not have the format that we write.
Result<std::optional<mps::GrantLimits>> read_endpoint_limits(const allocate::Paths& paths,
                                                             const EndpointName& endpoint);
Status write_endpoint_limits(const allocate::Paths& paths, const EndpointName& endpoint,
                             const mps::GrantLimits& limits);
// Whether clients of several pods may use the endpoint, as stored before.
bool kept_for_any_pod(const allocate::Paths& paths, const EndpointName& endpoint);
Status keep_for_any_pod(const allocate::Paths& paths, const EndpointName& endpoint, bool any_pod);
// UID of the only pod whose clients may come in by it; "": that was not said.
std::string kept_pod(const allocate::Paths& paths, const EndpointName& endpoint);
Status keep_pod(const allocate::Paths& paths, const EndpointName& endpoint, const std::string& uid);
// And which pod the endpoint is for.
Status remove_endpoint_limits(const allocate::Paths& paths, const EndpointName& endpoint);
// Removes files of the pool that belong to no endpoint, which an interrupted start leaves. Tries all; returns the first
// error.
Status sweep_endpoint_limits(const allocate::Paths& paths, const std::string& pool,
                             const std::vector<std::string>& endpoints);

}  // namespace tranche::agent
