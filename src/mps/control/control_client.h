#pragma once
// Sends commands to an MPS control daemon by running nvidia-cuda-mps-control with the commands on its stdin. That is
// the only documented interface; the protocol on the daemon's socket is not documented. Each question has a deadline,
// after which the program is killed. The answer is everything that the program printed, for
// mps/control/questions.h to parse. Loop thread.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/loop/loop.h"

namespace tranche::mps {

// How to reach one daemon.
struct ControlTarget {
  std::vector<std::string> argv;           // the path of nvidia-cuda-mps-control, and options
  std::map<std::string, std::string> env;  // its whole environment, with CUDA_MPS_PIPE_DIRECTORY
};

// An open question. Dropping it cancels the question, and `done` is not called.
class Question {
 public:
  virtual ~Question() = default;
};

// `done` runs once, in a callback of its own. kTimeout: no answer before the deadline. kNotFound: no daemon answers
// there. kConflict: another program holds the daemon's one control session. kUnavailable: the program could not be run.
std::unique_ptr<Question> ask(os::Loop& loop, const ControlTarget& target, const std::string& input, Duration deadline,
                              std::function<void(Result<std::string>)> done);

struct SessionAsked {
  std::string input;
  Duration deadline{};  // counts from the session's start; if urgent, from ask(), waiting included
  bool urgent = false;
  std::function<void()> on_begun = {};  // runs each time the session starts; may be empty
};

// Queues the control sessions of one daemon, which serves one session at a time and refuses a second
// (docs/internals/evidence/mps-handshake.md). Urgent sessions go first; otherwise the order of ask() counts. A session
// that is refused because another program holds the daemon is repeated until its deadline. Loop thread; all questions
// must be destroyed before this object.
class Sessions {
 public:
  using Done = std::function<void(Result<std::string>)>;

  Sessions(os::Loop& loop, ControlTarget target) : loop_(loop), target_(std::move(target)) {}
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // As the function mps::ask(), with two more errors: kTimeout when an urgent session did not start in time, kConflict
  // when another program held the session until the deadline.
  std::unique_ptr<Question> ask(SessionAsked what, Done done);
  bool urgent() const;  // an urgent session is open or waits

 private:
  class Entry;  // a question, which its caller owns
  void wait_for_turn(Entry& entry);
  void begin_soon(Duration pause = {});
  void begin_next();
  void answered(Entry& entry, const Result<std::string>& reply);
  void finish(Entry& entry, const Result<std::string>& result);

  os::Loop& loop_;
  ControlTarget target_;
  std::deque<Entry*> waiting_;
  Entry* open_ = nullptr;
  os::Timer turn_{loop_};
  MonoTime not_before_{};  // earliest start after another program held the session
};

}  // namespace tranche::mps
