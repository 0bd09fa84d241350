#pragma once
// Which grant a process belongs to, from its mount table: its container has the grant's door mounted, whatever the
// tenant does to its environment (measured; docs/decisions/0003-door-per-grant.md). The text comes from a tenant's
// mount namespace, so it is read as hostile. Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::guard {

struct Door {
  std::string pool;
  std::string grant;
  friend bool operator==(const Door&, const Door&) = default;
};

// `mountinfo` is the content of /proc/<pid>/mountinfo; `at` is where doors are mounted in containers. Nothing when no
// line mounts a door there. The last such mount counts: it is the one on top.
std::optional<Door> door_of_mountinfo(std::string_view mountinfo, std::string_view at);

}  // namespace tranche::guard
