#pragma once
// What an MPS control daemon answers, read strictly: an answer is what was captured from a real one (named in
// replies_test.cpp and docs/internals/mps-contract.md), or an Error that quotes what was read. The program exits with
// status 0 for nearly everything, so a refusal is recognised by its words: kDenied (not enough rights), kNotFound (no
// such server or client, no daemon), kUnsupported (unknown command), kInvalid (anything that is not understood). Pure;
// fuzzed.
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

// One reply each; `text` is everything that was printed for the one command.
Result<Pids> parse_server_list(std::string_view text);                   // may be empty
Result<std::string> parse_server_status(std::string_view text);          // "INITIALIZING", "ACTIVE", "FAULT"
Result<Percent> parse_thread_percentage(std::string_view text);          // "10.0"
Result<std::optional<Bytes>> parse_memory_limit(std::string_view text);  // "14G", "500M"; nullopt = "": no limit

// Sessions of mps/control/control_text.h.
Result<Pids> parse_health_session(std::string_view text);
struct ServerReply {
  std::string status;
  Pids clients;
  std::optional<LimitsReadBack> limits;  // absent: this server does not say (all of) them
};
Result<ServerReply> parse_server_session(const DaemonLimits& limits, std::string_view text);
// Whether they are in force is told by asking again; an error only when it was refused.
Status parse_apply_server_session(std::string_view text);
Status parse_apply_session(const DaemonLimits& limits, std::string_view text);
Result<LimitsReadBack> parse_read_session(const DaemonLimits& limits, std::string_view text);

// What the program says about itself.
Result<int> parse_version(std::string_view text);  // of "-v": "… Binary version: 13000" → 13000
bool offers_multiuser(std::string_view help);      // of "-h": it knows -M, one server for all users

}  // namespace tranche::mps
