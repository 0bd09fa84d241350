#include "host/survival/survival.h"

#include <dirent.h>
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <memory>
#include <optional>

#include "base/text.h"
#include "host/files/files.h"

namespace tranche::host {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kMostThreads = 1024;
// SIGTERM is the default; nginx has SIGQUIT, systemd SIGRTMIN+3, others SIGUSR1 or SIGUSR2.
constexpr std::array kUsualStopSignals{SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, 37};

Result<std::string> read_of(const std::string& proc, pid_t pid, std::string_view name) {
  return read_file(fmt::format("{}/{}/{}", proc, pid, name));
}

// /proc lists what runs when it is read, so it must be read from a directory of its own, not by Dir's held one.
Result<std::vector<std::string>> threads_of(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) return std::unexpected(error_from_errno(errno, "cannot list", path));
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (parse_unsigned(entry->d_name)) names.emplace_back(entry->d_name);
  }
  if (names.size() > kMostThreads) return fail(Kind::kInvalid, "too many threads", path);
  return names;
}

Result<pid_t> common_init(std::span<const pid_t> clients, const std::string& proc) {
  std::optional<pid_t> common;
  for (const pid_t client : clients) {
    TRY(const auto init, container_init(client, proc));
    if (common && *common != init) return fail(Kind::kConflict, "its clients are in different containers");
    common = init;
  }
  if (!common) return fail(Kind::kNotFound, "none of its processes is known");
  return *common;
}

}  // namespace

Result<pid_t> container_init(pid_t client, const std::string& proc) {
  TRY(const auto cgroup, read_of(proc, client, "cgroup"));
  pid_t pid = client;
  for (int depth = 0; depth < kDeepest; ++depth) {
    TRY(const auto status, read_of(proc, pid, "status"));
    const auto place = stopping::place_of(status);
    if (!place) return fail(Kind::kInvalid, "cannot read the place among processes", fmt::format("{}/{}", proc, pid));
    if (stopping::is_init(*place)) {
      TRY(const auto its_cgroup, read_of(proc, pid, "cgroup"));
      if (its_cgroup != cgroup) return fail(Kind::kNotFound, "PID 1 of its namespace is not its container's own");
      return pid;
    }
    if (place->namespaced.size() < 2 || place->parent <= 0) break;
    pid = static_cast<pid_t>(place->parent);
  }
  return fail(Kind::kNotFound, "its first process is not PID 1 of a namespace of its own");
}

Result<stopping::InitTexts> read_init(pid_t init, const std::string& proc) {
  stopping::InitTexts texts;
  TRY(texts.status, read_of(proc, init, "status"));
  const std::string folder = fmt::format("{}/{}/task", proc, init);
  TRY(const auto threads, threads_of(folder));
  for (const auto& thread : threads) {
    TRY(auto status, read_file(folder + "/" + thread + "/status"));
    TRY(auto syscall, read_file(folder + "/" + thread + "/syscall"));
    texts.threads.push_back({std::move(status), std::move(syscall)});
  }
  return texts;
}

stopping::Survival container_survives(std::span<const pid_t> clients, int stop_signal, const std::string& proc) {
  const auto init = common_init(clients, proc);
  if (!init) return {false, to_string(init.error())};
  const auto texts = read_init(*init, proc);
  if (!texts) return {false, to_string(texts.error())};
  const auto machine = stopping::this_machine();
  if (stop_signal != 0) return stopping::survives(*texts, stop_signal, machine);
  stopping::Survival verdict;
  for (const int usual : kUsualStopSignals) {
    verdict = stopping::survives(*texts, usual, machine);
    if (!verdict.survives) return verdict;
  }
  return verdict;
}

}  // namespace tranche::host
