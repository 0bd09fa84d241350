#pragma once
// Translates the supervisor's decisions for the control program: the options that the daemon starts with, and the runs
// of nvidia-cuda-mps-control that each question needs. Replies become events. The supervisor and mps/pool know no
// commands. Pure: replies in, runs and events out. Any thread.
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "mps/daemon/supervisor.h"

namespace tranche::mps {

// One question: a run, and a function that turns its reply into the next run or the final event.
struct Onward;
struct Exchange {
  std::string input;  // of the run
  std::function<Onward(const std::string& reply)> then;
};
struct Onward : std::variant<Event, Exchange> {
  using std::variant<Event, Exchange>::variant;
};

std::vector<std::string> daemon_options(bool multiuser);
// Each ends in Answered, LimitsApplied, LimitsRead or ServerLimitsApplied, or in QuestionFailed.
Exchange ask_servers(QuestionId id, const DaemonLimits& desired);  // desired: the devices to query
Exchange apply_limits(const ApplyLimits& action);
Exchange read_limits(const ReadLimits& action);
Exchange apply_server_limits(const ApplyServerLimits& action);
std::string quit_daemon(Duration patience);  // the input of a run; the daemon's exit is the answer

}  // namespace tranche::mps
