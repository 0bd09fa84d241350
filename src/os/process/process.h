#pragma once
// Child processes that are watched: started from an argument list (never a shell string), known by pidfd, so that a
// signal can never reach a foreign process that got a recycled pid. A Process dies with its object only if asked to
// (kill_on_drop); a child that lives on is still reaped, but what it writes then meets a closed pipe. A process that is
// not our child costs nothing after its object. Objects must go before their loop. Loop thread only; starting is safe
// beside threads of gRPC, since nothing but exec happens in the child (no fork handlers run).
//
// A child starts with: all signals at their defaults and unblocked, stdin from /dev/null or held, stdout and stderr in
// one pipe, or the descriptors that were given, no other descriptor of ours, a process group of its own (Ctrl-C at a
// terminal reaches us alone). This is the only place that starts processes.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/files/files.h"
#include "os/loop/loop.h"

namespace tranche::host {

// What the child does before it executes the program, on our memory, while the thread that starts it waits: system
// calls on values that were made before, and nothing else (no allocation, no lock).
struct BeforeExec {
  std::string what;           // of the error when it fails: "cannot enter the host's cgroup namespace"
  std::string where;          // "" = the program
  std::function<bool()> run;  // false: it failed, errno says why
};

struct Command {
  std::vector<std::string> argv = {};           // argv[0] is the path to execute
  std::map<std::string, std::string> env = {};  // the whole environment of the child
  std::string work_dir = {};                    // "" = ours
  bool hold_stdin = false;  // a pipe whose other end we keep: EOF reaches the child when we die or drop the Process
  bool kill_on_drop = false;
  int input = -1;                            // becomes the child's 0; -1: as above. These three stay the caller's.
  int output = -1;                           // becomes its 1 and 2, and on_output gets nothing; -1: as above
  int kept = -1;                             // becomes its 3, if given
  std::vector<BeforeExec> before_exec = {};  // in this order; the first that fails ends the child
  bool die_with_parent = false;              // PR_SET_PDEATHSIG SIGKILL: when the thread that started it ends
};

inline constexpr std::size_t kLongestOutputLine = 16384;  // of a longer one the beginning is delivered, marked with "…"

struct ExitNote {
  bool signalled = false;
  int code = 0;  // exit status, or the signal's number; -1 = not known (not our child)
};
std::string to_string(const ExitNote& note);  // "exited with status 1", "was killed by signal 9 (Killed)"

// A process by something that cannot be recycled: pid and start time (field 22 of /proc/<pid>/stat).
struct ProcessRef {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  friend bool operator==(const ProcessRef&, const ProcessRef&) = default;
};
Result<ProcessRef> process_ref(pid_t pid);

// What can be told of any process at a glance. Its name is its own choice: for people, never to decide by alone.
struct ProcessSight {
  ProcessRef ref;
  pid_t parent = 0;
  std::string name;  // printable ASCII
  char state = '?';  // field 3 of /proc/<pid>/stat: 'T' is stopped
};
Result<ProcessSight> look_at_process(pid_t pid);

class Process {
 public:
  // on_output gets whole lines of stdout and stderr together, without their ends; on_exit comes once, after the last
  // line that the child itself wrote (a grandchild may hold the pipe open: nobody waits for it). Both are turns, never
  // called inside start(), and may drop the Process. kNotFound, kDenied, …: argv[0] could not be executed.
  static Result<std::unique_ptr<Process>> start(Loop& loop, const Command& command,
                                                std::function<void(const std::string& line)> on_output,
                                                std::function<void(ExitNote)> on_exit);
  // One that runs already, ours or not: watched by pidfd, no output. The exit status of a foreign process is unknown
  // (code -1). kNotFound when it has ended, also when its pid belongs to another process by now.
  static Result<std::unique_ptr<Process>> adopt(Loop& loop, const ProcessRef& ref,
                                                std::function<void(ExitNote)> on_exit);
  virtual ~Process() = default;
  virtual ProcessRef ref() const = 0;
  virtual bool running() const = 0;
  virtual Status signal(int number) = 0;  // no-op once it has ended
};

}  // namespace tranche::host
