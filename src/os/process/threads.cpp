#include "os/process/threads.h"

#include <dirent.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "os/files/files.h"
#include "os/process/process.h"

namespace tranche::os {
namespace {

constexpr std::size_t kMostThreads = 16;
constexpr std::size_t kLongestStat = 8192;
constexpr int kMostLists = 2;  // of its threads

bool is_alive(const std::string& folder) {
  const auto stat = parse_stat(read_file(folder + "/stat", kLongestStat).value_or(""));
  return stat && !stat->exiting;
}

std::vector<pid_t> threads_of(const std::string& process) {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir((process + "/task").c_str()), &::closedir);
  if (!folder) return threads;
  while (const dirent* entry = ::readdir(folder.get())) {
    const auto number = parse_unsigned(entry->d_name);
    if (!number) continue;
    if (threads.size() == kMostThreads) break;
    threads.push_back(static_cast<pid_t>(*number));
  }
  return threads;
}

}  // namespace

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  for (const auto& name : names_in("/proc"))
    if (const auto pid = parse_pid(name)) pids.push_back(*pid);
  std::ranges::sort(pids);
  return pids;
}

bool look_at_living_thread(pid_t pid, const LookAtThread& look, const std::string& proc) {
  const std::string process = fmt::format("{}/{}", proc, pid);
  if (look(process, pid) || is_alive(process)) return true;
  for (int list = 0; list < kMostLists; ++list) {
    for (const pid_t thread : threads_of(process)) {
      const std::string folder = fmt::format("{}/task/{}", process, thread);
      // Only a living thread's facts may replace those of the first.
      if (is_alive(folder) && (look(folder, thread) || is_alive(folder))) return true;
    }
  }
  return false;
}

std::vector<pid_t> namespaced_pids(pid_t pid) {
  const auto fd = open_pidfd(pid);
  if (!fd) return {};
  const auto info = read_file(fmt::format("/proc/self/fdinfo/{}", fd->get()), kLongestStat).value_or("");
  const bool has_pids = info.find("NSpid:") != std::string::npos;  // since Linux 5.5
  return parse_namespaced_pids(has_pids ? info : read_file(fmt::format("/proc/{}/status", pid)).value_or(""));
}

bool is_first_of_namespace(pid_t pid) {
  const auto pids = namespaced_pids(pid);
  return pids.size() > 1 && pids.back() == 1;
}

bool has_effective_capability(pid_t thread, unsigned capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, thread};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capget, &header, data) == 0 && (data[capability / 32].effective >> capability % 32 & 1U) != 0;
}

std::vector<pid_t> parse_namespaced_pids(std::string_view text) {
  constexpr std::string_view kKey = "NSpid:";
  constexpr std::uint64_t kMostPid = 4'194'304;
  std::vector<pid_t> pids;
  for (const auto line : lines_of(text)) {
    if (!line.starts_with(kKey)) continue;
    for (const auto word : words_of(line.substr(kKey.size()))) {
      const auto pid = parse_unsigned(word);
      if (!pid || *pid == 0 || *pid > kMostPid) return {};
      pids.push_back(static_cast<pid_t>(*pid));
    }
    return pids;
  }
  return pids;
}

// --- the weight of a control group -----------------------------------------------------------------------------------

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
