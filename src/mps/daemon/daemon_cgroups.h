#pragma once
// Names the cgroups for a daemon that has to outlive our container: one of its own in every hierarchy, because a
// runtime may track and end a container by any hierarchy. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace tranche::host {

inline constexpr const char* kCgroupRoot = "/sys/fs/cgroup";
inline constexpr const char* kNoCgroup = "none";  // --daemon-cgroup none: stay in our cgroups

// `self` is the text of /proc/self/cgroup. Version 2 alone: <root>/tranche/<pool>. Version 1, also mixed:
// <root>/<hierarchy>/tranche/<pool> for each, with the version 2 part of a mixed one in "unified". Malformed lines and
// names that would lead out of the root are skipped.
std::vector<std::string> daemon_cgroups(std::string_view self, const std::string& root, const std::string& pool);

}  // namespace tranche::host
