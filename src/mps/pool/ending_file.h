#pragma once
// `<mps-root>/ending.txt`: the processes that `tranche mps` has stopped to end them, or for as long as others are ended
// (a container's first process), written before they are stopped and until they have exited or are continued. Its next
// start finishes what one that was killed has begun. One line a process: `<pid> <start ticks> end|continue`. Pure;
// fuzzed: parse ∘ render is the identity.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tranche::mps {

inline constexpr const char* kEndingFile = "ending.txt";

enum class StoppedFor { kEnd, kContinue };
using EndingProcesses = std::map<std::pair<std::uint32_t, std::uint64_t>, StoppedFor>;  // by pid and start

std::string render_ending(const EndingProcesses& processes);
EndingProcesses parse_ending(std::string_view text);  // lines that are not understood are passed over

}  // namespace tranche::mps
