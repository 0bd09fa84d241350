#pragma once
// Into which cgroups a daemon goes that is to outlive our container: one of its own in every hierarchy, since a runtime
// ends a container by whatever hierarchy it tracks it by. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace tranche::host {

inline constexpr const char* kCgroupRoot = "/sys/fs/cgroup";
inline constexpr const char* kNoCgroup = "none";  // --daemon-cgroup none: stay where we are

// `self` is /proc/self/cgroup. Version 2 alone: <root>/tranche/<pool>; version 1, also mixed:
// <root>/<hierarchy>/tranche/ <pool> for each, the mixed one's version 2 part in "unified". Lines that are none, and
// names that would lead out of the root, are passed over.
std::vector<std::string> daemon_cgroups(std::string_view self, const std::string& root, const std::string& pool);

}  // namespace tranche::host
