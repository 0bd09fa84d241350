#pragma once
// Parses the replies of an MPS control daemon strictly: a reply matches one captured from a real daemon (named in
// replies_test.cpp and docs/internals/mps-contract.md), or it is an Error that quotes the text. The program exits with
// status 0 in nearly all cases, so a refusal is recognised by its text: kDenied (missing privileges), kNotFound (no
// such server or client, no daemon), kUnsupported (unknown command), kInvalid (any other text). Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "mps/daemon/supervisor.h"
#include "mps/limits/limits.h"

namespace tranche::mps {

using Pids = std::vector<int>;

// One reply each; `text` is everything that the program printed for the one command.
Result<Pids> parse_server_list(std::string_view text);                   // may be empty
Result<std::string> parse_server_status(std::string_view text);          // "INITIALIZING", "ACTIVE", "FAULT"
Result<Percent> parse_thread_percentage(std::string_view text);          // "10.0"
Result<std::optional<Bytes>> parse_memory_limit(std::string_view text);  // "14G", "500M"; nullopt = "": no limit

// Runs of several commands (mps/control/questions.h).
Result<Pids> parse_health_session(std::string_view text);
// Without pid. No limits: the server does not report all of them.
Result<ServerSeen> parse_server_session(const DaemonLimits& limits, std::string_view text);
Status parse_apply_session(const DaemonLimits& limits, std::string_view text);
Result<LimitsReadBack> parse_read_session(const DaemonLimits& limits, std::string_view text);
struct TurnReply {
  LimitsReadBack defaults;
  Pids servers;  // that run now
};
// kInvalid: the daemon or a server holds limits other than those that were set, or does not report them. kNotFound: one
// of the servers has exited; ask again without it.
Result<TurnReply> parse_turn_session(const std::vector<int>& servers, const DaemonLimits& limits,
                                     std::string_view text);

// What the program reports about itself.
Result<int> parse_version(std::string_view text);  // of "-v": "… Binary version: 13000" → 13000
bool offers_multiuser(std::string_view help);      // of "-h": it lists -M, one server for all users

}  // namespace tranche::mps
