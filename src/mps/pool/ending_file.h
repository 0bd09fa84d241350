#pragma once
// `<mps-root>/ending.txt`: the processes that `tranche mps` has stopped to terminate them. An entry is written before
// its process is stopped and stays until the process has exited, so that the next start can finish what a killed run
// began. One line a process: `<pid> <start ticks>`. Pure; fuzzed: parse ∘ render is the identity.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace tranche::mps {

inline constexpr const char* kEndingFile = "ending.txt";

using EndingProcesses = std::set<std::pair<std::uint32_t, std::uint64_t>>;  // pid and start

std::string render_ending(const EndingProcesses& processes);
EndingProcesses parse_ending(std::string_view text);  // lines with an unknown format are skipped

}  // namespace tranche::mps
