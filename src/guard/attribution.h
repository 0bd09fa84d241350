#pragma once
// Which grant a process belongs to, from its mount table: its container has the grant's endpoint mounted, and a tenant
// cannot change that through its environment (measured; docs/internals/decisions/0003-endpoint-per-grant.md). The text
// comes from a tenant's mount namespace and is not trusted: a tenant may mount its own files under any name, but not
// from the file system and directory of the endpoints, so these are compared and names are not. Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::guard {

struct Endpoint {
  std::string pool;
  std::string grant;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// The MPS root as mount tables write it: an endpoint is `<root>/pools/<pool>/endpoints/<grant>` of that file system.
struct EndpointsAt {
  std::string device;  // "0:21"
  std::string root;    // "/nvidia/mps", from the root of the file system
  friend bool operator==(const EndpointsAt&, const EndpointsAt&) = default;
};

// From the mount table of a process that sees the MPS root at `mps_root` (absolute, without symbolic links).
std::optional<EndpointsAt> where_endpoints_are(std::string_view mountinfo, std::string_view mps_root);

// `mountinfo` is the content of /proc/<pid>/mountinfo; `at` is where endpoints are mounted in containers. Absent if no
// line mounts an endpoint there, or if that endpoint was removed: its name may belong to the next tenant. If several
// lines do, the last mount is on top and counts.
std::optional<Endpoint> endpoint_of_mountinfo(std::string_view mountinfo, std::string_view at,
                                              const EndpointsAt& endpoints);

}  // namespace tranche::guard
