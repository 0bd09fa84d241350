#pragma once
// Which grant a process belongs to, from its mount table: its container has the grant's endpoint mounted, whatever the
// tenant does to its environment (measured; docs/internals/decisions/0003-endpoint-per-grant.md). The text comes from a
// tenant's mount namespace, so it is read as hostile: a tenant may mount things of its own under any name, but not from
// the file system and directory in which the endpoints lie, so these count and the names do not. Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::guard {

struct Endpoint {
  std::string pool;
  std::string grant;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// The MPS root as mount tables write it: an endpoint is `<root>/pools/<pool>/doors/<grant>` of that file system.
struct EndpointsAt {
  std::string device;  // "0:21"
  std::string root;    // "/nvidia/mps", from the root of the file system
  friend bool operator==(const EndpointsAt&, const EndpointsAt&) = default;
};

// From the mount table of a process that sees the MPS root at `mps_root` (absolute, without links in it).
std::optional<EndpointsAt> where_endpoints_are(std::string_view mountinfo, std::string_view mps_root);

// `mountinfo` is the content of /proc/<pid>/mountinfo; `at` is where endpoints are mounted in containers. Nothing when
// no line mounts an endpoint there, and when that endpoint was removed: its name may be the next tenant's. The last
// such mount counts: it is the one on top.
std::optional<Endpoint> endpoint_of_mountinfo(std::string_view mountinfo, std::string_view at,
                                              const EndpointsAt& endpoints);

}  // namespace tranche::guard
