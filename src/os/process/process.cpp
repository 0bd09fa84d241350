#include "os/process/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "os/process/threads.h"

namespace tranche::os {
namespace {

constexpr std::uint64_t kMostPid = std::numeric_limits<pid_t>::max();
constexpr std::size_t kPiece = 16 << 10;
constexpr std::size_t kLongestPipe = 1 << 20;  // pipe(7)

}  // namespace

// The watched process. The loop's callbacks own it, so that it outlives a callback that destroys the Process, and so
// that a child that keeps running after its Process is still reaped.
class Process::Watched : public std::enable_shared_from_this<Watched> {
 public:
  Watched(Loop& loop, ProcessRef ref, Fd pidfd, Fd output, bool is_our_child)
      : loop_(loop), ref_(ref), pidfd_(std::move(pidfd)), output_(std::move(output)), is_our_child_(is_our_child) {}

  Status begin(std::function<void(const std::string&)> on_output, std::function<void(ExitNote)> on_exit) {
    on_output_ = std::move(on_output);
    on_exit_ = std::move(on_exit);
    const auto self = shared_from_this();
    exit_watch_ = loop_.watch(pidfd_.get(), EPOLLIN, [self](std::uint32_t) { self->ended(); });
    if (exit_watch_ == 0) return fail(Kind::kUnavailable, "the event loop refuses to watch a process");
    if (!output_) return {};
    // One piece per callback: a child that writes without end must not block the loop.
    output_watch_ = loop_.watch(output_.get(), EPOLLIN, [self](std::uint32_t) { self->read_output(); });
    if (output_watch_ == 0) return fail(Kind::kUnavailable, "the event loop refuses to watch a process's output");
    return {};
  }

  void drop(bool kill) {
    const auto self = shared_from_this();
    dropped_ = true;
    const auto on_output = std::exchange(on_output_, {});
    const auto on_exit = std::exchange(on_exit_, {});
    if (kill) (void)signal(SIGKILL);  // fails only if it has exited
    close_output();
    if (is_our_child_) return;  // we reap it
    loop_.cancel(std::exchange(exit_watch_, 0));
    pidfd_.reset();
  }

  Status signal(int number) {
    if (!pidfd_) return {};
    if (::pidfd_send_signal(pidfd_.get(), number, nullptr, 0) == 0 || errno == ESRCH) return {};
    return fail_errno("cannot send signal " + std::to_string(number), "pid " + std::to_string(ref_.pid));
  }

  ProcessRef ref() const { return ref_; }
  bool running() const { return static_cast<bool>(pidfd_); }

 private:
  // One piece; false: nothing is there now.
  bool read_output() {
    const auto self = shared_from_this();
    char buffer[kPiece];
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    deliver(got > 0 ? lines_.take({buffer, static_cast<std::size_t>(got)}) : lines_.finish());
    if (got <= 0) close_output();
    return got > 0;
  }

  void deliver(const std::vector<std::string>& lines) {
    for (const auto& line : lines) {
      if (dropped_ || !on_output_) return;
      const auto on_output = on_output_;  // keeps it while it runs: it may destroy us
      on_output(line);
    }
  }

  void close_output() {
    loop_.cancel(std::exchange(output_watch_, 0));
    output_.reset();
  }

  void ended() {
    const auto self = shared_from_this();
    loop_.cancel(std::exchange(exit_watch_, 0));
    siginfo_t info{};
    ExitNote note{.signalled = false, .code = -1};
    // A foreign process (ECHILD) is reaped by its own parent, which alone gets its exit status.
    if (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0) {
      note.signalled = info.si_code != CLD_EXITED;
      note.code = info.si_status;
    }
    // From here on another process may reuse the pid, so the handle is closed at once.
    pidfd_.reset();
    // All of its output is in the pipe by now. Reads no more than a pipe holds: a grandchild may continue to write.
    for (std::size_t piece = 0; output_ && piece < kLongestPipe / kPiece && read_output();) ++piece;
    deliver(lines_.finish());
    close_output();
    if (dropped_) return;
    const auto on_exit = std::exchange(on_exit_, {});
    on_output_ = {};
    if (on_exit) on_exit(note);
  }

  Loop& loop_;
  ProcessRef ref_;
  Fd pidfd_;  // open until the process is known to have exited or is no longer watched
  Fd output_;
  bool is_our_child_;
  Loop::Id exit_watch_ = 0;
  Loop::Id output_watch_ = 0;
  LineReader lines_{kLongestOutputLine};
  std::function<void(const std::string&)> on_output_;
  std::function<void(ExitNote)> on_exit_;
  bool dropped_ = false;
};

Process::~Process() {
  watched_->drop(kill_on_drop_);
}

ProcessRef Process::ref() const {
  return watched_->ref();
}

bool Process::running() const {
  return watched_->running();
}

Status Process::signal(int number) {
  return watched_->signal(number);
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

Result<std::unique_ptr<Process>> Process::start(Loop& loop, const Command& command,
                                                std::function<void(const std::string& line)> on_output,
                                                std::function<void(ExitNote)> on_exit) {
  TRY(Spawned spawned, spawn(command));
  // Not reaped before ended() runs, so this is the child even if it has exited already.
  const auto ref = process_ref(spawned.pid);
  const auto watched = std::make_shared<Watched>(loop, ref.value_or(ProcessRef{spawned.pid, 0}),
                                                 std::move(spawned.pidfd), std::move(spawned.output), true);
  std::unique_ptr<Process> process(new Process(watched, command.kill_on_drop));
  if (const auto begun = watched->begin(std::move(on_output), std::move(on_exit)); !begun) {
    (void)watched->signal(SIGKILL);  // without a watch it would never be reaped
    return std::unexpected(within(begun.error(), command.argv[0]));
  }
  return process;
}

Result<std::unique_ptr<Process>> Process::adopt(Loop& loop, const ProcessRef& ref,
                                                std::function<void(ExitNote)> on_exit) {
  const auto gone = [&] { return fail(Kind::kNotFound, "the process has ended", "pid " + std::to_string(ref.pid)); };
  if (ref.pid <= 0) return gone();
  TRY(Fd pidfd, open_pidfd(ref.pid));
  // Checked while the handle is held: from now on the pid cannot be reused unnoticed.
  const auto seen = look_at_process(ref.pid);
  if (!seen || seen->ref != ref) return gone();
  const auto watched = std::make_shared<Watched>(loop, ref, std::move(pidfd), Fd(), seen->parent == ::getpid());
  std::unique_ptr<Process> process(new Process(watched, false));
  TRY_STATUS(watched->begin({}, std::move(on_exit)));
  return process;
}

// --- a program that runs to its end ----------------------------------------------------------------------------------

namespace {

// A file in memory that holds `content`.
Result<Fd> memory_file(const char* name, std::string_view content) {
  Fd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) return fail_errno("cannot make a file in memory", name);
  if (::pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()))
    return fail_errno("cannot write a file in memory", name);
  return file;
}

}  // namespace

Run::Run(Loop& loop, Command command, const std::string& input, Duration deadline,
         std::function<void(const Result<Ended>&)> done)
    : done_(std::move(done)), timer_(loop) {
  const std::string program = command.argv.front();
  const auto started = start(loop, std::move(command), input);
  timer_.start(started ? deadline : Duration{}, [this, started, program] {
    finish(started ? fail(Kind::kTimeout, "it has not ended in time", program) : std::unexpected(started.error()));
  });
}

Status Run::start(Loop& loop, Command command, const std::string& input) {
  Fd in;
  if (command.input < 0) {
    TRY(in, memory_file("input", input));
    command.input = in.get();
  }
  if (command.output < 0) {
    TRY(output_, memory_file("output", ""));
    command.output = output_.get();
  }
  command.kill_on_drop = true;
  TRY(process_, Process::start(loop, command, {}, [this](const ExitNote& note) {
        if (!output_) return finish(Ended{note, {}});
        auto text = read_file("/proc/self/fd/" + std::to_string(output_.get()));
        finish(text ? Result<Ended>({note, *std::move(text)}) : std::unexpected(text.error()));
      }));
  return {};
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
  const Run run(*loop, command, "", deadline, [&](const Result<Ended>& ended) {
    result = ended;
    loop->stop();
  });
  loop->run();
  return result;
}

}  // namespace tranche::os
