#pragma once
// Translates the supervisor's decisions for one version of the control program's interface: the options that the daemon
// starts with, and the runs of nvidia-cuda-mps-control that each question needs. Replies become events. The supervisor
// and mps/pool/pool know no commands. Pure: replies in, runs and events out. Any thread.
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "mps/daemon/supervisor.h"

namespace tranche::mps {

// One run of the control program.
struct Run {
  std::vector<std::string> words = {};  // arguments, without the program's name
  std::string input = {};               // standard input
  friend bool operator==(const Run&, const Run&) = default;
};

// One question: a run, and a function that turns its reply into the next run or the final event.
struct Onward;
struct Exchange {
  Run run;
  std::function<Onward(const std::string& reply)> then;
};
struct Onward : std::variant<Event, Exchange> {
  using std::variant<Event, Exchange>::variant;
};

class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual std::vector<std::string> daemon_options(bool multiuser) const = 0;
  // Each ends in Answered, LimitsApplied, LimitsRead or ServerLimitsApplied, or in QuestionFailed.
  virtual Exchange ask(QuestionId id, const DaemonLimits& desired) const = 0;  // desired: the devices to query
  virtual Exchange apply(const ApplyLimits& action) const = 0;
  virtual Exchange read(const ReadLimits& action) const = 0;
  virtual Exchange apply_server(const ApplyServerLimits& action) const = 0;
  virtual Run quit(Duration patience) const = 0;  // the daemon's exit is the answer
};

const Dialect& dialect_v2();  // of every driver; lives as long as the program

}  // namespace tranche::mps
