#include "host/mps/daemon_home.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "base/text.h"
#include "host/files/files.h"
#include "host/mps/daemon_cgroups.h"
#include "host/mps/driver_libraries.h"
#include "host/process/exec_parts.h"

namespace tranche::host {
namespace {

// Which step of the child failed; the rest of what it says is an errno.
enum Step : int { kSession, kMountNamespace, kCgroupNamespace, kCgroup, kDescriptors, kExecute };
struct ChildWord {
  int step = 0;
  int error = 0;
};
constexpr std::array kStepWords{"cannot give the daemon a session of its own",
                                "cannot enter the host's mount namespace (the container needs CAP_SYS_ADMIN)",
                                "cannot enter the host's cgroup namespace",
                                "cannot put the daemon into a cgroup of its own",
                                "cannot prepare the daemon's descriptors",
                                "cannot execute"};

bool same_namespace(const char* a, const char* b) {
  struct stat left{};
  struct stat right{};
  return ::stat(a, &left) == 0 && ::stat(b, &right) == 0 && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

struct CgroupPath {
  std::string parent;  // "…/tranche"
  std::string dir;     // "…/tranche/gpu-3f2a1b4c"
};

// Everything that the child uses, made before it: between fork and exec it may only make system calls.
struct Prepared {
  int input = -1, output = -1, kept = -1;  // above the targets
  int mounts = -1, cgroups = -1;           // namespaces to enter; -1 = it is there
  int word = -1;                           // for ChildWord; closed by a successful exec
  std::vector<CgroupPath> dirs;
  std::vector<char*> argv, env;
};

void say_and_end(const Prepared& p, Step step) {
  const ChildWord word{step, errno};
  (void)!::write(p.word, &word, sizeof word);
  ::_exit(127);
}

// A cgroup of version 1's cpuset takes nobody before it has processors and memory nodes: those of its parent.
void inherit(int dir, const char* file, const char* parents) {
  char have[2] = {};
  const int own = ::openat(dir, file, O_RDWR | O_CLOEXEC);
  if (own < 0) return;
  if (::read(own, have, sizeof have) > 0 && have[0] != '\n') {
    ::close(own);
    return;
  }
  char text[4096];
  const int from = ::openat(dir, parents, O_RDONLY | O_CLOEXEC);
  const ssize_t length = from < 0 ? 0 : ::read(from, text, sizeof text);
  if (length > 0) (void)!::pwrite(own, text, static_cast<std::size_t>(length), 0);
  if (from >= 0) ::close(from);
  ::close(own);
}

bool enter_cgroup(const CgroupPath& path) {
  int procs = -1;
  for (const char* level : {path.parent.c_str(), path.dir.c_str()}) {
    if (::mkdir(level, 0755) != 0 && errno != EEXIST) return false;
    const int dir = ::open(level, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return false;
    inherit(dir, "cpuset.cpus", "../cpuset.cpus");
    inherit(dir, "cpuset.mems", "../cpuset.mems");
    if (level == path.dir.c_str()) procs = ::openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    ::close(dir);
  }
  if (procs < 0) return false;
  const bool in = ::write(procs, "0\n", 2) == 2;  // 0 = who writes
  ::close(procs);
  return in;
}

[[noreturn]] void become_daemon(const Prepared& p) {
  if (::setsid() < 0) say_and_end(p, kSession);
  if (p.cgroups >= 0 && ::setns(p.cgroups, CLONE_NEWCGROUP) != 0) say_and_end(p, kCgroupNamespace);
  if (p.mounts >= 0 && ::setns(p.mounts, CLONE_NEWNS) != 0) say_and_end(p, kMountNamespace);
  for (const auto& path : p.dirs)
    if (!enter_cgroup(path)) say_and_end(p, kCgroup);

  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(p.input, 0) < 0 || ::dup2(p.output, 1) < 0 || ::dup2(p.output, 2) < 0) say_and_end(p, kDescriptors);
  if (p.kept >= 0 && ::dup2(p.kept, 3) < 0) say_and_end(p, kDescriptors);
  // All others but the one that tells of a failed exec; that one is closed by exec.
  const unsigned first = p.kept >= 0 ? 4 : 3;
  const auto word = static_cast<unsigned>(p.word);
  if (word > first) ::close_range(first, word - 1, 0);
  ::close_range(word + 1, ~0u, 0);
  ::execve(p.argv[0], p.argv.data(), p.env.data());
  say_and_end(p, kExecute);
  ::_exit(127);
}

// Invalid when it is the one that we are in.
Result<Fd> other_namespace(const DaemonHome& home, const char* name) {
  const std::string init = "/proc/" + std::to_string(home.host_pid) + "/ns/" + name;
  const std::string own = std::string("/proc/self/ns/") + name;
  if (same_namespace(init.c_str(), own.c_str())) return Fd();
  Fd opened(::open(init.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return std::unexpected(error_from_errno(errno, "cannot open the host's namespace", init));
  return duplicate_from(opened.get(), kAboveTargets);
}

std::vector<CgroupPath> cgroups_of(const DaemonHome& home, const std::string& pool) {
  if (home.cgroup == kNoCgroup) return {};
  std::vector<CgroupPath> paths;
  const auto dirs = home.cgroup.empty() ? daemon_cgroups(read_file("/proc/self/cgroup").value_or(""), kCgroupRoot, pool)
                                        : std::vector<std::string>{home.cgroup + "/" + pool};
  for (const auto& dir : dirs) paths.push_back({dir.substr(0, dir.rfind('/')), dir});
  return paths;
}

Result<std::unique_ptr<Process>> launch_on_host(Loop& loop, const DaemonHome& home, const std::string& pool,
                                                const Launch& what, std::function<void(ExitNote)> on_exit) {
  TRY(const Fd input, duplicate_from(what.input, kAboveTargets));
  TRY(const Fd output, duplicate_from(what.output, kAboveTargets));
  Fd kept;
  if (what.kept >= 0) {
    TRY(kept, duplicate_from(what.kept, kAboveTargets));
  }
  TRY(const Fd mounts, other_namespace(home, "mnt"));
  TRY(const Fd cgroups, other_namespace(home, "cgroup"));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(error_from_errno(errno, "cannot start a process", "pipe2"));
  const Fd hear(ends[0]);
  Fd said(ends[1]);
  TRY(Fd word, duplicate_from(said.get(), kAboveTargets));
  said.reset();

  auto words = what.argv;
  std::vector<std::string> settings;
  for (const auto& [name, value] : what.env) settings.push_back(name + '=' + value);
  Prepared prepared{.input = input.get(),
                    .output = output.get(),
                    .kept = kept ? kept.get() : -1,
                    .mounts = mounts ? mounts.get() : -1,
                    .cgroups = cgroups ? cgroups.get() : -1,
                    .word = word.get(),
                    .dirs = cgroups_of(home, pool),
                    .argv = pointers_to(words),
                    .env = pointers_to(settings)};
  // A signal that came between fork and exec would run our handlers in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::_Fork();  // runs no handlers of fork; the child makes system calls only
  if (pid == 0) become_daemon(prepared);
  const int failed = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return std::unexpected(error_from_errno(failed, "cannot start a process", "fork"));
  word.reset();
  ChildWord child;
  ssize_t heard = 0;
  do {
    heard = ::read(hear.get(), &child, sizeof child);  // ends with exec or with the child
  } while (heard < 0 && errno == EINTR);
  const auto reap = [pid] {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  };
  if (heard != 0) {
    reap();
    const auto step = static_cast<std::size_t>(child.step);
    const bool known = heard == sizeof child && step < kStepWords.size();
    return std::unexpected(
        error_from_errno(known ? child.error : EIO, known ? kStepWords[step] : "cannot start a process",
                         step == kCgroup && !prepared.dirs.empty() ? prepared.dirs.front().dir : what.argv.front()));
  }
  auto ref = process_ref(pid);
  auto process = ref ? Process::adopt(loop, *ref, std::move(on_exit)) : std::unexpected(ref.error());
  if (!process) reap();
  return process;
}

}  // namespace

Status check_home(const DaemonHome& home) {
  if (!home.host) return {};
  if (::getpid() == 1)
    return fail(
        Kind::kUnsupported,
        "--daemon-home host: this program is process 1 of its own process namespace, whose processes all end with "
        "it; give the pod hostPID: true");
  for (const char* name : {"mnt", "cgroup"}) {
    if (const auto opened = other_namespace(home, name); !opened) {
      return std::unexpected(within(opened.error(),
                                    "--daemon-home host needs hostPID: true and a privileged container (CAP_SYS_ADMIN, "
                                    "CAP_SYS_PTRACE)"));
    }
  }
  return {};
}

std::string program_at_home(const DaemonHome& home, const std::string& path) {
  const std::string& here = home.driver_root_here;
  if (!home.host || here.empty() || here == "/" || !path.starts_with(here + "/")) return path;
  return (home.driver_root == "/" ? "" : home.driver_root) + path.substr(here.size());
}

std::map<std::string, std::string> environment_at_home(const DaemonHome& home,
                                                       const std::map<std::string, std::string>& env) {
  auto there = env;
  if (!home.host) return there;
  // Ours name the container's folders.
  there["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  there.erase("LD_LIBRARY_PATH");
  // Never the root's own folders: another C library lies there (host/mps/driver_libraries.h).
  if (home.driver_root != "/" && !home.driver_root.empty())
    there["LD_LIBRARY_PATH"] = home.mps_root + "/" + kHostsDriverLibraries;
  return there;
}

Result<std::unique_ptr<Process>> launch_at_home(Loop& loop, const DaemonHome& home, const std::string& pool,
                                                const Launch& what, std::function<void(ExitNote)> on_exit) {
  if (!home.host) return launch(loop, what, std::move(on_exit));
  return launch_on_host(loop, home, pool, what, std::move(on_exit));
}

}  // namespace tranche::host
