#pragma once
// Translates the supervisor's decisions for the control program: the options that the daemon starts with, and the runs
// of nvidia-cuda-mps-control that each question needs, with their commands (interface version 2), one per line. Replies
// become events. The supervisor and mps/pool know no commands. Pure; fuzzed. Any thread.
//
// A run may have several commands. Nothing separates their replies, so each orders its commands such that the replies
// can be distinguished. Limits name a device by UUID and carry the unit M: an ordinal counts the devices that the
// daemon sees, and a number without a unit is neither bytes nor MiB.
//
// Replies are parsed strictly: a reply matches one captured from a real daemon (named in daemon_replies_test.cpp and
// docs/internals/mps-contract.md), or it is an Error that quotes the text. The program exits with status 0 in nearly
// all cases, so a refusal is recognised by its text: kDenied (missing privileges), kNotFound (no such server or client,
// no daemon), kUnsupported (unknown command), kInvalid (any other text).
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "mps/daemon/supervisor.h"
#include "mps/limits/limits.h"

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
// Each ends in Answered or QuestionFailed.
Exchange exchange_for(const Ask& action);
Exchange exchange_for(const ApplyLimits& action);
std::string quit_daemon(Duration patience);  // the input of a run; the daemon's exit is the answer
// Sets the limits for the next clients on the daemon of `pool` and on its servers, and reads them back. Ends in
// AdmissionLimitsSet or QuestionFailed. A server that starts during a session requires one more; not more than one
// server starts at a time.
Exchange exchange_for_next_clients(const std::string& pool, const std::vector<int>& servers, const DaemonLimits& limits,
                                   int most_sessions = 4);
// The input of one of its runs, which also lists the servers that run by now. A server that started meanwhile got the
// defaults, which are the same limits unless it started before they were set.
std::string turn_session(const std::vector<int>& servers, const DaemonLimits& limits);

// --- replies ---------------------------------------------------------------------------------------------------------

using Pids = std::vector<int>;

// `text` is everything that the program printed for the commands of one run.
struct DaemonReply {
  DaemonLimits defaults;
  Pids servers;  // that run now
};
Result<DaemonReply> parse_health_session(const DaemonLimits& limits, std::string_view text);
// Without pid. No limits: the server does not report all of them.
Result<ServerSeen> parse_server_session(const DaemonLimits& limits, std::string_view text);
// kInvalid: the daemon or a server holds limits other than those that were set, or does not report them. kNotFound: one
// of the servers has exited; ask again without it.
Result<DaemonReply> parse_turn_session(const std::vector<int>& servers, const DaemonLimits& limits,
                                       std::string_view text);

// What the program reports about itself.
int parse_version(std::string_view text);      // of "-v": "… Binary version: 13000" → 13000; 0 = it reports none
bool offers_multiuser(std::string_view help);  // of "-h": it lists -M, one server for all users

}  // namespace tranche::mps
