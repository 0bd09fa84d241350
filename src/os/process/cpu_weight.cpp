#include "os/process/cpu_weight.h"

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::os {

std::vector<std::string> cpu_weight_files(std::string_view cgroup) {
  std::string_view path;
  bool shares = false;  // version 1, in a mixed one too
  for (const auto line : lines_of(cgroup)) {
    const auto fields = split(line, ':');  // <hierarchy>:<controllers>:<path>, which may hold colons (cgroups(7))
    if (fields.size() < 3) continue;
    const bool has_cpu = ("," + std::string(fields[1]) + ",").find(",cpu,") != std::string::npos;
    if (!has_cpu && (shares || !fields[1].empty())) continue;
    shares = has_cpu;
    path = line.substr(fields[0].size() + fields[1].size() + 2);
  }
  if (!path.starts_with('/') || path.find("/..") != std::string_view::npos) return {};
  const std::string root = shares ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup";
  const std::string name = shares ? "/cpu.shares" : "/cpu.weight";
  return {root + std::string(path) + name, root + name};
}

std::string cpu_weight_problem(std::string_view file, std::string_view text) {
  // kubelet makes 102 shares of 100m. In version 2 the weight is 4 by the formula of Kubernetes' KEP-2254,
  // 1 + (shares - 2) * 9999 / 262142, and 17 by that of runc 1.3.2 and crun 1.23 (opencontainers/cgroups#20). Which one
  // the runtime has cannot be seen here, so 4 is enough.
  const std::string_view name = file.substr(file.rfind('/') + 1);
  const auto weight = parse_unsigned(trimmed(text));
  if (!weight || *weight >= (name == "cpu.shares" ? 102 : 4)) return {};
  return "its control group has " + std::string(name) + " " + std::to_string(*weight) +
         ", less than a CPU request of 100m gives: it is late beside busy programs";
}

std::string own_cpu_weight_problem(const std::string& root) {
  constexpr std::size_t kMost = 64 << 10;
  for (const auto& file : cpu_weight_files(read_file(root + "/proc/self/cgroup", kMost).value_or("")))
    if (const auto text = read_file(root + file, kMost)) return cpu_weight_problem(file, *text);
  return {};
}

}  // namespace tranche::os
