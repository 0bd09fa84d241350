#include "os/process/threads.h"

#include <dirent.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

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

std::optional<ProcStat> parse_stat(std::string_view text) {
  const auto begin = text.find('(');
  const auto end = text.rfind(')');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
  const auto fields = words_of(text.substr(end + 1));  // the first is field 3
  const auto parent = fields.size() > 1 ? parse_unsigned(fields[1]) : std::nullopt;
  if (!parent || *parent > 0x7fffffff) return std::nullopt;
  ProcStat stat{std::string(text.substr(begin + 1, end - begin - 1)), static_cast<std::uint32_t>(*parent),
                fields[0].front(), false};
  constexpr std::size_t kFlags = 9 - 3, kStartTime = 22 - 3;
  constexpr std::uint64_t kExiting = 0x4;
  if (fields.size() > kFlags) stat.exiting = (parse_unsigned(fields[kFlags]).value_or(0) & kExiting) != 0;
  if (fields.size() > kStartTime) stat.start_ticks = parse_unsigned(fields[kStartTime]);
  for (char& c : stat.name)
    if (c < ' ' || c > '~') c = '?';
  return stat;
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

}  // namespace tranche::os
