#pragma once
// The one control session in which a daemon and its servers are told the limits for the next clients, read back, and
// asked which servers run by now: a server that began meanwhile took the defaults, which are the same limits unless it
// began before they were set. Pure; the replies are fuzzed with the others (mps/control/replies.h).
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mps/control/replies.h"
#include "mps/limits/limits.h"

namespace tranche::mps {

namespace command {
std::vector<std::string> turn_session(const std::vector<int>& servers, const DaemonLimits& limits);
}  // namespace command

struct TurnReply {
  LimitsReadBack defaults;
  Pids servers;  // that run now
};
// kInvalid: something holds other limits than it was told, or would not say; kNotFound: one
// of the servers has ended, so ask again without it.
Result<TurnReply> parse_turn_session(const std::vector<int>& servers, const DaemonLimits& limits,
                                     std::string_view text);

}  // namespace tranche::mps
