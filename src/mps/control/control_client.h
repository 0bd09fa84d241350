#pragma once
// Sends commands to an MPS control daemon by running nvidia-cuda-mps-control with the commands on its stdin. That is
// the only documented interface; the protocol on the daemon's socket is not documented. Each question has a deadline,
// after which the program is killed. The answer is everything that the program printed, for
// mps/control/daemon_replies.h to parse. Loop thread.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/loop/loop.h"

namespace tranche::host {

// How to reach one daemon.
struct ControlTarget {
  std::string program;                     // path of nvidia-cuda-mps-control
  std::map<std::string, std::string> env;  // its whole environment, with CUDA_MPS_PIPE_DIRECTORY
  std::vector<std::string> words = {};     // its arguments
};

// An open question. Dropping it cancels the question, and `done` is not called.
class Question {
 public:
  virtual ~Question() = default;
};

// `done` runs once, in a callback of its own. kTimeout: no answer before the deadline. kNotFound: no daemon answers
// there. kConflict: another program holds the daemon's one control session. kUnavailable: the program could not be run.
std::unique_ptr<Question> ask(Loop& loop, const ControlTarget& target, const std::string& input, Duration deadline,
                              std::function<void(Result<std::string>)> done);

// Runs any program the same way: with arguments and without input.
std::unique_ptr<Question> run_for_text(Loop& loop, const std::vector<std::string>& argv,
                                       const std::map<std::string, std::string>& env, Duration deadline,
                                       std::function<void(Result<std::string>)> done);

}  // namespace tranche::host
