#pragma once
// `<mps-root>/ending.txt`: the processes that `tranche mps` has stopped, either to terminate them, or while it
// terminates others (a container's first process), or for a pause (client_pauses.h). An entry is written before its
// process is stopped and stays until the process has exited or continues, so that the next start can finish what a
// killed run began. One line a process:
// `<pid> <start ticks> end|continue`. In the same format, `closed`: the first process of a drained container
// (mps/endpoints/endpoint_limits.h), which is not stopped. Pure; fuzzed: parse ∘ render is the identity.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tranche::mps {

inline constexpr const char* kEndingFile = "ending.txt";

enum class StoppedFor { kEnd, kContinue, kClosed };
using EndingProcesses = std::map<std::pair<std::uint32_t, std::uint64_t>, StoppedFor>;  // by pid and start

std::string render_ending(const EndingProcesses& processes);
EndingProcesses parse_ending(std::string_view text);  // lines with an unknown format are skipped

}  // namespace tranche::mps
