#pragma once
// Which grant a process belongs to, by the endpoint that its container has mounted: a tenant cannot change that through
// its environment (measured; docs/internals/decisions/0003-endpoint-per-grant.md). Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::containers {

struct Endpoint {
  std::string pool;
  std::string grant;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

bool is_grant(std::string_view name);  // 16 hexadecimal digits

// A directory, by its file system and its path there. The path at which a process sees it does not matter.
struct MountedDirectory {
  std::string device;  // "0:21"
  std::string path;    // "/nvidia/mps", from the root of the file system
  friend bool operator==(const MountedDirectory&, const MountedDirectory&) = default;
};

// `mountinfo`: the content of /proc/<pid>/mountinfo of a process that sees the directory at `path` (absolute, without
// symbolic links).
std::optional<MountedDirectory> mounted_at(std::string_view mountinfo, std::string_view path);

}  // namespace tranche::containers
