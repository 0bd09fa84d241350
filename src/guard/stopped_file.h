#pragma once
// The file of processes that the guard has stopped and neither ended nor continued yet. The agent reads it at its next
// start, so that a restart does not leave a process stopped. One line per process:
// `<pid> <start ticks> <grant> <device UUID>`. Pure; fuzzed: parse ∘ render is the identity.
#include <map>
#include <string>
#include <string_view>

#include "guard/judge.h"

namespace tranche::guard {

using StoppedProcesses = std::map<ProcessId, GrantOnDevice>;

std::string render_stopped(const StoppedProcesses& stopped);
StoppedProcesses parse_stopped(std::string_view text);  // ignores lines that cannot be parsed

}  // namespace tranche::guard
