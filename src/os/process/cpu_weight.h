#pragma once
// Whether the kernel gives a program too little CPU time beside busy ones: Kubernetes makes the CPU weight of a
// container's control group from its CPU request. The first two functions are pure, and fuzzed.
#include <string>
#include <string_view>
#include <vector>

namespace tranche::os {

// From the text of /proc/<pid>/cgroup: the first of these files that exists has the weight. A container without a
// cgroup namespace sees its own group at the root. Empty: the process is in no group, or in one outside the root.
std::vector<std::string> cpu_weight_files(std::string_view cgroup);
// Of the text of such a file. "" = it is as much as a CPU request of 100m gives, or is not a number.
std::string cpu_weight_problem(std::string_view file, std::string_view text);
// Of this process; `root` is a prefix of every path. "" also where no group has a weight.
std::string own_cpu_weight_problem(const std::string& root = "");

}  // namespace tranche::os
