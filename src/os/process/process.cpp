#include "os/process/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>
extern "C" {
#include <sys/pidfd.h>
}

#include <cerrno>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "os/process/threads.h"

namespace tranche::os {
namespace {

constexpr std::uint64_t kMostPid = std::numeric_limits<pid_t>::max();

// How it ended. A process that is not our child (ECHILD) is reaped by its own parent, which alone gets its exit status.
ExitNote reap(const Fd& pidfd) {
  siginfo_t info{};
  const auto handle = static_cast<id_t>(pidfd.get());
  if (::waitid(static_cast<idtype_t>(P_PIDFD), handle, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
    return {.signalled = false, .code = -1};
  return {.signalled = info.si_code != CLD_EXITED, .code = info.si_status};
}

}  // namespace

Process::Process(Loop& loop, ProcessRef ref, Fd pidfd, bool is_our_child)
    : loop_(loop), ref_(ref), pidfd_(std::move(pidfd)), is_our_child_(is_our_child) {}

Status Process::watch(std::function<void(ExitNote)> on_exit) {
  on_exit_ = std::move(on_exit);
  watch_ = loop_.watch(pidfd_.get(), EPOLLIN, [this](std::uint32_t) { ended(); });
  if (watch_ == 0) return fail(Kind::kUnavailable, "the event loop refuses to watch a process");
  return {};
}

void Process::ended() {
  loop_.cancel(std::exchange(watch_, 0));
  const ExitNote note = reap(pidfd_);
  pidfd_.reset();  // another process may reuse the pid now
  const auto on_exit = std::exchange(on_exit_, {});
  if (on_exit) on_exit(note);  // may destroy this
}

// A child that lives on is reaped when it exits.
Process::~Process() {
  if (kill_on_drop_) (void)signal(SIGKILL);
  loop_.cancel(watch_);
  if (!pidfd_ || !is_our_child_) return;
  struct Left {
    Fd pidfd;
    Loop::Id watch = 0;
  };
  const auto left = std::make_shared<Left>(std::move(pidfd_));
  left->watch = loop_.watch(left->pidfd.get(), EPOLLIN, [left, &loop = loop_](std::uint32_t) {
    (void)reap(left->pidfd);
    loop.cancel(left->watch);
  });
}

Status Process::signal(int number) {
  if (!pidfd_ || ::pidfd_send_signal(pidfd_.get(), number, nullptr, 0) == 0 || errno == ESRCH) return {};
  return fail_errno("cannot send signal " + std::to_string(number), "pid " + std::to_string(ref_.pid));
}

Result<std::string> Process::output() const {
  if (!output_) return "";
  return read_file("/proc/self/fd/" + std::to_string(output_.get()));
}

std::string to_string(const ExitNote& note) {
  if (note.signalled) {
    const char* name = ::strsignal(note.code);
    return "was killed by signal " + std::to_string(note.code) + " (" + (name != nullptr ? name : "unknown") + ")";
  }
  if (note.code < 0) return "ended; how is not known, since it was not our child";
  return "exited with status " + std::to_string(note.code);
}

std::optional<ProcessSight> look_at_process(pid_t pid) {
  auto sight = parse_stat(read_file("/proc/" + std::to_string(pid) + "/stat", 8192).value_or(""));
  if (!sight) return std::nullopt;
  sight->ref.pid = pid;
  if (sight->exiting)
    look_at_living_thread(pid, [&sight](const std::string& folder, pid_t) {
      if (const auto its = parse_stat(read_file(folder + "/stat", 8192).value_or(""))) sight->state = its->state;
      return false;
    });
  return sight;
}

std::optional<ProcessSight> parse_stat(std::string_view text) {
  const auto begin = text.find('(');
  const auto end = text.rfind(')');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
  constexpr std::size_t kParent = 4 - 3, kFlags = 9 - 3, kStartTime = 22 - 3;
  constexpr std::uint64_t kExiting = 0x4;
  const auto fields = words_of(text.substr(end + 1));  // the first is field 3
  if (fields.size() <= kStartTime) return std::nullopt;
  const auto parent = parse_unsigned(fields[kParent]);
  const auto started = parse_unsigned(fields[kStartTime]);
  if (!parent || *parent > kMostPid || !started) return std::nullopt;
  const bool exiting = (parse_unsigned(fields[kFlags]).value_or(0) & kExiting) != 0;
  ProcessSight sight{{0, *started},
                     static_cast<pid_t>(*parent),
                     std::string(text.substr(begin + 1, end - begin - 1)),
                     fields[0].front(),
                     exiting};
  for (char& c : sight.name)
    if (c < ' ' || c > '~') c = '?';
  return sight;
}

std::optional<pid_t> parse_pid(std::string_view text) {
  const auto number = parse_unsigned(text);
  return number && *number > 0 && *number <= kMostPid ? std::optional(static_cast<pid_t>(*number)) : std::nullopt;
}

std::optional<ProcessRef> parse_process(std::string_view pid, std::string_view start_ticks) {
  const auto number = parse_pid(pid);
  const auto ticks = parse_unsigned(start_ticks);
  return number && ticks ? std::optional(ProcessRef{*number, *ticks}) : std::nullopt;
}

std::optional<ProcessRef> process_ref(pid_t pid) {
  const auto sight = look_at_process(pid);
  return sight ? std::optional(sight->ref) : std::nullopt;
}

bool runs(const ProcessRef& process) {
  const auto sight = look_at_process(process.pid);
  return sight && sight->ref == process && sight->state != 'Z' && sight->state != 'X';
}

bool has_ended(const Fd& pidfd) {
  pollfd ended{pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) != 0;
}

Result<std::unique_ptr<Process>> Process::adopt(Loop& loop, const ProcessRef& ref,
                                                std::function<void(ExitNote)> on_exit) {
  const auto gone = [&] { return fail(Kind::kNotFound, "the process has ended", "pid " + std::to_string(ref.pid)); };
  if (ref.pid <= 0) return gone();
  TRY(Fd pidfd, open_pidfd(ref.pid));
  // Checked while the handle is held: from now on the pid cannot be reused unnoticed.
  const auto seen = look_at_process(ref.pid);
  if (!seen || seen->ref != ref) return gone();
  std::unique_ptr<Process> process(new Process(loop, ref, std::move(pidfd), seen->parent == ::getpid()));
  TRY_STATUS(process->watch(std::move(on_exit)));
  return process;
}

// --- a program that runs to its end ----------------------------------------------------------------------------------

Run::Run(Loop& loop, Command command, Duration deadline, std::function<void(const Result<Ended>&)> done)
    : done_(std::move(done)), timer_(loop) {
  command.kill_on_drop = true;
  auto started = Process::start(loop, command, [this](const ExitNote& note) {
    auto text = process_->output();
    finish(text ? Result<Ended>({note, *std::move(text)}) : std::unexpected(text.error()));
  });
  const Error why = started ? Error{Kind::kTimeout, "it has not ended in time", command.argv.front()} : started.error();
  timer_.start(started ? deadline : Duration{}, [this, why] { finish(std::unexpected(why)); });
  if (started) process_ = *std::move(started);
}

void Run::finish(const Result<Ended>& ended) {
  timer_.stop();
  process_.reset();
  const auto done = std::move(done_);
  done(ended);
}

Result<Ended> run_to_end(const Command& command, Duration deadline) {
  TRY(const auto loop, Loop::open());
  Result<Ended> result;
  const Run run(*loop, command, deadline, [&](const Result<Ended>& ended) {
    result = ended;
    loop->stop();
  });
  loop->run();
  return result;
}

}  // namespace tranche::os
