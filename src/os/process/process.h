#pragma once
// Watched child processes: started from an argument list (never a shell string) and held by pidfd, so that a signal
// never reaches another process that reuses the pid. Destroying a Process kills the child only with kill_on_drop;
// otherwise the child is still reaped. A process that is not our child costs nothing after its object is destroyed.
// Objects must be destroyed before their loop. Loop thread only; starting is safe beside gRPC's threads, because the
// child only calls exec (no fork handlers run).
//
// A child starts with: all signals at their defaults and unblocked; stdin from the given text or descriptor; stdout and
// stderr in one file in memory, or the given descriptors; no other descriptor of ours; a process group of its own
// (Ctrl-C at a terminal reaches only us). This is the only place that starts processes.
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
  std::string text = {};                        // what it reads from its 0, without `input`
  bool kill_on_drop = false;
  int input = -1;                            // becomes the child's 0; -1: as above. All of these stay the caller's.
  int output = -1;                           // becomes its 1 and 2; -1: as above
  int errors = -1;                           // becomes its 2, if given
  int kept = -1;                             // becomes its 3, if given
  bool foreground = false;                   // stays in our process group: it may ask the person at the terminal
  std::vector<BeforeExec> before_exec = {};  // in this order; the first that fails ends the child
  bool die_with_parent = false;              // PR_SET_PDEATHSIG SIGKILL: when the thread that started it ends
};

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
  // on_exit runs once, in a callback of the loop, never inside start(), and may destroy the Process. kNotFound,
  // kDenied, …: argv[0] could not be executed.
  static Result<std::unique_ptr<Process>> start(Loop& loop, const Command& command,
                                                std::function<void(ExitNote)> on_exit);
  // Watches a running process, ours or not, by pidfd. The exit status of a foreign process is unknown (code -1).
  // kNotFound if it has exited, also if another process reuses its pid.
  static Result<std::unique_ptr<Process>> adopt(Loop& loop, const ProcessRef& ref,
                                                std::function<void(ExitNote)> on_exit);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ProcessRef ref() const { return ref_; }
  bool running() const { return static_cast<bool>(pidfd_); }
  Status signal(int number);           // does nothing after its exit
  Result<std::string> output() const;  // what it has printed so far; "" if the command has an output

 private:
  Process(Loop& loop, ProcessRef ref, Fd pidfd, bool is_our_child);
  Status watch(std::function<void(ExitNote)> on_exit);
  void ended();

  Loop& loop_;
  ProcessRef ref_;
  Fd pidfd_;  // open until the process is known to have exited
  Fd output_;
  bool is_our_child_;
  bool kill_on_drop_ = false;
  Loop::Id watch_ = 0;
  std::function<void(ExitNote)> on_exit_;
};

struct Ended {
  ExitNote note;
  std::string output;  // all that it printed; "" if the command has an output
};

// Runs a program to its end. Dropping it kills the program, and `done` is not called.
class Run {
 public:
  // `done` runs once, in a callback of its own, and may destroy this. kTimeout: the program has not ended by the
  // deadline, and is killed. Other errors: it could not be run.
  Run(Loop& loop, Command command, Duration deadline, std::function<void(const Result<Ended>&)> done);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  pid_t pid() const { return process_ ? process_->ref().pid : 0; }  // 0: it does not run

 private:
  void finish(const Result<Ended>& ended);

  std::function<void(const Result<Ended>&)> done_;
  std::unique_ptr<Process> process_;
  Timer timer_;
};

// The same, with a loop of its own.
Result<Ended> run_to_end(const Command& command, Duration deadline = Duration::max());

}  // namespace tranche::os
