// vfork and exec by hand: posix_spawn cannot set a death signal, close unknown descriptors, or enter a namespace.
// Between the two the child runs in our memory while our thread waits, so child_side() makes only system calls on
// values that were prepared before.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
// glibc 2.36 declares these without a C++ guard.
extern "C" {
#include <sys/pidfd.h>
}

#include <cerrno>
#include <vector>

#include "base/text.h"
#include "os/process/process.h"

namespace tranche::os {
namespace {

// The child's report if it does not execute the program.
struct Failure {
  int step = -1;  // of before_exec; -1 = a step of every child
  int error = 0;
};

// Everything that the child needs; it only reads it.
struct ChildPlan {
  const Command& command;  // its descriptors become 0 to 3, and are none of these; the last may be -1
  char* const* argv = nullptr;
  char* const* env = nullptr;
  int failure = -1;  // receives a Failure if exec fails; closed by exec
  pid_t parent = 0;
};

[[noreturn]] void give_up(const ChildPlan& plan, int step = -1) {
  const Failure failure{step, errno};
  [[maybe_unused]] const auto written = ::write(plan.failure, &failure, sizeof failure);
  ::_exit(127);
}

// Keeps only descriptors below `first` and `failure`: a daemon that runs for weeks must not hold our sockets, locks or
// device files. Kernels before 5.9 lack the call; there only close-on-exec applies.
void close_from(unsigned first, int failure) {
  const auto kept = static_cast<unsigned>(failure);
  if (kept > first) ::syscall(SYS_close_range, first, kept - 1, 0u);
  ::syscall(SYS_close_range, kept + 1, ~0u, 0u);
}

[[noreturn]] void child_side(const ChildPlan& plan) {
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  const Command& command = plan.command;
  for (std::size_t step = 0; step < command.before_exec.size(); ++step)
    if (!command.before_exec[step].run()) give_up(plan, static_cast<int>(step));
  if (command.die_with_parent) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(plan);
    if (::getppid() != plan.parent) ::_exit(127);  // the parent exited before the line above
  }
  if (!command.foreground) ::setpgid(0, 0);  // fails for a process that already leads a session, which is fine
  if (::dup2(command.input, 0) < 0 || ::dup2(command.output, 1) < 0 || ::dup2(command.errors, 2) < 0) give_up(plan);
  if (command.kept >= 0 && ::dup2(command.kept, 3) < 0) give_up(plan);
  close_from(command.kept >= 0 ? 4 : 3, plan.failure);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!command.work_dir.empty() && ::chdir(command.work_dir.c_str()) != 0) give_up(plan);
  ::execve(plan.argv[0], plan.argv, plan.env);
  give_up(plan);
}

// nullptr: a child that exits at once. In a function of its own, so that no value of the caller's frame is in a
// register across the second return.
[[gnu::noinline]] pid_t start_child(const ChildPlan* plan) {
  const pid_t pid = ::vfork();
  if (pid == 0 && plan == nullptr) ::_exit(0);
  if (pid == 0) child_side(*plan);
  return pid;
}

// No handler of ours may run in the child while it shares our memory.
pid_t start_with_signals_blocked(const ChildPlan* plan) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = start_child(plan);
  const int err = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = err;
  return pid;
}

// The descriptors that become 0 to 3 must not be among these themselves, because one dup2 would overwrite the next.
// -1: none.
Result<Fd> above_targets(int fd) {
  if (fd < 0) return Fd();
  Fd duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, 4));
  if (!duplicate) return fail_errno("cannot start a process", "fcntl");
  return duplicate;
}

// A file in memory that holds `content`; who gets it reads and writes at its beginning.
Result<Fd> memory_file(std::string_view content) {
  Fd file(::memfd_create("tranche", MFD_CLOEXEC));
  if (!file) return fail_errno("cannot start a process", "memfd_create");
  if (::pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()))
    return fail_errno("cannot start a process", "memfd");
  return file;
}

// Arguments for execve: pointers and a final null pointer, valid while `strings` is unchanged.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (auto& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Status check(const Command& command) {
  if (command.argv.empty() || command.argv[0].empty()) return fail(Kind::kInvalid, "a command without a program");
  const auto has_zero = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  for (const auto& word : command.argv) {
    if (has_zero(word)) return fail(Kind::kInvalid, "an argument contains a zero byte", command.argv[0]);
  }
  for (const auto& [name, value] : command.env) {
    if (name.empty() || name.find('=') != std::string::npos || has_zero(name) || has_zero(value)) {
      return fail(Kind::kInvalid, "an environment variable that no program could read: " + name, command.argv[0]);
    }
  }
  return {};
}

void reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::string program_in_path(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return name;
  for (const auto folder : split(path, ':'))
    if (std::string found = std::string(folder) + "/" + name; !folder.empty() && ::access(found.c_str(), X_OK) == 0)
      return found;
  return {};
}

Result<Fd> open_pidfd(pid_t pid) {
  Fd fd(::pidfd_open(pid, 0));
  if (!fd) {
    // EINVAL: the number is a thread's, or not a valid pid.
    const int err = errno == EINVAL ? ESRCH : errno;
    return fail_errno("cannot watch a process", "pid " + std::to_string(pid), err);
  }
  return fd;
}

std::optional<ExitedChild> ExitedChild::start() {
  const pid_t pid = start_with_signals_blocked(nullptr);
  return pid < 0 ? std::nullopt : std::optional(ExitedChild(pid));
}

ExitedChild::~ExitedChild() {
  if (pid_ > 0) reap(pid_);
}

Result<std::unique_ptr<Process>> Process::start(Loop& loop, const Command& command,
                                                std::function<void(ExitNote)> on_exit) {
  TRY_STATUS(check(command));
  const std::string& path = command.argv[0];
  Command child = command;
  std::vector<std::string> settings;
  for (const auto& [name, value] : command.env) settings.push_back(name + "=" + value);
  const auto argv = pointers_to(child.argv);
  const auto env = pointers_to(settings);

  TRY(const Fd text, memory_file(command.text));
  TRY(const Fd in, above_targets(command.input >= 0 ? command.input : text.get()));
  TRY(Fd out, above_targets(command.output));
  Fd output;
  if (!out) {
    TRY(output, memory_file(""));
    TRY(out, above_targets(output.get()));
  }
  TRY(const Fd kept, above_targets(command.kept));
  TRY(const Fd errors, above_targets(command.errors));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot start a process", "pipe2");
  const Fd failure(ends[0]);
  Fd low(ends[1]);
  TRY(Fd report, above_targets(low.get()));
  low.reset();

  child.input = in.get();
  child.output = out.get();
  child.errors = errors ? errors.get() : out.get();
  child.kept = kept.get();
  const ChildPlan plan{child, argv.data(), env.data(), report.get(), ::getpid()};
  const pid_t pid = start_with_signals_blocked(&plan);
  if (pid < 0) return fail_errno("cannot start a process", path);
  report.reset();
  Failure failed;
  ssize_t got = 0;
  while ((got = ::read(failure.get(), &failed, sizeof failed)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof failed)) {
    reap(pid);
    if (failed.step < 0) return fail_errno("cannot execute", path, failed.error);
    const auto& step = command.before_exec[static_cast<std::size_t>(failed.step)];
    return fail_errno(step.what, step.where.empty() ? path : step.where, failed.error);
  }
  // Our child, and not reaped yet: the pid is still its own, even if it has exited.
  auto pidfd = open_pidfd(pid);
  if (!pidfd) {
    ::kill(pid, SIGKILL);
    reap(pid);
    return std::unexpected(within(std::move(pidfd).error(), path));
  }
  std::unique_ptr<Process> process(
      new Process(loop, process_ref(pid).value_or(ProcessRef{pid, 0}), *std::move(pidfd), true));
  process->output_ = std::move(output);
  process->kill_on_drop_ = command.kill_on_drop;
  if (const auto watched = process->watch(std::move(on_exit)); !watched) {
    (void)process->signal(SIGKILL);  // without a watch it would never be reaped
    return std::unexpected(within(watched.error(), path));
  }
  return process;
}

}  // namespace tranche::os
