#pragma once
// Asks an MPS control daemon by running nvidia-cuda-mps-control with commands on its stdin: the only documented way to
// talk to one (the protocol on its socket is not). A question has a deadline, after which the program is killed; its
// answer is everything it printed, for mps/control/replies.h to read. Loop thread.
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

// An open question: dropping it withdraws it, and `done` is not called any more.
class Question {
 public:
  virtual ~Question() = default;
};

// done comes once, as a turn of its own. kTimeout: no answer; kNotFound: no daemon answers there; kConflict: somebody
// else holds the daemon's one control session; kUnavailable: the program could not be run.
std::unique_ptr<Question> ask(Loop& loop, const ControlTarget& target, const std::string& input, Duration deadline,
                              std::function<void(Result<std::string>)> done);

// Any program, the same way: its arguments, no input.
std::unique_ptr<Question> run_for_text(Loop& loop, const std::vector<std::string>& argv,
                                       const std::map<std::string, std::string>& env, Duration deadline,
                                       std::function<void(Result<std::string>)> done);

}  // namespace tranche::host
