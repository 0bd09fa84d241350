#pragma once
// The processes that the guard has stopped and that are neither ended nor continued yet, written down for the agent's
// next start: nothing stays stopped because the agent was started anew. One line a process:
// `<pid> <start ticks> <grant> <device UUID>`. Pure; fuzzed: parse ∘ render is the identity.
#include <map>
#include <string>
#include <string_view>

#include "guard/judge.h"

namespace tranche::guard {

using StoppedProcesses = std::map<ProcessId, GrantOnDevice>;

std::string render_stopped(const StoppedProcesses& stopped);
StoppedProcesses parse_stopped(std::string_view text);  // lines that are not understood are passed over

}  // namespace tranche::guard
