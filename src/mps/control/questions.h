#pragma once
// Translates the supervisor's decisions for the control program: the options that the daemon starts with, and the runs
// of nvidia-cuda-mps-control that each question needs, with their commands (interface version 2), one per line. Replies
// become events (mps/control/daemon_replies.h). The supervisor and mps/pool know no commands. Pure: replies in, runs
// and events out. Any thread.
//
// A run may have several commands. Nothing separates their replies, so each orders its commands such that the replies
// can be distinguished. Limits name a device by UUID and carry the unit M: an ordinal counts the devices that the
// daemon sees, and a number without a unit is neither bytes nor MiB.
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
Exchange exchange_for(const ApplyLimits& action);
Exchange exchange_for(const ReadLimits& action);
Exchange exchange_for(const ApplyServerLimits& action);
std::string quit_daemon(Duration patience);  // the input of a run; the daemon's exit is the answer
// The input of a run that sets the limits for the next clients on a daemon and its servers, reads them back, and lists
// the servers that run by now. A server that started meanwhile got the defaults, which are the same limits unless it
// started before they were set.
std::string turn_session(const std::vector<int>& servers, const DaemonLimits& limits);

}  // namespace tranche::mps
