#include "host/mps/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "host/process/exec_parts.h"

namespace tranche::host {
namespace {

// The two objects of posix_spawn, released at the end.
class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setpgroup(&attributes_, 0);  // Ctrl-C at a terminal reaches us alone
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void put(int fd, int target) { ::posix_spawn_file_actions_adddup2(&actions_, fd, target); }
  void close_from(int first) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, first); }
  int run(pid_t* pid, char* const* argv, char* const* env) {
    return ::posix_spawn(pid, argv[0], &actions_, &attributes_, argv, env);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<std::unique_ptr<Process>> launch(Loop& loop, const Launch& what, std::function<void(ExitNote)> on_exit) {
  TRY(const Fd input, duplicate_from(what.input, kAboveTargets));
  TRY(const Fd output, duplicate_from(what.output, kAboveTargets));
  Fd kept;
  if (what.kept >= 0) {
    TRY(kept, duplicate_from(what.kept, kAboveTargets));
  }
  auto words = what.argv;
  std::vector<std::string> settings;
  for (const auto& [name, value] : what.env) settings.push_back(name + '=' + value);

  SpawnPlan plan;
  plan.put(input.get(), 0);
  plan.put(output.get(), 1);
  plan.put(output.get(), 2);
  if (kept) plan.put(kept.get(), 3);
  plan.close_from(kept ? 4 : 3);
  pid_t pid = 0;
  if (const int err = plan.run(&pid, pointers_to(words).data(), pointers_to(settings).data()); err != 0) {
    return std::unexpected(error_from_errno(err, "cannot execute", what.argv[0]));
  }
  // Not reaped by anybody before it is adopted here, so the pid is its own.
  auto ref = process_ref(pid);
  auto process = ref ? Process::adopt(loop, *ref, std::move(on_exit)) : std::unexpected(ref.error());
  if (!process) kill_and_reap(pid);
  return process;
}

Result<Fd> memory_file(const char* name, const std::string& content) {
  Fd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) return std::unexpected(error_from_errno(errno, "cannot make a file in memory", name));
  std::size_t written = 0;
  while (written < content.size()) {
    const ssize_t n =
        ::pwrite(file.get(), content.data() + written, content.size() - written, static_cast<off_t>(written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::unexpected(error_from_errno(errno, "cannot write a file in memory", name));
    written += static_cast<std::size_t>(n);
  }
  return file;
}

}  // namespace tranche::host
