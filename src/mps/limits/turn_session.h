#pragma once
// The control session that sets the limits for the next clients on a daemon and its servers, reads them back, and lists
// the servers that run by now. A server that started meanwhile got the defaults, which are the same limits unless it
// started before they were set. Pure; the replies are fuzzed with the others (mps/control/daemon_replies.h).
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mps/control/daemon_replies.h"
#include "mps/limits/limits.h"

namespace tranche::mps {

namespace command {
std::vector<std::string> turn_session(const std::vector<int>& servers, const DaemonLimits& limits);
}  // namespace command

struct TurnReply {
  LimitsReadBack defaults;
  Pids servers;  // that run now
};
// kInvalid: the daemon or a server holds limits other than those that were set, or does not report them. kNotFound: one
// of the servers has exited; ask again without it.
Result<TurnReply> parse_turn_session(const std::vector<int>& servers, const DaemonLimits& limits,
                                     std::string_view text);

}  // namespace tranche::mps
