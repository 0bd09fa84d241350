#pragma once
// Watched child processes: started from an argument list (never a shell string) and held by pidfd, so that a signal
// never reaches another process that reuses the pid. Destroying a Process kills the child only with kill_on_drop;
// otherwise the child is still reaped, but its output meets a closed pipe. A process that is not our child costs
// nothing after its object is destroyed. Objects must be destroyed before their loop. Loop thread only; starting is
// safe beside gRPC's threads, because the child only calls exec (no fork handlers run).
//
// A child starts with: all signals at their defaults and unblocked; stdin from /dev/null or given; stdout and stderr in
// one pipe, or the given descriptors; no other descriptor of ours; a process group of its own (Ctrl-C at a terminal
// reaches only us). This is the only place that starts processes.
#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/files/files.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::os {

// A step of the child before exec, in our memory, while the starting thread waits: only system calls on values that
// were prepared before (no allocation, no lock).
struct BeforeExec {
  std::string what;           // of the error: "cannot enter the host's cgroup namespace"
  std::string where;          // "" = the program
  std::function<bool()> run;  // false: it failed, errno says why
};

struct Command {
  std::vector<std::string> argv = {};           // argv[0] is the path to execute
  std::map<std::string, std::string> env = {};  // the whole environment of the child
  std::string work_dir = {};                    // "" = ours
  bool kill_on_drop = false;
  int input = -1;                            // becomes the child's 0; -1: as above. All of these stay the caller's.
  int output = -1;                           // becomes its 1 and 2, and on_output gets nothing; -1: as above
  int errors = -1;                           // becomes its 2, if given
  int kept = -1;                             // becomes its 3, if given
  bool foreground = false;                   // stays in our process group: it may ask the person at the terminal
  std::vector<BeforeExec> before_exec = {};  // in this order; the first that fails ends the child
  bool die_with_parent = false;              // PR_SET_PDEATHSIG SIGKILL: when the thread that started it ends
};

inline constexpr std::size_t kLongestOutputLine =
    16384;  // of a longer line, the beginning is delivered, marked with "…"

struct ExitNote {
  bool signalled = false;
  int code = 0;  // exit status, or the signal's number; -1 = not known (not our child)
};
std::string to_string(const ExitNote& note);  // "exited with status 1", "was killed by signal 9 (Killed)"

// Identifies a process without reuse: pid and start time (field 22 of /proc/<pid>/stat).
struct ProcessRef {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  friend auto operator<=>(const ProcessRef&, const ProcessRef&) = default;
};
std::optional<ProcessRef> process_ref(pid_t pid);       // absent: it has exited
std::optional<pid_t> parse_pid(std::string_view text);  // absent: it is none. Pure, as is the next
// From two words of a file.
std::optional<ProcessRef> parse_process(std::string_view pid, std::string_view start_ticks);
Result<Fd> open_pidfd(pid_t pid);  // kNotFound when there is no such process
bool has_ended(const Fd& pidfd);

// Basic facts about any process. The process chooses its name: for people, never the only basis of a decision.
struct ProcessSight {
  ProcessRef ref;
  pid_t parent = 0;
  std::string name;      // with "?" for each character that is not printable ASCII
  char state = '?';      // field 3 of /proc/<pid>/stat: 'T' is stopped; of a thread that lives, if there is one
  bool exiting = false;  // PF_EXITING: its first thread has begun to exit, or is a zombie
};
std::optional<ProcessSight> look_at_process(pid_t pid);  // absent: it has exited, and is reaped
bool runs(const ProcessRef& process);                    // false also of one that has exited and is not reaped
// The text of /proc/<pid>/stat (proc(5)), or of a thread's: fields 2 to 4, 9 and 22, and no pid. The process chooses
// the name in field 2, which may hold blanks and parentheses, so fields are counted from the last ')'. Pure; fuzzed.
std::optional<ProcessSight> parse_stat(std::string_view text);

// Private to os/process: starts a Command and returns the child and the ends of its pipes.
struct Spawned {
  pid_t pid = 0;
  Fd pidfd;
  Fd output;  // reading end of stdout and stderr, non-blocking; none if the command has an output
};
Result<Spawned> spawn(const Command& command);

// A child of ours that has exited and is not reaped, so that no other process has its pid: for messages with the
// credentials of a process that does not run.
class ExitedChild {
 public:
  static std::optional<ExitedChild> start();  // absent: no process could be started
  ExitedChild(ExitedChild&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  ExitedChild& operator=(ExitedChild&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~ExitedChild();
  pid_t pid() const { return pid_; }

 private:
  explicit ExitedChild(pid_t pid) : pid_(pid) {}
  pid_t pid_ = 0;
};

// Where `name` is in the folders of a PATH; `name` itself if it has a "/", "" = in none of them.
std::string program_in_path(const std::string& name, std::string_view path);

class Process {
 public:
  // on_output gets whole lines of stdout and stderr together, without line ends. on_exit runs once, after the last line
  // that the child itself wrote (a grandchild may hold the pipe open; its lines are not awaited). Both run in callbacks
  // of the loop, never inside start(), and may destroy the Process. kNotFound, kDenied, …: argv[0] could not be
  // executed.
  static Result<std::unique_ptr<Process>> start(Loop& loop, const Command& command,
                                                std::function<void(const std::string& line)> on_output,
                                                std::function<void(ExitNote)> on_exit);
  // Watches a running process, ours or not, by pidfd, without output. The exit status of a foreign process is unknown
  // (code -1). kNotFound if it has exited, also if another process reuses its pid.
  static Result<std::unique_ptr<Process>> adopt(Loop& loop, const ProcessRef& ref,
                                                std::function<void(ExitNote)> on_exit);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ProcessRef ref() const;
  bool running() const;
  Status signal(int number);  // does nothing after its exit

 private:
  class Watched;
  Process(std::shared_ptr<Watched> watched, bool kill_on_drop)
      : watched_(std::move(watched)), kill_on_drop_(kill_on_drop) {}

  std::shared_ptr<Watched> watched_;
  bool kill_on_drop_;
};

struct Ended {
  ExitNote note;
  std::string output;  // all that it printed; "" if the command has an output
};

// Runs a program to its end. Dropping it kills the program, and `done` is not called.
class Run {
 public:
  // `input`: its standard input, unless the command has one. `done` runs once, in a callback of its own, and may
  // destroy this. kTimeout: the program has not ended by the deadline, and is killed. Other errors: it could not be
  // run.
  Run(Loop& loop, Command command, const std::string& input, Duration deadline,
      std::function<void(const Result<Ended>&)> done);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  pid_t pid() const { return process_ ? process_->ref().pid : 0; }  // 0: it does not run

 private:
  Status start(Loop& loop, Command command, const std::string& input);
  void finish(const Result<Ended>& ended);

  std::function<void(const Result<Ended>&)> done_;
  Fd output_;
  std::unique_ptr<Process> process_;
  Timer timer_;
};

// The same, with a loop of its own.
Result<Ended> run_to_end(const Command& command, Duration deadline = Duration::max());

}  // namespace tranche::os
