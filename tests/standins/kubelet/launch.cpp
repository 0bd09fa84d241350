#include "standins/kubelet/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

namespace tranche::sim {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  ~Pipe() {
    if (read_end >= 0) ::close(read_end);
    if (write_end >= 0) ::close(write_end);
  }
  bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return ::fcntl(read_end, F_SETFL, O_NONBLOCK) == 0;
  }
  int keep_read_end() { return std::exchange(read_end, -1); }
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> init_arguments(const ContainerCommand& command, const ContainerGrant& grant,
                                        ContainerMode mode) {
  std::vector<std::string> argv = {"sim-kubelet", kContainerInit, std::to_string(::getpid())};
  if (mode == ContainerMode::kNamespaces) {
    argv.emplace_back("--namespace");
    for (const auto& mount : grant.mounts) {
      argv.insert(argv.end(), {mount.read_only ? "--mount-ro" : "--mount", mount.host_path, mount.container_path});
    }
    for (const auto& node : grant.devices) argv.insert(argv.end(), {"--mount", node.host_path, node.container_path});
  }
  argv.emplace_back("--");
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  return argv;
}

}  // namespace

Result<Started> start_process(const ContainerCommand& command, const ContainerGrant& grant, ContainerMode mode) {
  if (mode == ContainerMode::kProcess) {
    // A runtime refuses a container with impossible mounts, so this does too, although it makes none.
    for (const auto& mount : grant.mounts) {
      if (::access(mount.host_path.c_str(), F_OK) != 0) {
        return fail(Kind::kNotFound,
                    fmt::format("cannot mount on {}: the host path does not exist", mount.container_path),
                    mount.host_path);
      }
    }
  }
  Pipe output;
  Pipe error;
  if (!output.open() || !error.open()) return std::unexpected(error_from_errno(errno, "cannot create", "a pipe"));
  const std::vector<std::string> argv = init_arguments(command, grant, mode);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  // The error pipe's end may itself be 1, 2 or 3 if the parent's were closed; a descriptor above them is always free.
  const int error_end = ::fcntl(error.write_end, F_DUPFD_CLOEXEC, 10);
  const int output_end = ::fcntl(output.write_end, F_DUPFD_CLOEXEC, 10);
  ::posix_spawn_file_actions_adddup2(&files, output_end, 1);
  ::posix_spawn_file_actions_adddup2(&files, output_end, 2);
  ::posix_spawn_file_actions_adddup2(&files, error_end, kStartErrorFd);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int err =
      ::posix_spawn(&pid, "/proc/self/exe", &files, &attributes, pointers(argv).data(), pointers(command.env).data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  ::close(error_end);
  ::close(output_end);
  if (err != 0) return std::unexpected(error_from_errno(err, "cannot start", "/proc/self/exe"));
  return Started{.pid = pid, .output_fd = output.keep_read_end(), .error_fd = error.keep_read_end()};
}

}  // namespace tranche::sim
