#pragma once
// Translates the supervisor's decisions for the control program: the options that the daemon starts with, and the runs
// of nvidia-cuda-mps-control that a question needs, with their commands (interface version 2), one per line. The
// supervisor and mps/pool know no commands. Pure; fuzzed. Any thread.
//
// Nothing separates the replies to the commands of one run, so these are ordered such that the replies can be
// distinguished. Limits name a device by UUID and carry the unit M: an ordinal counts the devices that the daemon sees,
// and a number without a unit is neither bytes nor MiB.
//
// Replies are parsed strictly: a reply matches one captured from a real daemon (named in daemon_replies_test.cpp and
// docs/internals/mps-contract.md), or it is an Error that quotes the text. The program exits with status 0 in nearly
// all cases, so a refusal is recognised by its text: kDenied (missing privileges), kNotFound (no daemon), kUnsupported
// (unknown command), kInvalid (any other text).
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "mps/daemon/supervisor.h"
#include "mps/limits/limits.h"

namespace tranche::mps {

std::vector<std::string> daemon_options(bool multiuser);
std::string quit_daemon(Duration patience);  // the input of a run; the daemon's exit is the answer

// Asks for the daemon's defaults, its servers, and their status, limits and clients. Where limits are set, they are
// first set on the daemon and on these servers.
class DaemonQuestion {
 public:
  // `servers`: those that are believed to run.
  DaemonQuestion(Ask what, std::vector<int> servers) : what_(std::move(what)), servers_(std::move(servers)) {}
  std::string input() const;  // of the next run
  // Absent: one more run is needed, because servers have started or exited. A server that started after limits were set
  // has them as the defaults, and one that started before that does not. Not more than one server starts at a time, so
  // a few runs are enough. A server that cannot be read is in the answer with its pid only.
  std::optional<Result<Answered>> heard(std::string_view reply);

 private:
  Ask what_;
  std::vector<int> servers_;
  int sessions_left_ = 4;
};

// kInvalid: the daemon or a server holds limits other than these, or does not report them.
Status check_held(const DaemonLimits& limits, const Answered& answered);

// Of the program's "-h": it lists -M, one server for all users.
bool offers_multiuser(std::string_view help);

}  // namespace tranche::mps
