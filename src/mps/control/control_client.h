#pragma once
// The MPS control program, nvidia-cuda-mps-control: where it is, whether one server can serve all users, and commands
// to a daemon, which it gets on its stdin. That is the only documented interface; the protocol on the daemon's socket
// is not documented. Each question has a deadline, after which the program is killed. The answer is everything that the
// program printed, for mps/control/questions.h to parse. Loop thread.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mps {

using ProcessEnvironment = std::map<std::string, std::string>;

// How to reach one daemon.
struct ControlTarget {
  std::vector<std::string> argv;  // the path of nvidia-cuda-mps-control, and options
  ProcessEnvironment env;         // its whole environment, with CUDA_MPS_PIPE_DIRECTORY
};

class Sessions;

// An open question. Dropping it cancels the question, and `done` is not called.
class Question {
 public:
  using Done = std::function<void(Result<std::string>)>;
  ~Question();
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

 private:
  friend class Sessions;
  Question(Sessions* sessions, std::string input, Duration deadline, Done done)
      : sessions_(sessions), input_(std::move(input)), deadline_(deadline), done_(std::move(done)) {}
  Duration left();  // until it is due, which it is from the first call on
  void begin();
  void ended(const Result<os::Ended>& ended);
  void finish(const Result<std::string>& result);

  Sessions* sessions_;  // null: it has ended
  std::string input_;
  Duration deadline_;  // counts from the session's start
  Done done_;
  std::optional<MonoTime> due_;
  std::optional<Error> refused_;  // because another program held the session
  std::unique_ptr<os::Run> run_;
};

// Queues the control sessions of one daemon, which serves one session at a time and refuses a second
// (docs/internals/evidence/mps-handshake.md), in the order of ask(). A session that is refused because another program
// holds the daemon is repeated until its deadline. Loop thread; all questions must be destroyed before this object.
class Sessions {
 public:
  Sessions(os::Loop& loop, ControlTarget target) : loop_(loop), target_(std::move(target)) {}
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // `done` runs once, in a callback of its own. kTimeout: no answer before the deadline. kNotFound: no daemon answers
  // there. kConflict: another program held the session until the deadline. kUnavailable: the program could not be run.
  std::unique_ptr<Question> ask(std::string input, Duration deadline, Question::Done done);

 private:
  friend class Question;
  void begin_soon(Duration pause = {});
  void leave(const Question& question);

  os::Loop& loop_;
  ControlTarget target_;
  std::deque<Question*> questions_;  // the first has the session, or gets it next
  os::Timer turn_{loop_};
};

// --- the program -----------------------------------------------------------------------------------------------------

struct ControlBinary {
  std::string path;
  ProcessEnvironment env;  // the part of our environment that it gets
  bool offers_multiuser = false;
};

struct BinarySearch {
  std::string given;              // --mps-control: only this path
  std::string driver_root = "/";  // container path of the driver root
  std::string path;               // $PATH
};
// The paths to try, in order.
std::vector<std::string> candidates(const BinarySearch& search);
// kNotFound lists every path that was tried.
Result<std::string> find_control_binary(const BinarySearch& search);

// The part of our environment that MPS programs get: the paths of libraries and programs, and variables of this project
// (TRANCHE_*). Nothing else, because a CUDA variable of ours would become a setting of theirs. Pure.
ProcessEnvironment handed_on(const ProcessEnvironment& ours);

// Runs the program with -h; `open` holds the question, and dropping it cancels it.
void describe_control_binary(os::Loop& loop, ControlBinary found, std::unique_ptr<Question>& open,
                             std::function<void(Result<ControlBinary>)> done);

}  // namespace tranche::mps
